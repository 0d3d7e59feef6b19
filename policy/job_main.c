#include "policy/job.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/json.h"

/* ---- reading ----------------------------------------------------------------------------------
 */

static CHECKED enum err_kind read_text(const char *path, char **text, size_t *len, struct err *err)
{
    if (strcmp(path, "-") != 0)
        return fs_read(path, 4 * JSON_SIZE_MAX, text, len, err);
    *text = xcalloc(1, JSON_SIZE_MAX + 2);
    *len = fread(*text, 1, JSON_SIZE_MAX + 1, stdin);
    return ferror(stdin) ? err_set(err, ERR_INTERNAL, "cannot read standard input") : ERR_OK;
}

/* A document; what is no strict JSON is a finding, what cannot be read an error. */
static CHECKED enum err_kind read_document(const char *path, struct policy_report *report,
                                           json_t **out, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    if (read_text(path, &text, &len, err))
        return err->kind;
    *out = policy_document_parse(text, len, report);
    return ERR_OK;
}

static bool role_parse(const char *name, enum policy_role *role)
{
    static const char *const names[] = { "auto", "single", "pause", "workload" };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], name) == 0) {
            *role = (enum policy_role)i;
            return true;
        }
    }
    return false;
}

const char *role_name(enum policy_role role)
{
    static const char *const names[] = { "auto", "single", "pause", "workload" };
    return names[role];
}

enum err_kind job_load(struct job *job, const char *spec, struct policy_report *report,
                       struct err *err)
{
    const struct options *options = &job->options;
    const char *extra = options->exec ? options->exec : options->update;
    if (options->role && !role_parse(options->role, &job->context.role))
        return err_set(err, ERR_INVALID, "--role is auto, single, pause or workload, not \"%s\"",
                       options->role);
    if (options->exec && options->update)
        return err_set(err, ERR_INVALID, "--exec and --update do not go together");
    if (policy_config_load(options->config ? options->config : POLICY_CONFIG_PATH, &job->config,
                           err) ||
        read_document(spec, report, &job->spec, err) ||
        (options->rootfs && read_document(options->rootfs, report, &job->rootfs, err)) ||
        (extra && read_document(extra, report, &job->extra, err)))
        return err->kind;
    job->context.ns = options->ns;
    job->context.id = options->id;
    job->context.rootfs = job->rootfs;
    if (job->rootfs && !json_is_array(job->rootfs))
        return err_set(err, ERR_INVALID, "%s: not an array of mounts", options->rootfs);
    policy_context_guess(job->spec, &job->context, &job->guess);
    return ERR_OK;
}

void job_fini(struct job *job)
{
    policy_config_free(job->config);
    json_decref(job->spec);
    json_decref(job->rootfs);
    json_decref(job->extra);
}

int options_parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        { "config", required_argument, NULL, 'c' },
        { "role", required_argument, NULL, 'r' },
        { "namespace", required_argument, NULL, 'n' },
        { "id", required_argument, NULL, 'i' },
        { "rootfs", required_argument, NULL, 'f' },
        { "exec", required_argument, NULL, 'e' },
        { "update", required_argument, NULL, 'u' },
        { "host", no_argument, NULL, 'h' },
        { "json", no_argument, NULL, 'j' },
        { NULL, 0, NULL, 0 },
    };
    const char **values[] = {
        ['c'] = &options->config, ['r'] = &options->role,   ['n'] = &options->ns,
        ['i'] = &options->id,     ['f'] = &options->rootfs, ['e'] = &options->exec,
        ['u'] = &options->update
    };
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'h')
            options->host = true;
        else if (c == 'j')
            options->json = true;
        else if (c == '?')
            return EXIT_USAGE;
        else
            *values[c] = optarg;
    }
    return 0;
}
