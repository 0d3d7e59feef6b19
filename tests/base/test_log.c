/* base/log: both forms byte for byte, forged lines, lines too long, gathering, a sink that takes
 * nothing. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/loop.h"
#include "base/own.h"
#include "tests/test.h"

static int pipe_fd[2];

static int open_pipe(void **state)
{
    (void)state;
    return pipe2(pipe_fd, O_CLOEXEC | O_NONBLOCK);
}

static int close_pipe(void **state)
{
    (void)state;
    log_open(2, LOG_TEXT, LOG_INFO);
    own_close_(&pipe_fd[0]);
    own_close_(&pipe_fd[1]);
    return 0;
}

/* What has arrived by now, terminated. */
static const char *arrived(void)
{
    static char text[200000];
    size_t n = 0;
    for (ssize_t got; (got = read(pipe_fd[0], text + n, sizeof(text) - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    return text;
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    for (; (text = strchr(text, '\n')); text++)
        n++;
    return n;
}

static void test_json_form(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_warn("event", log_str("s", "a\"b\\c\nd\x7f é"), log_int("least", INT64_MIN),
             log_int("n", -42), log_int("zero", 0), log_bool("yes", true), log_str("none", NULL));
    const char *line = arrived();
    assert_memory_equal(line, "{\"time\":\"20", 11);
    assert_int_equal(strstr(line, ",\"level\"") - line,
                     strlen("{\"time\":\"2026-12-01T02:03:04.000001Z\""));
    assert_string_equal(strstr(line, ",\"level\""),
                        ",\"level\":\"warning\",\"msg\":\"event\","
                        "\"s\":\"a\\\"b\\\\c\\u000ad\\u007f é\",\"least\":-9223372036854775808,"
                        "\"n\":-42,\"zero\":0,\"yes\":true,\"none\":\"\"}\n");
}

/* Bytes that are no UTF-8 are escaped one by one, and the line stays JSON. */
static void test_json_of_broken_utf8(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_info("event", log_str("s", "plain \xff\xc3 end"));
    json_t *root CLEANUP_JSON = json_loads(arrived(), 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "s")),
                        "plain \xc3\xbf\xc3\x83 end");
}

static void test_text_form(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_TEXT, LOG_INFO);
    log_info("event", log_str("plain", "word"), log_str("spaced", "two words"),
             log_str("forged", "a\nlevel=error"), log_int("n", 7), log_bool("no", false));
    const char *line = arrived();
    assert_memory_equal(line, "time=\"20", 8);
    assert_int_equal(lines_of(line), 1);
    assert_non_null(
        strstr(line, " level=info msg=event plain=word spaced=\"two words\" forged=\""));
    assert_non_null(strstr(line, "\" n=7 no=false\n"));
}

static void test_levels(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_JSON, LOG_WARN);
    log_info("unheard", log_int("n", 1));
    assert_string_equal(arrived(), "");
}

/* A line that does not fit is dropped whole and counted; the next is whole again. */
static void test_line_too_long(void **state)
{
    (void)state;
    char *big CLEANUP_FREE = xmalloc(9000);
    memset(big, 'x', 8999);
    big[8999] = '\0';
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_info("big", log_str("s", big));
    log_info("small", log_int("n", 1));
    assert_int_equal(log_dropped(), 1);
    json_t *root CLEANUP_JSON = json_loads(arrived(), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(root, "msg")), "small");
}

/* Gathered lines wait for the flush, or a warning, in their order. */
static void test_gathered(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_gather(true);
    log_info("one", log_int("n", 1));
    log_info("two", log_int("n", 2));
    assert_string_equal(arrived(), "");
    log_flush();
    const char *text = arrived();
    assert_int_equal(lines_of(text), 2);
    assert_true(strstr(text, "\"one\"") < strstr(text, "\"two\""));
    log_info("three", log_int("n", 3));
    log_warn("four", log_int("n", 4));
    text = arrived();
    assert_int_equal(lines_of(text), 2);
    assert_true(strstr(text, "\"three\"") < strstr(text, "\"four\""));
    log_info("five", log_int("n", 5));
    log_gather(false);
    assert_int_equal(lines_of(arrived()), 1);
    assert_int_equal(log_dropped(), 0);
}

/* More than the buffer holds in one turn: nothing is lost, and nothing waits for ever. */
static void test_gathered_overflow(void **state)
{
    (void)state;
    size_t seen = 0;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_gather(true);
    for (int i = 0; i < 2000; i++) {
        log_info("event", log_int("n", i), log_str("s", "some text of a usual length"));
        if (i % 100 == 0)
            seen += lines_of(arrived());
    }
    assert_true(seen > 1000);
    log_flush();
    seen += lines_of(arrived());
    assert_int_equal(seen, 2000);
    assert_int_equal(log_dropped(), 0);
}

/* Nobody reads: every line is counted, none blocks. */
static void test_full_sink(void **state)
{
    (void)state;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_gather(true);
    size_t n = 0;
    for (; log_dropped() == 0 && n < 100000; n++)
        log_info("event", log_str("s", "some text of a usual length"));
    log_flush();
    size_t whole = lines_of(arrived());
    assert_int_equal(whole + log_dropped(), n);
}

static void stop(struct loop_timer *timer)
{
    log_info("in_turn", log_int("n", 1));
    loop_stop(timer->loop);
}

static void flush(struct loop_hook *hook)
{
    (void)hook;
    log_flush();
}

/* A loop that flushes before it waits. */
static void test_flushed_each_turn(void **state)
{
    (void)state;
    struct loop *loop CLEANUP(loop_freep) = NULL;
    struct loop_timer timer = { 0 };
    assert_int_equal(loop_new(&loop, NULL), 0);
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_gather(true);
    struct loop_hook hook = { 0 };
    loop_before_wait(loop, &hook, flush, NULL);
    loop_after(loop, &timer, 1, stop, NULL);
    assert_int_equal(loop_run(loop, NULL), 0);
    assert_int_equal(lines_of(arrived()), 1);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info("event", log_str("who", arg), log_int("n", i));
    return NULL;
}

static void test_two_threads(void **state)
{
    (void)state;
    pthread_t thread;
    log_open(pipe_fd[1], LOG_JSON, LOG_INFO);
    log_gather(true);
    char other[] = "other", mine[] = "mine";
    assert_int_equal(pthread_create(&thread, NULL, log_many, other), 0);
    log_many(mine);
    pthread_join(thread, NULL);
    log_flush();
    const char *text = arrived();
    assert_int_equal(lines_of(text), 400);
    for (const char *p = text; *p; p = strchr(p, '\n') + 1) {
        json_t *root CLEANUP_JSON = json_loads(p, JSON_DISABLE_EOF_CHECK, NULL);
        assert_non_null(root);
    }
}

int main(void)
{
#define WITH_PIPE(test) cmocka_unit_test_setup_teardown(test, open_pipe, close_pipe)
    const struct CMUnitTest tests[] = {
        WITH_PIPE(test_json_form),     WITH_PIPE(test_json_of_broken_utf8),
        WITH_PIPE(test_text_form),     WITH_PIPE(test_levels),
        WITH_PIPE(test_line_too_long), WITH_PIPE(test_gathered),
        WITH_PIPE(test_full_sink),     WITH_PIPE(test_gathered_overflow),
        WITH_PIPE(test_two_threads),   WITH_PIPE(test_flushed_each_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
