/*
 * The table of rules: the one place that says what a container must be. The shim, utter-policy and
 * the generated Kubernetes admission policy all read it. Checks stand in rules_*.c by topic.
 *
 * CEL expressions speak of `object`, a Pod, and of `variables.containers`, all of its containers
 * (containers, initContainers and ephemeralContainers in one list).
 */
#include <string.h>

#include "policy/check.h"

#define CREATE POLICY_ON_CREATE
#define ROOTFS POLICY_ON_ROOTFS
#define EXEC POLICY_ON_EXEC
#define UPDATE POLICY_ON_UPDATE
#define STDIO POLICY_ON_STDIO
#define HOST POLICY_ON_HOST

#define FIX_ALL(text) .fix_nerdctl = text, .fix_ctr = text, .fix_pod = text
#define OPERATOR(key) "have the operator add it to \"" key "\" in /etc/utter/policy.json"

static const struct policy_rule rules[] = {
    {
        .id = "json",
        .at = "",
        .required =
            "Strict JSON of at most 1 MiB: UTF-8, no key twice (whatever its letter case), 64 "
            "levels, nothing after it.",
        .why =
            "Go takes the last of two keys and any letter case; what was checked must be what is "
            "read.",
        FIX_ALL("write it as strict JSON"),
        .surfaces = CREATE | EXEC | UPDATE,
        .check = NULL,
    },
    {
        .id = "schema",
        .at = "/",
        .required = "Only fields of the OCI runtime specification 1.3.0, each of its type.",
        .why =
            "runsc ignores what it does not know and matches keys in any letter case: a document "
            "that two readers read differently says nothing.",
        FIX_ALL("remove the field or correct its type"),
        .surfaces = CREATE | EXEC | UPDATE,
        .check = check_schema,
    },
    {
        .id = "field",
        .at = "/",
        .required = "Fields that a hardened container has no use for are absent or empty.",
        .why = "Each is a switch of the host's kernel or of another runtime, never of the guest.",
        FIX_ALL("leave it out"),
        .surfaces = CREATE | EXEC | UPDATE,
        .check = check_field,
    },
    {
        .id = "no-new-privileges",
        .at = "/process/noNewPrivileges",
        .required = "noNewPrivileges is true.",
        .why = "Without it a setuid program in the image gives back what was taken away.",
        .fix_nerdctl = "--security-opt no-new-privileges",
        .fix_ctr = "leave out --allow-new-privs",
        .fix_pod = "securityContext.allowPrivilegeEscalation: false",
        .cel = "variables.containers.all(c, has(c.securityContext) && "
               "has(c.securityContext.allowPrivilegeEscalation) && "
               "!c.securityContext.allowPrivilegeEscalation)",
        .surfaces = CREATE | EXEC,
        .check = check_no_new_privileges,
    },
    {
        .id = "capabilities",
        .at = "/process/capabilities",
        .required = "All five capability sets are empty.",
        .why = "A capability lifts limits inside the guest (SYS_RESOURCE: the process count) and "
               "widens what of the Sentry can be reached.",
        .fix_nerdctl = "--cap-drop ALL and no --cap-add, no --privileged",
        .fix_ctr = "--cap-drop each of them, no --cap-add, no --privileged",
        .fix_pod = "securityContext.capabilities.drop: [ALL]",
        .cel = "variables.containers.all(c, has(c.securityContext) && "
               "(!has(c.securityContext.privileged) || !c.securityContext.privileged) && "
               "has(c.securityContext.capabilities) && has(c.securityContext.capabilities.drop) && "
               "c.securityContext.capabilities.drop.exists(d, d == 'ALL') && "
               "(!has(c.securityContext.capabilities.add) || "
               "c.securityContext.capabilities.add.size() == 0))",
        .surfaces = CREATE | EXEC,
        .check = check_capabilities,
    },
    {
        .id = "user",
        .at = "/process/user",
        .required = "User and group ids are ids, at most 64 further groups.",
        .why = "4294967295 is the kernel's word for no id at all.",
        FIX_ALL("--user UID:GID"),
        .surfaces = CREATE | EXEC,
        .check = check_user,
    },
    {
        .id = "exec-user",
        .at = "/user",
        .required = "An exec runs as the uid and gid of its container, its groups among the "
                    "container's.",
        .why = "The process limit counts per uid: a second uid doubles what the guest may hold.",
        FIX_ALL("run the exec without -u"),
        .surfaces = EXEC,
        .check = check_exec_user,
    },
    {
        .id = "args",
        .at = "/process/args",
        .required = "A program to run, at most 1024 arguments of 128 KiB.",
        .why = "An empty command is the caller's mistake, a huge one an attack on the readers.",
        FIX_ALL("name the program to run"),
        .surfaces = CREATE | EXEC,
        .check = check_args,
    },
    {
        .id = "cwd",
        .at = "/process/cwd",
        .required = "cwd is an absolute path without . and .. in it.",
        .why = "A relative one is resolved wherever the runtime happens to stand.",
        FIX_ALL("--workdir /absolute/path"),
        .surfaces = CREATE | EXEC,
        .check = check_cwd,
    },
    {
        .id = "terminal",
        .at = "/process/consoleSize",
        .required = "A console has at most 65535 rows and columns.",
        .why = "More does not fit the kernel's struct and would be cut.",
        FIX_ALL("leave out consoleSize"),
        .surfaces = CREATE | EXEC,
        .check = check_terminal,
    },
    {
        .id = "rlimits",
        .at = "/process/rlimits",
        .required = "Known limits, each once, soft at most hard; in a pod only those that Utter "
                    "sets itself.",
        .why = "runsc keeps one set per sandbox: the last container's would hold for all of them. "
               "NPROC, NOFILE and CORE are always replaced.",
        FIX_ALL("leave out --ulimit"),
        .surfaces = CREATE | EXEC,
        .check = check_rlimits,
    },
    {
        .id = "hostname",
        .at = "/hostname",
        .required = "hostname and domainname are host names.",
        .why = "They go into files and logs on the host.",
        FIX_ALL("--hostname NAME"),
        .surfaces = CREATE,
        .check = check_hostname,
    },
    {
        .id = "env-form",
        .at = "/process/env",
        .required = "Each entry is NAME=value, each name is there once, at most 512 of 128 KiB.",
        .why = "Which of two equal names a program sees differs: what was checked must be what is "
               "used.",
        FIX_ALL("set each variable once, as NAME=value"),
        .surfaces = CREATE | EXEC,
        .check = check_env_form,
    },
    {
        .id = "env-name",
        .at = "/process/env",
        .required =
            "Only names that official images and the tools set, or that the operator lists.",
        .why = "A secret in the environment is the handler's to send away; names are the only sign "
               "of one that is always there.",
        .fix_nerdctl = "leave out -e, or " OPERATOR("env"),
        .fix_ctr = "leave out --env, or " OPERATOR("env"),
        .fix_pod = "leave out env, set enableServiceLinks: false, or " OPERATOR("env"),
        .surfaces = CREATE | EXEC,
        .check = check_env_name,
    },
    {
        .id = "env-value",
        .at = "/process/env",
        .required = "A default name's value has the form that the image or tool gives it.",
        .why = "An allowed name is no place to carry something else in.",
        FIX_ALL("leave the variable as the image sets it"),
        .surfaces = CREATE | EXEC,
        .check = check_env_value,
    },
    {
        .id = "env-secret",
        .at = "/process/env",
        .required = "No value looks like a token, a key or a password, whatever its name.",
        .why = "The handler is hostile: it gets credentials through the data proxy, for one "
               "request, never in its environment.",
        FIX_ALL("let the data proxy hold the credential"),
        .surfaces = CREATE | EXEC,
        .check = check_env_secret,
    },
    {
        .id = "namespace",
        .at = "/linux/namespaces",
        .required = "Own pid, ipc, uts and mount namespaces, each once; a path only to the pod's "
                    "own sandbox.",
        .why = "A missing entry means the host's namespace, a path somebody else's.",
        .fix_nerdctl = "leave out --pid, --ipc and --uts",
        .fix_ctr = "leave out --with-ns and --privileged",
        .fix_pod = "no hostPID, no hostIPC, no shareProcessNamespace",
        .cel = "(!has(object.spec.hostPID) || !object.spec.hostPID) && "
               "(!has(object.spec.hostIPC) || !object.spec.hostIPC) && "
               "(!has(object.spec.shareProcessNamespace) || !object.spec.shareProcessNamespace)",
        .surfaces = CREATE,
        .check = check_namespace,
    },
    {
        .id = "user-namespace",
        .at = "/linux/uidMappings",
        .required = "No user namespace, no id mapping, no id-mapped mount.",
        .why = "runsc maps ids of the sandbox itself: its own uid on the host must stay what was "
               "verified.",
        .fix_nerdctl = "leave out --userns-remap",
        .fix_ctr = "leave out --uidmap and --gidmap",
        .fix_pod = "leave out hostUsers: false",
        .cel = "!has(object.spec.hostUsers) || object.spec.hostUsers",
        .surfaces = CREATE,
        .check = check_user_namespace,
    },
    {
        .id = "network",
        .at = "/linux/namespaces",
        .required = "A network namespace of its own: empty, or one internal link without a route.",
        .why = "Missing means the host's network. What the namespace holds is verified before "
               "start: lo, or lo and one link whose bridge has no address and no way out. In pods "
               "with network.cri \"cluster\" egress is open and all rests on a NetworkPolicy that "
               "something enforces.",
        .fix_nerdctl = "--network none, or one made with nerdctl network create --internal",
        .fix_ctr = "leave out --net-host, or a namespace below /run/utter/netns",
        .fix_pod = "no hostNetwork; runtimeClassName of a node whose network is internal",
        .cel = "!has(object.spec.hostNetwork) || !object.spec.hostNetwork",
        .surfaces = CREATE | HOST,
        .check = check_network,
    },
    {
        .id = "root-path",
        .at = "/root/path",
        .required = "root.path is rootfs, in the bundle.",
        .why = "With root.path / a guest read the host's shadow file.",
        FIX_ALL("leave root.path to containerd"),
        .surfaces = CREATE,
        .check = check_root_path,
    },
    {
        .id = "root-readonly",
        .at = "/root/readonly",
        .required = "The root file system is read-only.",
        .why = "A writable one fills the host's disk without any quota and is executable.",
        .fix_nerdctl = "--read-only",
        .fix_ctr = "--read-only",
        .fix_pod = "securityContext.readOnlyRootFilesystem: true",
        .cel = "variables.containers.all(c, has(c.securityContext) && "
               "has(c.securityContext.readOnlyRootFilesystem) && "
               "c.securityContext.readOnlyRootFilesystem)",
        .surfaces = CREATE,
        .check = check_root_readonly,
    },
    {
        .id = "rootfs-type",
        .at = "rootfs",
        .required = "1 to 8 root file system mounts of type overlay, bind, erofs or ext4.",
        .why = "These are what snapshotters give; another type is another file system driver of "
               "the host's.",
        FIX_ALL("create the container from a snapshot"),
        .surfaces = ROOTFS,
        .check = check_rootfs_type,
    },
    {
        .id = "rootfs-source",
        .at = "rootfs",
        .required =
            "Every source and layer lies below a snapshotter's directory; an image is one that "
            "the erofs or blockfile snapshotter made, not a file of a layer.",
        .why = "lowerdir=/ shows the guest the host's files.",
        FIX_ALL("use containerd's snapshots, or " OPERATOR("snapshotter-roots")),
        .surfaces = ROOTFS | HOST,
        .check = check_rootfs_source,
    },
    {
        .id = "rootfs-options",
        .at = "rootfs",
        .required = "Only the options that snapshotters write, the target inside rootfs.",
        .why = "redirect_dir=on and its like let a layer point out of itself.",
        FIX_ALL("use containerd's own snapshots"),
        .surfaces = ROOTFS,
        .check = check_rootfs_options,
    },
    {
        .id = "mount-type",
        .at = "/mounts/*/type",
        .required = "proc, sysfs, devpts, mqueue, cgroup, tmpfs or bind, at most 64 in all.",
        .why = "An option bind makes a bind of any type; another type is none of gVisor's.",
        FIX_ALL("leave the mount out"),
        .surfaces = CREATE,
        .check = check_mount_type,
    },
    {
        .id = "mount-destination",
        .at = "/mounts/*/destination",
        .required = "Clean absolute places, each once, each type at its own; nothing over /, below "
                    "/proc, /sys or a bind, nothing before its parent.",
        .why = "A mount point below a bind is made in the host's directory; a covered mount's "
               "options do not hold.",
        FIX_ALL("mount it elsewhere, parents first"),
        .surfaces = CREATE,
        .check = check_mount_destination,
    },
    {
        .id = "mount-options",
        .at = "/mounts/*/options",
        .required = "Known options only, no shared propagation.",
        .why = "What is not known is not understood: idmap, lazytime or shared change what the "
               "host sees.",
        FIX_ALL("leave the option out"),
        .surfaces = CREATE,
        .check = check_mount_options,
    },
    {
        .id = "mount-readonly",
        .at = "/mounts/*/options",
        .required = "sysfs and cgroup are mounted read-only.",
        .why = "Writable ones are the mark of a privileged container.",
        .fix_nerdctl = "leave out --privileged",
        .fix_ctr = "leave out --privileged",
        .fix_pod = "leave out securityContext.privileged and procMount",
        .surfaces = CREATE,
        .check = check_mount_readonly,
    },
    {
        .id = "tmpfs-options",
        .at = "/mounts/*/options",
        .required = "Every tmpfs is noexec, nosuid and nodev.",
        .why = "Writable and executable places are where code is dropped and run. (The tools' own "
               "/dev, /run and /dev/shm get the options added.)",
        .fix_nerdctl = "--tmpfs /tmp:rw,noexec,nosuid,nodev,size=64m",
        .fix_ctr = "--mount type=tmpfs,dst=/tmp,options=noexec:nosuid:nodev:size=64m",
        .fix_pod = "use an emptyDir",
        .surfaces = CREATE,
        .check = check_tmpfs_options,
    },
    {
        .id = "tmpfs-size",
        .at = "/mounts/*/options",
        .required = "Every tmpfs has a size of at least 4 KiB, together at most the memory limit.",
        .why = "Its pages are the sandbox's memory: without a size a guest dies of its own files.",
        .fix_nerdctl = "--tmpfs /tmp:rw,noexec,nosuid,nodev,size=64m",
        .fix_ctr = "--mount type=tmpfs,dst=/tmp,options=noexec:nosuid:nodev:size=64m",
        .fix_pod = "emptyDir: {medium: Memory, sizeLimit: 64Mi}",
        .surfaces = CREATE,
        .check = check_tmpfs_size,
    },
    {
        .id = "bind-source",
        .at = "/mounts/*/source",
        .required = "Binds only of what the operator lists, never of sockets or of the state of "
                    "containerd, runsc or utter.",
        .why = "A bind is a hole in the sandbox.",
        .fix_nerdctl =
            "leave out -v (for a VOLUME of the image use --tmpfs on its place), or " OPERATOR(
                "binds"),
        .fix_ctr = "leave out the bind, or " OPERATOR("binds"),
        .fix_pod = "leave out hostPath and other volumes, use emptyDir, or " OPERATOR("binds"),
        .cel = "!has(object.spec.volumes) || object.spec.volumes.all(v, has(v.emptyDir))",
        .surfaces = CREATE | HOST,
        .check = check_bind_source,
    },
    {
        .id = "tool-file",
        .at = "/mounts/*/source",
        .required = "hosts, hostname and resolv.conf are the tool's own files for this very "
                    "container.",
        .why = "Another path there is a bind of the caller's choice.",
        FIX_ALL("leave these files to the tool, or " OPERATOR("binds")),
        .surfaces = CREATE | HOST,
        .check = check_tool_file,
    },
    {
        .id = "service-account",
        .at = "/mounts/*/destination",
        .required = "No service account token in a pod.",
        .why = "It is a credential of the cluster in the hands of a hostile guest.",
        FIX_ALL("automountServiceAccountToken: false"),
        .cel = "has(object.spec.automountServiceAccountToken) && "
               "!object.spec.automountServiceAccountToken",
        .surfaces = CREATE,
        .check = check_service_account,
    },
    {
        .id = "masked-paths",
        .at = "/linux/maskedPaths",
        .required = "maskedPaths and readonlyPaths name places in /proc and /sys only.",
        .why = "gVisor ignores both lists: what they promise elsewhere would not hold.",
        FIX_ALL("leave it out; mount a tmpfs over the place instead"),
        .surfaces = CREATE,
        .check = check_masked_paths,
    },
    {
        .id = "memory",
        .at = "/linux/resources/memory/limit",
        .required = "A memory limit of at least 32 MiB, at most the operator's maximum.",
        .why = "Without one the guest takes the host's memory. Swap is made equal to it.",
        .fix_nerdctl = "--memory 256m",
        .fix_ctr = "--memory-limit 268435456",
        .fix_pod = "resources.limits.memory on every container",
        .cel = "variables.containers.all(c, has(c.resources) && has(c.resources.limits) && "
               "'memory' in c.resources.limits)",
        .surfaces = CREATE | UPDATE,
        .check = check_memory,
    },
    {
        .id = "cpu",
        .at = "/linux/resources/cpu/quota",
        .required =
            "A CPU quota of at least a tenth, at most the operator's maximum; no real time, "
            "no burst.",
        .why = "Shares are no limit: an idle host gives all it has.",
        .fix_nerdctl = "--cpus 0.5",
        .fix_ctr = "--cpus 0.5",
        .fix_pod = "resources.limits.cpu on every container",
        .cel = "variables.containers.all(c, has(c.resources) && has(c.resources.limits) && "
               "'cpu' in c.resources.limits)",
        .surfaces = CREATE | UPDATE,
        .check = check_cpu,
    },
    {
        .id = "cpuset",
        .at = "/linux/resources/cpu/cpus",
        .required = "CPUs and memory nodes, if given, by numbers that this host has.",
        .why = "The kernel refuses others when the sandbox is half made.",
        .fix_nerdctl = "leave out --cpuset-cpus and --cpuset-mems",
        .fix_ctr = "leave out linux.resources.cpu.cpus and .mems",
        .fix_pod = "leave out linux.resources.cpu.cpus and .mems",
        .surfaces = CREATE | UPDATE | HOST,
        .check = check_cpuset,
    },
    {
        .id = "pids",
        .at = "/linux/resources/pids/limit",
        .required = "A pids limit, if given, from 8 to the operator's maximum; absent is the "
                    "maximum.",
        .why = "A fork bomb is the cheapest attack there is.",
        .fix_nerdctl = "--pids-limit 256",
        .fix_ctr = "leave out linux.resources.pids",
        .fix_pod = "leave out linux.resources.pids",
        .surfaces = CREATE | UPDATE,
        .check = check_pids,
    },
    {
        .id = "unified",
        .at = "/linux/resources/unified",
        .required = "No cgroup v2 values by name, but for those the kubelet writes.",
        .why = "Each overrides a limit that was checked in its own field.",
        FIX_ALL("leave out the raw cgroup setting"),
        .surfaces = CREATE | UPDATE,
        .check = check_unified,
    },
    {
        .id = "update",
        .at = "/",
        .required =
            "An update changes memory limit, CPU quota, period and shares, within its pod and "
            "above what is in use; nothing else.",
        .why = "A running guest's process limit cannot change; a limit below use kills or is "
               "ignored; an update that is not applied must not look as if it were.",
        FIX_ALL("create the container anew with other limits"),
        .surfaces = UPDATE | HOST,
        .check = check_update,
    },
    {
        .id = "cgroups-path",
        .at = "/linux/cgroupsPath",
        .required = "/PARENT/ID or SLICE:PREFIX:ID, the parent one of the namespace's or listed.",
        .why = "Limits are written there: another's group is another's limits.",
        FIX_ALL("leave out --cgroup-parent, or " OPERATOR("cgroup-parents")),
        .surfaces = CREATE | HOST,
        .check = check_cgroups_path,
    },
    {
        .id = "devices",
        .at = "/linux/devices",
        .required = "No devices, no device rules but the tools' own.",
        .why = "gVisor serves its own few; more is the mark of a privileged container or a proxied "
               "host device.",
        .fix_nerdctl = "leave out --device and --privileged",
        .fix_ctr = "leave out --device and --privileged",
        .fix_pod = "leave out privileged and device resources",
        .surfaces = CREATE | UPDATE,
        .check = check_devices,
    },
    {
        .id = "sysctl",
        .at = "/linux/sysctl",
        .required = "Only ip_unprivileged_port_start=0, ping_group_range=0 2147483647 and "
                    "disable_ipv6=1.",
        .why = "The rest is the host's, or ignored by gVisor and so a promise not kept.",
        FIX_ALL("leave out the sysctl"),
        .cel = "!has(object.spec.securityContext) || !has(object.spec.securityContext.sysctls) || "
               "object.spec.securityContext.sysctls.size() == 0",
        .surfaces = CREATE,
        .check = check_sysctl,
    },
    {
        .id = "seccomp",
        .at = "/linux/seccomp",
        .required = "No seccomp listener; arguments 0 to 5 with known comparisons.",
        .why = "A listener is a socket of the host's. The rest of a profile is taken in after "
               "Utter's own rules or dropped.",
        FIX_ALL("use the default profile or none"),
        .surfaces = CREATE,
        .check = check_seccomp,
    },
    {
        .id = "selinux",
        .at = "/process/selinuxLabel",
        .required = "No SELinux label.",
        .why = "gVisor refuses it with a text that helps nobody.",
        .fix_nerdctl = "--security-opt label=disable",
        .fix_ctr = "leave out the label",
        .fix_pod = "leave out securityContext.seLinuxOptions",
        .surfaces = CREATE | EXEC,
        .check = check_selinux,
    },
    {
        .id = "hooks",
        .at = "/hooks",
        .required = "No hooks but nerdctl's createRuntime and poststop, with the configured "
                    "program and paths.",
        .why = "Hooks run as root on the host; even nerdctl's own with the caller's --cni-path ran "
               "a caller's program. Utter writes the command itself.",
        .fix_nerdctl = "use nerdctl with the paths of \"hooks.nerdctl\" in /etc/utter/policy.json",
        .fix_ctr = "leave out hooks",
        .fix_pod = "leave out hooks (NRI, CDI)",
        .surfaces = CREATE | HOST,
        .check = check_hooks,
    },
    {
        .id = "nerdctl",
        .at = "/annotations",
        .required = "nerdctl's annotations are the known ones, about this very container.",
        .why = "Its hook obeys them as root: pid-file names a file to write, network-namespace one "
               "to enter, ports what to publish.",
        FIX_ALL("leave out --pidfile, -p and --annotation nerdctl/..."),
        .surfaces = CREATE,
        .check = check_nerdctl,
    },
    {
        .id = "annotations",
        .at = "/annotations",
        .required = "Only annotations of Utter, nerdctl and CRI, or listed by the operator.",
        .why = "dev.gvisor.* beats even runsc's command line; CRI-O's, Kata's and containerd's "
               "keys are somebody's switches.",
        FIX_ALL("leave out the annotation, or " OPERATOR("annotations")),
        .surfaces = CREATE,
        .check = check_annotations,
    },
    {
        .id = "timeout",
        .at = "/annotations/io.utter.timeout",
        .required = "io.utter.timeout, if given, is a number of seconds from 1 to the operator's "
                    "maximum.",
        .why = "Every task ends; this says when.",
        FIX_ALL("--annotation io.utter.timeout=SECONDS"),
        .surfaces = CREATE,
        .check = check_timeout,
    },
    {
        .id = "disk-quota",
        .at = "/annotations/io.utter.disk-quota",
        .required = "io.utter.disk-quota, if given, is a number of bytes within the operator's "
                    "maximum that bounds all writable space.",
        .why = "A quota that one unsized mount escapes is none.",
        FIX_ALL("size the writable mounts to fit the quota"),
        .surfaces = CREATE,
        .check = check_disk_quota,
    },
    {
        .id = "pod",
        .at = "/annotations/io.kubernetes.cri.sandbox-id",
        .required = "CRI annotations only in namespace k8s.io, naming the sandbox that runs in "
                    "this shim.",
        .why = "They group containers into one sandbox: whoever writes them freely joins another's "
               "pod.",
        FIX_ALL("leave CRI's annotations to the kubelet"),
        .surfaces = CREATE | HOST,
        .check = check_pod,
    },
    {
        .id = "pod-uids",
        .at = "/process/user/uid",
        .required = "At most pod-uids distinct uids in a pod.",
        .why = "The process limit counts per uid; the host's limit is made for that many.",
        FIX_ALL("run the pod's containers as one user"),
        .surfaces = CREATE,
        .check = check_pod_uids,
    },
    {
        .id = "pause",
        .at = "/process/args",
        .required = "A pod's sandbox container runs the configured pause-argv, with CRI's full "
                    "annotation set, no terminal and no mount of its own.",
        .why =
            "Its profile forgives CRI's 14 capabilities and missing limits (it gets none and the "
            "pod's): nothing else may wear it.",
        FIX_ALL("leave the sandbox container to CRI, or have the operator set \"pause-argv\""),
        .surfaces = CREATE,
        .check = check_pause,
    },
    {
        .id = "stdio",
        .at = "stdio",
        .required = "stdin, stdout and stderr are FIFOs, or a configured logger or log directory.",
        .why = "A plain file handed over as stdout was read and written by the guest; a binary:// "
               "logger runs as root.",
        .fix_nerdctl = "use nerdctl's own logger, or " OPERATOR("loggers"),
        .fix_ctr = "leave out --log-uri, or " OPERATOR("loggers"),
        .fix_pod = "leave stdio to the kubelet",
        .surfaces = STDIO | HOST,
        .check = NULL,
    },
};

const struct policy_rule *policy_rules(size_t *n)
{
    *n = ARRAY_LEN(rules);
    return rules;
}

const struct policy_rule *policy_rule_find(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (strcmp(rules[i].id, id) == 0)
            return &rules[i];
    }
    return NULL;
}

const char *policy_rule_fix(const struct policy_rule *rule, enum policy_tool tool)
{
    switch (tool) {
    case POLICY_TOOL_NERDCTL:
        return rule->fix_nerdctl;
    case POLICY_TOOL_POD:
        return rule->fix_pod;
    case POLICY_TOOL_CTR:
        break;
    }
    return rule->fix_ctr;
}
