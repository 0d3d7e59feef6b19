/*
 * A thread that owns one SQLite connection, so that the loop never waits for a disk.
 *
 * Jobs are applied in the order they were submitted. With a `commit` operation all jobs that wait
 * at one moment share one transaction and one sync; a batch that fails is rolled back and repeated
 * job by job, so one too large job fails alone. Without, jobs run one by one. `done` runs
 * on the loop's thread, in order, for every job exactly once.
 *
 * A failed commit of kind ERR_INTERNAL (a sync or the file itself failed) breaks the thread: what
 * the disk holds is not known, so every later job fails unapplied with ERR_UNAVAILABLE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/loop.h"

struct db_job {
    struct db_job *next;
    /* On the thread. May run twice (see above): it must depend on the job's input alone. */
    enum err_kind (*apply)(struct db_job *job, void *db, struct err *err);
    void (*done)(struct db_job *job); /* on the loop; owns the job from then on */
    enum err_kind failed;             /* set before done: ERR_OK when applied and committed */
};

struct db_thread_ops {
    enum err_kind (*begin)(void *db, struct err *err); /* all NULL: job by job */
    enum err_kind (*commit)(void *db, struct err *err);
    void (*rollback)(void *db);
};

struct db_thread_stats {
    uint64_t jobs, batches, queued;
};

struct db_thread;

/* `db` is borrowed and used by the thread alone until db_thread_free(). */
CHECKED enum err_kind db_thread_new(struct loop *loop, void *db, const struct db_thread_ops *ops,
                                    const char *name, struct db_thread **out, struct err *err);
/* Applies what is queued, ends the thread, calls what `done` is left. NULL is fine. */
void db_thread_free(struct db_thread *thread);
/* On the loop's thread. Jobs go over before the loop waits, those of one turn together: one
 * wake-up, and one transaction where the order of events alone would have made several. */
void db_thread_submit(struct db_thread *thread, struct db_job *job);
bool db_thread_broken(struct db_thread *thread);
void db_thread_stats(struct db_thread *thread, struct db_thread_stats *out);
