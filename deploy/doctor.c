/*
 * Whether this host can, one row a check.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/timex.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/audit.h"
#include "deploy/certificate.h"
#include "deploy/files.h"
#include "deploy/image.h"
#include "deploy/network.h"
#include "deploy/proc.h"
#include "deploy/state.h"
#include "policy/policy.h"

struct doctor {
    struct deploy *d;
    char found[1100]; /* what it found */
};

static void found(struct doctor *doc, const char *text)
{
    (void)snprintf(doc->found, sizeof(doc->found), "%.1000s", text);
}

static bool run_text(const char *const argv[], char *out, size_t size)
{
    struct buf text CLEANUP(buf_fini);
    buf_init(&text, 65536);
    struct proc proc = { .argv = argv, .timeout_ms = 10000 };
    if (proc_run(&proc, &text, ERR_IGNORED))
        return false;
    (void)snprintf(out, size, "%.*s", (int)strcspn(buf_cstr(&text), "\n"), buf_cstr(&text));
    return true;
}

static bool read_line(const char *path, char *out, size_t size)
{
    FILE *f CLEANUP_FILE = fopen(path, "re");
    if (!f || !fgets(out, (int)size, f))
        return false;
    out[strcspn(out, "\n")] = '\0';
    return true;
}

static bool check_containerd(struct doctor *doc)
{
    char *version CLEANUP_FREE = NULL;
    struct err err = { 0 };
    if (containerd_version(doc->d->cd, &version, &err)) {
        found(doc, err.msg);
        return false;
    }
    found(doc, version);
    return true;
}

static bool check_runsc(struct doctor *doc)
{
    static const char *const paths[] = { "/usr/local/bin/runsc", "/usr/bin/runsc" };
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        const char *const argv[] = { paths[i], "--version", NULL };
        char line[200];
        if (access(paths[i], X_OK) || !run_text(argv, line, sizeof(line)))
            continue;
        (void)snprintf(doc->found, sizeof(doc->found), "%s: %s", paths[i], line);
        const char *date = line;
        while (*date && strspn(date, "0123456789") != 8)
            date++;
        return fs_root_only(paths[i], ERR_IGNORED) == ERR_OK && strncmp(date, "20240729", 8) >= 0;
    }
    found(doc, "no runsc in /usr/local/bin or /usr/bin");
    return false;
}

static bool check_shim(struct doctor *doc)
{
    static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                        "/usr/bin", "/opt/containerd/bin" };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        char *path CLEANUP_FREE = xasprintf("%s/containerd-shim-utter-v1", dirs[i]);
        if (access(path, X_OK) == 0) {
            found(doc, path);
            return true;
        }
    }
    found(doc, "not in the usual places");
    return false;
}

static bool check_cgroups(struct doctor *doc)
{
    bool v2 = access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
    char controllers[300] = "";
    if (v2) {
        (void)read_line("/sys/fs/cgroup/cgroup.controllers", controllers, sizeof(controllers));
        (void)snprintf(doc->found, sizeof(doc->found), "v2: %.250s", controllers);
        return strstr(controllers, "memory") && strstr(controllers, "pids") &&
               strstr(controllers, "cpu");
    }
    found(doc, "v1");
    return access("/sys/fs/cgroup/memory", R_OK) == 0 && access("/sys/fs/cgroup/pids", R_OK) == 0;
}

static bool check_cni(struct doctor *doc)
{
    static const char *const names[] = { "bridge", "static" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char *path CLEANUP_FREE = xasprintf("%s/%s", doc->d->settings->cni_bin, names[i]);
        if (access(path, X_OK)) {
            (void)snprintf(doc->found, sizeof(doc->found), "%s is missing", path);
            return false;
        }
    }
    found(doc, doc->d->settings->cni_bin);
    return true;
}

static bool check_iptables(struct doctor *doc)
{
    const char *const argv[] = { "iptables", "--version", NULL };
    char line[200];
    bool ok = run_text(argv, line, sizeof(line));
    found(doc, ok ? line : "not installed");
    return ok;
}

static bool check_forwarding(struct doctor *doc)
{
    char line[16] = "";
    (void)read_line("/proc/sys/net/ipv4/ip_forward", line, sizeof(line));
    (void)snprintf(doc->found, sizeof(doc->found), "net.ipv4.ip_forward=%s", line);
    return strcmp(line, "1") == 0;
}

/* Others that write rules: named, with what they do to a bridge's own traffic. */
static bool check_firewalls(struct doctor *doc)
{
    static const struct {
        const char *path, *name;
    } others[] = {
        { "/run/firewalld", "firewalld" },
        { "/run/docker.sock", "Docker" },
        { "/etc/ufw/ufw.conf", "ufw" },
        { "/etc/systemd/system/sysinit.target.wants/nftables.service", "nftables.service" },
    };
    char call[16] = "0";
    (void)read_line("/proc/sys/net/bridge/bridge-nf-call-iptables", call, sizeof(call));
    struct buf names CLEANUP(buf_fini);
    buf_init(&names, 200);
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        if (access(others[i].path, F_OK) == 0)
            buf_printf(&names, "%s%s", names.len ? ", " : "", others[i].name);
    }
    (void)snprintf(doc->found, sizeof(doc->found), "%s; bridge-nf-call-iptables=%s",
                   names.len ? buf_cstr(&names) : "none", call);
    return names.len == 0;
}

static bool check_pools(struct doctor *doc)
{
    struct err err = { 0 };
    bool ok = network_check_pools(doc->d->settings, &err) == ERR_OK;
    found(doc, ok ? "free" : err.msg);
    return ok;
}

static bool check_gate_image(struct doctor *doc)
{
    struct image *image CLEANUP(image_freep) = NULL;
    struct err err = { 0 };
    bool ok = image_find(doc->d->cd, doc->d->settings->gate_image, &image, &err) == ERR_OK;
    (void)snprintf(doc->found, sizeof(doc->found), "%s%s%s", doc->d->settings->gate_image,
                   ok ? " " : ": not in containerd", ok ? image->digest : "");
    return ok;
}

static bool check_logger(struct doctor *doc)
{
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    struct err err = { 0 };
    if (policy_config_load(POLICY_CONFIG_PATH, &config, &err)) {
        found(doc, err.msg);
        return false;
    }
    bool listed = false;
    for (size_t i = 0; i < config->n_loggers; i++)
        listed = listed || strcmp(config->loggers[i].path, doc->d->logger) == 0;
    (void)snprintf(doc->found, sizeof(doc->found), "%s%s", doc->d->logger,
                   access(doc->d->logger, X_OK) ? " is missing"
                   : listed                     ? ""
                                                : " is not among the loggers of policy.json");
    return listed && access(doc->d->logger, X_OK) == 0;
}

static bool check_disk(struct doctor *doc)
{
    char *text CLEANUP_FREE = NULL;
    struct err err = { 0 };
    bool ok = files_check_space(doc->d->settings, &text, &err) == ERR_OK;
    found(doc, text ? text : err.msg);
    return ok;
}

static bool check_clock(struct doctor *doc)
{
    struct timex clock = { 0 };
    int state = adjtimex(&clock);
    found(doc,
          state == TIME_ERROR ? "the kernel says that it is not synchronized" : "synchronized");
    return state != TIME_ERROR;
}

static bool check_traefik(struct doctor *doc)
{
    const struct settings *s = doc->d->settings;
    struct stat st;
    if (!s->traefik_dir && !s->route_listen) {
        found(doc, "the settings name none: routes are not published");
        return false;
    }
    found(doc, s->traefik_dir ? s->traefik_dir : s->route_listen);
    return !s->traefik_dir || (stat(s->traefik_dir, &st) == 0 && S_ISDIR(st.st_mode));
}

/* The one that ends first of all slugs' certificates from files. */
static bool check_certificates(struct doctor *doc)
{
    json_t *slugs CLEANUP_JSON = NULL;
    struct err err = { 0 };
    int64_t least = INT64_MAX;
    unsigned n = 0;
    if (state_slugs(doc->d->settings, &slugs, &err)) {
        found(doc, err.msg);
        return false;
    }
    for (size_t i = 0; i < json_array_size(slugs); i++) {
        const char *slug = json_string_value(json_array_get(slugs, i));
        json_t *record CLEANUP_JSON = NULL;
        int64_t days = 0;
        if (state_load(doc->d->settings, slug, &record, &err)) {
            (void)snprintf(doc->found, sizeof(doc->found), "%s: %.900s", slug, err.msg);
            return false;
        }
        const char *path = certificate_of_route(json_object_get(record, "route"));
        if (!path)
            continue;
        n++;
        if (certificate_days(path, &days, &err)) {
            (void)snprintf(doc->found, sizeof(doc->found), "%s: %.900s", slug, err.msg);
            return false;
        }
        if (days >= least)
            continue;
        least = days;
        if (days < 0)
            (void)snprintf(doc->found, sizeof(doc->found), "%s: %.900s has ended", slug, path);
        else
            (void)snprintf(doc->found, sizeof(doc->found), "%s: %.900s ends in %" PRId64 " days",
                           slug, path, days);
    }
    if (n == 0)
        found(doc, "none from files");
    return n == 0 || least >= CERTIFICATE_WARN_DAYS;
}

static bool check_watch(struct doctor *doc)
{
    int lock CLEANUP_FD = -1;
    bool runs = state_lock_named(doc->d->settings, "watch", &lock, ERR_IGNORED) != ERR_OK;
    found(doc, runs ? "running" : "not running: nothing restarts what ends");
    return runs;
}

static const struct {
    const char *name;
    bool (*check)(struct doctor *doc);
    bool must; /* up cannot do without */
    const char *fix;
} rows[] = {
    { "containerd", check_containerd, true,
      "apt install containerd, or name its socket in "
      "containerd.address of the settings" },
    { "runsc", check_runsc, true,
      "install runsc of 20240729 or later, owned by root (Debian 12: apt install -t "
      "bookworm-backports runsc)" },
    { "shim", check_shim, false,
      "install containerd-shim-utter-v1 into /usr/local/bin, or put its "
      "directory first in containerd's PATH" },
    { "cgroups", check_cgroups, true, "the memory, pids and cpu controllers must be there" },
    { "cni", check_cni, true, "apt install containernetworking-plugins, or set cniBin" },
    { "iptables", check_iptables, true, "apt install iptables" },
    { "pools", check_pools, true, "choose other networks in pools of the settings" },
    { "gate image", check_gate_image, true, "utter-deploy image gate /usr/local/bin/utter-gate" },
    { "logger", check_logger, true,
      "install utter-log into /usr/local/bin, or list it under loggers.binary in "
      "/etc/utter/policy.json" },
    { "disk", check_disk, true, "make room" },
    { "forwarding", check_forwarding, false,
      "sysctl -w net.ipv4.ip_forward=1, unless facilitators are on this host" },
    { "firewalls", check_firewalls, false,
      "keep utter's chains after a reload of theirs: utter-deploy watch does" },
    { "clock", check_clock, false,
      "apt install systemd-timesyncd or chrony: payments carry times" },
    { "traefik", check_traefik, false,
      "set traefik.dynamicDir to its file provider's directory; recommended there: "
      "providersThrottleDuration 100ms, underscoreHeadersStrategy reject" },
    { "certificates", check_certificates, false,
      "put a new certificate and key at the same paths: Traefik takes them with the next change of "
      "its directory; run up again" },
    { "watch", check_watch, false, "start utter-deploy watch (systemd unit or by hand)" },
};

enum err_kind doctor_run(struct deploy *d, bool quiet, struct err *err)
{
    unsigned bad = 0;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct doctor doc = { .d = d };
        if (quiet && !rows[i].must)
            continue;
        bool ok = rows[i].check(&doc);
        if (!ok && rows[i].must && quiet)
            return err_set(err, ERR_PRECONDITION, "doctor: %s: %s (%s)", rows[i].name, doc.found,
                           rows[i].fix);
        bad += !ok && rows[i].must;
        if (!quiet)
            deploy_say(d, "%-7s %-11s %s%s%s%s",
                       ok             ? "ok"
                       : rows[i].must ? "missing"
                                      : "note",
                       rows[i].name, doc.found, ok ? "" : " (", ok ? "" : rows[i].fix,
                       ok ? "" : ")");
    }
    return bad ? err_set(err, ERR_PRECONDITION, "%u things are missing", bad) : ERR_OK;
}
