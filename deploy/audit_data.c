/* The data proxy against the plan: its configuration, the files of its secrets and keys, the gate's
 * session. */
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/json.h"
#include "base/own.h"
#include "deploy/audit_check.h"
#include "deploy/egress_look.h"
#include "proto/data_token.h"

#define TMPFS 0x01021994

/* A secret's file: its owner alone reads it, and it is in memory only. */
static void check_secret(struct audit *a, const char *name, uint32_t uid)
{
    struct stat st;
    struct statfs fs;
    char *path CLEANUP_FREE = xasprintf("%s/%s", a->plan->run, name);
    bool there = lstat(path, &st) == 0 && S_ISREG(st.st_mode);
    audit_expect(a, there, "%s is missing or no file", path);
    if (!there)
        return;
    audit_expect(a, (st.st_mode & 07777) == 0400, "%s has mode %04o, not 0400", path,
                 st.st_mode & 07777);
    audit_expect(a, st.st_uid == uid, "%s belongs to uid %u, not %u", path, st.st_uid, uid);
    audit_expect(a, statfs(path, &fs) == 0 && fs.f_type == TMPFS, "%s is on a disk", path);
}

static void check_secrets(struct audit *a)
{
    const json_t *list = json_object_get(a->plan->data_config, "upstreams");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *upstream = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(upstream, "name"));
        char *file CLEANUP_FREE = xasprintf("secrets/%s", name ? name : "");
        if (json_object_get(upstream, "inject"))
            check_secret(a, file, a->plan->data_uid);
    }
}

/* The gate signs with a key whose public half the proxy holds. */
static void check_pair(struct audit *a)
{
    struct err err = { 0 };
    bool found = false;
    struct data_key *key CLEANUP(data_key_freep) = NULL;
    struct data_keys keys CLEANUP(data_keys_fini) = { 0 };
    char *private CLEANUP_FREE = xasprintf("%s/data-key/data.key", a->plan->run);
    char *public CLEANUP_FREE = xasprintf("%s/data-keys", a->plan->run);
    check_secret(a, "data-key/data.key", a->plan->uid);
    if (data_key_load_private(private, &key, &err) || data_keys_load(public, &keys, &err)) {
        audit_expect(a, false, "keys of data tokens: %s", err.msg);
        return;
    }
    for (size_t i = 0; i < keys.n; i++)
        found |= strcmp(data_key_id(keys.key[i]), data_key_id(key)) == 0;
    audit_expect(a, found, "%s does not hold the public half of the gate's key %s", public,
                 data_key_id(key));
}

static void check_running(struct audit *a)
{
    json_t *counted CLEANUP_JSON = egress_counted(a->plan);
    const char *id = a->plan->data.id;
    audit_expect(a, json_object_size(counted) > 0, "%s does not answer on its admin socket", id);
    audit_expect(a, json_integer_value(json_object_get(counted, "gates")) > 0,
                 "%s: no gate is connected, nothing is served", id);
    audit_expect(a, json_integer_value(json_object_get(counted, "egress_lost_total")) == 0,
                 "%s lost rows of its egress record", id);
}

void audit_data(struct audit *a, bool running)
{
    char *path CLEANUP_FREE = xasprintf("%s/data/data.json", a->plan->state);
    json_t *found CLEANUP_JSON = NULL;
    (void)!json_strict_load_file(path, 1024 * 1024, &found, ERR_IGNORED);
    audit_expect(a, json_equal(found, a->plan->data_config), "%s is not the plan's", path);
    check_secrets(a);
    check_pair(a);
    if (running)
        check_running(a);
}
