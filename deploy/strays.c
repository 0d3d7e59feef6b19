#include "deploy/strays.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "deploy/pause.h"

#define ARGS_MAX 4096
#define POLL_MS 10
#define ASK_MS 1000
#define KILL_MS 3000
#define GIVE_UP_MS 6000

struct shim_args {
    const char *program, *address, *ns, *id;
};

/* The words of /proc/<pid>/cmdline, in `text`. */
static bool read_args(const char *pid, char text[ARGS_MAX], struct shim_args *out)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, ARGS_MAX - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    *out = (struct shim_args){ .program = text };
    const char *before = "";
    for (const char *at = text; at < text + n; at += strlen(at) + 1) {
        const char *option = before[0] == '-' ? before + 1 + (before[1] == '-') : "";
        if (strcmp(option, "address") == 0)
            out->address = at;
        else if (strcmp(option, "namespace") == 0)
            out->ns = at;
        else if (strcmp(option, "id") == 0)
            out->id = at;
        before = at;
    }
    const char *slash = strrchr(out->program, '/');
    return text_starts(slash ? slash + 1 : out->program, "containerd-shim-") && out->address &&
           out->ns && out->id;
}

/* Calls fn for each shim of that containerd and namespace. */
typedef void shim_fn(void *arg, pid_t pid, const char *id);

static enum err_kind each(const char *address, const char *ns, shim_fn *fn, void *arg,
                          struct err *err)
{
    DIR *list CLEANUP_DIR = opendir("/proc");
    if (!list)
        return err_sys(err, errno, "/proc");
    for (struct dirent *e; (e = readdir(list));) {
        char text[ARGS_MAX];
        struct shim_args args;
        if (isdigit((unsigned char)e->d_name[0]) && read_args(e->d_name, text, &args) &&
            strcmp(args.address, address) == 0 && strcmp(args.ns, ns) == 0)
            fn(arg, (pid_t)strtol(e->d_name, NULL, 10), args.id);
    }
    return ERR_OK;
}

static void add_id(void *arg, pid_t pid, const char *id)
{
    (void)pid;
    json_array_append_new(arg, json_string(id));
}

enum err_kind strays_ids(const char *address, const char *ns, json_t **out, struct err *err)
{
    *out = json_array();
    return each(address, ns, add_id, *out, err);
}

struct ending {
    const char *id;
    int sig; /* 0: only counted */
    unsigned n;
};

static void end_one(void *arg, pid_t pid, const char *id)
{
    struct ending *ending = arg;
    if (strcmp(id, ending->id) != 0)
        return;
    ending->n++;
    if (ending->sig)
        (void)kill(pid, ending->sig);
}

enum err_kind strays_end(const char *address, const char *ns, const char *id, struct err *err)
{
    for (int waited = 0; waited <= GIVE_UP_MS; waited += POLL_MS) {
        struct ending ending = { .id = id,
                                 .sig = waited == ASK_MS    ? SIGTERM
                                        : waited == KILL_MS ? SIGKILL
                                                            : 0 };
        if (each(address, ns, end_one, &ending, err))
            return err->kind;
        if (ending.n == 0)
            return ERR_OK;
        pause_ms(POLL_MS);
    }
    return err_set(err, ERR_TIMEOUT, "a shim of %s stays although its task is gone", id);
}
