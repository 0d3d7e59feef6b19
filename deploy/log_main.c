/*
 * utter-log: the binary:// logger of handlers and gates.
 *
 * A shim starts it with the container's output on descriptors 3 and 4 and a pipe on 5 that is
 * closed when it is ready; CONTAINER_ID and CONTAINER_NAMESPACE say whose. It writes
 * <stateDir>/<slug>/logs/<id>.log, half of the endpoint's logs.max a file, the one before beside it
 * as .log.1, at most 1 MiB a second; what is over that is dropped and counted in <id>.dropped. It
 * never blocks the container: it always reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/own.h"
#include "base/text.h"
#include "deploy/logfile.h"
#include "deploy/settings.h"
#include "deploy/slug.h"
#include "deploy/state.h"

#define RATE (1024 * 1024)
#define DEFAULT_MAX (16LL << 20)

/* "<slug>.<role>" only: the id names a file. */
static enum err_kind slug_of_id(const char *id, struct slug *slug, struct err *err)
{
    const char *dot = id ? strrchr(id, '.') : NULL;
    if (!dot || strlen(dot) > 14 ||
        strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz0123456789") != strlen(dot + 1))
        return err_set(err, ERR_INVALID, "CONTAINER_ID is not <slug>.<role>");
    char *name CLEANUP_FREE = xstrndup(id, (size_t)(dot - id));
    return slug_parse(name, slug, err);
}

static enum err_kind open_log(const char *id, struct logfile **out, struct err *err)
{
    struct settings *settings CLEANUP(settings_freep) = NULL;
    struct slug slug;
    json_t *record CLEANUP_JSON = NULL;
    int64_t max = DEFAULT_MAX;
    if (slug_of_id(id, &slug, err) || settings_load(SETTINGS_PATH, &settings, err))
        return err->kind;
    if (state_load(settings, slug.s, &record, ERR_IGNORED) == ERR_OK)
        (void)!json_get_int(record, "logMax", false, 4096, INT64_MAX, &max, ERR_IGNORED);
    char *dir CLEANUP_FREE = xasprintf("%s/%s/logs", settings->state_dir, slug.s);
    if (fs_mkdirs(dir, 0700, err))
        return err->kind;
    char *path CLEANUP_FREE = xasprintf("%s/%s", dir, id);
    return logfile_open(path, (size_t)max / 2, RATE, out, err);
}

static int64_t now_ms(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void copy(struct logfile *log)
{
    struct pollfd fds[2] = { { .fd = 3, .events = POLLIN }, { .fd = 4, .events = POLLIN } };
    char piece[65536];
    while (fds[0].fd >= 0 || fds[1].fd >= 0) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            return;
        for (int i = 0; i < 2; i++) {
            if (fds[i].fd < 0 || !fds[i].revents)
                continue;
            ssize_t n = read(fds[i].fd, piece, sizeof(piece));
            if (n > 0)
                logfile_add(log, piece, (size_t)n, now_ms());
            else if (n == 0 || errno != EINTR)
                fds[i].fd = -1;
        }
    }
}

int main(int argc, char **argv)
{
    struct err err;
    struct logfile *log CLEANUP(logfile_freep) = NULL;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("utter-log " UTTER_VERSION);
        return 0;
    }
    /* Ends with the container's output and not before: the shim's signals are not for it. */
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    if (open_log(getenv("CONTAINER_ID"), &log, &err)) {
        (void)fprintf(stderr, "utter-log: %s\n", err.msg);
        return 1;
    }
    (void)close(5);
    copy(log);
    return 0;
}
