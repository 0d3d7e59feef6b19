#include "deploy/rotate.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/text.h"
#include "deploy/containerd.h"
#include "deploy/deploy.h"
#include "deploy/fetch.h"
#include "deploy/pause.h"
#include "proto/data_token.h"

#define WAIT_MS 10000
#define POLL_MS 50
#define PAGE_MAX 65536

enum err_kind rotate_metrics(const struct plan *plan, struct buf *page, struct err *err)
{
    long status = 0;
    char *socket CLEANUP_FREE = xasprintf("%s/data/admin/admin.sock", plan->run);
    const struct fetch fetch = { .url = "http://localhost/metrics",
                                 .socket = socket,
                                 .timeout_ms = 2000 };
    enum err_kind kind = fetch_get(&fetch, &status, page, err);
    if (!kind && status != 200)
        kind = err_set(err, ERR_UNAVAILABLE, "the data proxy's metrics: status %ld", status);
    return kind;
}

static bool proxy_knows(const struct plan *plan, const char *id)
{
    struct buf page CLEANUP(buf_fini);
    char *row CLEANUP_FREE = xasprintf("utter_dataproxy_key{id=\"%s\"} 1", id);
    buf_init(&page, PAGE_MAX);
    return rotate_metrics(plan, &page, ERR_IGNORED) == ERR_OK && strstr(buf_cstr(&page), row);
}

static bool gate_signs_with(const struct plan *plan, const char *id)
{
    json_t *ready CLEANUP_JSON = NULL;
    (void)!realise_admin(plan, "/readyz", &ready, ERR_IGNORED);
    const char *found = json_string_value(json_object_get(ready, "data_key"));
    return found && strcmp(found, id) == 0;
}

/* SIGHUP, and then until it says that it works by the key. */
static CHECKED enum err_kind tell(struct deploy *d, const struct plan *plan,
                                  const struct plan_member *member,
                                  bool (*knows)(const struct plan *, const char *), const char *id,
                                  struct err *err)
{
    if (containerd_task_kill(d->cd, member->id, SIGHUP, err))
        return err->kind;
    for (int waited = 0; waited < WAIT_MS; waited += POLL_MS) {
        if (knows(plan, id))
            return ERR_OK;
        pause_ms(POLL_MS);
    }
    return err_set(err, ERR_TIMEOUT, "%s does not take key %s; see: utter-deploy logs %s",
                   member->id, id, plan->slug.s);
}

static CHECKED enum err_kind put_public(const struct plan *plan, const struct data_key *key,
                                        const char *name, struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/data-keys/%s.pub", plan->run, name);
    char *pem CLEANUP_FREE = NULL;
    if (data_key_public_pem(key, &pem, err))
        return err->kind;
    return fs_write(path, pem, strlen(pem), 0444, false, err);
}

static CHECKED enum err_kind put_private(const struct plan *plan, const struct data_key *key,
                                         struct err *err)
{
    char *path CLEANUP_FREE = xasprintf("%s/data-key/data.key", plan->run);
    char *next CLEANUP_FREE = xasprintf("%s/data-key/.next", plan->run);
    char *pem CLEANUP_FREE = NULL;
    if (data_key_private_pem(key, &pem, err))
        return err->kind;
    enum err_kind kind = fs_write(next, pem, strlen(pem), 0400, false, err);
    explicit_bzero(pem, strlen(pem));
    if (kind)
        return kind;
    if (chown(next, plan->uid, plan->uid) || rename(next, path))
        return err_sys(err, errno, "%s", path);
    return ERR_OK;
}

/* All but the new key, as data.pub, and the one before. */
static CHECKED enum err_kind drop_others(const struct plan *plan, const char *old, struct err *err)
{
    char *dir CLEANUP_FREE = xasprintf("%s/data-keys", plan->run);
    char *kept CLEANUP_FREE = xasprintf("%s.pub", old);
    DIR *d CLEANUP_DIR = opendir(dir);
    if (!d)
        return err_sys(err, errno, "%s", dir);
    for (struct dirent *e; (e = readdir(d));) {
        if (!text_ends(e->d_name, ".pub") || strcmp(e->d_name, "data.pub") == 0 ||
            strcmp(e->d_name, kept) == 0)
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0))
            return err_sys(err, errno, "%s/%s", dir, e->d_name);
    }
    return ERR_OK;
}

enum err_kind rotate_keys(struct deploy *d, const struct plan *plan, struct err *err)
{
    struct data_key *old CLEANUP(data_key_freep) = NULL;
    struct data_key *new CLEANUP(data_key_freep) = NULL;
    char *path CLEANUP_FREE = xasprintf("%s/data-key/data.key", plan->run);
    if (!plan_has_data(plan))
        return err_set(err, ERR_NOT_FOUND, "%s has no data proxy: its file names no upstreams",
                       plan->slug.s);
    if (data_key_load_private(path, &old, err) || data_key_generate(&new, err) ||
        put_public(plan, old, data_key_id(old), err) ||
        put_public(plan, new, data_key_id(new), err) ||
        tell(d, plan, &plan->data, proxy_knows, data_key_id(new), err) ||
        put_private(plan, new, err) ||
        tell(d, plan, &plan->gate, gate_signs_with, data_key_id(new), err) ||
        put_public(plan, new, "data", err) || drop_others(plan, data_key_id(old), err) ||
        tell(d, plan, &plan->data, proxy_knows, data_key_id(new), err))
        return err_prefix(err, "rotate");
    deploy_say(d, "keys      of %s: %s signs now, %s is still good for requests under way",
               plan->slug.s, data_key_id(new), data_key_id(old));
    return ERR_OK;
}
