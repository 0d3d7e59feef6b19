#include "deploy/operate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "deploy/files.h"
#include "deploy/payments.h"
#include "deploy/proc.h"
#include "deploy/rotate.h"
#include "deploy/state.h"

#define SECRET_MAX 65536

struct opened {
    json_t *record;
    struct plan *plan;
    int lock;
};

static void opened_fini(struct opened *o)
{
    json_decref(o->record);
    plan_free(o->plan);
    own_close_(&o->lock);
}

static enum err_kind open_slug(struct deploy *d, const char *name, struct opened *o,
                               struct err *err)
{
    struct slug slug;
    if (slug_parse(name, &slug, err) || state_lock_slug(d->settings, &slug, &o->lock, err) ||
        state_load(d->settings, name, &o->record, err) || plan_load(o->record, &o->plan, err))
        return err->kind;
    return ERR_OK;
}

enum err_kind operate_token(struct deploy *d, const char *slug, const char *file, struct err *err)
{
    struct opened o CLEANUP(opened_fini) = { .lock = -1 };
    if (open_slug(d, slug, &o, err))
        return err->kind;
    if (!json_at(o.plan->gate_config, "/facilitator/auth"))
        return err_set(err, ERR_PRECONDITION,
                       "%s has no facilitator.tokenFile: its gate would not read a token", slug);
    if (files_token(o.plan, file, err))
        return err->kind;
    deploy_say(d, "token     of %s replaced", slug);
    return ERR_OK;
}

enum err_kind operate_rotate(struct deploy *d, const char *slug, struct err *err)
{
    struct opened o CLEANUP(opened_fini) = { .lock = -1 };
    if (open_slug(d, slug, &o, err))
        return err->kind;
    return rotate_keys(d, o.plan, err);
}

static enum err_kind copy_secret(const char *from, const char *to, struct err *err)
{
    char *text CLEANUP_FREE = NULL;
    size_t len = 0;
    enum err_kind kind = fs_read(from, SECRET_MAX, &text, &len, err);
    if (kind)
        return kind == ERR_NOT_FOUND ? ERR_OK : kind;
    kind = fs_write(to, text, len, 0600, true, err);
    explicit_bzero(text, len);
    return kind;
}

enum err_kind operate_backup(struct deploy *d, const char *slug, const char *dir, struct err *err)
{
    struct opened o CLEANUP(opened_fini) = { .lock = -1 };
    if (open_slug(d, slug, &o, err))
        return err->kind;
    if (mkdir(dir, 0700) && errno != EEXIST)
        return err_sys(err, errno, "%s", dir);
    char *ledger CLEANUP_FREE = xasprintf("%s/ledger.db", dir);
    char *plan CLEANUP_FREE = xasprintf("%s/plan.json", dir);
    char *token CLEANUP_FREE = xasprintf("%s/token", dir);
    char *own CLEANUP_FREE = xasprintf("%s/token", o.plan->state);
    char *text CLEANUP_FREE = json_canonical(o.record);
    if (access(ledger, F_OK) == 0 || access(plan, F_OK) == 0)
        return err_set(err, ERR_EXISTS, "%s holds a backup already", dir);
    if (payments_backup(o.plan, ledger, err) ||
        fs_write(plan, text, strlen(text), 0600, true, err) || copy_secret(own, token, err))
        return err_prefix(err, "backup");
    if (chmod(ledger, 0600))
        return err_sys(err, errno, "%s", ledger);
    deploy_say(d, "backup    of %s in %s", slug, dir);
    return ERR_OK;
}

/* A copied ledger is refused by the gate until someone says that no other gate has it: a restore is
 * that word. The program does it, since the ledger is its own; the files are the gate's again
 * afterwards. */
static enum err_kind adopt(const struct deploy *d, const struct plan *plan, const char *ledger,
                           struct err *err)
{
    char *program CLEANUP_FREE =
        xasprintf("%.*s/utter-gate", (int)(strrchr(d->logger, '/') - d->logger), d->logger);
    const char *argv[] = { program, "ledger", "init", "--adopt", "--ledger", ledger, NULL };
    static const char *const suffixes[] = { "", ".lock", "-wal", "-shm" };
    if (proc_run(&(struct proc){ .argv = argv, .timeout_ms = 60000 }, NULL, err))
        return err->kind;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        char *file CLEANUP_FREE = xasprintf("%s%s", ledger, suffixes[i]);
        if (chown(file, plan->uid, plan->uid) && errno != ENOENT)
            return err_sys(err, errno, "%s", file);
    }
    return ERR_OK;
}

/* The copy under the slug's number on this host. What was not final at the time of the copy may
 * have moved on since: unknown, for reconciliation. A run that had not settled cannot have been
 * charged by this ledger, but may have been by the one that was lost. */
static enum err_kind put_back(struct deploy *d, struct plan *plan, json_t *record, const char *dir,
                              struct err *err)
{
    char *from CLEANUP_FREE = xasprintf("%s/ledger.db", dir);
    char *ledger CLEANUP_FREE = xasprintf("%s/ledger/ledger.db", plan->state);
    char *token_from CLEANUP_FREE = xasprintf("%s/token", dir);
    char *token CLEANUP_FREE = xasprintf("%s/token", plan->state);
    int64_t doubtful = 0, newest = 0;
    if (files_make(plan, NULL, err) || copy_secret(token_from, token, err) ||
        payments_restore(from, ledger, plan->uid, &doubtful, &newest, err) ||
        adopt(d, plan, ledger, err) || files_remove_run(plan, err))
        return err_prefix(err, "restore");
    json_object_set_new(record, "phase", json_string("down"));
    if (state_save(d->settings, plan->slug.s, record, err))
        return err->kind;
    deploy_say(d,
               "restored  %s: %" PRId64
               " payments were not final and are unknown now; payments made "
               "after %" PRId64 " (Unix time) are not in this copy",
               plan->slug.s, doubtful, newest);
    return ERR_OK;
}

enum err_kind operate_restore(struct deploy *d, const char *name, const char *dir, struct err *err)
{
    struct slug slug;
    int lock CLEANUP_FD = -1, host CLEANUP_FD = -1;
    json_t *record CLEANUP_JSON = NULL;
    json_t *there CLEANUP_JSON = NULL;
    struct plan *plan CLEANUP(plan_freep) = NULL;
    unsigned index;
    char *path CLEANUP_FREE = xasprintf("%s/plan.json", dir);
    if (slug_parse(name, &slug, err) || state_lock_slug(d->settings, &slug, &lock, err) ||
        json_strict_load_file(path, 1024 * 1024, &record, err) || plan_load(record, &plan, err))
        return err_prefix(err, "restore");
    if (strcmp(plan->slug.s, name) != 0)
        return err_set(err, ERR_INVALID, "restore: %s is a backup of %s", dir, plan->slug.s);
    if (state_load(d->settings, name, &there, ERR_IGNORED) == ERR_OK)
        return err_set(err, ERR_EXISTS, "restore: %s is there; utter-deploy down --purge %s first",
                       name, name);
    if (state_lock_host(d->settings, &host, err) || state_index(d->settings, &slug, &index, err))
        return err->kind;
    if (index != plan->index)
        return err_set(err, ERR_PRECONDITION,
                       "restore: number %u of the backup is taken on this host by another slug",
                       plan->index);
    return put_back(d, plan, record, dir, err);
}

enum err_kind operate_upgrade(struct deploy *d, const char *image, const char *const *slugs, int n,
                              struct err *err)
{
    json_t *all CLEANUP_JSON = NULL;
    if (state_slugs(d->settings, &all, err))
        return err->kind;
    free(d->settings->gate_image);
    d->settings->gate_image = xstrdup(image);
    size_t count = slugs ? (size_t)n : json_array_size(all);
    for (size_t i = 0; i < count; i++) {
        const char *slug = slugs ? slugs[i] : json_string_value(json_array_get(all, i));
        json_t *record CLEANUP_JSON = NULL;
        if (state_load(d->settings, slug, &record, err))
            return err->kind;
        const char *file = json_string_value(json_object_get(record, "file"));
        if (!file)
            return err_set(err, ERR_PRECONDITION, "%s: its file is not recorded; run up first",
                           slug);
        if (deploy_up(d, file, err))
            return err_prefix(err, "upgrade stopped at %s (%zu of %zu done)", slug, i, count);
    }
    deploy_say(d, "upgrade   %zu done; set gateImage in the settings to %s", count, image);
    return ERR_OK;
}
