/* runsc's state file: where a sandbox's control socket is. Declared in shim/control.h. */
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"
#include "shim/control.h"

#define STATE_MAX ((size_t)4 * 1024 * 1024)

/* Into a fixed field; false if there is no such string or it does not fit. */
static bool take(const json_t *root, const char *pointer, char *out, size_t size)
{
    const char *s = json_string_value(json_at(root, pointer));
    if (!s || strlen(s) >= size)
        return false;
    memcpy(out, s, strlen(s) + 1);
    return true;
}

static bool take_id(const json_t *root, const char *pointer, int64_t min, int64_t *out)
{
    /* Numbers come as reals: the file embeds the whole spec, whose rlimits may exceed int64. */
    const json_t *v = json_at(root, pointer);
    double d = json_number_value(v);
    if (!json_is_number(v) || d < (double)min || d > INT32_MAX)
        return false;
    *out = (int64_t)d;
    return true;
}

static enum err_kind parse(const char *text, size_t len, struct control_state_file *out,
                           struct err *err)
{
    json_error_t error;
    json_t *root CLEANUP_JSON =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    int64_t pid;
    int64_t uid;
    int64_t gid;
    int64_t gofer = 0;
    if (!root)
        return err_set(err, ERR_INTERNAL, "runsc's state file does not parse");
    if (!take(root, "/sandbox/id", out->sandbox_id, sizeof(out->sandbox_id)) ||
        !take_id(root, "/sandbox/pid", 1, &pid) || !take_id(root, "/sandbox/uid", 0, &uid) ||
        !take_id(root, "/sandbox/gid", 0, &gid))
        return err_set(err, ERR_INTERNAL, "runsc's state file names no sandbox");
    (void)take_id(root, "/goferPid", 0, &gofer);
    if (!take(root, "/sandbox/controlSocketPath", out->socket, sizeof(out->socket)))
        out->socket[0] = 0;
    if (!take(root, "/sandbox/metricMetadata/version", out->version, sizeof(out->version)))
        out->version[0] = 0;
    out->sandbox_pid = (pid_t)pid;
    out->gofer_pid = (pid_t)gofer;
    out->uid = (uid_t)uid;
    out->gid = (gid_t)gid;
    return ERR_OK;
}

enum err_kind control_state_file_read(const char *root, const char *container, const char *sandbox,
                                      struct control_state_file *out, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/%s_sandbox:%s.state", root, container, sandbox);
    char *text CLEANUP_FREE = NULL;
    size_t len;
    *out = (struct control_state_file){ 0 };
    if (fs_read(path, STATE_MAX, &text, &len, err) || parse(text, len, out, err))
        return err_prefix(err, "container %s", container);
    return ERR_OK;
}
