/*
 * Inside policy/: one entry of /mounts, read once, in the terms that rules and adjustments use.
 *
 * What runsc makes of an entry decides what it is: an option "bind" or "rbind" makes a bind of any
 * type (specutils converts it), so `type` alone is never asked.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOUNT_SIZE_NONE (-1) /* no size option */
#define MOUNT_SIZE_BAD (-2)  /* one that is no plain size, or several */

struct mount_view {
    const json_t *json;
    const char *destination; /* "" if absent; as are type and source */
    const char *type;
    const char *source;
    bool bind;
    bool ro; /* the last of ro and rw, as mount(8) and runsc take it */
    bool noexec;
    bool nosuid;
    bool nodev;
    bool exec, suid, dev; /* asked for explicitly */
    int64_t size;         /* bytes, MOUNT_SIZE_NONE or MOUNT_SIZE_BAD */
};

void mount_view_read(const json_t *mount, struct mount_view *out);
/* All of spec's /mounts; the caller frees the array. */
struct mount_view *mount_views_read(const json_t *spec, size_t *n);
/* "16m", "65536k", "1g", "4096": bytes; -1 on anything else (also on "50%" and "0"). */
int64_t mount_size_parse(const char *text);
bool mount_has_option(const struct mount_view *mount, const char *option);

/* What a bind is for. */
enum mount_kind {
    MOUNT_OTHER,           /* not a bind */
    MOUNT_TOOL_FILE,       /* bind on /etc/hosts, /etc/hostname or /etc/resolv.conf */
    MOUNT_TERMINATION_LOG, /* pods: bind on /dev/termination-log */
    MOUNT_SHM,             /* pods: the sandbox's /dev/shm */
    MOUNT_EMPTY_DIR,       /* pods: below the pod's kubernetes.io~empty-dir */
    MOUNT_SERVICE_ACCOUNT, /* pods: the API token */
    MOUNT_LISTED,          /* any other bind: must be on the operator's list */
};
