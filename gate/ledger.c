/* The ledger opened, kept tidy, closed. */
#include "gate/ledger_loop.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "base/text.h"
#include "gate/ledger_file.h"

#define GAP_S 60           /* a longer gap since the last heartbeat may hide payments */
#define WALL_STEP_MS 60000 /* a wall clock that steps further pauses deletion */
#define TIDY_BATCH 256
#define STANDBY_MS 20 /* a look at a lock, that is all */

void ledger_setup_defaults(struct ledger_setup *setup)
{
    *setup = (struct ledger_setup){
        .sealed_max_bytes = 1ull << 30,
        .sealed_ttl_s = 3600,
        .retention_s = 90 * 86400,
        .waiters_max = 8,
        .payment_runs_max = 3,
        .payer_runs_max = 20,
        .payer_window_s = 600,
        .payer_in_flight_max = 16,
        .settle_hold_s = 7 * 86400,
        .tidy_ms = 10000,
    };
}

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

struct store_now ledger_now(const struct ledger *ledger)
{
    return (struct store_now){
        .wall_s = wall_ms() / 1000,
        .clock_ms =
            ledger->clock_base_ms + (int64_t)(loop_now_ms(ledger->loop) - ledger->opened_boot_ms),
    };
}

bool ledger_healthy(const struct ledger *ledger)
{
    return !ledger->file_gone && !ledger->closing && !db_thread_broken(ledger->writer);
}

bool ledger_is_young(const struct ledger *ledger, int64_t now_s, uint64_t validity_s)
{
    return now_s < ledger->complete_since_s ||
           (uint64_t)(now_s - ledger->complete_since_s) < validity_s;
}

/* ---- tidying, each tidy_ms: also the heartbeat, by which "not open for a while" is known ---- */

static void tidy_later(struct ledger *ledger, uint64_t ms);

static enum err_kind apply_tidy(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (store_set_int(store, "clock_ms", op->now.clock_ms, err) ||
        store_set_int(store, "seen_s", op->now.wall_s, err))
        return err->kind;
    if (op->bounds.batch == 0)
        return store_room(store, &op->room, err);
    return store_tidy(store, &op->bounds, &op->room, err);
}

static void done_tidy(struct db_job *job)
{
    struct ledger_op *op = (struct ledger_op *)job;
    struct ledger *ledger = op->ledger;
    ledger->tidying = false;
    bool more = !job->failed &&
                (op->room.answers_removed >= TIDY_BATCH || op->room.rows_removed >= TIDY_BATCH);
    if (!job->failed)
        ledger->room = op->room;
    if (!job->failed && op->bounds.evict)
        ledger->evict_wanted = ledger->room.sealed_bytes + ledger->reserved_bytes >
                               ledger->setup.sealed_max_bytes / 10 * 8;
    if (!ledger->closing)
        tidy_later(ledger, more ? 1 : ledger->setup.tidy_ms);
    ledger_op_free(op);
}

/* A wall clock that steps says nothing about how old anything is: nothing is deleted until it
 * agrees again. */
static void check_wall(struct ledger *ledger)
{
    int64_t elapsed = (int64_t)(loop_now_ms(ledger->loop) - ledger->anchor_boot_ms);
    int64_t off = wall_ms() - (ledger->anchor_wall_ms + elapsed);
    bool stepped = off > WALL_STEP_MS || off < -WALL_STEP_MS;
    if (stepped != ledger->deletion_paused)
        log_error(stepped ? "ledger_clock_stepped" : "ledger_clock_agrees", log_int("off_ms", off),
                  log_bool("deletion_paused", stepped));
    ledger->deletion_paused = stepped;
    if (stepped)
        return;
    ledger->anchor_wall_ms = wall_ms();
    ledger->anchor_boot_ms = loop_now_ms(ledger->loop);
}

static void check_file(struct ledger *ledger)
{
    bool gone = ledger_file_inode(ledger->path) != ledger->inode;
    if (gone && !ledger->file_gone)
        log_error("ledger_file_gone", log_str("path", ledger->path));
    ledger->file_gone = gone;
}

static void tidy(struct ledger *ledger)
{
    check_wall(ledger);
    check_file(ledger);
    const struct ledger_setup *setup = &ledger->setup;
    uint32_t retention = setup->retention_s < 86400 ? 86400 : setup->retention_s;
    struct ledger_op *op = ledger_op_new(ledger, NULL, NULL);
    ledger_index_tidy(&ledger->index, ledger_now(ledger).clock_ms,
                      (int64_t)setup->payer_window_s * 1000);
    op->bounds = (struct store_bounds){
        .now = ledger_now(ledger),
        .sealed_ttl_ms = (int64_t)setup->sealed_ttl_s * 1000,
        .retention_ms = (int64_t)retention * 1000,
        .evict = ledger->evict_wanted,
        .batch = ledger->deletion_paused ? 0 : TIDY_BATCH,
    };
    ledger->tidying = true;
    ledger_write(op, apply_tidy, done_tidy);
}

static void on_tidy(struct loop_timer *timer)
{
    struct ledger *ledger = timer->arg;
    if (!ledger->tidying)
        tidy(ledger);
}

static void tidy_later(struct ledger *ledger, uint64_t ms)
{
    loop_after(ledger->loop, &ledger->tidy_timer, ledger->evict_wanted && ms > 100 ? 100 : ms,
               on_tidy, ledger);
}

/* ---- opening ---- */

static enum err_kind first_meta(struct store *store, const char *path, struct err *err)
{
    char id[33];
    uint8_t secret[32];
    char secret_hex[65];
    if (ledger_file_new_id(id, err))
        return err->kind;
    if (getrandom(secret, sizeof(secret), 0) != (ssize_t)sizeof(secret))
        return err_set(err, ERR_INTERNAL, "getrandom");
    text_hex(secret, sizeof(secret), secret_hex);
    int64_t now = wall_ms() / 1000;
    if (store_set_text(store, "generation", id, err) ||
        store_set_text(store, "secret", secret_hex, err) ||
        store_set_int(store, "created_s", now, err) ||
        store_set_int(store, "complete_since_s", now, err) ||
        store_set_int(store, "clock_ms", 0, err) || store_set_int(store, "seen_s", now, err) ||
        store_set_int(store, "inode", (int64_t)ledger_file_inode(path), err))
        return err->kind;
    return ERR_OK;
}

/* In one transaction that ends whatever happens. */
static enum err_kind in_transaction(struct store *store,
                                    enum err_kind (*fn)(struct store *, void *, struct err *),
                                    void *arg, struct err *err)
{
    if (store_begin(store, err))
        return err->kind;
    if (fn(store, arg, err) || store_commit(store, err)) {
        store_rollback(store);
        return err->kind;
    }
    return ERR_OK;
}

static enum err_kind make_first(struct store *store, void *path, struct err *err)
{
    return first_meta(store, path, err);
}

enum err_kind ledger_init(const struct ledger_setup *setup, struct err *err)
{
    if (ledger_file_check_fs(setup->path, setup->force_fs, err))
        return err->kind;
    if (ledger_file_inode(setup->path) != 0)
        return err_set(err, ERR_EXISTS,
                       "%s exists: a ledger is never started over (move it away by hand)",
                       setup->path);
    int lock CLEANUP_FD = -1;
    if (ledger_file_lock(setup->path, &lock, err))
        return err->kind;
    char *temporary CLEANUP_FREE = xasprintf("%s.new", setup->path);
    (void)unlink(temporary);
    struct store_open how = {
        .path = temporary, .vfs = setup->vfs, .synchronous = setup->synchronous, .create = true
    };
    struct store *store CLEANUP(store_closep) = NULL;
    if (store_open(&how, &store, err) || in_transaction(store, make_first, temporary, err))
        return err->kind;
    store_closep(&store); /* checkpoints and removes the WAL: one file is left */
    if (rename(temporary, setup->path))
        return err_set(err, ERR_INTERNAL, "rename %s to %s", temporary, setup->path);
    return ledger_file_sync_dir(setup->path, err);
}

/* What the last process left, and how much of the past this ledger can vouch for. */
struct opening {
    struct ledger *ledger;
    bool restored;
};

static enum err_kind open_meta(struct store *store, void *arg, struct err *err)
{
    struct opening *opening = arg;
    struct ledger *ledger = opening->ledger;
    char secret[65];
    int64_t seen_s = 0;
    if (store_get_text(store, "secret", secret, sizeof(secret), err) ||
        store_get_text(store, "generation", ledger->generation, sizeof(ledger->generation), err) ||
        store_get_int(store, "clock_ms", &ledger->clock_base_ms, err) ||
        store_get_int(store, "seen_s", &seen_s, err) ||
        store_get_int(store, "complete_since_s", &ledger->complete_since_s, err))
        return err->kind;
    if (!text_unhex(secret, ledger->secret, sizeof(ledger->secret)))
        return err_set(err, ERR_PRECONDITION, "%s: no secret: not a ledger", ledger->path);
    int64_t now = wall_ms() / 1000;
    bool gap = now - seen_s > GAP_S || now < seen_s - GAP_S;
    if (gap || opening->restored)
        ledger->complete_since_s = now;
    if (store_set_int(store, "complete_since_s", ledger->complete_since_s, err) ||
        store_set_int(store, "seen_s", now, err))
        return err->kind;
    if (opening->restored && (ledger_file_new_id(ledger->generation, err) ||
                              store_set_text(store, "generation", ledger->generation, err) ||
                              store_set_int(store, "inode", (int64_t)ledger->inode, err)))
        return err->kind;
    return store_restart(store, ledger_now(ledger), err);
}

static enum err_kind check_identity(struct ledger *ledger, bool *restored, struct err *err)
{
    int64_t inode = 0;
    if (store_get_int(ledger->write_store, "inode", &inode, err))
        return err->kind;
    ledger->inode = ledger_file_inode(ledger->path);
    *restored = (uint64_t)inode != ledger->inode && ledger_file_inode_lasts(ledger->path);
    if (*restored && !ledger->setup.adopt)
        return err_set(
            err, ERR_PRECONDITION,
            "ledger %s was copied or restored: two gates with one past would sell one payment twice"
            " (make sure that no other gate has it, then run `utter-gate ledger init --adopt`)",
            ledger->path);
    return ERR_OK;
}

static enum err_kind load_unknown(struct ledger *ledger, struct err *err)
{
    struct store_row row = { 0 };
    do {
        if (store_next_unknown(ledger->write_store, row.id, &row, err))
            return err->kind;
        if (row.found)
            (void)ledger_payment_from_row(ledger, &row)
                ->refs--; /* UNKNOWN stays without a reference */
    } while (row.found);
    return store_room(ledger->write_store, &ledger->room, err);
}

static enum err_kind open_stores(struct ledger *ledger, struct err *err)
{
    struct store_open how = { .path = ledger->path,
                              .vfs = ledger->setup.vfs,
                              .synchronous = ledger->setup.synchronous };
    if (store_open(&how, &ledger->write_store, err))
        return err->kind;
    struct opening opening = { .ledger = ledger };
    if (check_identity(ledger, &opening.restored, err) ||
        in_transaction(ledger->write_store, open_meta, &opening, err) || load_unknown(ledger, err))
        return err->kind;
    how.read_only = true;
    return store_open(&how, &ledger->read_store, err);
}

static enum err_kind start_threads(struct ledger *ledger, struct err *err)
{
    static const struct db_thread_ops write_ops = { store_begin, store_commit, store_rollback };
    static const struct db_thread_ops read_ops = { store_read_begin, store_read_end,
                                                   store_rollback };
    if (db_thread_new(ledger->loop, ledger->write_store, &write_ops, "ledger-write",
                      &ledger->writer, err))
        return err->kind;
    return db_thread_new(ledger->loop, ledger->read_store, &read_ops, "ledger-read",
                         &ledger->reader, err);
}

static struct ledger *ledger_alloc(const struct ledger_setup *setup, struct loop *loop)
{
    struct ledger *ledger = xcalloc(1, sizeof(*ledger));
    ledger->setup = *setup;
    ledger->path = xstrdup(setup->path);
    ledger->setup.path = ledger->path;
    ledger->loop = loop;
    ledger->lock_fd = -1;
    ledger->opened_boot_ms = ledger->anchor_boot_ms = loop_now_ms(loop);
    ledger->anchor_wall_ms = wall_ms();
    uint64_t seed = 0;
    (void)!getrandom(&seed, sizeof(seed), 0);
    ledger_index_init(&ledger->index, seed);
    return ledger;
}

enum err_kind ledger_open(const struct ledger_setup *setup, struct loop *loop, struct ledger **out,
                          struct err *err)
{
    if (ledger_file_check_fs(setup->path, setup->force_fs, err))
        return err->kind;
    bool missing = ledger_file_inode(setup->path) == 0;
    if (missing && !setup->create)
        return err_set(
            err, ERR_NOT_FOUND,
            "no ledger at %s: a lost one must be found, not replaced; a first one is made by"
            " `utter-gate ledger init` or ledger.create",
            setup->path);
    if (missing && ledger_init(setup, err))
        return err->kind;
    struct ledger *ledger CLEANUP(ledger_freep) = ledger_alloc(setup, loop);
    if (ledger_file_lock(ledger->path, &ledger->lock_fd, err))
        return err->kind;
    if (open_stores(ledger, err) || start_threads(ledger, err))
        return err->kind;
    tidy_later(ledger, ledger->setup.tidy_ms);
    *out = STEAL(ledger);
    return ERR_OK;
}

/* Calls that wait for a turn of the loop rather than for a thread. */
static void drop_deferred(struct ledger *ledger)
{
    while (ledger->ops)
        ledger_op_free(ledger->ops);
}

static void drop_payments(struct ledger *ledger)
{
    for (size_t i = 0; i < ledger->index.cap_payments; i++) {
        while (ledger->index.payments[i]) {
            struct ledger_payment *p = ledger->index.payments[i];
            p->refs = 1;
            ledger_payment_unref(p);
        }
    }
}

static enum err_kind apply_last(struct db_job *job, void *store, struct err *err)
{
    struct ledger_op *op = (struct ledger_op *)job;
    if (store_set_int(store, "clock_ms", op->now.clock_ms, err))
        return err->kind;
    return store_set_int(store, "seen_s", op->now.wall_s, err);
}

static void done_last(struct db_job *job)
{
    ledger_op_free((struct ledger_op *)job);
}

void ledger_free(struct ledger *ledger)
{
    if (!ledger)
        return;
    loop_cancel(&ledger->tidy_timer);
    if (ledger->writer)
        ledger_write(ledger_op_new(ledger, NULL, NULL), apply_last, done_last);
    ledger->closing = true;
    db_thread_free(ledger->reader);
    db_thread_free(ledger->writer);
    drop_deferred(ledger);
    drop_payments(ledger);
    ledger_index_fini(&ledger->index);
    store_close(ledger->read_store);
    store_close(ledger->write_store);
    own_close_(&ledger->lock_fd);
    explicit_bzero(ledger->secret, sizeof(ledger->secret));
    free(ledger->path);
    free(ledger);
}

/* ---- standby ---- */

struct ledger_standby {
    struct ledger_setup setup;
    char *path;
    struct loop *loop;
    struct loop_timer timer;
    ledger_standby_fn *fn;
    void *arg;
    int fd; /* the lock of the one that stands by; given back with the ledger taken */
};

static void on_standby(struct loop_timer *timer)
{
    struct ledger_standby *standby = timer->arg;
    struct ledger *ledger = NULL;
    struct err err = { 0 };
    if (ledger_open(&standby->setup, standby->loop, &ledger, &err) == ERR_EXISTS) {
        loop_after(standby->loop, timer, STANDBY_MS, on_standby, standby);
        return;
    }
    own_close_(&standby->fd);
    standby->fn(standby->arg, ledger, ledger ? NULL : &err);
}

enum err_kind ledger_standby_new(const struct ledger_setup *setup, struct loop *loop,
                                 ledger_standby_fn *fn, void *arg, struct ledger_standby **out,
                                 struct err *err)
{
    if (ledger_file_check_fs(setup->path, setup->force_fs, err))
        return err->kind;
    if (ledger_file_inode(setup->path) == 0 && !setup->create)
        return err_set(err, ERR_NOT_FOUND, "no ledger at %s to stand by for", setup->path);
    int fd CLEANUP_FD = -1;
    if (ledger_file_lock_standby(setup->path, &fd, err))
        return err->kind;
    struct ledger_standby *standby = xcalloc(1, sizeof(*standby));
    *standby = (struct ledger_standby){ .setup = *setup,
                                        .path = xstrdup(setup->path),
                                        .loop = loop,
                                        .fn = fn,
                                        .arg = arg,
                                        .fd = steal_fd(&fd) };
    standby->setup.path = standby->path;
    loop_after(loop, &standby->timer, 0, on_standby, standby);
    *out = standby;
    return ERR_OK;
}

void ledger_standby_free(struct ledger_standby *standby)
{
    if (!standby)
        return;
    loop_cancel(&standby->timer);
    own_close_(&standby->fd);
    free(standby->path);
    free(standby);
}

/* ---- figures ---- */

void ledger_stats(const struct ledger *ledger, struct ledger_stats *out)
{
    *out = (struct ledger_stats){
        .unresolved = ledger->room.unresolved,
        .settled_total = ledger->settled_total,
        .failed_total = ledger->failed_total,
        .uncharged_total = ledger->uncharged_total,
        .replayed_total = ledger->replayed_total,
        .sealed_bytes = ledger->room.sealed_bytes,
        .reserved_bytes = ledger->reserved_bytes,
        .deletion_paused = ledger->deletion_paused,
    };
    for (size_t i = 0; i < ledger->index.cap_payments; i++) {
        for (const struct ledger_payment *p = ledger->index.payments[i]; p; p = p->hash_next)
            out->payments[p->state]++;
    }
    struct db_thread_stats writer;
    db_thread_stats(ledger->writer, &writer);
    out->commits = writer.batches;
    out->writes = writer.jobs;
    out->queue = writer.queued;
}
