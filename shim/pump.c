#include "shim/pump.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

static void pump_turn(struct pump *pump);

static void on_from(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    pump_turn(watch->arg);
}

static void on_to(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    pump_turn(watch->arg);
}

static void close_both(struct pump *pump)
{
    loop_unwatch(&pump->from_watch);
    loop_unwatch(&pump->to_watch);
    if (pump->from >= 0)
        (void)close(pump->from);
    if (pump->to >= 0)
        (void)close(pump->to);
    pump->from = -1;
    pump->to = -1;
}

static void finish(struct pump *pump)
{
    close_both(pump);
    pump->loop = NULL;
    if (pump->done)
        pump->done(pump->arg);
}

/* False when the source has ended. */
static bool fill(struct pump *pump)
{
    ssize_t n = read(pump->from, pump->buffer, sizeof(pump->buffer));
    if (n > 0) {
        pump->start = 0;
        pump->end = (size_t)n;
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    return false; /* 0, or EIO: how a terminal says that its other end is closed */
}

/* False when the receiver is gone. */
static bool drain(struct pump *pump)
{
    while (pump->start < pump->end) {
        ssize_t n = write(pump->to, pump->buffer + pump->start, pump->end - pump->start);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN;
        pump->start += (size_t)n;
    }
    return true;
}

static bool pump_wait(struct pump *pump)
{
    bool full = pump->start < pump->end;
    struct err ignored;
    if (full && !pump->to_is_file) {
        loop_unwatch(&pump->from_watch);
        return loop_watch(pump->loop, &pump->to_watch, pump->to, EPOLLOUT, on_to, pump, &ignored) ==
               ERR_OK;
    }
    loop_unwatch(&pump->to_watch);
    return loop_watch(pump->loop, &pump->from_watch, pump->from, EPOLLIN, on_from, pump,
                      &ignored) == ERR_OK;
}

/* One buffer's worth per turn, so that one loud terminal does not starve the others. */
static void pump_turn(struct pump *pump)
{
    bool alive = drain(pump);
    if (alive && pump->start == pump->end && !pump->ended) {
        pump->ended = !fill(pump);
        alive = drain(pump);
    }
    bool empty = pump->start == pump->end;
    if (!alive || (pump->ended && empty) || !pump_wait(pump))
        finish(pump);
}

enum err_kind pump_start_take(struct pump *pump, struct loop *loop, int from, int to,
                              pump_done_fn *done, void *arg, struct err *err)
{
    *pump = (struct pump){ .from = from, .to = to, .done = done, .arg = arg };
    struct stat st;
    if (fstat(to, &st) != 0 || fcntl(from, F_SETFL, O_NONBLOCK) != 0) {
        enum err_kind kind = err_sys(err, errno, "pump");
        close_both(pump);
        return kind;
    }
    pump->to_is_file = S_ISREG(st.st_mode);
    int flags = fcntl(to, F_GETFL);
    (void)fcntl(to, F_SETFL, flags | O_NONBLOCK);
    pump->loop = loop;
    enum err_kind kind = loop_watch(loop, &pump->from_watch, from, EPOLLIN, on_from, pump, err);
    if (kind) {
        close_both(pump);
        pump->loop = NULL;
    }
    return kind;
}

void pump_stop(struct pump *pump)
{
    if (!pump->loop)
        return;
    close_both(pump);
    pump->loop = NULL;
}

bool pump_active(const struct pump *pump)
{
    return pump->loop != NULL;
}
