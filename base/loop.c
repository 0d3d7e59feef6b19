#include "base/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <time.h>

#define TURN_EVENTS 256

/* Ready events of the turn in progress live in the loop, so that unwatching can blank those that
 * are still to come. */
struct loop {
    int epoll_fd;
    bool stopped;
    uint64_t now_ms;
    struct loop_timer **heap; /* 1-based binary heap by due_ms */
    size_t n_heap;
    size_t cap_heap;
    struct epoll_event ready[TURN_EVENTS];
    int n_ready;
    int next_ready;
    int signal_fd;
    struct loop_watch signal_watch;
    loop_signal_fn *signal_fn;
    void *signal_arg;
    struct loop_hook *hooks; /* before each wait */
};

static uint64_t clock_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

enum err_kind loop_new(struct loop **out, struct err *err)
{
    struct loop *loop CLEANUP(loop_freep) = xcalloc(1, sizeof(*loop));
    loop->signal_fd = -1;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        return err_sys(err, errno, "epoll_create1");
    loop->now_ms = clock_ms();
    *out = STEAL(loop);
    return ERR_OK;
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    own_close_(&loop->signal_fd);
    own_close_(&loop->epoll_fd);
    free(loop->heap);
    free(loop);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

enum err_kind loop_watch(struct loop *loop, struct loop_watch *watch, int fd, uint32_t events,
                         loop_watch_fn *fn, void *arg, struct err *err)
{
    bool known = watch->loop != NULL;
    struct epoll_event event = { .events = events, .data.ptr = watch };
    if (epoll_ctl(loop->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event))
        return err_sys(err, errno, "epoll_ctl");
    *watch = (struct loop_watch){ .fn = fn, .arg = arg, .fd = fd, .events = events, .loop = loop };
    return ERR_OK;
}

void loop_unwatch(struct loop_watch *watch)
{
    struct loop *loop = watch->loop;
    if (!loop)
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = loop->next_ready; i < loop->n_ready; i++) {
        if (loop->ready[i].data.ptr == watch)
            loop->ready[i].data.ptr = NULL;
    }
    watch->loop = NULL;
    watch->fd = -1;
}

static void heap_put(struct loop *loop, size_t i, struct loop_timer *timer)
{
    loop->heap[i] = timer;
    timer->heap_index = i;
}

static void heap_up(struct loop *loop, size_t i)
{
    struct loop_timer *timer = loop->heap[i];
    for (; i > 1 && loop->heap[i / 2]->due_ms > timer->due_ms; i /= 2)
        heap_put(loop, i, loop->heap[i / 2]);
    heap_put(loop, i, timer);
}

static void heap_down(struct loop *loop, size_t i)
{
    struct loop_timer *timer = loop->heap[i];
    for (size_t child; (child = 2 * i) <= loop->n_heap; i = child) {
        if (child < loop->n_heap && loop->heap[child + 1]->due_ms < loop->heap[child]->due_ms)
            child++;
        if (loop->heap[child]->due_ms >= timer->due_ms)
            break;
        heap_put(loop, i, loop->heap[child]);
    }
    heap_put(loop, i, timer);
}

void loop_after(struct loop *loop, struct loop_timer *timer, uint64_t ms, loop_timer_fn *fn,
                void *arg)
{
    loop_cancel(timer);
    if (loop->n_heap + 2 > loop->cap_heap) {
        loop->cap_heap = loop->cap_heap ? loop->cap_heap * 2 : 16;
        loop->heap = xreallocarray(loop->heap, loop->cap_heap, sizeof(*loop->heap));
    }
    timer->fn = fn;
    timer->arg = arg;
    timer->due_ms = clock_ms() + ms;
    timer->loop = loop;
    loop->heap[++loop->n_heap] = timer;
    heap_up(loop, loop->n_heap);
}

void loop_cancel(struct loop_timer *timer)
{
    size_t i = timer->heap_index;
    if (!i)
        return;
    struct loop *loop = timer->loop;
    struct loop_timer *last = loop->heap[loop->n_heap--];
    timer->heap_index = 0;
    if (last == timer)
        return;
    heap_put(loop, i, last);
    heap_up(loop, i);
    heap_down(loop, last->heap_index);
}

static void run_timers(struct loop *loop)
{
    /* Timers armed by these callbacks run next turn: the clock of this turn is fixed. */
    while (!loop->stopped && loop->n_heap && loop->heap[1]->due_ms <= loop->now_ms) {
        struct loop_timer *timer = loop->heap[1];
        loop_cancel(timer);
        timer->fn(timer);
    }
}

static int wait_ms(const struct loop *loop)
{
    if (!loop->n_heap)
        return -1;
    uint64_t now = clock_ms();
    uint64_t due = loop->heap[1]->due_ms;
    if (due <= now)
        return 0;
    return due - now > 60000 ? 60000 : (int)(due - now);
}

static void on_signal(struct loop_watch *watch, uint32_t events)
{
    (void)events;
    struct loop *loop = watch->arg;
    struct signalfd_siginfo info;
    while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info))
        loop->signal_fn(loop->signal_arg, &info);
}

enum err_kind loop_signals(struct loop *loop, const sigset_t *set, loop_signal_fn *fn, void *arg,
                           struct err *err)
{
    if (sigprocmask(SIG_BLOCK, set, NULL))
        return err_sys(err, errno, "sigprocmask");
    loop->signal_fd = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (loop->signal_fd < 0)
        return err_sys(err, errno, "signalfd");
    loop->signal_fn = fn;
    loop->signal_arg = arg;
    return loop_watch(loop, &loop->signal_watch, loop->signal_fd, EPOLLIN, on_signal, loop, err);
}

void loop_before_wait(struct loop *loop, struct loop_hook *hook, loop_hook_fn *fn, void *arg)
{
    loop_unhook(hook);
    struct loop_hook **last = &loop->hooks;
    while (*last)
        last = &(*last)->next;
    *hook = (struct loop_hook){ .fn = fn, .arg = arg, .loop = loop };
    *last = hook;
}

void loop_unhook(struct loop_hook *hook)
{
    if (!hook->loop)
        return;
    struct loop_hook **at = &hook->loop->hooks;
    while (*at != hook)
        at = &(*at)->next;
    *at = hook->next;
    hook->loop = NULL;
}

static void run_hooks(struct loop *loop)
{
    for (struct loop_hook *hook = loop->hooks, *next; hook; hook = next) {
        next = hook->next;
        hook->fn(hook);
    }
}

enum err_kind loop_run(struct loop *loop, struct err *err)
{
    loop->stopped = false;
    while (!loop->stopped) {
        run_hooks(loop);
        int n = epoll_wait(loop->epoll_fd, loop->ready, TURN_EVENTS, wait_ms(loop));
        if (n < 0 && errno != EINTR)
            return err_sys(err, errno, "epoll_wait");
        loop->now_ms = clock_ms();
        loop->n_ready = n < 0 ? 0 : n;
        for (loop->next_ready = 0; loop->next_ready < loop->n_ready && !loop->stopped;) {
            struct epoll_event *event = &loop->ready[loop->next_ready++];
            struct loop_watch *watch = event->data.ptr;
            if (watch)
                watch->fn(watch, event->events);
        }
        loop->n_ready = 0;
        run_timers(loop);
    }
    run_hooks(loop);
    return ERR_OK;
}

void loop_stop(struct loop *loop)
{
    loop->stopped = true;
}
