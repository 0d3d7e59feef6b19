#include "deploy/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "policy/policy.h"

#define CPU_PERIOD 100000
#define PATH_ENV "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static json_t *mount(const char *destination, const char *type, const char *source,
                     const char *options)
{
    json_t *list = json_array();
    for (const char *p = options; *p;) {
        size_t n = strcspn(p, ",");
        json_array_append_new(list, json_stringn(p, n));
        p += n + (p[n] == ',');
    }
    return json_pack("{s:s, s:s, s:s, s:o}", "destination", destination, "type", type, "source",
                     source, "options", list);
}

static void bind(json_t *mounts, const char *destination, const char *source, bool rw)
{
    json_array_append_new(mounts, mount(destination, "bind", source,
                                        rw ? "rbind,rprivate,rw,nosuid,nodev,noexec"
                                           : "rbind,rprivate,ro,nosuid,nodev,noexec"));
}

static json_t *base_mounts(void)
{
    json_t *mounts = json_array();
    json_array_append_new(mounts, mount("/proc", "proc", "proc", "nosuid,noexec,nodev"));
    json_array_append_new(
        mounts, mount("/dev", "tmpfs", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"));
    json_array_append_new(mounts, mount("/dev/pts", "devpts", "devpts",
                                        "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"));
    json_array_append_new(
        mounts, mount("/dev/shm", "tmpfs", "shm", "nosuid,noexec,nodev,mode=1777,size=1024k"));
    json_array_append_new(mounts, mount("/sys", "sysfs", "sysfs", "nosuid,noexec,nodev,ro"));
    return mounts;
}

static void add_tmp(json_t *mounts, int64_t bytes)
{
    char options[120];
    (void)snprintf(options, sizeof(options), "rw,nosuid,nodev,noexec,mode=1777,size=%lld",
                   (long long)bytes);
    json_array_append_new(mounts, mount("/tmp", "tmpfs", "tmpfs", options));
}

static json_t *namespaces(const char *netns)
{
    return json_pack("[{s:s}, {s:s}, {s:s}, {s:s}, {s:s, s:s}]", "type", "pid", "type", "ipc",
                     "type", "uts", "type", "mount", "type", "network", "path", netns);
}

static json_t *no_capabilities(void)
{
    return json_pack("{s:[], s:[], s:[], s:[], s:[]}", "bounding", "effective", "inheritable",
                     "permitted", "ambient");
}

static json_t *resources(int64_t memory, int64_t cpu_milli, int64_t pids)
{
    return json_pack("{s:[{s:b, s:s}], s:{s:I, s:I}, s:{s:I, s:I}, s:{s:I}}", "devices", "allow", 0,
                     "access", "rwm", "memory", "limit", (json_int_t)memory, "swap",
                     (json_int_t)memory, "cpu", "quota",
                     (json_int_t)(cpu_milli * CPU_PERIOD / 1000), "period", (json_int_t)CPU_PERIOD,
                     "pids", "limit", (json_int_t)pids);
}

static const json_t *image_process(const json_t *config)
{
    return json_object_get(config, "config");
}

/* What the image runs: Entrypoint and Cmd. */
static json_t *image_args(const json_t *config)
{
    json_t *args = json_array();
    json_array_extend(args, json_object_get(image_process(config), "Entrypoint"));
    json_array_extend(args, json_object_get(image_process(config), "Cmd"));
    return args;
}

/* Puts NAME=value into the list, over an entry of that name. */
static void env_set(json_t *env, const char *name, const char *value)
{
    char *entry CLEANUP_FREE = xasprintf("%s=%s", name, value);
    size_t n = strlen(name) + 1;
    for (size_t i = 0; i < json_array_size(env); i++) {
        if (strncmp(json_string_value(json_array_get(env, i)), entry, n) == 0) {
            json_array_set_new(env, i, json_string(entry));
            return;
        }
    }
    json_array_append_new(env, json_string(entry));
}

static json_t *environment(const json_t *config, const json_t *more)
{
    json_t *env = json_array();
    json_array_extend(env, json_object_get(image_process(config), "Env"));
    if (json_array_size(env) == 0)
        json_array_append_new(env, json_string(PATH_ENV));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)more, key, value)
        env_set(env, key, json_string_value(value));
    return env;
}

static const char *working_dir(const json_t *config)
{
    const char *dir = json_string_value(json_object_get(image_process(config), "WorkingDir"));
    return dir && dir[0] == '/' ? dir : "/";
}

static json_t *process(int64_t uid, json_t *take_args, json_t *take_env, const char *cwd)
{
    return json_pack("{s:b, s:{s:I, s:I}, s:o, s:o, s:s, s:o, s:b}", "terminal", 0, "user", "uid",
                     (json_int_t)uid, "gid", (json_int_t)uid, "args", take_args, "env", take_env,
                     "cwd", cwd, "capabilities", no_capabilities(), "noNewPrivileges", 1);
}

static json_t *frame(const char *hostname, json_t *take_process, json_t *take_mounts,
                     json_t *take_linux)
{
    return json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:o, s:o}", "ociVersion", "1.0.2", "process",
                     take_process, "root", "path", "rootfs", "readonly", 1, "hostname", hostname,
                     "mounts", take_mounts, "linux", take_linux);
}

static json_t *linux_part(const struct spec_place *place, json_t *take_resources)
{
    char *cgroup CLEANUP_FREE = xasprintf("/%s/%s", place->ns, place->id);
    return json_pack("{s:o, s:o, s:s, s:[s,s,s,s,s,s], s:[s,s,s,s,s]}", "namespaces",
                     namespaces(place->netns), "resources", take_resources, "cgroupsPath", cgroup,
                     "maskedPaths", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
                     "/proc/timer_list", "/proc/sched_debug", "/sys/firmware", "readonlyPaths",
                     "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger");
}

static void bind_names(json_t *mounts, const char *run, const char *prefix)
{
    char *hosts CLEANUP_FREE = xasprintf("%s/%shosts", run, prefix);
    char *resolv CLEANUP_FREE = xasprintf("%s/%sresolv.conf", run, prefix);
    bind(mounts, "/etc/hosts", hosts, false);
    bind(mounts, "/etc/resolv.conf", resolv, false);
}

/* The policy's own word on the spec, by the configuration that the runtime reads too. Nothing is
 * mended here: what the file asks for and the runtime refuses is told, not dropped. */
static enum err_kind judge(const json_t *spec, const struct spec_place *place, struct err *err)
{
    struct policy_config *config CLEANUP(policy_config_freep) = NULL;
    if (policy_config_load(POLICY_CONFIG_PATH, &config, err))
        return err->kind;
    struct policy_context context = { .ns = place->ns,
                                      .id = place->id,
                                      .role = POLICY_ROLE_SINGLE };
    struct policy_report report CLEANUP(policy_report_fini);
    policy_report_init(&report);
    policy_check(spec, &context, config, &report);
    return policy_report_err(&report, err);
}

enum err_kind spec_handler(const struct endpoint *e, const json_t *image_config,
                           const struct spec_place *place, json_t **out, struct err *err)
{
    json_t *args = e->argv ? json_deep_copy(e->argv) : image_args(image_config);
    if (json_array_size(args) == 0) {
        json_decref(args);
        return err_set(err, ERR_INVALID, "handler: the image names no program; set handler.entry");
    }
    json_t *mounts = base_mounts();
    add_tmp(mounts, e->tmp);
    bind_names(mounts, place->run, "");
    json_t *spec CLEANUP_JSON =
        frame(e->slug.s,
              process(e->uid, args, environment(image_config, e->env), working_dir(image_config)),
              mounts, linux_part(place, resources(e->memory, e->cpu_milli, e->pids)));
    char timeout[24];
    (void)snprintf(timeout, sizeof(timeout), "%lld", (long long)e->lifetime);
    json_object_set_new(spec, "annotations",
                        json_pack("{s:s, s:s, s:s}", "io.utter.network", "internal",
                                  "io.utter.address", place->address, "io.utter.timeout", timeout));
    if (judge(spec, place, err))
        return err_prefix(err, "handler");
    *out = STEAL(spec);
    return ERR_OK;
}

enum err_kind spec_gate(const struct endpoint *e, const json_t *image_config,
                        const struct spec_place *place, json_t **out, struct err *err)
{
    json_t *args = image_args(image_config);
    if (json_array_size(args) == 0) {
        json_decref(args);
        return err_set(err, ERR_INVALID, "gate: its image names no program");
    }
    json_t *mounts = base_mounts();
    add_tmp(mounts, 4 << 20);
    bind_names(mounts, place->run, "gate-");
    const char *two = place->side ? "2" : "";
    char *config CLEANUP_FREE = xasprintf("%s/gate%s", place->state, two);
    char *ledger CLEANUP_FREE = xasprintf("%s/ledger", place->state);
    char *token CLEANUP_FREE = xasprintf("%s/token", place->run);
    char *admin CLEANUP_FREE = xasprintf("%s/admin%s", place->run, two);
    bind(mounts, "/etc/utter", config, false);
    bind(mounts, "/var/lib/utter-gate", ledger, true);
    bind(mounts, "/run/utter-token", token, false);
    bind(mounts, "/run/utter-gate", admin, true);
    if (place->data) {
        char *session CLEANUP_FREE = xasprintf("%s/data", place->run);
        char *key CLEANUP_FREE = xasprintf("%s/data-key", place->run);
        bind(mounts, "/run/utter-data", session, false);
        bind(mounts, "/run/utter-data-key", key, false);
    }
    char *hostname CLEANUP_FREE = xasprintf("%s-gate", e->slug.s);
    json_t *runs =
        process(place->uid, args, environment(image_config, NULL), working_dir(image_config));
    if (place->claims) {
        bind(mounts, PLAN_CLAIMS_PLACE, place->claims, true);
        json_object_set_new(json_object_get(runs, "user"), "additionalGids",
                            json_pack("[I]", (json_int_t)place->claims_gid));
    }
    *out = frame(hostname, runs, mounts, linux_part(place, resources(512LL << 20, 2000, 128)));
    return ERR_OK;
}

enum err_kind spec_data(const struct endpoint *e, const json_t *image_config,
                        const struct spec_place *place, json_t **out, struct err *err)
{
    json_t *args = image_args(image_config);
    if (json_array_size(args) == 0) {
        json_decref(args);
        return err_set(err, ERR_INVALID, "data proxy: its image names no program");
    }
    json_t *mounts = base_mounts();
    add_tmp(mounts, 4 << 20);
    bind_names(mounts, place->run, "gate-");
    const struct {
        const char *to, *base, *name;
        bool rw;
    } binds[] = {
        { "/etc/utter", place->state, "data", false },
        { "/var/lib/utter-dataproxy", place->state, "egress", true },
        { "/run/utter-data", place->run, "data", true },
        { "/run/utter-data-keys", place->run, "data-keys", false },
        { UPSTREAMS_SECRETS, place->run, "secrets", false },
    };
    for (size_t i = 0; i < sizeof(binds) / sizeof(*binds); i++) {
        char *from CLEANUP_FREE = xasprintf("%s/%s", binds[i].base, binds[i].name);
        bind(mounts, binds[i].to, from, binds[i].rw);
    }
    char *hostname CLEANUP_FREE = xasprintf("%s-data", e->slug.s);
    *out =
        frame(hostname,
              process(place->uid, args, environment(image_config, NULL), working_dir(image_config)),
              mounts, linux_part(place, resources(256LL << 20, 1000, 64)));
    return ERR_OK;
}
