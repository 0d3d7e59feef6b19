#include "shim/caps.h"

#include <linux/capability.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"

/* capabilities(7), by number. */
static const char *const NAMES[] = {
    [CAP_CHOWN] = "CHOWN",
    [CAP_DAC_OVERRIDE] = "DAC_OVERRIDE",
    [CAP_DAC_READ_SEARCH] = "DAC_READ_SEARCH",
    [CAP_FOWNER] = "FOWNER",
    [CAP_FSETID] = "FSETID",
    [CAP_KILL] = "KILL",
    [CAP_SETGID] = "SETGID",
    [CAP_SETUID] = "SETUID",
    [CAP_SETPCAP] = "SETPCAP",
    [CAP_LINUX_IMMUTABLE] = "LINUX_IMMUTABLE",
    [CAP_NET_BIND_SERVICE] = "NET_BIND_SERVICE",
    [CAP_NET_BROADCAST] = "NET_BROADCAST",
    [CAP_NET_ADMIN] = "NET_ADMIN",
    [CAP_NET_RAW] = "NET_RAW",
    [CAP_IPC_LOCK] = "IPC_LOCK",
    [CAP_IPC_OWNER] = "IPC_OWNER",
    [CAP_SYS_MODULE] = "SYS_MODULE",
    [CAP_SYS_RAWIO] = "SYS_RAWIO",
    [CAP_SYS_CHROOT] = "SYS_CHROOT",
    [CAP_SYS_PTRACE] = "SYS_PTRACE",
    [CAP_SYS_PACCT] = "SYS_PACCT",
    [CAP_SYS_ADMIN] = "SYS_ADMIN",
    [CAP_SYS_BOOT] = "SYS_BOOT",
    [CAP_SYS_NICE] = "SYS_NICE",
    [CAP_SYS_RESOURCE] = "SYS_RESOURCE",
    [CAP_SYS_TIME] = "SYS_TIME",
    [CAP_SYS_TTY_CONFIG] = "SYS_TTY_CONFIG",
    [CAP_MKNOD] = "MKNOD",
    [CAP_LEASE] = "LEASE",
    [CAP_AUDIT_WRITE] = "AUDIT_WRITE",
    [CAP_AUDIT_CONTROL] = "AUDIT_CONTROL",
    [CAP_SETFCAP] = "SETFCAP",
    [CAP_MAC_OVERRIDE] = "MAC_OVERRIDE",
    [CAP_MAC_ADMIN] = "MAC_ADMIN",
    [CAP_SYSLOG] = "SYSLOG",
    [CAP_WAKE_ALARM] = "WAKE_ALARM",
    [CAP_BLOCK_SUSPEND] = "BLOCK_SUSPEND",
    [CAP_AUDIT_READ] = "AUDIT_READ",
    [CAP_PERFMON] = "PERFMON",
    [CAP_BPF] = "BPF",
    [CAP_CHECKPOINT_RESTORE] = "CHECKPOINT_RESTORE",
};

static CHECKED enum err_kind add(const char *name, uint64_t *mask, struct err *err)
{
    for (size_t i = 0; name && text_starts(name, "CAP_") && i < ARRAY_LEN(NAMES); i++) {
        if (!NAMES[i] || strcmp(name + strlen("CAP_"), NAMES[i]) != 0)
            continue;
        if (i != CAP_NET_RAW)
            *mask |= UINT64_C(1) << i;
        return ERR_OK;
    }
    char safe[64];
    return err_set(err, ERR_INVALID, "process: no capability is called \"%s\"",
                   text_safe(name ? name : "", safe, sizeof(safe)));
}

enum err_kind caps_read(const json_t *doc, struct control_caps *out, struct err *err)
{
    *out = (struct control_caps){ 0 };
    const struct {
        const char *name;
        uint64_t *mask;
    } sets[] = { { "permitted", &out->permitted },
                 { "inheritable", &out->inheritable },
                 { "effective", &out->effective },
                 { "bounding", &out->bounding },
                 { "ambient", &out->ambient } };
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        const json_t *list = json_object_get(doc, sets[i].name);
        for (size_t k = 0; k < json_array_size(list); k++) {
            enum err_kind kind = add(json_string_value(json_array_get(list, k)), sets[i].mask, err);
            if (kind)
                return kind;
        }
    }
    return ERR_OK;
}
