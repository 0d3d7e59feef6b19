/* Where the host mounts its cgroups, and which a process is in. Declared in shim/cgroup.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/text.h"
#include "shim/cgroup.h"

#define MOUNTINFO_MAX ((size_t)4 * 1024 * 1024)
#define CGROUP_FILE_MAX 65536

/* mountinfo writes blank, tab, newline and backslash as \ooo. */
static void unescape(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (s[0] == '\\' && s[1] && s[2] && s[3]) {
            *to++ = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
            s += 3;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
}

/* The controllers among a v1 superblock's options. */
static char *controllers_of(const char *options)
{
    static const char *const known[] = {
        "memory",  "pids",    "cpu",      "cpuacct", "cpuset",     "blkio", "devices",
        "freezer", "net_cls", "net_prio", "hugetlb", "perf_event", "rdma",  "misc",
    };
    char *list CLEANUP_FREE = xstrdup(options);
    char *out = xcalloc(1, strlen(options) + 2);
    char *save = NULL;
    for (char *word = strtok_r(list, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
        bool take = text_starts(word, "name=");
        for (size_t i = 0; i < ARRAY_LEN(known); i++)
            take |= strcmp(word, known[i]) == 0;
        if (!take)
            continue;
        if (*out)
            strcat(out, ",");
        strcat(out, word);
    }
    return out;
}

static bool has_controller(const struct cgroup_hierarchy *h, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = h->controllers; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, name, len) == 0 && (p[len] == 0 || p[len] == ','))
            return true;
    }
    return false;
}

static void add(struct cgroup_host *host, const char *mount, const char *mount_root,
                char *take_controllers)
{
    for (size_t i = 0; i < host->n; i++) {
        if (strcmp(host->hierarchies[i].controllers, take_controllers) == 0) {
            free(take_controllers); /* the same hierarchy mounted again */
            return;
        }
    }
    if (host->n == CGROUP_HIERARCHIES_MAX || !*take_controllers) {
        free(take_controllers);
        return;
    }
    host->hierarchies[host->n++] = (struct cgroup_hierarchy){ .mount = xstrdup(mount),
                                                              .mount_root = xstrdup(mount_root),
                                                              .controllers = take_controllers };
}

/* One line: "id parent maj:min ROOT MOUNTPOINT options … - FSTYPE source SUPEROPTIONS". */
static void take_line(struct cgroup_host *host, char *line)
{
    char *tail = strstr(line, " - ");
    char *root = NULL;
    char *mount = NULL;
    char *type = NULL;
    char *options = NULL;
    if (!tail || sscanf(line, "%*s %*s %*s %ms %ms", &root, &mount) != 2 ||
        sscanf(tail, " - %ms %*s %ms", &type, &options) != 2) {
        free(root);
        free(mount);
        free(type);
        return;
    }
    unescape(root);
    unescape(mount);
    size_t len = strlen(host->root);
    bool below = strncmp(mount, host->root, len) == 0 && mount[len] == '/';
    if (strcmp(type, "cgroup2") == 0 && strcmp(mount, host->root) == 0) {
        host->version = CGROUP_V2;
        add(host, mount, root, xstrdup("unified"));
    } else if (strcmp(type, "cgroup") == 0 && below) {
        add(host, mount, root, controllers_of(options));
    }
    free(root);
    free(mount);
    free(type);
    free(options);
}

static const struct cgroup_hierarchy *find(const struct cgroup_host *host, const char *controller)
{
    if (host->version == CGROUP_V2)
        return host->n ? &host->hierarchies[0] : NULL;
    for (size_t i = 0; i < host->n; i++) {
        if (has_controller(&host->hierarchies[i], controller))
            return &host->hierarchies[i];
    }
    return NULL;
}

enum err_kind cgroup_host_open(const char *root, const char *proc, struct cgroup_host **out,
                               struct err *err)
{
    struct cgroup_host *host CLEANUP(cgroup_host_freep) = xcalloc(1, sizeof(*host));
    char *path CLEANUP_FREE = xasprintf("%s/self/mountinfo", proc);
    char *text CLEANUP_FREE = NULL;
    if (fs_read(path, MOUNTINFO_MAX, &text, NULL, err))
        return err->kind;
    host->version = CGROUP_V1;
    host->root = xstrdup(root);
    host->proc = xstrdup(proc);
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
        take_line(host, line);
    if (!find(host, "memory") || !find(host, "pids") || !find(host, "cpu"))
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: neither cgroup v2 nor v1 with memory, pids and cpu is mounted", root);
    *out = STEAL(host);
    return ERR_OK;
}

void cgroup_host_free(struct cgroup_host *host)
{
    if (!host)
        return;
    for (size_t i = 0; i < host->n; i++) {
        free(host->hierarchies[i].mount);
        free(host->hierarchies[i].mount_root);
        free(host->hierarchies[i].controllers);
    }
    free(host->root);
    free(host->proc);
    free(host);
}

/* The text after "<id>:<controllers>:" of the line for a hierarchy; NULL if there is none. */
static char *path_in(const struct cgroup_hierarchy *h, const struct cgroup_host *host,
                     const char *text)
{
    char *copy CLEANUP_FREE = xstrdup(text);
    char *save = NULL;
    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        const char *want = host->version == CGROUP_V2 ? "" : h->controllers;
        if (strcmp(controllers + 1, want) == 0)
            return xstrdup(path);
    }
    return NULL;
}

/* What the mount shows of a path; NULL if it lies outside. */
static char *below_mount(const struct cgroup_hierarchy *h, const char *path)
{
    size_t len = strcmp(h->mount_root, "/") == 0 ? 0 : strlen(h->mount_root);
    if (strncmp(path, h->mount_root, len) != 0 || (path[len] != '/' && path[len] != 0))
        return NULL;
    const char *rest = path + len;
    return xasprintf("%s%s", h->mount, strcmp(rest, "/") == 0 ? "" : rest);
}

static enum err_kind dir_of(const struct cgroup_host *host, const char *controller,
                            const char *text, pid_t pid, char **out, struct err *err)
{
    const struct cgroup_hierarchy *h = find(host, controller);
    char *path CLEANUP_FREE = h ? path_in(h, host, text) : NULL;
    *out = path ? below_mount(h, path) : NULL;
    if (!*out)
        return err_set(err, ERR_PRECONDITION, "process %d: its %s cgroup is not visible", (int)pid,
                       controller);
    return ERR_OK;
}

enum err_kind cgroup_set_of(const struct cgroup_host *host, pid_t pid, struct cgroup_set **out,
                            struct err *err)
{
    char *file CLEANUP_FREE = xasprintf("%s/%d/cgroup", host->proc, (int)pid);
    char *text CLEANUP_FREE = NULL;
    struct cgroup_set *set CLEANUP(cgroup_set_freep) = xcalloc(1, sizeof(*set));
    set->host = host;
    if (fs_read(file, CGROUP_FILE_MAX, &text, NULL, err) ||
        dir_of(host, "memory", text, pid, &set->memory, err) ||
        dir_of(host, "pids", text, pid, &set->pids, err) ||
        dir_of(host, "cpu", text, pid, &set->cpu, err))
        return err->kind;
    /* For CPU time alone; a host without it gives no figure. */
    if (!find(host, "cpuacct") || dir_of(host, "cpuacct", text, pid, &set->cpuacct, err))
        set->cpuacct = NULL;
    *out = STEAL(set);
    return ERR_OK;
}

struct cgroup_set *cgroup_set_at(const struct cgroup_host *host, const char *path)
{
    struct cgroup_set *set = xcalloc(1, sizeof(*set));
    const struct cgroup_hierarchy *acct = find(host, "cpuacct");
    set->host = host;
    set->memory = xasprintf("%s%s", find(host, "memory")->mount, path);
    set->pids = xasprintf("%s%s", find(host, "pids")->mount, path);
    set->cpu = xasprintf("%s%s", find(host, "cpu")->mount, path);
    set->cpuacct = acct ? xasprintf("%s%s", acct->mount, path) : NULL;
    return set;
}

void cgroup_set_free(struct cgroup_set *set)
{
    if (!set)
        return;
    free(set->memory);
    free(set->pids);
    free(set->cpu);
    free(set->cpuacct);
    free(set);
}
