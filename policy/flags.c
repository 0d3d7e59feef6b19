/* Ready-to-paste options. They are checked by test against the rules they are for. */
#include <string.h>

#include "base/buf.h"
#include "policy/check.h"

static const char *const default_capabilities[] = {
    "CAP_CHOWN",   "CAP_DAC_OVERRIDE", "CAP_FSETID",           "CAP_FOWNER",
    "CAP_MKNOD",   "CAP_NET_RAW",      "CAP_SETGID",           "CAP_SETUID",
    "CAP_SETFCAP", "CAP_SETPCAP",      "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT",
    "CAP_KILL",    "CAP_AUDIT_WRITE",
};

static double cpus(const struct policy_config *config)
{
    return (double)config->max_cpu_milli / 1000;
}

static void nerdctl_flags(struct buf *out, const struct policy_config *config)
{
    buf_printf(out,
               "--runtime io.containerd.utter.v1\n--network none\n--read-only\n--cap-drop ALL\n"
               "--security-opt no-new-privileges\n--user 65532:65532\n"
               "--tmpfs /tmp:rw,noexec,nosuid,nodev,size=16m\n--pids-limit %lld\n--memory %lld\n"
               "--memory-swap %lld\n--cpus %g\n",
               (long long)config->max_pids, (long long)config->max_memory,
               (long long)config->max_memory, cpus(config));
}

static void ctr_flags(struct buf *out, const struct policy_config *config)
{
    buf_append_str(out, "--runtime io.containerd.utter.v1\n--read-only\n");
    for (size_t i = 0; i < ARRAY_LEN(default_capabilities); i++)
        buf_printf(out, "--cap-drop %s\n", default_capabilities[i]);
    buf_printf(out,
               "--user 65532:65532\n"
               "--mount type=tmpfs,src=tmpfs,dst=/tmp,options=noexec:nosuid:nodev:size=16m\n"
               "--memory-limit %lld\n--cpus %g\n",
               (long long)config->max_memory, cpus(config));
}

static void pod_flags(struct buf *out, const struct policy_config *config)
{
    buf_printf(out,
               "spec:\n"
               "  runtimeClassName: utter\n"
               "  automountServiceAccountToken: false\n"
               "  enableServiceLinks: false\n"
               "  containers:\n"
               "  - name: handler\n"
               "    securityContext:\n"
               "      allowPrivilegeEscalation: false\n"
               "      readOnlyRootFilesystem: true\n"
               "      runAsUser: 65532\n"
               "      runAsGroup: 65532\n"
               "      capabilities: {drop: [ALL]}\n"
               "      seccompProfile: {type: RuntimeDefault}\n"
               "    resources:\n"
               "      limits: {memory: \"%lld\", cpu: \"%g\"}\n"
               "      requests: {memory: \"%lld\", cpu: \"%g\"}\n",
               (long long)config->max_memory, cpus(config), (long long)config->max_memory,
               cpus(config));
}

char *policy_flags(enum policy_tool tool, const struct policy_config *config)
{
    struct buf out;
    buf_init(&out, 64 * 1024);
    switch (tool) {
    case POLICY_TOOL_NERDCTL:
        nerdctl_flags(&out, config);
        break;
    case POLICY_TOOL_CTR:
        ctr_flags(&out, config);
        break;
    case POLICY_TOOL_POD:
        pod_flags(&out, config);
        break;
    }
    char *text = xstrdup(buf_cstr(&out));
    buf_fini(&out);
    return text;
}
