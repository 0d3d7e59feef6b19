/* Hostile documents: for each rule at least one change of an accepted spec that trips that rule
 * alone, and for each change the exact list of rules. A rule without a change fails the test. */
#include <time.h>

#include "tests/policy/help.h"

#define N "nerdctl23-hardened-internal-net"
#define NONE "nerdctl23-hardened-network-none"
#define WORKLOAD "cri24-hardened"
#define PAUSE "cri24-pause"
#define PAUSE16 "cri16-pause"
#define ID "7fe14d6d4ed2c8d9a645affd7d9f36047756586a78bc6bca687acecdf805407f"
#define POD_DIR "/var/lib/kubelet/pods/11111111-2222-3333-4444-555555555555"
#define MOUNT(destination, type, source, options)                                                  \
    "{\"destination\":\"" destination "\",\"type\":\"" type "\",\"source\":\"" source              \
    "\",\"options\":[" options "]}"
#define TMPFS(destination, options) MOUNT(destination, "tmpfs", "tmpfs", options)
#define SAFE "\"noexec\",\"nosuid\",\"nodev\""
#define BIND(source, destination) MOUNT(destination, "bind", source, "\"rbind\",\"ro\"")
#define HOOK(args)                                                                                 \
    "[{\"path\":\"/usr/local/bin/nerdctl\",\"args\":[\"/usr/local/bin/nerdctl\"," args "]}]"
#define TAIL "\"internal\",\"oci-hook\",\"createRuntime\""

struct change {
    const char *rules; /* all that must be named, in order */
    const char *base;
    const char *edits[9]; /* pointer, value (NULL removes), … */
};

static const struct change changes[] = {
    /* form */
    { "schema", N, { "/process/bogus", "1" } },
    { "schema", N, { "/Process", "{}" } },
    { "schema", N, { "/mounts/3/uidMapping", "[]" } },
    { "schema", N, { "/linux/resources/cpu/shares", "1.5" } },
    { "schema cpu", N, { "/linux/resources/cpu/shares", "-1" } },
    { "schema", N, { "/process/user/additionalGids/0", "\"0\"" } },
    { "schema", N, { "/linux/hoo\xe2\x84\xaas", "{}" } }, /* KELVIN SIGN: Go folds it to k */
    { "field", N, { "/linux/personality", "{\"domain\":\"LINUX32\"}" } },
    { "field", N, { "/linux/timeOffsets", "{\"monotonic\":{\"secs\":1}}" } },
    { "field", N, { "/linux/intelRdt", "{\"closID\":\"x\"}" } },
    { "field", N, { "/linux/netDevices", "{\"eth0\":{}, \"x\":{\"name\":\"y\"}}" } },
    { "field", N, { "/linux/memoryPolicy", "{\"mode\":\"MPOL_BIND\"}" } },
    { "field", N, { "/linux/resources/blockIO", "{\"weight\":10}" } },
    { "field", N, { "/linux/resources/rdma", "{\"mlx\":{\"hcaHandles\":1}}" } },
    { "field", N, { "/linux/resources/network", "{\"classID\":1}" } },
    { "field", N, { "/linux/resources/memory/kernel", "1048576" } },
    { "field",
      N,
      { "/linux/resources/hugepageLimits", "[{\"pageSize\":\"2MB\",\"limit\":4096}]" } },
    { "field", N, { "/process/scheduler", "{\"policy\":\"SCHED_FIFO\",\"priority\":99}" } },
    { "field", N, { "/process/ioPriority", "{\"class\":\"IOPRIO_CLASS_RT\"}" } },
    { "field", N, { "/process/execCPUAffinity", "{\"initial\":\"0\"}" } },
    { "field", N, { "/process/commandLine", "\"cmd.exe\"" } },
    { "field", N, { "/process/user/username", "\"root\"" } },
    { "field", N, { "/vm", "{\"hypervisor\":{\"path\":\"/bin/sh\"}}" } },
    { "field", N, { "/windows", "{\"layerFolders\":[\"x\"]}" } },
    /* process */
    { "no-new-privileges", N, { "/process/noNewPrivileges", "false" } },
    { "no-new-privileges", N, { "/process/noNewPrivileges", NULL } },
    { "capabilities", N, { "/process/capabilities/bounding", "[\"CAP_CHOWN\"]" } },
    { "capabilities", N, { "/process/capabilities/effective", "[\"CAP_CHOWN\"]" } },
    { "capabilities", N, { "/process/capabilities/permitted", "[\"CAP_CHOWN\"]" } },
    { "capabilities", N, { "/process/capabilities/inheritable", "[\"CAP_CHOWN\"]" } },
    { "capabilities", N, { "/process/capabilities/ambient", "[\"CAP_NET_BIND_SERVICE\"]" } },
    { "capabilities", PAUSE, { "/process/capabilities/bounding/-", "\"CAP_SYS_ADMIN\"" } },
    { "capabilities", PAUSE, { "/process/capabilities/ambient", "[\"CAP_CHOWN\"]" } },
    { "user", N, { "/process/user/uid", "4294967295" } },
    { "user", N, { "/process/user/gid", "8589934592" } },
    { "user", N, { "/process/user/additionalGids/-", "4294967295" } },
    { "user", N, { "/process/user/umask", "4096" } },
    { "args", N, { "/process/args", "[]" } },
    { "args", N, { "/process/args", NULL } },
    { "args", N, { "/process/args/0", "\"\"" } },
    { "cwd", N, { "/process/cwd", "\"tmp\"" } },
    { "cwd", N, { "/process/cwd", "\"/a/../b\"" } },
    { "cwd", N, { "/process/cwd", NULL } },
    { "terminal", N, { "/process/consoleSize", "{\"height\":70000,\"width\":1}" } },
    { "rlimits", N, { "/process/rlimits", "[{\"type\":\"RLIMIT_X\",\"soft\":1,\"hard\":1}]" } },
    { "rlimits", N, { "/process/rlimits", "[{\"type\":\"RLIMIT_AS\",\"soft\":2,\"hard\":1}]" } },
    { "rlimits",
      N,
      { "/process/rlimits",
        "[{\"type\":\"RLIMIT_AS\",\"soft\":18446744073709551615,\"hard\":1}]" } },
    /* unlimited is said of rlimits alone, and in that one way */
    { "schema", N, { "/process/user/uid", "18446744073709551615" } },
    { "schema rlimits",
      N,
      { "/process/rlimits", "[{\"type\":\"RLIMIT_AS\",\"soft\":1,\"hard\":1.5}]" } },
    { "rlimits",
      N,
      { "/process/rlimits", "[{\"type\":\"RLIMIT_AS\",\"soft\":1,\"hard\":1},"
                            "{\"type\":\"RLIMIT_AS\",\"soft\":9,\"hard\":9}]" } },
    { "rlimits",
      WORKLOAD,
      { "/process/rlimits", "[{\"type\":\"RLIMIT_AS\",\"soft\":1,\"hard\":1}]" } },
    { "hostname", N, { "/hostname", "\"a b\"" } },
    { "hostname", N, { "/domainname", "\"a\\nb\"" } },
    { "selinux", N, { "/process/selinuxLabel", "\"system_u:system_r:svirt_lxc_net_t:s0\"" } },
    { "selinux", N, { "/linux/mountLabel", "\"x\"" } },
    /* environment */
    { "env-form", N, { "/process/env/-", "\"X\"" } },
    { "env-form", N, { "/process/env/-", "\"=x\"" } },
    { "env-form", N, { "/process/env/-", "\"A B=x\"" } },
    { "env-form", N, { "/process/env/-", "\"PATH=/tmp\"" } },
    { "env-name", N, { "/process/env/-", "\"FOO=1\"" } },
    { "env-name", N, { "/process/env/-", "\"LD_PRELOAD=/tmp/x.so\"" } },
    { "env-name", N, { "/process/env/-", "\"path=/tmp\"" } },
    { "env-name", N, { "/process/env/-", "\"KUBERNETES_SERVICE_HOST=10.0.0.1\"" } },
    { "env-value", N, { "/process/env/-", "\"GPG_KEY=0123\"" } },
    { "env-value", N, { "/process/env/0", "\"PATH=.:/bin\"" } },
    { "env-value", N, { "/process/env/0", "\"PATH=\"" } },
    { "env-value", WORKLOAD, { "/process/env/-", "\"WEB_SERVICE_HOST=evil.example\"" } },
    { "env-value", WORKLOAD, { "/process/env/-", "\"WEB_PORT_80_TCP_PROTO=hunter2\"" } },
    { "env-secret",
      N,
      { "/process/env/-", "\"PYTHON_VERSION=eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0NTY3ODkw.abc\"" } },
    { "env-secret", N, { "/process/env/-", "\"HOME=/AKIAIOSFODNN7EXAMPLE\"" } },
    { "env-secret", N, { "/process/env/-", "\"GOPATH=-----BEGIN PRIVATE KEY-----\"" } },
    { "env-secret", N, { "/process/env/-", "\"RUBY_DOWNLOAD_URL=https://a:b@c.example/x\"" } },
    /* namespaces and network */
    { "namespace", N, { "/linux/namespaces/0", NULL } },
    { "namespace", N, { "/linux/namespaces/1", NULL } },
    { "namespace", N, { "/linux/namespaces/2", NULL } },
    { "namespace", N, { "/linux/namespaces/3", NULL } },
    { "namespace", N, { "/linux/namespaces/1/path", "\"/proc/1/ns/ipc\"" } },
    { "namespace", N, { "/linux/namespaces/0/path", "\"/proc/1/ns/pid\"" } },
    { "namespace", N, { "/linux/namespaces/-", "{\"type\":\"ipc\"}" } },
    { "namespace", N, { "/linux/namespaces/-", "{\"type\":\"time\"}" } },
    { "namespace", WORKLOAD, { "/linux/namespaces/0/path", "\"/proc/13434/ns/pid\"" } },
    { "namespace", WORKLOAD, { "/linux/namespaces/1/path", "\"/proc/1/ns/ipc\"" } },
    { "namespace", WORKLOAD, { "/linux/namespaces/1/path", "\"/proc/13434/ns/uts\"" } },
    { "namespace", WORKLOAD, { "/linux/namespaces/1/path", "\"/proc/13434/ns/../ns/ipc\"" } },
    { "user-namespace",
      N,
      { "/linux/uidMappings", "[{\"containerID\":0,\"hostID\":0,\"size\":1}]" } },
    { "user-namespace", N, { "/linux/namespaces/-", "{\"type\":\"user\"}" } },
    { "user-namespace",
      N,
      { "/mounts/3/uidMappings", "[{\"containerID\":0,\"hostID\":0,\"size\":1}]" } },
    { "network", N, { "/linux/namespaces/4", NULL } },
    { "network", N, { "/linux/namespaces/4/path", "\"/proc/1/ns/net\"" } },
    { "network", N, { "/linux/namespaces/4/path", "\"/run/utter/netns/../../../proc/1/ns/net\"" } },
    { "network", N, { "/linux/namespaces/4/path", "\"/run/utter/netns/\"" } },
    { "network", N, { "/linux/namespaces/4/path", "\"/var/run/netns/cni-1\"" } },
    { "network", N, { "/annotations/nerdctl~1networks", "\"[\\\"host\\\"]\"" } },
    { "network", N, { "/annotations/io.utter.network", "\"open\"" } },
    { "network", NONE, { "/annotations/io.utter.network", "\"internal\"" } },
    { "network", NONE, { "/annotations/io.utter.address", "\"10.1.1.2/24\"" } },
    { "network", N, { "/annotations/io.utter.address", "\"10.1.1.2\"" } },
    { "network", PAUSE, { "/linux/namespaces/4/path", "\"/proc/1/ns/net\"" } },
    { "network", PAUSE, { "/linux/namespaces/4/path", NULL } },
    { "network", PAUSE, { "/linux/namespaces/4/path", "\"/var/run/netns/cni-x/../../1\"" } },
    { "network", WORKLOAD, { "/linux/namespaces/4/path", "\"/proc/1/ns/net\"" } },
    { "network", WORKLOAD, { "/linux/namespaces/4/path", NULL } },
    /* root */
    { "root-path", N, { "/root/path", "\"/\"" } },
    { "root-path", N, { "/root/path", "\"rootfs/../../..\"" } },
    { "root-path", N, { "/root/path", NULL } },
    { "root-readonly", N, { "/root/readonly", "false" } },
    { "root-readonly", N, { "/root/readonly", NULL } },
    /* mounts */
    { "mount-type", N, { "/mounts/-", MOUNT("/x", "ext4", "/dev/sda1", "\"ro\"") } },
    { "mount-type", N, { "/mounts/-", MOUNT("/x", "overlay", "overlay", "\"ro\"") } },
    { "mount-type bind-source", N, { "/mounts/-", TMPFS("/x", "\"bind\"," SAFE ",\"ro\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/proc/x", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/sys/fs", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/dev/null", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/a/../b", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("b", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/tmp", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", TMPFS("/etc/hosts/x", SAFE ",\"size=1m\"") } },
    { "mount-destination", N, { "/mounts/-", MOUNT("/p", "proc", "proc", SAFE) } },
    { "mount-destination",
      N,
      { "/mounts/3/destination", "\"/x/tmp\"", "/mounts/-", TMPFS("/x", SAFE ",\"size=1m\"") } },
    { "mount-options", N, { "/mounts/3/options/-", "\"huge=always\"" } },
    { "mount-options", N, { "/mounts/3/options/-", "\"idmap\"" } },
    { "mount-options", N, { "/mounts/8/options/-", "\"rshared\"" } },
    { "mount-options", N, { "/mounts/0/options/-", "\"hidepid=0\"" } },
    { "mount-options", N, { "/mounts/3/options/-", "\"mode=1777,size=9g\"" } },
    { "mount-options", N, { "/mounts/3/options/-", "\"uid=0,size=9g\"" } },
    { "mount-options", N, { "/mounts/3/options/-", "\"mode=\"" } },
    { "mount-options", N, { "/mounts/3/options/-", "\"rw,exec\"" } },
    { "mount-options", N, { "/mounts/1/options/2", "\"mode=1777\"" } },
    { "mount-options", N, { "/mounts/1/options/-", "\"uid=1000\"" } },
    { "mount-options", N, { "/linux/rootfsPropagation", "\"rshared\"" } },
    { "mount-readonly", N, { "/mounts/2/options/3", "\"rw\"" } },
    { "mount-readonly", N, { "/mounts/2/options/-", "\"rw\"" } },
    { "mount-readonly", N, { "/mounts/7/options", "[\"nosuid\"]" } },
    { "tmpfs-options", N, { "/mounts/3/options/1", "\"rw\"" } },
    { "tmpfs-options", N, { "/mounts/3/options/-", "\"exec\"" } },
    { "tmpfs-options", N, { "/mounts/5/options/-", "\"exec\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/4", NULL } },
    { "tmpfs-size", N, { "/mounts/3/options/4", "\"size=50%\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/4", "\"size=0\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/4", "\"size=4095\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/4", "\"size=9999999999999999g\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/-", "\"size=1m\"" } },
    { "tmpfs-size", N, { "/mounts/3/options/4", "\"size=257m\"" } },
    { "bind-source", N, { "/mounts/-", BIND("/srv/data", "/data") } },
    { "bind-source", N, { "/mounts/-", BIND("/", "/host") } },
    { "bind-source",
      N,
      { "/mounts/-", BIND("/run/containerd/containerd.sock", "/run/containerd.sock") } },
    { "bind-source", N, { "/mounts/-", MOUNT("/data", "none", "/srv/data", "\"rbind\"") } },
    { "bind-source", N, { "/mounts/-", BIND("/srv/listed/../../etc", "/data") } },
    { "bind-source", N, { "/mounts/-", BIND("/srv/listedx", "/data") } },
    { "bind-source",
      WORKLOAD,
      { "/mounts/-",
        BIND("/var/lib/kubelet/pods/another/volumes/kubernetes.io~empty-dir/x", "/data") } },
    { "bind-source",
      WORKLOAD,
      { "/mounts/-", BIND(POD_DIR "/volumes/kubernetes.io~empty-dir/../../x", "/data") } },
    { "bind-source", WORKLOAD, { "/mounts/-", BIND(POD_DIR "/containers/app/0", "/data") } },
    { "tool-file", N, { "/mounts/9/source", "\"/etc/shadow\"" } },
    { "tool-file",
      N,
      { "/mounts/9/source", "\"/var/lib/nerdctl/7c619e09/etchosts/nd/other/hosts\"" } },
    { "tool-file",
      N,
      { "/mounts/9/source", "\"/var/lib/nerdctl/7c619e09/../etchosts/nd/" ID "/hosts\"" } },
    { "tool-file",
      N,
      { "/mounts/8/source",
        "\"/var/lib/nerdctl/7c619e09/containers/nd/" ID "/log-config.json\"" } },
    { "tool-file", WORKLOAD, { "/mounts/7/source", "\"/etc/hosts\"" } },
    { "service-account",
      WORKLOAD,
      { "/mounts/-", BIND(POD_DIR "/volumes/kubernetes.io~projected/kube-api-access-x",
                          "/var/run/secrets/kubernetes.io/serviceaccount") } },
    { "masked-paths", N, { "/linux/maskedPaths/-", "\"/etc\"" } },
    { "masked-paths", N, { "/linux/readonlyPaths/-", "\"/proc/../data\"" } },
    /* limits */
    { "memory", N, { "/linux/resources/memory/limit", NULL } },
    { "memory", N, { "/linux/resources/memory/limit", "-1" } },
    { "memory", N, { "/linux/resources/memory/limit", "33554431" } },
    { "memory", N, { "/linux/resources/memory/limit", "268435457" } },
    { "memory", N, { "/linux/resources/memory/disableOOMKiller", "true" } },
    { "memory", PAUSE, { "/annotations/io.kubernetes.cri.sandbox-memory", "\"0\"" } },
    { "memory", PAUSE, { "/annotations/io.kubernetes.cri.sandbox-memory", "\"1073741824\"" } },
    { "cpu", N, { "/linux/resources/cpu/quota", NULL } },
    { "cpu", N, { "/linux/resources/cpu/quota", "-1" } },
    { "cpu", N, { "/linux/resources/cpu/quota", "9999" } },
    { "cpu", N, { "/linux/resources/cpu/quota", "50001" } },
    { "cpu", N, { "/linux/resources/cpu/quota", "9223372036854775807" } },
    { "cpu", N, { "/linux/resources/cpu/period", "1000", "/linux/resources/cpu/quota", "500" } },
    { "cpu", N, { "/linux/resources/cpu/period", "999" } },
    { "cpu", N, { "/linux/resources/cpu/period", "9223372036854775807" } },
    { "cpu", N, { "/linux/resources/cpu/burst", "100000" } },
    { "cpu", N, { "/linux/resources/cpu/realtimeRuntime", "1" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"0\\n1\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"0\\n\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"0-\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"3-1\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"0,,1\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"0-8192\"" } },
    { "cpuset", N, { "/linux/resources/cpu/cpus", "\"99999999999999999999\"" } },
    { "cpuset", N, { "/linux/resources/cpu/mems", "\"all\"" } },
    { "cpu", N, { "/linux/resources/cpu/shares", "1" } },
    { "cpu", PAUSE, { "/annotations/io.kubernetes.cri.sandbox-cpu-quota", "\"-1\"" } },
    { "pids", N, { "/linux/resources/pids/limit", "0" } },
    { "pids", N, { "/linux/resources/pids/limit", "-1" } },
    { "pids", N, { "/linux/resources/pids/limit", "7" } },
    { "pids", N, { "/linux/resources/pids/limit", "257" } },
    { "unified", N, { "/linux/resources/unified", "{\"memory.max\":\"max\"}" } },
    { "unified", N, { "/linux/resources/unified", "{\"memory.swap.max\":\"1\"}" } },
    { "unified", N, { "/linux/resources/unified", "{\"../x\":\"1\"}" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"/other/" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"/nd/other\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"/nd/../x/" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"nd/" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"/nd/a\\nb/" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"/" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", NULL } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"kubepods.slice:x:" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"system.slice:../x:" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"system.slice:session:" ID "\"" } },
    { "cgroups-path", N, { "/linux/cgroupsPath", "\"system.slice:nerdctl:" ID ":x\"" } },
    { "devices",
      N,
      { "/linux/devices", "[{\"path\":\"/dev/nvidia0\",\"type\":\"c\",\"major\":195,"
                          "\"minor\":0}]" } },
    { "devices", N, { "/linux/resources/devices/0", "{\"allow\":true,\"access\":\"rwm\"}" } },
    { "devices",
      N,
      { "/linux/resources/devices/-",
        "{\"allow\":true,\"type\":\"b\",\"major\":8,\"minor\":0,\"access\":\"rwm\"}" } },
    { "sysctl", N, { "/linux/sysctl/kernel.core_pattern", "\"|/tmp/x\"" } },
    { "sysctl", N, { "/linux/sysctl/net.ipv4.ip_unprivileged_port_start", "\"1\"" } },
    { "seccomp", N, { "/linux/seccomp/listenerPath", "\"/run/x.sock\"" } },
    { "seccomp",
      N,
      { "/linux/seccomp/syscalls/-",
        "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":9,"
        "\"value\":0,\"op\":\"SCMP_CMP_EQ\"}]}" } },
    { "seccomp",
      N,
      { "/linux/seccomp/syscalls/-",
        "{\"names\":[\"read\"],\"action\":\"SCMP_ACT_ALLOW\",\"args\":[{\"index\":0,"
        "\"value\":0,\"op\":\"x\"}]}" } },
    /* hooks and annotations */
    { "hooks", N, { "/hooks/prestart", "[{\"path\":\"/bin/sh\"}]" } },
    { "hooks", N, { "/hooks/createContainer", "[{\"path\":\"/bin/sh\"}]" } },
    { "hooks", N, { "/hooks/startContainer", "[{\"path\":\"/bin/sh\"}]" } },
    { "hooks", N, { "/hooks/poststart", "[{\"path\":\"/bin/sh\"}]" } },
    { "hooks", N, { "/hooks/createRuntime/-", "{\"path\":\"/bin/sh\"}" } },
    { "hooks", N, { "/hooks/createRuntime/0/path", "\"/tmp/nerdctl\"" } },
    { "hooks", N, { "/hooks/createRuntime/0/args/0", "\"/tmp/nerdctl\"" } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--cni-path=/tmp/evil\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--cni-path\",\"/tmp/evil\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--data-root=/tmp\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"-H=/tmp/x.sock\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--H=/tmp/x.sock\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--namespace=other\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--cgroup-manager=none\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"--bridge-ip=10.0.0.1\"," TAIL) } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"run\",\"x\"") } },
    { "hooks", N, { "/hooks/createRuntime", HOOK("\"internal\",\"oci-hook\",\"postStop\"") } },
    { "hooks", N, { "/hooks/poststop", HOOK("\"internal\",\"oci-hook\",\"poststop\"") } },
    { "hooks", N, { "/annotations/nerdctl~1state-dir", NULL } },
    { "hooks", WORKLOAD, { "/hooks", "{\"createRuntime\":" HOOK(TAIL) "}" } },
    { "nerdctl", N, { "/annotations/nerdctl~1pid-file", "\"/etc/cron.d/x\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1network-namespace", "\"/proc/1/ns/net\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1ports", "\"[]\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1privileged", "\"true\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1state-dir", "\"/etc\"" } },
    { "nerdctl",
      N,
      { "/annotations/nerdctl~1state-dir",
        "\"/var/lib/nerdctl/7c619e09/containers/nd/" ID "/../x\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1networks", "\"[\\\"container:abc\\\"]\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1networks", "\"[\\\"../x\\\"]\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1networks", "\"{}\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1name", "\"../../x\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1hostname", "\"a\\nb\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1ip", "\"10.0.0.1;x\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1mac-address", "\"x\"" } },
    { "nerdctl", N, { "/annotations/nerdctl~1extraHosts", "\"[\\\"a:1.1.1.1\\\\nb\\\"]\"" } },
    { "annotations", N, { "/annotations/dev.gvisor.flag.host-uds", "\"all\"" } },
    { "annotations",
      N,
      { "/annotations/dev.gvisor.bundle.experimental-high-performance", "\"true\"" } },
    { "annotations", N, { "/annotations/io.kubernetes.cri-o.Volumes", "\"[]\"" } },
    { "annotations", N, { "/annotations/io.containerd.runc.v2.group", "\"x\"" } },
    { "annotations", N, { "/annotations/io.katacontainers.config", "\"x\"" } },
    { "annotations", N, { "/annotations/io.utter.timeout2", "\"x\"" } },
    { "annotations",
      WORKLOAD,
      { "/annotations/dev.gvisor.internal.seccomp.app", "\"RuntimeDefault\"" } },
    { "timeout", N, { "/annotations/io.utter.timeout", "\"0\"" } },
    { "timeout", N, { "/annotations/io.utter.timeout", "\"1s\"" } },
    { "timeout", N, { "/annotations/io.utter.timeout", "\"604801\"" } },
    { "timeout", N, { "/annotations/io.utter.timeout", "\"\"" } },
    { "timeout", N, { "/annotations/io.utter.timeout", "\"18446744073709551617\"" } },
    { "disk-quota", N, { "/annotations/io.utter.disk-quota", "\"1m\"" } },
    { "disk-quota", N, { "/annotations/io.utter.disk-quota", "\"1048576\"" } },
    { "disk-quota", N, { "/annotations/io.utter.disk-quota", "\"9999999999\"" } },
    { "disk-quota",
      WORKLOAD,
      { "/annotations/io.utter.disk-quota", "\"33554432\"", "/mounts/-",
        MOUNT("/data", "bind", POD_DIR "/volumes/kubernetes.io~empty-dir/data", "\"rbind\"") } },
    /* pods */
    { "pod", N, { "/annotations/io.kubernetes.cri.sandbox-id", "\"x\"" } },
    { "pod", N, { "/annotations/io.kubernetes.cri.container-type", "\"sandbox\"" } },
    { "bind-source tool-file pod pause",
      PAUSE,
      { "/annotations/io.kubernetes.cri.sandbox-id", "\"abc\"" } },
    { "pause", PAUSE, { "/process/args", "[\"/bin/sh\"]" } },
    { "pause", PAUSE, { "/process/args/-", "\"-x\"" } },
    { "pause", PAUSE, { "/annotations/io.kubernetes.cri.sandbox-log-directory", NULL } },
    { "pause", PAUSE, { "/process/terminal", "true" } },
    { "pause", PAUSE, { "/mounts/-", TMPFS("/x", SAFE ",\"size=1m\"") } },
    { "pause", PAUSE16, { "/mounts/-", TMPFS("/x", SAFE ",\"size=1m\"") } },
    { "root-readonly", PAUSE, { "/root/readonly", NULL } },
    { "no-new-privileges", PAUSE, { "/process/noNewPrivileges", NULL } },
    { "mount-destination",
      PAUSE16,
      { "/mounts/3", MOUNT("/dev/shm", "bind",
                           "/run/containerd/io.containerd.grpc.v1.cri/sandboxes/"
                           "16f3095ef5a3592306f637100562a0dff7eb98554b45d3cd9f25f8751d506598/shm",
                           "\"rbind\",\"ro\"") } },
};

static struct policy_config *config;

static json_t *changed(const struct change *change)
{
    json_t *spec = load_spec(change->base);
    for (size_t i = 0; change->edits[i]; i += 2)
        set_at(spec, change->edits[i], change->edits[i + 1]);
    return spec;
}

/* Who the container is comes from the accepted spec, as the shim has it from the request. */
static void context_of(const char *base, struct policy_context *context, struct policy_guess *guess)
{
    json_t *spec CLEANUP_JSON = load_spec(base);
    *context = (struct policy_context){ 0 };
    policy_context_guess(spec, context, guess);
    (void)snprintf(guess->ns, sizeof(guess->ns), "%s", context->ns);
    context->ns = guess->ns;
}

static void test_bases_are_accepted(void **state)
{
    (void)state;
    static const char *const bases[] = { N, NONE, WORKLOAD, PAUSE, PAUSE16, "cri16-hardened" };
    for (size_t i = 0; i < ARRAY_LEN(bases); i++) {
        struct change base = { "", bases[i], { NULL } };
        json_t *spec CLEANUP_JSON = changed(&base);
        struct policy_context context;
        struct policy_guess guess;
        struct policy_report report;
        context_of(bases[i], &context, &guess);
        policy_report_init(&report);
        policy_check(spec, &context, config, &report);
        expect_rules(&report, "", bases[i]);
        policy_report_fini(&report);
    }
}

static void test_changes(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        json_t *spec CLEANUP_JSON = changed(&changes[i]);
        struct policy_context context;
        struct policy_guess guess;
        struct policy_report report;
        context_of(changes[i].base, &context, &guess);
        policy_report_init(&report);
        policy_check(spec, &context, config, &report);
        char *name CLEANUP_FREE = xasprintf("%s = %s", changes[i].edits[0],
                                            changes[i].edits[1] ? changes[i].edits[1] : "");
        wrong += differs(&report, changes[i].rules, name);
        policy_report_fini(&report);
    }
    assert_int_equal(wrong, 0);
}

/* Every change that rules can mend ends in a spec that passes, and the mended spec is one that
 * mending leaves alone. */
static void test_nearest_passes(void **state)
{
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        static const char *const beyond[] = { "args", "pause", "pod" };
        bool mendable = true;
        for (size_t k = 0; k < ARRAY_LEN(beyond); k++)
            mendable &= strcmp(beyond[k], changes[i].rules) != 0;
        json_t *spec CLEANUP_JSON = changed(&changes[i]);
        struct policy_context context;
        struct policy_guess guess;
        struct policy_report report;
        struct policy_changes list;
        context_of(changes[i].base, &context, &guess);
        if (!mendable || context.role != POLICY_ROLE_SINGLE)
            continue;
        policy_report_init(&report);
        policy_changes_init(&list);
        json_t *nearest CLEANUP_JSON = policy_nearest(spec, &context, config, &list);
        policy_check(nearest, &context, config, &report);
        wrong += differs(&report, "", changes[i].edits[0]);
        wrong += list.n == 0;
        policy_changes_fini(&list);
        json_t *again CLEANUP_JSON = policy_nearest(nearest, &context, config, &list);
        assert_true(json_equal(again, nearest));
        assert_int_equal(list.n, 0);
        policy_report_fini(&report);
        policy_changes_fini(&list);
    }
    assert_int_equal(wrong, 0);
}

static void test_captured_specs_can_be_mended(void **state)
{
    (void)state;
    static const char *const specs[] = { "ctr16-plain",     "ctr16-privileged-nethost",
                                         "nerdctl23-plain", "nerdctl23-privileged",
                                         "ctr24-plain",     "nerdctl23-volume-env-port",
                                         "cri16-plain",     "nerdctl23-network-none" };
    for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
        json_t *spec CLEANUP_JSON = load_spec(specs[i]);
        struct policy_context context = { 0 };
        struct policy_report report;
        struct policy_changes list;
        policy_report_init(&report);
        policy_changes_init(&list);
        json_t *nearest CLEANUP_JSON = policy_nearest(spec, &context, config, &list);
        policy_check(nearest, &context, config, &report);
        expect_rules(&report, "", specs[i]);
        policy_report_fini(&report);
        policy_changes_fini(&list);
    }
}

/* A document of a mebibyte is judged in a moment, however many members it has of whatever kind. */
static void test_large_documents(void **state)
{
    (void)state;
    static const struct {
        const char *array, *item;
        size_t n;
    } cases[] = {
        { "/mounts", BIND("/srv/x", "/y"), 12000 },
        { "/process/env", "\"FOO_BAR=1\"", 60000 },
        { "/process/env", "\"=1\"", 120000 },
        { "/linux/namespaces", "{\"type\":\"pid\"}", 40000 },
        { "/process/rlimits", "{\"type\":\"RLIMIT_AS\",\"soft\":1,\"hard\":1}", 15000 },
        { "/linux/resources/devices", "{\"allow\":true}", 50000 },
        { "/process/user/additionalGids", "4294967295", 90000 },
        { "/hooks/createRuntime/0/args", "\"x\"", 200000 },
        { "/linux/maskedPaths", "\"/etc\"", 100000 },
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *spec CLEANUP_JSON = load_spec(N);
        json_t *item CLEANUP_JSON = parse(cases[i].item), *array = json_array();
        struct policy_context context = { .ns = "nd", .id = ID };
        struct policy_report report;
        struct timespec began, ended;
        for (size_t k = 0; k < cases[i].n; k++)
            json_array_append(array, item);
        set_at(spec, cases[i].array, "[]");
        json_array_extend(json_at(spec, cases[i].array), array);
        json_decref(array);
        policy_report_init(&report);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
        policy_check(spec, &context, config, &report);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
        assert_true(report.n > 0 && report.n <= 200);
        double spent =
            (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9;
        if (spent > 1)
            fail_msg("%zu of %s took %.1f s", cases[i].n, cases[i].array, spent);
        policy_report_fini(&report);
    }
}

/* Rules whose documents are not specs have their changes in test_json, test_rootfs, test_exec,
 * test_update, test_stdio and test_pod. */
static void test_every_rule_has_a_change(void **state)
{
    (void)state;
    static const char *const elsewhere[] = {
        "json",  "exec-user", "update",         "rootfs-type",
        "stdio", "pod-uids",  "rootfs-options", "rootfs-source"
    };
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    for (size_t i = 0; i < n; i++) {
        bool found = false;
        for (size_t k = 0; k < ARRAY_LEN(changes); k++)
            found |= strcmp(changes[k].rules, rules[i].id) == 0;
        for (size_t k = 0; k < ARRAY_LEN(elsewhere); k++)
            found |= strcmp(elsewhere[k], rules[i].id) == 0;
        if (!found)
            fail_msg("rule %s has no hostile document", rules[i].id);
    }
}

static void test_table_is_whole(void **state)
{
    (void)state;
    size_t n;
    const struct policy_rule *rules = policy_rules(&n);
    for (size_t i = 0; i < n; i++) {
        assert_non_null(rules[i].id);
        assert_non_null(rules[i].at);
        assert_true(rules[i].required[0] && rules[i].why[0] && rules[i].surfaces);
        for (int tool = POLICY_TOOL_CTR; tool <= POLICY_TOOL_POD; tool++)
            assert_true(policy_rule_fix(&rules[i], (enum policy_tool)tool)[0] != 0);
        assert_ptr_equal(policy_rule_find(rules[i].id), &rules[i]);
    }
}

static int set_up(void **state)
{
    (void)state;
    config = policy_config_new_default();
    config->binds = xcalloc(1, sizeof(*config->binds));
    config->binds[config->n_binds++] =
        (struct policy_bind_entry){ .source = xstrdup("/srv/listed") };
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_config_free(config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bases_are_accepted),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_nearest_passes),
        cmocka_unit_test(test_captured_specs_can_be_mended),
        cmocka_unit_test(test_every_rule_has_a_change),
        cmocka_unit_test(test_table_is_whole),
        cmocka_unit_test(test_large_documents),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
