#include "gate/db_thread.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/log.h"

#define BATCH_MAX                                                                                  \
    512 /* jobs in one transaction: bounds the loss of time when a batch is repeated */

struct job_list {
    struct db_job *first;
    struct db_job **last;
    size_t n;
};

struct db_thread {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool started;
    bool stopping;
    bool broken;
    struct job_list waiting; /* under the lock, as all above */
    struct job_list finished;
    struct job_list submitted; /* the loop's own: of this turn */
    struct job_list ended;     /* the loop's own: `done` is due */
    struct loop_hook hook;
    struct db_thread_stats stats;
    int event_fd;
    struct loop_watch watch;
    void *db;
    const struct db_thread_ops *ops;
    char name[16];
};

static void list_init(struct job_list *list)
{
    *list = (struct job_list){ .last = &list->first };
}

static void list_add(struct job_list *list, struct db_job *job)
{
    job->next = NULL;
    *list->last = job;
    list->last = &job->next;
    list->n++;
}

/* All of `from` behind `to`. */
static void list_join(struct job_list *to, struct job_list *from)
{
    if (!from->first)
        return;
    *to->last = from->first;
    to->last = from->last;
    to->n += from->n;
    list_init(from);
}

static struct db_job *list_take(struct job_list *list)
{
    struct db_job *job = list->first;
    if (!job)
        return NULL;
    list->first = job->next;
    if (!list->first)
        list->last = &list->first;
    list->n--;
    return job;
}

static void note_failure(struct db_thread *t, enum err_kind kind, const struct err *err)
{
    log_error("ledger_write_failed", log_str("db", t->name), log_str("error", err->msg));
    if (kind != ERR_INTERNAL)
        return;
    pthread_mutex_lock(&t->lock);
    t->broken = true;
    pthread_mutex_unlock(&t->lock);
}

static enum err_kind apply_list(struct db_thread *t, struct db_job *jobs, struct err *err)
{
    if (t->ops->begin && t->ops->begin(t->db, err))
        return err->kind;
    for (struct db_job *job = jobs; job; job = job->next) {
        if (job->apply(job, t->db, err)) {
            if (t->ops->rollback)
                t->ops->rollback(t->db);
            return err->kind;
        }
    }
    if (!t->ops->commit || !t->ops->commit(t->db, err))
        return ERR_OK;
    t->ops->rollback(t->db);
    return err->kind;
}

/* One job in a transaction of its own. */
static void apply_single(struct db_thread *t, struct db_job *job)
{
    struct db_job *next = job->next;
    struct err err = { 0 };
    job->next = NULL;
    if (db_thread_broken(t))
        job->failed = ERR_UNAVAILABLE;
    else
        job->failed = apply_list(t, job, &err);
    if (err.kind)
        note_failure(t, err.kind, &err);
    job->next = next;
}

static void apply_batch(struct db_thread *t, struct db_job *jobs)
{
    struct err err = { 0 };
    bool grouped = t->ops->commit && jobs->next && !db_thread_broken(t);
    if (grouped && !apply_list(t, jobs, &err)) {
        for (struct db_job *job = jobs; job; job = job->next)
            job->failed = ERR_OK;
        return;
    }
    if (grouped)
        note_failure(t, err.kind, &err);
    for (struct db_job *job = jobs; job; job = job->next)
        apply_single(t, job);
}

/* Cuts at most BATCH_MAX jobs off the front of the queue; the lock is held. */
static struct db_job *take_batch(struct db_thread *t)
{
    struct job_list batch;
    list_init(&batch);
    while (t->waiting.n > 0 && batch.n < BATCH_MAX)
        list_add(&batch, list_take(&t->waiting));
    t->stats.jobs += batch.n;
    t->stats.batches++;
    return batch.first;
}

static void hand_over(struct db_thread *t, struct db_job *jobs)
{
    pthread_mutex_lock(&t->lock);
    while (jobs) {
        struct db_job *next = jobs->next;
        list_add(&t->finished, jobs);
        jobs = next;
    }
    pthread_mutex_unlock(&t->lock);
    uint64_t one = 1;
    ssize_t n = write(t->event_fd, &one, sizeof(one));
    (void)n; /* the counter cannot be full: the loop reads it to zero */
}

static void *thread_main(void *arg)
{
    struct db_thread *t = arg;
    for (;;) {
        pthread_mutex_lock(&t->lock);
        while (t->waiting.n == 0 && !t->stopping)
            pthread_cond_wait(&t->wake, &t->lock);
        struct db_job *batch = t->waiting.n ? take_batch(t) : NULL;
        pthread_mutex_unlock(&t->lock);
        if (!batch)
            return NULL;
        apply_batch(t, batch);
        hand_over(t, batch);
    }
}

static void run_finished(struct db_thread *t)
{
    struct db_job *job;
    pthread_mutex_lock(&t->lock);
    list_join(&t->ended, &t->finished);
    pthread_mutex_unlock(&t->lock);
    while ((job = list_take(&t->ended)))
        job->done(job);
}

/* What this turn of the loop submitted goes over to the thread. */
static void hand_in(struct db_thread *t)
{
    if (!t->submitted.first)
        return;
    pthread_mutex_lock(&t->lock);
    list_join(&t->waiting, &t->submitted);
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
}

static void on_turn(struct loop_hook *hook)
{
    hand_in(hook->arg);
}

static void on_event(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct db_thread *t = watch->arg;
    uint64_t count;
    if (read(t->event_fd, &count, sizeof(count)) == sizeof(count))
        run_finished(t);
}

/* All signals stay with the loop's thread. */
static int start_thread(struct db_thread *t)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, (size_t)256 * 1024);
    int failed = pthread_create(&t->thread, &attr, thread_main, t);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        pthread_setname_np(t->thread, t->name);
    return failed;
}

DEFINE_CLEANUP(struct db_thread, db_thread_free, db_thread_freep)

enum err_kind db_thread_new(struct loop *loop, void *db, const struct db_thread_ops *ops,
                            const char *name, struct db_thread **out, struct err *err)
{
    struct db_thread *t CLEANUP(db_thread_freep) = xcalloc(1, sizeof(*t));
    t->db = db;
    t->ops = ops;
    (void)snprintf(t->name, sizeof(t->name), "%s", name);
    list_init(&t->waiting);
    list_init(&t->finished);
    list_init(&t->submitted);
    list_init(&t->ended);
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->wake, NULL);
    t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->event_fd < 0)
        return err_sys(err, errno, "eventfd");
    if (loop_watch(loop, &t->watch, t->event_fd, EPOLLIN, on_event, t, err))
        return err->kind;
    int failed = start_thread(t);
    if (failed)
        return err_sys(err, failed, "thread %s", name);
    t->started = true;
    loop_before_wait(loop, &t->hook, on_turn, t);
    *out = STEAL(t);
    return ERR_OK;
}

void db_thread_free(struct db_thread *t)
{
    if (!t)
        return;
    loop_unhook(&t->hook);
    hand_in(t);
    pthread_mutex_lock(&t->lock);
    t->stopping = true;
    pthread_cond_signal(&t->wake);
    pthread_mutex_unlock(&t->lock);
    if (t->started)
        pthread_join(t->thread, NULL);
    run_finished(t);
    loop_unwatch(&t->watch);
    own_close_(&t->event_fd);
    pthread_cond_destroy(&t->wake);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

void db_thread_submit(struct db_thread *t, struct db_job *job)
{
    list_add(&t->submitted, job);
}

bool db_thread_broken(struct db_thread *t)
{
    pthread_mutex_lock(&t->lock);
    bool broken = t->broken;
    pthread_mutex_unlock(&t->lock);
    return broken;
}

void db_thread_stats(struct db_thread *t, struct db_thread_stats *out)
{
    pthread_mutex_lock(&t->lock);
    *out = t->stats;
    out->queued = t->waiting.n + t->submitted.n;
    pthread_mutex_unlock(&t->lock);
}
