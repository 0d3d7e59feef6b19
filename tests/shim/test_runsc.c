/* How runsc is called, and what is read from its log. */
#include "shim/runsc.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/own.h"
#include "base/text.h"
#include "tests/test.h"

static bool has(char **argv, const char *word)
{
    for (size_t i = 0; argv[i]; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

static char **build(char **flags, size_t n, bool sandbox)
{
    char path[] = "/usr/bin/runsc";
    struct runsc_binary binary = { .path = path, .flags = flags, .n_flags = n };
    char root[] = "/r";
    char logs[] = "/l";
    const struct runsc runsc = {
        .binary = &binary, .root = root, .log_dir = logs, .network_sandbox = sandbox
    };
    const char *verb[] = { "start", "c1", NULL };
    return runsc_argv(&runsc, "/l/x.log", verb);
}

static void test_flags_come_before_the_verb(void **ctx)
{
    (void)ctx;
    char a[] = "directfs";
    char b[] = "oci-seccomp";
    char c[] = "overlay2";
    char *flags[] = { a, b, c };
    char **argv = build(flags, 3, false);
    assert_string_equal(argv[0], "/usr/bin/runsc");
    assert_string_equal(argv[1], "--root=/r");
    assert_true(has(argv, "--network=none"));
    assert_true(has(argv, "--directfs=false"));
    assert_true(has(argv, "--oci-seccomp=true"));
    assert_true(has(argv, "--overlay2=none"));
    assert_false(has(argv, "--host-uds=none")); /* this binary does not know it */
    size_t n = 0;
    while (argv[n])
        n++;
    assert_string_equal(argv[n - 2], "start");
    assert_string_equal(argv[n - 1], "c1");
    runsc_argv_free(argv);
    argv = build(flags, 3, true);
    assert_true(has(argv, "--network=sandbox"));
    runsc_argv_free(argv);
}

static void test_last_error_of_the_log(void **ctx)
{
    (void)ctx;
    const char log[] =
        "{\"msg\":\"first\",\"level\":\"error\"}\n"
        "{\"msg\":\"noise\",\"level\":\"info\"}\n"
        "not json at all\n"
        "{\"msg\":\"creating container: no \\\"such\\\" thing\",\"level\":\"error\"}\n";
    char line[128];
    assert_true(runsc_log_error(log, sizeof(log) - 1, line, sizeof(line)));
    assert_non_null(strstr(line, "creating container: no"));
    assert_false(runsc_log_error("", 0, line, sizeof(line)));
    const char quiet[] = "{\"msg\":\"x\",\"level\":\"warning\"}";
    assert_false(runsc_log_error(quiet, sizeof(quiet) - 1, line, sizeof(line)));
}

/* ---- a call ahead of its time ----------------------------------------------------------------
 * The stand-in opens its log as runsc does, says so, and fails: a real runsc that fails after a
 * start that was held cannot be had at will. That real ones are held and let go is what every
 * start of the integration tests shows.
 */

#define STAND_IN                                                                                   \
    "#!/bin/sh\n"                                                                                  \
    "for w; do case $w in --log=*) log=${w#--log=};; esac; done\n"                                 \
    "exec 3>>$log\n"                                                                               \
    ": > \"$(dirname $log)/went\"\n"                                                               \
    "echo '{\"level\":\"error\",\"msg\":\"no such thing\"}' >&3\n"                                 \
    "exit 3\n"

struct world {
    char dir[64];
    char program[96];
    struct loop *loop;
    struct children children;
    struct runsc_binary binary;
    struct runsc runsc;
    struct loop_timer timer;
    struct err told;
    int calls;
};

static int setup(void **ctx)
{
    struct world *w = xcalloc(1, sizeof(*w));
    struct err err = { 0 };
    (void)snprintf(w->dir, sizeof(w->dir), "/tmp/ut-held.XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->program, sizeof(w->program), "%s/runsc", w->dir);
    assert_int_equal(fs_write(w->program, STAND_IN, strlen(STAND_IN), 0700, false, &err), ERR_OK);
    assert_int_equal(loop_new(&w->loop, &err), ERR_OK);
    w->binary = (struct runsc_binary){ .path = w->program };
    w->runsc = (struct runsc){ .loop = w->loop,
                               .children = &w->children,
                               .binary = &w->binary,
                               .root = w->dir,
                               .log_dir = w->dir };
    *ctx = w;
    return 0;
}

static int teardown(void **ctx)
{
    struct world *w = *ctx;
    struct err err = { 0 };
    loop_free(w->loop);
    assert_int_equal(fs_remove_tree(w->dir, &err), ERR_OK);
    free(w);
    return 0;
}

static bool went(const struct world *w)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/went", w->dir);
    return access(path, F_OK) == 0;
}

static size_t fifos(const struct world *w)
{
    size_t n = 0;
    DIR *dir = opendir(w->dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir))
        n += e->d_type == DT_FIFO;
    (void)closedir(dir);
    return n;
}

static struct runsc_held *hold(struct world *w)
{
    static const char *const verb[] = { "start", "c1", NULL };
    struct runsc_call call = { .verb = verb, .fds = { -1, -1, -1 }, .deadline_ms = 5000 };
    struct runsc_held *held = NULL;
    struct err err = { 0 };
    if (runsc_hold(&w->runsc, &call, &held, &err))
        fail_msg("%s", err.msg);
    return held;
}

static void on_told(void *arg, const struct err *err)
{
    struct world *w = arg;
    w->told = *err;
    w->calls++;
}

static bool alone(void)
{
    char text[256];
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof(text)) == 0;
}

static void reap_for(struct world *w, int ms)
{
    for (int i = 0; i < ms / 5 && !w->calls; i++) {
        children_reap(&w->children);
        (void)usleep(5000);
    }
}

static void test_a_held_call_does_nothing_before_it_is_released(void **ctx)
{
    struct world *w = *ctx;
    struct runsc_held *held = hold(w);
    reap_for(w, 300);
    assert_false(went(w));
    assert_true(runsc_release(held, on_told, w));
    reap_for(w, 5000);
    assert_true(went(w));
    assert_int_equal(w->calls, 1);
    assert_int_equal(w->told.kind, ERR_INTERNAL);
    assert_string_equal(w->told.msg, "runsc start: no such thing");
    assert_int_equal(fifos(w), 0);
}

static void test_a_held_call_that_nobody_wants_is_ended(void **ctx)
{
    struct world *w = *ctx;
    struct runsc_held *held = hold(w);
    assert_int_equal(fifos(w), 1);
    runsc_held_free(held);
    for (int i = 0; i < 400 && !alone(); i++) {
        children_reap(&w->children);
        (void)usleep(5000);
    }
    assert_true(alone());
    assert_int_equal(fifos(w), 0);
    assert_false(went(w));
    runsc_held_free(NULL);
}

static void test_a_held_call_that_has_ended_is_made_anew(void **ctx)
{
    struct world *w = *ctx;
    struct runsc_held *held = hold(w);
    char text[256] = "";
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    int fd CLEANUP_FD = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
    assert_int_equal(kill((pid_t)strtol(text, NULL, 10), SIGKILL), 0);
    for (int i = 0; i < 400 && !alone(); i++) {
        children_reap(&w->children);
        (void)usleep(5000);
    }
    assert_false(runsc_release(held, on_told, w));
    assert_int_equal(w->calls, 0);
    assert_int_equal(fifos(w), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flags_come_before_the_verb),
        cmocka_unit_test(test_last_error_of_the_log),
        cmocka_unit_test_setup_teardown(test_a_held_call_does_nothing_before_it_is_released, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_held_call_that_nobody_wants_is_ended, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_held_call_that_has_ended_is_made_anew, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
