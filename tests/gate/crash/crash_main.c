/*
 * gate_crash: kills a gate at every named point, in every mode of a facilitator, and checks what is
 * left.
 *
 *   --short            each fault point once, mode and manner drawn from the seed (in ctest)
 *   --all              every fault point × mode × manner
 *   --random N         N drawn histories; in each up to three lives die
 *   --power            loss of power instead of kill -9: unsynced writes are dropped, reordered,
 * torn
 *   --synchronous X    NORMAL or OFF instead of FULL, with --expect-violations: shows that the
 * suite can fail
 *   --seed N           repeat what a printed seed did
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "gate/ledger.h"
#include "tests/gate/crash/crash.h"

/* Every point that the code has, in the order a payment meets them. commit.*:N is the Nth commit of
 * a life: 1 opens the ledger, 2 runs, 3 seals, 4 ends, 5 counts the release. */
static const char *const faults[] = {
    "commit.before:1",
    "commit.after:1",
    "claimed",
    "verified",
    "commit.before:2",
    "commit.after:2",
    "run.durable",
    "handler.before",
    "handler.after",
    "commit.before:3",
    "commit.after:3",
    "seal.durable",
    "sealed",
    "settle.before_send",
    "settle.sent",
    "settle.before_send:2",
    "settle.sent:2",
    "settle.after_reply",
    "settle.after_reply:2",
    "commit.before:4",
    "commit.after:4",
    "step.durable",
    "settled.durable",
    "release.before",
    "answer.before",
    "answer.after",
    "release.after",
    "commit.before:5",
    "commit.after:5",
};

struct driver {
    char dir[64];
    char path[96];
    struct loop *loop;
    struct fac fac;
    const char *self;
    bool verbose, expect_violations;
    const char *synchronous;
    bool power;
    unsigned seed;
    int histories, violations, deaths, unresolved;
};

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* ---- one life ---- */

struct running {
    struct driver *driver;
    struct life *life;
    struct loop_watch watch;
    pid_t pid;
    int fd;
    char text[4096];
    size_t len;
};

static void take_lines(struct running *r)
{
    char *rest = NULL;
    r->text[r->len] = '\0';
    for (char *line = strtok_r(r->text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        int kind;
        struct line *out = &r->life->lines[r->life->n];
        if (r->life->n < LINES_MAX &&
            sscanf(line, "%d %d %d", &kind, &out->arg, &out->detail) == 3) {
            out->kind = (enum line_kind)kind;
            r->life->n++;
        }
    }
}

static void on_child(struct loop_watch *watch, uint32_t events)
{
    struct running *r = watch->arg;
    (void)events;
    ssize_t n = read(r->fd, r->text + r->len, sizeof(r->text) - 1 - r->len);
    if (n > 0) {
        r->len += (size_t)n;
        return;
    }
    loop_unwatch(watch);
    loop_stop(r->driver->loop);
}

static void spawn(struct running *r, const struct scenario *s, bool faulted, int pipe_fd)
{
    char port[16];
    char loss[16];
    char seed[16];
    snprintf(port, sizeof(port), "%d", r->driver->fac.port);
    snprintf(loss, sizeof(loss), "%d", (int)s->loss);
    snprintf(seed, sizeof(seed), "%u", s->seed);
    r->pid = fork();
    if (r->pid < 0)
        die("fork");
    if (r->pid > 0)
        return;
    dup2(pipe_fd, STDOUT_FILENO);
    if (faulted && s->fault)
        setenv("UTTER_FAULT", s->fault, 1);
    if (s->power)
        setenv("CRASH_VFS", "power", 1);
    if (s->synchronous)
        setenv("CRASH_SYNCHRONOUS", s->synchronous, 1);
    execl(r->driver->self, r->driver->self, "child", r->driver->path, port, loss, seed,
          (char *)NULL);
    _exit(127);
}

static void live(struct driver *d, const struct scenario *s, bool faulted, struct life *life)
{
    struct running r = { .driver = d, .life = life };
    struct err err;
    int fds[2];
    if (pipe2(fds, O_CLOEXEC))
        die("pipe");
    r.fd = fds[0];
    spawn(&r, s, faulted, fds[1]);
    close(fds[1]);
    if (loop_watch(d->loop, &r.watch, r.fd, EPOLLIN, on_child, &r, &err) || loop_run(d->loop, &err))
        die("loop");
    int status;
    if (waitpid(r.pid, &status, 0) != r.pid)
        die("waitpid");
    close(fds[0]);
    take_lines(&r);
    life->killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    life->failed = !life->killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    d->deaths += life->killed;
    if (s->power && life->killed)
        power_vfs_restore(d->path);
    else if (s->power)
        power_vfs_forget(d->path);
}

/* ---- one history ---- */

static void fresh_ledger(struct driver *d)
{
    struct ledger_setup setup;
    struct err err;
    if (!fs_remove_tree(d->dir, &err) && !fs_mkdirs(d->dir, 0700, &err)) {
        ledger_setup_defaults(&setup);
        setup.path = d->path;
        setup.force_fs = true;
        if (!ledger_init(&setup, &err))
            return;
    }
    fprintf(stderr, "%s\n", err.msg);
    exit(2);
}

static void print_history(const struct history *h, const char *violation)
{
    static const char *const kinds[] = { "state", "run", "sealed",     "answer", "402",
                                         "503",   "409", "unresolved", "end" };
    const struct scenario *s = &h->scenario;
    printf("%s: fault %s, facilitator %s, resettle %s, seed %u%s\n", violation ? violation : "ok",
           s->fault ? s->fault : "-", fac_mode_names[s->mode], fac_resettle_names[s->resettle],
           s->seed, s->power ? ", power" : "");
    for (int i = 0; i < h->n; i++) {
        printf("  life %d%s:", i + 1,
               h->lives[i].killed   ? " (killed)"
               : h->lives[i].failed ? " (failed)"
                                    : "");
        for (int k = 0; k < h->lives[i].n; k++) {
            const struct line *line = &h->lives[i].lines[k];
            if (line->kind == LINE_STATE)
                printf(" %s", payment_state_name((enum payment_state)line->arg));
            else
                printf(" %s(%d)", kinds[line->kind], line->arg);
        }
        printf("\n");
    }
    printf("  transfers %d\n", h->transfers);
}

/* `deaths` lives end at fault points drawn from faults[] (the first at scenario.fault), then two
 * undisturbed ones ask again. */
static void run_history(struct driver *d, const struct scenario *s, int deaths, unsigned *dice)
{
    struct history h = { .scenario = *s };
    struct scenario life = *s;
    fresh_ledger(d);
    for (int i = 0; i < d->fac.n; i++)
        free(d->fac.payments[i].body);
    memset(d->fac.payments, 0, sizeof(d->fac.payments));
    d->fac.n = 0;
    d->fac.mode = s->mode;
    d->fac.resettle = s->resettle;
    d->fac.mode_left = 1 + (int)(rand_r(dice) % 2);
    for (int i = 0; i < deaths; i++) {
        live(d, &life, true, &h.lives[h.n++]);
        life.fault = faults[(size_t)rand_r(dice) % ARRAY_LEN(faults)];
        life.seed = (unsigned)rand_r(dice);
    }
    for (int i = 0; i < 2; i++)
        live(d, &life, false, &h.lives[h.n++]);
    h.transfers = fac_transfers(&d->fac);
    h.payments_seen = d->fac.n;
    const char *violation = crash_check(&h);
    d->histories++;
    d->violations += violation != NULL;
    if ((violation && !d->expect_violations) || d->verbose)
        print_history(&h, violation);
    for (int i = 0; i < d->fac.n_hanging; i++)
        http_answer_reset(d->fac.hanging[i]);
    d->fac.n_hanging = 0;
}

static struct scenario scenario_of(struct driver *d, size_t fault, int mode, int resettle,
                                   unsigned *dice)
{
    return (struct scenario){
        .fault = faults[fault],
        .mode = (enum fac_mode)mode,
        .resettle = (enum fac_resettle)resettle,
        .power = d->power,
        .loss = (enum power_loss)(rand_r(dice) % POWER_LOSS_N),
        .seed = (unsigned)rand_r(dice),
        .synchronous = d->synchronous,
    };
}

static void run_short(struct driver *d, unsigned *dice)
{
    for (size_t f = 0; f < ARRAY_LEN(faults) && !(d->expect_violations && d->violations); f++) {
        int mode = rand_r(dice) % FAC_MODE_N;
        struct scenario s =
            scenario_of(d, f, f % 2 ? mode : FAC_OK, rand_r(dice) % FAC_RESETTLE_N, dice);
        run_history(d, &s, 1, dice);
    }
}

static void run_all(struct driver *d, unsigned *dice)
{
    for (size_t f = 0; f < ARRAY_LEN(faults); f++) {
        for (int mode = 0; mode < FAC_MODE_N; mode++) {
            for (int resettle = 0; resettle < FAC_RESETTLE_N; resettle++) {
                struct scenario s = scenario_of(d, f, mode, resettle, dice);
                run_history(d, &s, 1, dice);
            }
        }
    }
}

static void run_random(struct driver *d, int n, unsigned *dice)
{
    for (int i = 0; i < n; i++) {
        struct scenario s =
            scenario_of(d, (size_t)rand_r(dice) % ARRAY_LEN(faults), rand_r(dice) % FAC_MODE_N,
                        rand_r(dice) % FAC_RESETTLE_N, dice);
        run_history(d, &s, 1 + rand_r(dice) % 3, dice);
    }
}

static int report(const struct driver *d)
{
    bool good = d->expect_violations ? d->violations > 0 : d->violations == 0;
    /* A matrix in which nothing was killed has shown nothing. */
    good &= d->deaths > 0;
    printf("seed %u: %d histories, %d lives killed, %d violations%s\n", d->seed, d->histories,
           d->deaths, d->violations,
           good                   ? ""
           : d->expect_violations ? ": the suite should have failed"
                                  : ": FAILED");
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    static struct driver d;
    static const struct option options[] = {
        { "short", no_argument, NULL, 's' },
        { "all", no_argument, NULL, 'a' },
        { "random", required_argument, NULL, 'r' },
        { "power", no_argument, NULL, 'p' },
        { "seed", required_argument, NULL, 'S' },
        { "synchronous", required_argument, NULL, 'y' },
        { "verbose", no_argument, NULL, 'v' },
        { "expect-violations", no_argument, NULL, 'x' },
        { NULL, 0, NULL, 0 },
    };
    struct err err;
    if (argc > 1 && !strcmp(argv[1], "child"))
        return crash_child(argc, argv);
    bool all = false;
    int random = 0;
    int c;
    d.seed = (unsigned)time(NULL) ^ (unsigned)getpid();
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        all |= c == 'a';
        d.power |= c == 'p';
        d.verbose |= c == 'v';
        d.expect_violations |= c == 'x';
        if (c == 'r')
            random = atoi(optarg);
        else if (c == 'S')
            d.seed = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'y')
            d.synchronous = optarg;
        else if (c == '?')
            return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    d.self = "/proc/self/exe";
    strcpy(d.dir, "/tmp/ut-crash.XXXXXX");
    if (!mkdtemp(d.dir) || loop_new(&d.loop, &err))
        die("set-up");
    snprintf(d.path, sizeof(d.path), "%s/ledger", d.dir);
    fac_init(&d.fac, d.loop);
    unsigned dice = d.seed;
    if (all)
        run_all(&d, &dice);
    else if (random)
        run_random(&d, random, &dice);
    else
        run_short(&d, &dice);
    fac_fini(&d.fac);
    loop_free(d.loop);
    (void)!fs_remove_tree(d.dir, &err);
    return report(&d);
}
