/* Which container this is: from the namespace and what the tools write. */
#include <string.h>

#include "base/text.h"
#include "policy/check.h"

enum policy_role policy_role_of(const json_t *spec, const char *ns)
{
    const char *type = spec_annotation(spec, "io.kubernetes.cri.container-type");
    if (!type || !ns || strcmp(ns, "k8s.io") != 0)
        return POLICY_ROLE_SINGLE;
    if (strcmp(type, "sandbox") == 0)
        return POLICY_ROLE_PAUSE;
    return strcmp(type, "container") == 0 ? POLICY_ROLE_WORKLOAD : POLICY_ROLE_SINGLE;
}

static void copy(char *out, size_t size, const char *text, size_t n)
{
    if (n >= size)
        n = 0;
    memcpy(out, text, n);
    out[n] = 0;
}

/* "/<ns>/<id>", "/<ns>/sub/<id>" or "slice:prefix:<id>" */
static void guess_from_cgroup(const char *path, struct policy_guess *store)
{
    const char *last = strrchr(path, path[0] == '/' ? '/' : ':');
    if (last)
        copy(store->id, sizeof(store->id), last + 1, strlen(last + 1));
    if (path[0] == '/')
        copy(store->ns, sizeof(store->ns), path + 1, strcspn(path + 1, "/"));
}

static const char *guessed_ns(const json_t *spec, struct policy_guess *store)
{
    const char *nerdctl = spec_annotation(spec, "nerdctl/namespace");
    if (nerdctl)
        return nerdctl;
    if (spec_annotation(spec, "io.kubernetes.cri.container-type"))
        return "k8s.io";
    return store->ns;
}

void policy_context_guess(const json_t *spec, struct policy_context *context,
                          struct policy_guess *store)
{
    *store = (struct policy_guess){ "", "" };
    guess_from_cgroup(member_str(json_object_get(spec, "linux"), "cgroupsPath"), store);
    if (!context->ns)
        context->ns = guessed_ns(spec, store);
    if (!context->id)
        context->id = store->id;
    if (!context->containerd_root)
        context->containerd_root = "/var/lib/containerd";
    if (!context->containerd_state)
        context->containerd_state = "/run/containerd";
    if (context->role == POLICY_ROLE_AUTO)
        context->role = policy_role_of(spec, context->ns);
}
