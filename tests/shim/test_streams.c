/* Which descriptors a process gets: FIFOs and nothing else, without waiting for the other end. */
#include "shim/streams.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fs.h"
#include "tests/test.h"

struct world {
    char dir[64];
    char in[96], out[96], err[96], file[96], link[96];
    struct loop *loop;
    struct children children;
    struct streams_env env;
};

static enum err_kind fifos_allowed(void *arg, const struct stream_uri *uri, struct err *err)
{
    (void)arg;
    if (uri->kind == STREAM_FIFO)
        return ERR_OK;
    return err_set(err, ERR_PRECONDITION, "%s is not allowed", uri->path);
}

static enum err_kind all_allowed(void *arg, const struct stream_uri *uri, struct err *err)
{
    (void)arg;
    (void)uri;
    (void)err;
    return ERR_OK;
}

static int set_up(void **ctx)
{
    struct world *w = xcalloc(1, sizeof(*w));
    struct err err = { 0 };
    (void)strcpy(w->dir, "/tmp/ut-streams.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->in, sizeof(w->in), "%s/in", w->dir);
    (void)snprintf(w->out, sizeof(w->out), "%s/out", w->dir);
    (void)snprintf(w->err, sizeof(w->err), "%s/err", w->dir);
    (void)snprintf(w->file, sizeof(w->file), "%s/file", w->dir);
    (void)snprintf(w->link, sizeof(w->link), "%s/link", w->dir);
    assert_int_equal(mkfifo(w->in, 0700) | mkfifo(w->out, 0700) | mkfifo(w->err, 0700), 0);
    assert_int_equal(fs_write(w->file, "secret", 6, 0600, false, &err), ERR_OK);
    assert_int_equal(symlink(w->out, w->link), 0);
    assert_int_equal(loop_new(&w->loop, &err), ERR_OK);
    w->env = (struct streams_env){ .loop = w->loop,
                                   .children = &w->children,
                                   .rules = { .allowed = fifos_allowed },
                                   .ns = "n",
                                   .id = "c" };
    *ctx = w;
    return 0;
}

static int tear_down(void **ctx)
{
    struct world *w = *ctx;
    struct err err;
    loop_free(w->loop);
    assert_int_equal(fs_remove_tree(w->dir, &err), ERR_OK);
    free(w);
    return 0;
}

static void test_fifos_are_handed_over(void **ctx)
{
    struct world *w = *ctx;
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct streams_request r = { .in = w->in, .out = w->out, .err = w->err };
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, &r, &s, &err), ERR_OK);
    int fds[3];
    streams_child_fds(s, fds);
    for (int i = 0; i < 3; i++) {
        assert_true(fds[i] >= 0);
        assert_int_equal(fcntl(fds[i], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(fcntl(fds[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    assert_int_equal(fcntl(fds[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fcntl(fds[1], F_GETFL) & O_ACCMODE, O_RDWR);
    assert_int_equal(fcntl(fds[2], F_GETFL) & O_ACCMODE, O_RDWR);
}

static void test_stdin_ends_at_close_io(void **ctx)
{
    struct world *w = *ctx;
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct streams_request r = { .in = w->in };
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, &r, &s, &err), ERR_OK);
    int fds[3];
    streams_child_fds(s, fds);
    int reader CLEANUP_FD = fcntl(fds[0], F_DUPFD_CLOEXEC, 10);
    assert_int_equal(fcntl(reader, F_SETFL, O_NONBLOCK), 0);
    streams_handed_over(s);
    char byte;
    assert_int_equal(read(reader, &byte, 1), -1); /* held open: nothing yet, but no end */
    streams_close_stdin(s);
    assert_int_equal(read(reader, &byte, 1), 0);
}

static void refused(struct world *w, const struct streams_request *r, enum err_kind want)
{
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, r, &s, &err), want);
    assert_null(s);
}

static void test_what_is_no_fifo_is_refused(void **ctx)
{
    struct world *w = *ctx;
    refused(w, &(struct streams_request){ .out = w->file }, ERR_INVALID);
    refused(w, &(struct streams_request){ .err = w->file }, ERR_INVALID);
    refused(w, &(struct streams_request){ .in = w->file }, ERR_INVALID);
    refused(w, &(struct streams_request){ .out = w->link }, ERR_INVALID);
    refused(w, &(struct streams_request){ .out = w->dir }, ERR_INVALID);
    refused(w, &(struct streams_request){ .out = "/dev/null" }, ERR_INVALID);
    refused(w, &(struct streams_request){ .out = "/tmp/ut-streams-absent" }, ERR_INVALID);
    refused(w, &(struct streams_request){ .out = "/dev/tty", .terminal = true }, ERR_INVALID);
    refused(w, &(struct streams_request){ .in = "binary:///bin/sh" }, ERR_INVALID);
    char *text CLEANUP_FREE = NULL;
    struct err err = { 0 };
    assert_int_equal(fs_read(w->file, 64, &text, NULL, &err), ERR_OK);
    assert_string_equal(text, "secret");
}

/* A link in the middle of the path: what counts is where the FIFO is. */
static enum err_kind only_text(void *arg, const struct stream_uri *uri, struct err *err)
{
    const char *allowed = arg;
    return strncmp(uri->path, allowed, strlen(allowed)) == 0
               ? ERR_OK
               : err_set(err, ERR_PRECONDITION, "%s is not allowed", uri->path);
}

static void test_a_fifo_is_judged_by_where_it_is(void **ctx)
{
    struct world *w = *ctx;
    char *away CLEANUP_FREE = xasprintf("%s/away", w->dir);
    char *near CLEANUP_FREE = xasprintf("%s/near", w->dir);
    char *link CLEANUP_FREE = xasprintf("%s/near/link", w->dir);
    char *fifo CLEANUP_FREE = xasprintf("%s/away/fifo", w->dir);
    char *path CLEANUP_FREE = xasprintf("%s/near/link/fifo", w->dir);
    assert_int_equal(mkdir(away, 0700) | mkdir(near, 0700) | mkfifo(fifo, 0700), 0);
    assert_int_equal(symlink("../away", link), 0);
    w->env.rules = (struct streams_rules){ .allowed = only_text, .arg = near };
    refused(w, &(struct streams_request){ .out = path }, ERR_PRECONDITION);
    refused(w, &(struct streams_request){ .in = path }, ERR_PRECONDITION);
    refused(w, &(struct streams_request){ .out = path, .terminal = true }, ERR_PRECONDITION);
    w->env.rules.arg = away;
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, &(struct streams_request){ .out = path }, &s, &err),
                     ERR_OK);
}

static void test_loggers_only_as_allowed(void **ctx)
{
    struct world *w = *ctx;
    refused(w, &(struct streams_request){ .out = "binary:///bin/true" }, ERR_PRECONDITION);
    refused(w, &(struct streams_request){ .out = "file:///etc/cron.d/x" }, ERR_PRECONDITION);
    w->env.rules.allowed = all_allowed;
    refused(w, &(struct streams_request){ .err = "binary:///bin/true" }, ERR_INVALID);
    refused(w,
            &(struct streams_request){ .out = "binary:///bin/true", .err = "binary:///bin/false" },
            ERR_INVALID);
}

static void on_stop(struct loop_timer *timer)
{
    loop_stop(timer->arg);
}

static void run_for(struct loop *loop, uint64_t ms)
{
    struct loop_timer timer = { 0 };
    struct err err = { 0 };
    loop_after(loop, &timer, ms, on_stop, loop);
    assert_int_equal(loop_run(loop, &err), ERR_OK);
}

static void test_file_logs_are_written_by_the_shim(void **ctx)
{
    struct world *w = *ctx;
    w->env.rules.allowed = all_allowed;
    char *uri CLEANUP_FREE = xasprintf("file://%s/log", w->dir);
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct streams_request r = { .out = uri, .err = uri };
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, &r, &s, &err), ERR_OK);
    int fds[3];
    streams_child_fds(s, fds);
    struct stat st;
    assert_int_equal(fstat(fds[1], &st), 0);
    assert_true(S_ISFIFO(st.st_mode)); /* a pipe: the guest never holds the file */
    assert_int_equal(write(fds[1], "one\n", 4), 4);
    run_for(w->loop, 30);
    assert_int_equal(write(fds[2], "two\n", 4), 4);
    run_for(w->loop, 30);
    char *path CLEANUP_FREE = xasprintf("%s/log", w->dir);
    char *text CLEANUP_FREE = NULL;
    assert_int_equal(fs_read(path, 64, &text, NULL, &err), ERR_OK);
    assert_string_equal(text, "one\ntwo\n");
    char *hard CLEANUP_FREE = xasprintf("%s/hard", w->dir);
    assert_int_equal(link(path, hard), 0);
    refused(w, &r, ERR_INVALID); /* a second link */
}

static void test_terminal_is_relayed(void **ctx)
{
    struct world *w = *ctx;
    int reader CLEANUP_FD = open(w->out, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct streams *s CLEANUP(streams_freep) = NULL;
    struct streams_request r = { .in = w->in, .out = w->out, .terminal = true };
    struct err err = { 0 };
    assert_int_equal(streams_open(&w->env, &r, &s, &err), ERR_OK);
    int writer CLEANUP_FD = open(w->in, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    int slave CLEANUP_FD = -1;
    assert_int_equal(streams_open_pty(s, &slave, &err), ERR_OK);
    assert_true(isatty(slave));
    assert_int_equal(streams_resize(s, 100, 40, &err), ERR_OK);
    assert_int_equal(streams_resize(s, 70000, 40, &err), ERR_INVALID);
    assert_int_equal(write(slave, "from guest", 10), 10);
    assert_int_equal(write(writer, "to guest\n", 9), 9);
    run_for(w->loop, 50);
    char got[64] = { 0 };
    assert_true(read(reader, got, sizeof(got) - 1) >= 10);
    assert_non_null(strstr(got, "from guest"));
    char line[64] = { 0 };
    assert_int_equal(read(slave, line, sizeof(line) - 1), 9);
    assert_string_equal(line, "to guest\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_fifos_are_handed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stdin_ends_at_close_io, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_fifo_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loggers_only_as_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_fifo_is_judged_by_where_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_logs_are_written_by_the_shim, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_terminal_is_relayed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
