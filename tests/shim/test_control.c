/* shim/control against real sandboxes of each runsc at hand, and against a peer that misbehaves as
 * no real Sentry can be made to. */
#include "shim/control.h"

#include <stddef.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/shim/real_sandbox.h"

struct bench {
    struct loop *loop;
    struct control *control;
    int n; /* callbacks so far */
    enum control_outcome outcome;
    struct err err;
    uint32_t status;
    int32_t pid;
    enum control_runtime_state state;
    size_t n_processes;
    struct control_process first;
    struct control_event event;
    struct control_network network;
    struct control_conn *free_this;
};

static void on_reply(void *arg, const struct control_reply *reply)
{
    struct bench *b = arg;
    b->n++;
    b->outcome = reply->outcome;
    b->err = reply->err;
    b->status = reply->wait_status;
    b->pid = reply->pid;
    b->state = reply->state;
    b->n_processes = reply->n_processes;
    if (reply->n_processes)
        b->first = reply->processes[0];
    if (reply->event)
        b->event = *reply->event;
    if (reply->network)
        b->network = *reply->network;
    if (b->free_this)
        control_conn_free(STEAL(b->free_this));
    loop_stop(b->loop);
}

static void on_late(struct loop_timer *timer)
{
    loop_stop(timer->loop);
}

static void bench_init(struct bench *b, const char *root, const struct control_state_file *state)
{
    *b = (struct bench){ 0 };
    assert_int_equal(loop_new(&b->loop, NULL), 0);
    b->control = control_new(b->loop, root, state);
}

static void bench_fini(struct bench *b)
{
    control_free(b->control);
    loop_free(b->loop);
}

/* Runs the loop until a callback came or `ms` passed. */
static bool pump(struct bench *b, uint64_t ms)
{
    struct loop_timer timer = { 0 };
    int before = b->n;
    loop_after(b->loop, &timer, ms, on_late, NULL);
    while (b->n == before && timer.heap_index)
        assert_int_equal(loop_run(b->loop, NULL), 0);
    loop_cancel(&timer);
    return b->n == before + 1;
}

static void expect(struct bench *b, enum control_outcome outcome)
{
    assert_true(pump(b, 15000));
    if (b->outcome != outcome)
        fail_msg("outcome %d (%s), wanted %d", (int)b->outcome, b->err.msg, (int)outcome);
}

/* ---- real sandboxes -------------------------------------------------------------------------- */

static const char *runsc; /* the one under test */

static struct control_exec exec_of(const struct real *r, const char *const *argv, int out_fd,
                                   int null_fd)
{
    static const char *const env[] = { "PATH=/bin", NULL };
    return (struct control_exec){ .container = r->id,
                                  .argv = argv,
                                  .envv = env,
                                  .cwd = "/",
                                  .no_new_privileges = true,
                                  .fds = { null_fd, out_fd, out_fd } };
}

/* Runs argv in the container; its output in `text`, its wait status returned. */
static uint32_t run_in(struct bench *b, const struct real *r, const char *const *argv, char *text,
                       size_t size)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct control_conn *conn = control_conn_new(b->control);
    struct control_exec exec = exec_of(r, argv, fds[1], null);
    control_exec(conn, &exec, on_reply, b);
    close(fds[1]);
    close(null);
    expect(b, CONTROL_OK);
    assert_true(b->pid > 0);
    control_wait_pid(conn, r->id, b->pid, on_reply, b);
    expect(b, CONTROL_OK);
    control_conn_free(conn);
    size_t len = 0;
    ssize_t n;
    while (len < size - 1 && (n = read(fds[0], text + len, size - 1 - len)) > 0)
        len += (size_t)n;
    text[len] = 0;
    close(fds[0]);
    return b->status;
}

static void test_life_of_a_container(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/sh", "-c",
                                        "trap 'exit 42' TERM; echo ready; sleep 100 & wait", NULL };
    struct stat null_before;
    struct stat null_after;
    assert_int_equal(stat("/dev/null", &null_before), 0);
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 0);
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    real_create(&r, out[1]);
    close(out[1]);
    bench_init(&b, r.root, &r.state);
    print_message("%s: %s, sandbox uid %u\n", runsc, r.state.version, r.state.uid);

    struct control_conn *wait = control_conn_new(b.control);
    control_identify(wait, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_true(b.control->has_state);
    assert_int_equal(b.state, CONTROL_STATE_CREATED);
    control_wait(wait, r.id, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    assert_int_equal(b.err.kind, ERR_PRECONDITION);
    assert_true(control_conn_usable(wait));
    real_start(&r);
    struct bench w = { .loop = b.loop }; /* Wait's answer may come before that of the signal */
    control_wait(wait, r.id, on_reply, &w);
    char ready[8];
    assert_int_equal(read(out[0], ready, sizeof(ready)), 6);
    close(out[0]);

    struct control_conn *conn = control_conn_new(b.control);
    control_runtime_state(conn, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_int_equal(b.state, CONTROL_STATE_RUNNING);
    control_runtime_state(conn, "other", on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_int_equal(b.state, CONTROL_STATE_STOPPED);
    control_event(conn, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_true(b.event.pids >= 1);
    control_network_config(conn, on_reply, &b);
    assert_true(pump(&b, 5000));
    if (b.outcome == CONTROL_OK)
        assert_in_range(b.network.n_links, 0, 1);
    else
        assert_int_equal(b.err.kind, ERR_UNSUPPORTED);
    control_signal(conn, r.id, 4711, SIGKILL, CONTROL_SIGNAL_PROCESS, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    assert_int_equal(b.err.kind, ERR_NOT_FOUND);
    control_signal(conn, r.id, 0, 999, CONTROL_SIGNAL_PROCESS, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    assert_int_equal(b.err.kind, ERR_INVALID);
    /* Before Processes was asked, mode 3 is not sent: an old sandbox would panic. */
    control_signal(conn, r.id, 1, SIGCONT, CONTROL_SIGNAL_GROUP, on_reply, &b);
    expect(&b, CONTROL_USE_CLI);
    control_processes(conn, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_true(b.n_processes >= 1);
    assert_int_equal(b.first.pid, 1);
    assert_string_equal(b.first.cmd, "sh");
    assert_int_equal(b.control->has_pgid, strcmp(runsc, RUNSC_NEW) == 0);
    control_signal(conn, r.id, 1, SIGCONT, CONTROL_SIGNAL_GROUP, on_reply, &b);
    expect(&b, b.control->has_pgid ? CONTROL_OK : CONTROL_USE_CLI);
    control_signal(conn, r.id, 0, SIGTERM, CONTROL_SIGNAL_PROCESS, on_reply, &b);
    expect(&b, CONTROL_OK);
    control_conn_free(conn);
    if (!w.n)
        expect(&w, CONTROL_OK);
    assert_int_equal(w.outcome, CONTROL_OK);
    assert_int_equal(w.status, 42 << 8);
    control_conn_free(wait);
    /* With the connection closed the sandbox does not linger. */
    int status = 0;
    for (int i = 0; i < 100 && waitpid(r.pid, &status, WNOHANG) == 0; i++)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 42);
    r.pid = 0;
    assert_int_equal(stat("/dev/null", &null_after), 0);
    assert_int_equal(null_after.st_uid, null_before.st_uid);
    bench_fini(&b);
    real_fini(&r);
}

static void test_exec(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 0);
    real_create(&r, -1);
    real_start(&r);
    bench_init(&b, r.root, &r.state);
    char text[4096];
    static const char *const say[] = { "sh", "-c", "echo out; echo err >&2; exit 9", NULL };
    assert_int_equal(run_in(&b, &r, say, text, sizeof(text)), 9 << 8);
    assert_string_equal(text, "out\nerr\n");
    static const char *const self_kill[] = { "sh", "-c", "kill -9 $$", NULL };
    assert_int_equal(run_in(&b, &r, self_kill, text, sizeof(text)), 9);
    static const char *const truth[] = { "/bin/true", NULL };
    for (int i = 0; i < 20; i++)
        assert_int_equal(run_in(&b, &r, truth, text, sizeof(text)), 0);
    /* Rights as sent: none. */
    static const char *const rights[] = { "grep", "-E", "CapPrm|CapEff|CapBnd|NoNewPrivs",
                                          "/proc/self/status", NULL };
    assert_int_equal(run_in(&b, &r, rights, text, sizeof(text)), 0);
    assert_non_null(strstr(text, "CapEff:\t0000000000000000"));
    assert_non_null(strstr(text, "CapBnd:\t0000000000000000"));
    if (strstr(text, "NoNewPrivs"))
        assert_non_null(strstr(text, "NoNewPrivs:\t1"));
    /* What cannot be run is an error of the caller, at once. */
    static const char *const missing[] = { "/bin/nope", NULL };
    struct control_conn *conn = control_conn_new(b.control);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct control_exec exec = exec_of(&r, missing, null, null);
    control_exec(conn, &exec, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    assert_int_equal(b.err.kind, ERR_INVALID);
    exec.container = "other";
    control_exec(conn, &exec, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    close(null);
    /* A pid nobody has. */
    control_wait_pid(conn, r.id, 4711, on_reply, &b);
    expect(&b, CONTROL_REFUSED);
    assert_int_equal(b.err.kind, ERR_NOT_FOUND);
    control_conn_free(conn);
    bench_fini(&b);
    real_fini(&r);
}

static void test_exec_on_a_terminal(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 0);
    real_create(&r, -1);
    real_start(&r);
    bench_init(&b, r.root, &r.state);
    int master CLEANUP_FD = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_int_equal(grantpt(master) | unlockpt(master), 0);
    int slave CLEANUP_FD = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    static const char *const cmd[] = { "sh", "-c", "[ -t 0 ] && [ -t 2 ] && exit 3", NULL };
    struct control_exec exec = exec_of(&r, cmd, -1, -1);
    exec.terminal = true;
    exec.fds[0] = slave;
    struct control_conn *conn = control_conn_new(b.control);
    control_exec(conn, &exec, on_reply, &b);
    expect(&b, CONTROL_OK);
    control_wait_pid(conn, r.id, b.pid, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_int_equal(b.status, 3 << 8);
    control_conn_free(conn);
    bench_fini(&b);
    real_fini(&r);
}

static void test_short_ones_lose_no_status(void **state)
{
    (void)state;
    static const char *const argv[] = { "/bin/sh", "-c", "exit 7", NULL };
    for (int i = 0; i < 5; i++) {
        static struct real r;
        struct bench b;
        real_init(&r, runsc, NULL);
        real_bundle(&r, argv, 0);
        real_create(&r, -1);
        bench_init(&b, r.root, &r.state);
        struct control_conn *wait = control_conn_new(b.control);
        real_start(&r);
        (void)nanosleep(&(struct timespec){ .tv_nsec = i * 20000000L }, NULL);
        control_wait(wait, r.id, on_reply, &b);
        expect(&b, CONTROL_OK);
        assert_int_equal(b.status, 7 << 8);
        b.free_this = NULL;
        control_conn_free(wait);
        bench_fini(&b);
        real_fini(&r);
    }
}

static void test_killed_sandbox_is_gone(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 0);
    real_create(&r, -1);
    real_start(&r);
    bench_init(&b, r.root, &r.state);
    struct control_conn *wait = control_conn_new(b.control);
    struct control_conn *idle = control_conn_new(b.control);
    control_wait(wait, r.id, on_reply, &b);
    assert_false(pump(&b, 50));
    kill(r.pid, SIGKILL);
    expect(&b, CONTROL_GONE);
    control_wait(wait, r.id, on_reply, &b); /* a dead connection: told, not asked */
    expect(&b, CONTROL_GONE);
    assert_false(control_conn_usable(wait));
    (void)pump(&b, 50);
    assert_false(control_conn_usable(idle));
    struct control_conn *late = control_conn_new(b.control);
    control_signal(late, r.id, 0, SIGKILL, CONTROL_SIGNAL_ALL, on_reply, &b);
    expect(&b, CONTROL_GONE); /* never the command line's business */
    control_conn_free(late);
    control_conn_free(idle);
    control_conn_free(wait);
    bench_fini(&b);
    real_fini(&r);
}

static void test_stopped_sandbox_times_out(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/sleep", "100", NULL };
    real_init(&r, runsc, NULL);
    real_bundle(&r, argv, 0);
    real_create(&r, -1);
    bench_init(&b, r.root, &r.state);
    b.control->short_ms = 100;
    int stopped = 0;
    kill(r.pid, SIGSTOP);
    assert_int_equal(waitpid(r.pid, &stopped, WUNTRACED), r.pid); /* now all its threads are */
    assert_true(WIFSTOPPED(stopped));
    struct control_conn *conn = control_conn_new(b.control);
    control_signal(conn, r.id, 0, SIGKILL, CONTROL_SIGNAL_ALL, on_reply, &b);
    expect(&b, CONTROL_TIMEOUT);
    assert_false(control_conn_usable(conn));
    assert_false(b.control->cli_only);
    control_conn_free(conn);
    bench_fini(&b);
    real_fini(&r);
}

static void test_long_root(void **state)
{
    (void)state;
    static struct real r;
    struct bench b;
    static const char *const argv[] = { "/bin/true", NULL };
    real_init(
        &r, runsc,
        "/0123456789012345678901234567890123456789/012345678901234567890123456789012345678901234"
        "5678901234567890123456789");
    real_bundle(&r, argv, 0);
    real_create(&r, -1);
    bench_init(&b, r.root, &r.state);
    assert_true(strlen(r.state.socket) >= sizeof(((struct sockaddr_un *)0)->sun_path));
    struct control_conn *conn = control_conn_new(b.control);
    control_identify(conn, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    assert_int_equal(b.state, CONTROL_STATE_CREATED);
    control_conn_free(conn);
    /* Without a stored path the name is looked for in the root. */
    b.control->socket[0] = 0;
    conn = control_conn_new(b.control);
    control_identify(conn, r.id, on_reply, &b);
    expect(&b, CONTROL_OK);
    control_conn_free(conn);
    bench_fini(&b);
    real_fini(&r);
}

static void test_ids_that_begin_alike(void **state)
{
    (void)state;
    struct control_state_file out;
    struct err err;
    assert_int_equal(control_state_file_read("/tmp", "c2", "c2", &out, &err), ERR_NOT_FOUND);
}

/* ---- a peer that misbehaves ------------------------------------------------------------------ */

enum fault {
    FAULT_GARBAGE,
    FAULT_FLOOD,
    FAULT_HALF,
    FAULT_SILENT,
    FAULT_TRAILING,
    FAULT_EARLY,
    FAULT_FDS,
    FAULT_DEEP,
};

static void fault_send(int fd, enum fault fault)
{
    static const char good[] = "{\"success\":true,\"err\":\"\",\"result\":{}}";
    char block[4096];
    memset(block, 'x', sizeof(block));
    switch (fault) {
    case FAULT_GARBAGE:
        (void)!send(fd, "HTTP/1.1 200 OK", 15, MSG_NOSIGNAL);
        break;
    case FAULT_FLOOD:
        (void)!send(fd, "{\"err\":\"", 8, MSG_NOSIGNAL);
        for (int i = 0; i < 2560 && send(fd, block, sizeof(block), MSG_NOSIGNAL) > 0; i++)
            continue;
        break;
    case FAULT_HALF:
        (void)!send(fd, good, 10, MSG_NOSIGNAL);
        break;
    case FAULT_TRAILING:
        (void)!send(fd, "{\"success\":true,\"err\":\"\",\"result\":{}}{}", 39, MSG_NOSIGNAL);
        break;
    case FAULT_DEEP:
        memset(block, '[', sizeof(block));
        block[0] = '{';
        (void)!send(fd, block, 64, MSG_NOSIGNAL);
        break;
    case FAULT_FDS: {
        union {
            struct cmsghdr h;
            char bytes[CMSG_SPACE(sizeof(int))];
        } c = { .h = { .cmsg_level = SOL_SOCKET,
                       .cmsg_type = SCM_RIGHTS,
                       .cmsg_len = CMSG_LEN(sizeof(int)) } };
        memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
        struct iovec iov = { .iov_base =
                                 (char[]){ "{\"success\":true,\"err\":\"\",\"result\":{}}" },
                             .iov_len = sizeof(good) - 1 };
        struct msghdr m = {
            .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
        };
        (void)!sendmsg(fd, &m, MSG_NOSIGNAL);
        break;
    }
    case FAULT_SILENT:
    case FAULT_EARLY:
        break;
    }
}

/* A child that accepts one connection, reads a request and answers wrongly. */
static pid_t fault_peer(const char *path, enum fault fault)
{
    struct sockaddr_un sun = { .sun_family = AF_UNIX };
    assert_true(strlen(path) < sizeof(sun.sun_path));
    memcpy(sun.sun_path, path, strlen(path) + 1);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&sun, sizeof(sun)), 0);
    assert_int_equal(listen(listener, 1), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char buf[4096];
        int fd = accept(listener, NULL, NULL);
        if (fault == FAULT_EARLY)
            (void)!send(fd, "{}", 2, MSG_NOSIGNAL);
        if (recv(fd, buf, sizeof(buf), 0) > 0)
            fault_send(fd, fault);
        if (fault == FAULT_HALF)
            _exit(0);
        for (;;)
            pause();
    }
    close(listener);
    return pid;
}

static size_t open_fds(void)
{
    size_t n = 0;
    for (int i = 0; i < 256; i++)
        n += fcntl(i, F_GETFD) >= 0;
    return n;
}

static void check_fault(enum fault fault, enum control_outcome want, bool cli_only)
{
    char dir[] = "/tmp/ut-proto.XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct control_state_file state = { .sandbox_id = "c1" };
    snprintf(state.socket, sizeof(state.socket), "%s/runsc-c1.sock", dir);
    pid_t peer = fault_peer(state.socket, fault);
    struct bench b;
    bench_init(&b, dir, &state);
    b.control->short_ms = 200;
    struct control_conn *conn = control_conn_new(b.control);
    size_t fds = open_fds();
    if (fault == FAULT_EARLY) {
        (void)pump(&b, 100);
        assert_false(control_conn_usable(conn));
    }
    control_signal(conn, "c1", 0, SIGKILL, CONTROL_SIGNAL_ALL, on_reply, &b);
    expect(&b, want);
    assert_int_equal(b.control->cli_only, cli_only);
    assert_int_equal(open_fds() <= fds, true); /* nothing that was passed to us stays */
    if (cli_only) {                            /* from now on nothing is asked of it */
        struct control_conn *next = control_conn_new(b.control);
        control_event(next, "c1", on_reply, &b);
        expect(&b, CONTROL_USE_CLI);
        control_conn_free(next);
    }
    control_conn_free(conn);
    bench_fini(&b);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    unlink(state.socket);
    rmdir(dir);
}

static void test_faults(void **state)
{
    (void)state;
    check_fault(FAULT_GARBAGE, CONTROL_BROKEN, true);
    check_fault(FAULT_FLOOD, CONTROL_BROKEN, true);
    check_fault(FAULT_DEEP, CONTROL_BROKEN, true);
    check_fault(FAULT_TRAILING, CONTROL_BROKEN, true);
    check_fault(FAULT_EARLY, CONTROL_USE_CLI, true);
    check_fault(FAULT_HALF, CONTROL_GONE, false);
    check_fault(FAULT_SILENT, CONTROL_TIMEOUT, false);
    check_fault(FAULT_FDS, CONTROL_OK, false);
}

static void test_no_socket(void **state)
{
    (void)state;
    struct control_state_file s = { .sandbox_id = "c1", .socket = "/tmp/ut-proto-none/x.sock" };
    struct bench b;
    bench_init(&b, "/tmp/ut-proto-none", &s);
    struct control_conn *conn = control_conn_new(b.control);
    b.free_this = conn;
    control_signal(conn, "c1", 0, SIGKILL, CONTROL_SIGNAL_ALL, on_reply, &b);
    expect(&b, CONTROL_USE_CLI); /* freed in its callback */
    assert_null(b.free_this);
    conn = control_conn_new(b.control);
    control_wait(conn, "c1", on_reply, &b);
    control_conn_free(conn); /* before it was told: never called */
    assert_false(pump(&b, 30));
    bench_fini(&b);
}

#define REAL_TEST(fn) cmocka_unit_test_teardown(fn, real_teardown)

static int run_real(const char *which)
{
    if (access(which, X_OK) || geteuid() != 0) {
        print_message("SKIP: no %s\n", which);
        return 0;
    }
    runsc = which;
    const struct CMUnitTest tests[] = {
        REAL_TEST(test_life_of_a_container),
        REAL_TEST(test_exec),
        REAL_TEST(test_exec_on_a_terminal),
        REAL_TEST(test_short_ones_lose_no_status),
        REAL_TEST(test_killed_sandbox_is_gone),
        REAL_TEST(test_stopped_sandbox_times_out),
        REAL_TEST(test_long_root),
    };
    return cmocka_run_group_tests_name(which, tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_no_socket),
        cmocka_unit_test(test_ids_that_begin_alike),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return failed + run_real(RUNSC_DEBIAN) + run_real(RUNSC_NEW);
}
