/* The rows. Sources: opencontainers/runtime-spec v1.3.0, config.md and config-linux.md. */
#include "policy/schema.h"

/* clang-format off: one row a line reads as the table it is */
#define END                                                                                        \
    {                                                                                              \
        NULL, SHAPE_ANY, HOW_EMPTY, NULL, NULL                                                     \
    }

static const struct schema_field user[] = {
    { "uid", SHAPE_UINT, HOW_CHECKED, "user", NULL },
    { "gid", SHAPE_UINT, HOW_CHECKED, "user", NULL },
    { "umask", SHAPE_UINT, HOW_CHECKED, "user", NULL },
    { "additionalGids", SHAPE_UINTS, HOW_CHECKED, "user", NULL },
    { "username", SHAPE_STRING, HOW_EMPTY, NULL, NULL },
    END,
};

static const struct schema_field capabilities[] = {
    { "bounding", SHAPE_STRINGS, HOW_CHECKED, "capabilities", NULL },
    { "permitted", SHAPE_STRINGS, HOW_CHECKED, "capabilities", NULL },
    { "effective", SHAPE_STRINGS, HOW_CHECKED, "capabilities", NULL },
    { "inheritable", SHAPE_STRINGS, HOW_CHECKED, "capabilities", NULL },
    { "ambient", SHAPE_STRINGS, HOW_CHECKED, "capabilities", NULL },
    END,
};

static const struct schema_field rlimit[] = {
    { "type", SHAPE_STRING, HOW_CHECKED, "rlimits", NULL },
    { "hard", SHAPE_RLIMIT, HOW_CHECKED, "rlimits", NULL },
    { "soft", SHAPE_RLIMIT, HOW_CHECKED, "rlimits", NULL },
    END,
};

static const struct schema_field console_size[] = {
    { "height", SHAPE_UINT, HOW_CHECKED, "terminal", NULL },
    { "width", SHAPE_UINT, HOW_CHECKED, "terminal", NULL },
    END,
};

const struct schema_field schema_process[] = {
    { "terminal", SHAPE_BOOL, HOW_PASSED, NULL, NULL },
    { "consoleSize", SHAPE_OBJECT, HOW_CHECKED, "terminal", console_size },
    { "user", SHAPE_OBJECT, HOW_CHECKED, "user", user },
    { "args", SHAPE_STRINGS, HOW_CHECKED, "args", NULL },
    { "commandLine", SHAPE_STRING, HOW_EMPTY, NULL, NULL },
    { "env", SHAPE_STRINGS, HOW_CHECKED, "env-name", NULL },
    { "cwd", SHAPE_STRING, HOW_CHECKED, "cwd", NULL },
    { "capabilities", SHAPE_OBJECT, HOW_CHECKED, "capabilities", capabilities },
    { "rlimits", SHAPE_OBJECTS, HOW_ADJUSTED, "rlimits", rlimit },
    { "noNewPrivileges", SHAPE_BOOL, HOW_CHECKED, "no-new-privileges", NULL },
    { "apparmorProfile", SHAPE_STRING, HOW_ADJUSTED, NULL, NULL },
    { "oomScoreAdj", SHAPE_INT, HOW_ADJUSTED, NULL, NULL },
    { "selinuxLabel", SHAPE_STRING, HOW_EMPTY, "selinux", NULL },
    { "scheduler", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "ioPriority", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "execCPUAffinity", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    END,
};

static const struct schema_field root[] = {
    { "path", SHAPE_STRING, HOW_CHECKED, "root-path", NULL },
    { "readonly", SHAPE_BOOL, HOW_CHECKED, "root-readonly", NULL },
    END,
};

static const struct schema_field mount[] = {
    { "destination", SHAPE_STRING, HOW_CHECKED, "mount-destination", NULL },
    { "type", SHAPE_STRING, HOW_CHECKED, "mount-type", NULL },
    { "source", SHAPE_STRING, HOW_CHECKED, "bind-source", NULL },
    { "options", SHAPE_STRINGS, HOW_CHECKED, "mount-options", NULL },
    { "uidMappings", SHAPE_ANY, HOW_EMPTY, "user-namespace", NULL },
    { "gidMappings", SHAPE_ANY, HOW_EMPTY, "user-namespace", NULL },
    END,
};

static const struct schema_field hook[] = {
    { "path", SHAPE_STRING, HOW_CHECKED, "hooks", NULL },
    { "args", SHAPE_STRINGS, HOW_CHECKED, "hooks", NULL },
    { "env", SHAPE_STRINGS, HOW_ADJUSTED, NULL, NULL },
    { "timeout", SHAPE_INT, HOW_ADJUSTED, NULL, NULL },
    END,
};

static const struct schema_field hooks[] = {
    { "prestart", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    { "createRuntime", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    { "createContainer", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    { "startContainer", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    { "poststart", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    { "poststop", SHAPE_OBJECTS, HOW_CHECKED, "hooks", hook },
    END,
};

static const struct schema_field device_rule[] = {
    { "allow", SHAPE_BOOL, HOW_CHECKED, "devices", NULL },
    { "type", SHAPE_STRING, HOW_CHECKED, "devices", NULL },
    { "major", SHAPE_INT, HOW_CHECKED, "devices", NULL },
    { "minor", SHAPE_INT, HOW_CHECKED, "devices", NULL },
    { "access", SHAPE_STRING, HOW_CHECKED, "devices", NULL },
    END,
};

static const struct schema_field memory[] = {
    { "limit", SHAPE_INT, HOW_CHECKED, "memory", NULL },
    { "reservation", SHAPE_INT, HOW_ADJUSTED, NULL, NULL },
    { "swap", SHAPE_INT, HOW_ADJUSTED, NULL, NULL },
    { "kernel", SHAPE_INT, HOW_EMPTY, NULL, NULL },
    { "kernelTCP", SHAPE_INT, HOW_EMPTY, NULL, NULL },
    { "swappiness", SHAPE_UINT, HOW_ADJUSTED, NULL, NULL },
    { "disableOOMKiller", SHAPE_BOOL, HOW_CHECKED, "memory", NULL },
    { "useHierarchy", SHAPE_BOOL, HOW_ADJUSTED, NULL, NULL },
    { "checkBeforeUpdate", SHAPE_BOOL, HOW_ADJUSTED, NULL, NULL },
    END,
};

static const struct schema_field cpu[] = {
    { "shares", SHAPE_UINT, HOW_CHECKED, "cpu", NULL },
    { "quota", SHAPE_INT, HOW_CHECKED, "cpu", NULL },
    { "burst", SHAPE_UINT, HOW_EMPTY, "cpu", NULL },
    { "period", SHAPE_UINT, HOW_CHECKED, "cpu", NULL },
    { "realtimeRuntime", SHAPE_INT, HOW_EMPTY, "cpu", NULL },
    { "realtimePeriod", SHAPE_UINT, HOW_EMPTY, "cpu", NULL },
    { "cpus", SHAPE_STRING, HOW_CHECKED, "cpuset", NULL },
    { "mems", SHAPE_STRING, HOW_CHECKED, "cpuset", NULL },
    { "idle", SHAPE_INT, HOW_EMPTY, "cpu", NULL },
    END,
};

static const struct schema_field pids[] = {
    { "limit", SHAPE_INT, HOW_CHECKED, "pids", NULL },
    END,
};

static const struct schema_field hugepage[] = {
    { "pageSize", SHAPE_STRING, HOW_ADJUSTED, NULL, NULL },
    { "limit", SHAPE_UINT, HOW_EMPTY, NULL, NULL },
    END,
};

const struct schema_field schema_resources[] = {
    { "devices", SHAPE_OBJECTS, HOW_CHECKED, "devices", device_rule },
    { "memory", SHAPE_OBJECT, HOW_CHECKED, "memory", memory },
    { "cpu", SHAPE_OBJECT, HOW_CHECKED, "cpu", cpu },
    { "pids", SHAPE_OBJECT, HOW_CHECKED, "pids", pids },
    { "hugepageLimits", SHAPE_OBJECTS, HOW_ADJUSTED, NULL, hugepage },
    { "blockIO", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "network", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "rdma", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "unified", SHAPE_MAP, HOW_CHECKED, "unified", NULL },
    END,
};

static const struct schema_field namespace_[] = {
    { "type", SHAPE_STRING, HOW_CHECKED, "namespace", NULL },
    { "path", SHAPE_STRING, HOW_CHECKED, "namespace", NULL },
    END,
};

static const struct schema_field syscall_arg[] = {
    { "index", SHAPE_UINT, HOW_CHECKED, "seccomp", NULL },
    { "value", SHAPE_UINT, HOW_PASSED, NULL, NULL },
    { "valueTwo", SHAPE_UINT, HOW_PASSED, NULL, NULL },
    { "op", SHAPE_STRING, HOW_CHECKED, "seccomp", NULL },
    END,
};

static const struct schema_field syscall_rule[] = {
    { "names", SHAPE_STRINGS, HOW_ADJUSTED, NULL, NULL },
    { "action", SHAPE_STRING, HOW_ADJUSTED, NULL, NULL },
    { "errnoRet", SHAPE_UINT, HOW_ADJUSTED, NULL, NULL },
    { "args", SHAPE_OBJECTS, HOW_CHECKED, "seccomp", syscall_arg },
    END,
};

static const struct schema_field seccomp[] = {
    { "defaultAction", SHAPE_STRING, HOW_ADJUSTED, NULL, NULL },
    { "defaultErrnoRet", SHAPE_UINT, HOW_ADJUSTED, NULL, NULL },
    { "architectures", SHAPE_STRINGS, HOW_ADJUSTED, NULL, NULL },
    { "flags", SHAPE_STRINGS, HOW_ADJUSTED, NULL, NULL },
    { "listenerPath", SHAPE_STRING, HOW_EMPTY, "seccomp", NULL },
    { "listenerMetadata", SHAPE_STRING, HOW_EMPTY, "seccomp", NULL },
    { "syscalls", SHAPE_OBJECTS, HOW_ADJUSTED, NULL, syscall_rule },
    END,
};

static const struct schema_field linux_[] = {
    { "devices", SHAPE_ANY, HOW_EMPTY, "devices", NULL },
    { "uidMappings", SHAPE_ANY, HOW_EMPTY, "user-namespace", NULL },
    { "gidMappings", SHAPE_ANY, HOW_EMPTY, "user-namespace", NULL },
    { "namespaces", SHAPE_OBJECTS, HOW_CHECKED, "namespace", namespace_ },
    { "resources", SHAPE_OBJECT, HOW_CHECKED, "memory", schema_resources },
    { "cgroupsPath", SHAPE_STRING, HOW_CHECKED, "cgroups-path", NULL },
    { "sysctl", SHAPE_MAP, HOW_CHECKED, "sysctl", NULL },
    { "seccomp", SHAPE_OBJECT, HOW_ADJUSTED, "seccomp", seccomp },
    { "rootfsPropagation", SHAPE_STRING, HOW_CHECKED, "mount-options", NULL },
    { "maskedPaths", SHAPE_STRINGS, HOW_CHECKED, "masked-paths", NULL },
    { "readonlyPaths", SHAPE_STRINGS, HOW_CHECKED, "masked-paths", NULL },
    { "mountLabel", SHAPE_STRING, HOW_EMPTY, "selinux", NULL },
    { "netDevices", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "intelRdt", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "memoryPolicy", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "personality", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "timeOffsets", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    END,
};

const struct schema_field schema_spec[] = {
    { "ociVersion", SHAPE_STRING, HOW_PASSED, NULL, NULL },
    { "process", SHAPE_OBJECT, HOW_CHECKED, "args", schema_process },
    { "root", SHAPE_OBJECT, HOW_CHECKED, "root-path", root },
    { "hostname", SHAPE_STRING, HOW_CHECKED, "hostname", NULL },
    { "domainname", SHAPE_STRING, HOW_CHECKED, "hostname", NULL },
    { "mounts", SHAPE_OBJECTS, HOW_CHECKED, "mount-type", mount },
    { "hooks", SHAPE_OBJECT, HOW_CHECKED, "hooks", hooks },
    { "annotations", SHAPE_MAP, HOW_CHECKED, "annotations", NULL },
    { "linux", SHAPE_OBJECT, HOW_CHECKED, "namespace", linux_ },
    { "windows", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "solaris", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "freebsd", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "vm", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    { "zos", SHAPE_ANY, HOW_EMPTY, NULL, NULL },
    END,
};
