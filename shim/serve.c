/*
 * The daemon: one loop that answers containerd, reaps, and leaves when it is no longer needed.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "proto/ttrpc_server.h"
#include "shim/commands.h"
#include "shim/service.h"
#include "shim/task.h"

#define IDLE_MS 120000U
#define ORPHAN_MS 5000U
#define DRAIN_MS 3000U
#define FLUSH_MS 5000U

struct daemon {
    struct loop *loop;
    struct shim shim;
    struct service *service;
    struct ttrpc_server *server;
    struct loop_timer idle;
    struct loop_timer orphan;
    const char *bundle; /* that it was started for; borrowed */
    size_t connections;
    bool leaving;
};

/* ---- leaving
 * -------------------------------------------------------------------------------------- */

static void on_flushed(void *arg)
{
    struct daemon *d = arg;
    loop_stop(d->loop);
}

static void on_drained(void *arg)
{
    struct daemon *d = arg;
    events_flush(d->shim.events, FLUSH_MS, on_flushed, d);
}

static void leave(void *arg)
{
    struct daemon *d = arg;
    if (d->leaving)
        return;
    d->leaving = true;
    (void)unlink(d->shim.socket);
    ttrpc_server_drain(d->server, DRAIN_MS, on_drained, d);
}

/* Nobody connected and nothing to look after: containerd has lost this shim, or never found it. */
static void on_idle(struct loop_timer *timer)
{
    struct daemon *d = timer->arg;
    if (d->connections == 0 && !d->shim.tasks) {
        log_warn("shim_unused", log_int("pid", getpid()));
        leave(d);
        return;
    }
    loop_after(d->loop, &d->idle, IDLE_MS, on_idle, d);
}

/* Nobody connected, and containerd has removed every bundle: nobody will ever ask again. That holds
 * too for a shim that never had a task: its start was killed or given up before it was dialled. */
static void on_orphan(struct loop_timer *timer)
{
    struct daemon *d = timer->arg;
    bool orphan = d->connections == 0 && (d->shim.tasks || access(d->bundle, F_OK) != 0);
    for (const struct task *t = d->shim.tasks; orphan && t; t = t->next)
        orphan = !t->bundle.path || access(t->bundle.path, F_OK) != 0;
    if (orphan) {
        log_warn("shim_orphaned", log_int("pid", getpid()));
        if (d->shim.sandbox)
            sandbox_kill(d->shim.sandbox);
        leave(d);
        return;
    }
    loop_after(d->loop, &d->orphan, ORPHAN_MS, on_orphan, d);
}

static void on_connections(void *arg, size_t n)
{
    struct daemon *d = arg;
    d->connections = n;
}

/* ---- signals
 * ---------------------------------------------------------------------------------------- */

static void dump(const struct shim *shim)
{
    for (const struct task *t = shim->tasks; t; t = t->next) {
        log_info("task", log_str("id", t->id), log_str("state", task_state_name(t->process.state)),
                 log_int("pid", t->process.pid), log_str("busy", t->busy ? t->busy : ""));
        for (const struct exec *e = t->execs; e; e = e->next)
            log_info("exec", log_str("id", e->id),
                     log_str("state", task_state_name(e->process.state)));
    }
    log_info("events", log_int("pending", (int64_t)events_pending(shim->events)));
}

static void on_signal(void *arg, const struct signalfd_siginfo *info)
{
    struct daemon *d = arg;
    switch (info->ssi_signo) {
    case SIGCHLD:
        children_reap(&d->shim.children);
        break;
    case SIGUSR1:
        dump(&d->shim);
        break;
    default:
        /* containerd finds the connection gone and runs delete, which takes the rest away. */
        log_warn("shim_signalled", log_int("signal", info->ssi_signo));
        if (d->shim.sandbox)
            sandbox_kill(d->shim.sandbox);
        leave(d);
    }
}

/* ---- set-up
 * ------------------------------------------------------------------------------------------ */

/* One more than containerd's own, so that the kernel takes a shim first; not allowed everywhere. */
static void adjust_oom_score(void)
{
    FILE *f CLEANUP_FILE = fopen("/proc/self/oom_score_adj", "r+e");
    int score = 0;
    if (!f || fscanf(f, "%d", &score) != 1 || score >= 1000)
        return;
    rewind(f);
    if (fprintf(f, "%d", score + 1) < 0 || fflush(f) != 0)
        log_info("oom_score_adj", log_str("why", strerror(errno)));
}

static CHECKED enum err_kind set_up_shim(struct daemon *d, const struct serve *serve,
                                         struct err *err)
{
    d->shim.loop = d->loop;
    d->shim.config = serve->config;
    d->shim.ns = serve->boot->ns;
    d->shim.group = serve->group;
    d->shim.run_dir = serve->run_dir;
    d->shim.socket = serve->socket;
    d->shim.conformance = serve->program->conformance;
    enum err_kind kind = cgroup_host_open("/sys/fs/cgroup", "/proc", &d->shim.cgroups, err);
    if (kind)
        return kind;
    const char *ttrpc = serve->boot->ttrpc_address;
    if (!ttrpc || !*ttrpc)
        ttrpc = serve->boot->params_ttrpc;
    return events_new(d->loop, ttrpc, serve->boot->ns, &d->shim.events, err);
}

static CHECKED enum err_kind set_up(struct daemon *d, const struct serve *serve, struct err *err)
{
    enum err_kind kind = loop_new(&d->loop, err);
    if (kind)
        return kind;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGUSR1);
    (void)signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return err_sys(err, errno, "subreaper");
    if ((kind = loop_signals(d->loop, &set, on_signal, d, err)))
        return kind;
    if ((kind = set_up_shim(d, serve, err)))
        return kind;
    d->bundle = serve->bundle;
    d->service = service_new(&d->shim, leave, d);
    struct ttrpc_server_options options = { .on_connections = on_connections, .arg = d };
    options.services = service_tables(d->service, &options.n_services);
    if ((kind = ttrpc_server_new(d->loop, serve->listener, &options, &d->server, err)))
        return kind;
    loop_after(d->loop, &d->idle, IDLE_MS, on_idle, d);
    loop_after(d->loop, &d->orphan, ORPHAN_MS, on_orphan, d);
    adjust_oom_score();
    return chdir("/") == 0 ? ERR_OK : err_sys(err, errno, "/");
}

static void tear_down(struct daemon *d)
{
    while (d->shim.tasks)
        task_free(d->shim.tasks);
    sandbox_free(d->shim.sandbox);
    ttrpc_server_free(d->server);
    service_free(d->service);
    events_free(d->shim.events);
    cgroup_host_free(d->shim.cgroups);
    loop_free(d->loop);
}

enum err_kind serve_run(const struct serve *serve, struct err *err)
{
    struct daemon d = { 0 };
    enum err_kind kind = set_up(&d, serve, err);
    if (!kind) {
        if (serve->program->conformance)
            log_warn("no_rules", log_str("program", serve->program->name),
                     log_str("why", "conformance tests only: no policy is applied"));
        ssize_t n = write(serve->ready, "\n", 1);
        (void)close(serve->ready);
        kind = n == 1 ? loop_run(d.loop, err) : err_sys(err, errno, "ready");
    }
    tear_down(&d);
    return kind;
}
