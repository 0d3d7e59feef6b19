/* What this machine says of a spec before it is started. Touches the file system. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "policy/bind.h"
#include "policy/cpuset.h"
#include "policy/nerdctl.h"

static void check_source(struct policy_report *report, size_t i, const struct mount_view *mount,
                         enum mount_kind kind)
{
    const char *rule = kind == MOUNT_TOOL_FILE ? "tool-file" : "bind-source";
    struct at here = at("/mounts/%zu/source", i);
    struct err err;
    struct stat st;
    int fd CLEANUP_FD = -1;
    if (fs_open_real(AT_FDCWD, mount->source, O_PATH | O_CLOEXEC, &fd, &err))
        policy_report_add(report, rule, here.s, "%s: %s", mount->source, err.msg);
    else if (fstat(fd, &st) < 0 || S_ISSOCK(st.st_mode) || S_ISBLK(st.st_mode) ||
             S_ISCHR(st.st_mode))
        policy_report_add(report, rule, here.s, "%s is a socket or a device", mount->source);
    else if (kind == MOUNT_TOOL_FILE && (!S_ISREG(st.st_mode) || st.st_nlink != 1))
        policy_report_add(report, rule, here.s, "%s is no regular file with one link",
                          mount->source);
}

static void check_sources(const json_t *spec, const struct policy_context *context,
                          const struct policy_config *config, struct policy_report *report)
{
    size_t n;
    struct mount_view *mounts CLEANUP_FREE = mount_views_read(spec, &n);
    for (size_t i = 0; i < n; i++) {
        enum mount_kind kind = mount_kind_of(&mounts[i], spec, context, config);
        if (kind != MOUNT_OTHER && kind != MOUNT_SHM)
            check_source(report, i, &mounts[i], kind);
    }
}

static void check_hook_program(const json_t *spec, const struct policy_config *config,
                               struct policy_report *report)
{
    struct err err;
    if ((spec_has_hook(spec, "createRuntime") || spec_has_hook(spec, "poststop")) &&
        fs_root_only(config->nerdctl.binary, &err))
        policy_report_add(report, "hooks", "/hooks", "%s", err.msg);
}

static void check_netns(const json_t *spec, struct policy_report *report)
{
    const char *path = spec_netns(spec);
    struct stat own, host;
    if (!*path)
        return;
    if (stat(path, &own) < 0)
        policy_report_add(report, "network", "/linux/namespaces", "no namespace at \"%s\"", path);
    else if (stat("/proc/1/ns/net", &host) == 0 && own.st_ino == host.st_ino &&
             own.st_dev == host.st_dev)
        policy_report_add(report, "network", "/linux/namespaces", "\"%s\" is the host's", path);
}

/* An empty leaf is removed by the shim and made anew; one with a process in it is somebody's. v2
 * has one tree, v1 one a controller; systemd's names are not guessed here. */
static void check_cgroup(const json_t *spec, struct policy_report *report)
{
    static const char *const trees[] = { "", "/memory", "/pids", "/cpu" };
    const char *path = member_str(json_object_get(spec, "linux"), "cgroupsPath");
    for (size_t i = 0; path[0] == '/' && i < ARRAY_LEN(trees); i++) {
        char *procs CLEANUP_FREE = xasprintf("/sys/fs/cgroup%s%s/cgroup.procs", trees[i], path);
        FILE *file CLEANUP_FILE = fopen(procs, "re");
        int pid;
        if (file && fscanf(file, "%d", &pid) == 1) {
            policy_report_add(report, "cgroups-path", "/linux/cgroupsPath", "%s holds process %d",
                              procs, pid);
            return;
        }
    }
}

static void check_set(const json_t *spec, const char *key, const char *online,
                      struct policy_report *report)
{
    const char *asked = member_str(json_at(spec, "/linux/resources/cpu"), key);
    char *text CLEANUP_FREE = NULL;
    struct cpuset want;
    struct cpuset have;
    struct err err;
    if (!*asked || !cpuset_parse(asked, &want)) /* not asked for, or refused as text */
        return;
    if (fs_read(online, 4096, &text, NULL, &err) || !cpuset_parse(text, &have)) {
        policy_report_add(report, "cpuset", "/linux/resources/cpu", "%s cannot be read", online);
        return;
    }
    text[strcspn(text, "\n")] = 0;
    if (!cpuset_within(&want, &have))
        policy_report_add(report, "cpuset", at("/linux/resources/cpu/%s", key).s,
                          "%s is \"%s\", this host has %s", key, asked, text);
}

void policy_check_cpuset(const json_t *spec, struct policy_report *report)
{
    check_set(spec, "cpus", "/sys/devices/system/cpu/online", report);
    check_set(spec, "mems", "/sys/devices/system/node/online", report);
}

void policy_check_host(const json_t *spec, const struct policy_context *context,
                       const struct policy_config *config, struct policy_report *report)
{
    struct policy_guess guess;
    struct policy_context full = *context;
    policy_context_guess(spec, &full, &guess);
    check_sources(spec, &full, config, report);
    check_hook_program(spec, config, report);
    check_netns(spec, report);
    check_cgroup(spec, report);
    policy_check_cpuset(spec, report);
}
