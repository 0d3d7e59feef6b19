/* Rules over the environment. Hooks' environments are no part of it: they never reach the guest. */
#include <string.h>

#include "policy/check.h"
#include "policy/env.h"

#define ENV_MAX 512
#define ENV_BYTES_MAX (128 * 1024)

struct env_entry {
    size_t index;
    char name[ENV_NAME_MAX];
    const char *value;
};

static const json_t *environment(const struct policy_check_run *run)
{
    return json_object_get(run->process, "env");
}

static bool entry_at(const struct policy_check_run *run, size_t i, struct env_entry *entry)
{
    const char *text = json_string_value(json_array_get(environment(run), i));
    entry->index = i;
    return text && env_split(text, entry->name, &entry->value);
}

static struct at entry_pointer(const struct policy_check_run *run, const struct env_entry *entry)
{
    return at("%s/env/%zu", run->process_at, entry->index);
}

static bool is_pod(const struct policy_check_run *run)
{
    return run->context.role != POLICY_ROLE_SINGLE;
}

/* Which of two a program sees differs from one libc to the next. */
static bool name_came_before(const json_t *env, size_t i)
{
    const char *text = json_string_value(json_array_get(env, i));
    size_t n = strcspn(text, "=") + 1;
    for (size_t k = 0; k < i; k++) {
        const char *other = json_string_value(json_array_get(env, k));
        if (other && strncmp(other, text, n) == 0)
            return true;
    }
    return false;
}

/* The value itself is never quoted: what is refused here may be a secret. */
void check_env_form(struct policy_check_run *run)
{
    const json_t *env = environment(run);
    size_t bytes = 0;
    struct env_entry entry;
    for (size_t i = 0; i < json_array_size(env) && i < ENV_MAX; i++) {
        bytes += json_string_length(json_array_get(env, i)) + 1;
        if (!entry_at(run, i, &entry)) {
            policy_find(run, entry_pointer(run, &entry).s, "entry %zu is not NAME=value", i);
            continue;
        }
        if (name_came_before(env, i))
            policy_find(run, entry_pointer(run, &entry).s, "%s is set twice", entry.name);
    }
    if (json_array_size(env) > ENV_MAX || bytes > ENV_BYTES_MAX)
        policy_find(run, at("%s/env", run->process_at).s, "%zu entries, at most %d of %d bytes",
                    json_array_size(env), ENV_MAX, ENV_BYTES_MAX);
}

void check_env_name(struct policy_check_run *run)
{
    struct env_entry entry;
    for (size_t i = 0; i < json_array_size(environment(run)) && i < ENV_MAX; i++) {
        if (entry_at(run, i, &entry) && !env_name_find(entry.name, is_pod(run)) &&
            !list_has(run->config->env, entry.name))
            policy_find(run, entry_pointer(run, &entry).s, "%s is not on the allow-list",
                        entry.name);
    }
}

void check_env_value(struct policy_check_run *run)
{
    struct env_entry entry;
    for (size_t i = 0; i < json_array_size(environment(run)) && i < ENV_MAX; i++) {
        if (!entry_at(run, i, &entry))
            continue;
        const struct env_name *row = env_name_find(entry.name, is_pod(run));
        if (row && !row->form(entry.value) && !env_secret_shape(entry.value))
            policy_find(run, entry_pointer(run, &entry).s, "%s must be %s", entry.name,
                        row->form_text);
    }
}

void check_env_secret(struct policy_check_run *run)
{
    struct env_entry entry;
    for (size_t i = 0; i < json_array_size(environment(run)) && i < ENV_MAX; i++) {
        if (!entry_at(run, i, &entry))
            continue;
        const char *what = env_secret_shape(entry.value);
        if (!what && !env_name_find(entry.name, is_pod(run)))
            what = env_secret_guess(entry.value);
        if (what)
            policy_find(run, entry_pointer(run, &entry).s, "%s holds %s", entry.name, what);
    }
}
