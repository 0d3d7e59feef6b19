#include "shim/children.h"

#include <errno.h>
#include <stddef.h>
#include <sys/wait.h>

#include "base/log.h"

void children_watch(struct children *all, struct child *child, pid_t pid, child_exit_fn *fn,
                    void *arg)
{
    *child = (struct child){ .pid = pid, .fn = fn, .arg = arg, .next = all->first };
    if (all->first)
        all->first->link = &child->next;
    child->link = &all->first;
    all->first = child;
}

void children_unwatch(struct child *child)
{
    if (child->pid == 0)
        return;
    *child->link = child->next;
    if (child->next)
        child->next->link = child->link;
    child->pid = 0;
}

static struct child *find(struct children *all, pid_t pid)
{
    for (struct child *c = all->first; c; c = c->next)
        if (c->pid == pid)
            return c;
    return NULL;
}

void children_reap(struct children *all)
{
    for (;;) {
        int wstatus = 0;
        pid_t pid = waitpid(-1, &wstatus, WNOHANG | __WALL);
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return;
        struct child *child = find(all, pid);
        if (!child) {
            log_debug("child_reaped", log_int("pid", pid), log_int("wstatus", wstatus));
            continue;
        }
        children_unwatch(child);
        child->fn(child, wstatus);
    }
}

unsigned children_exit_code(int wstatus)
{
    if (WIFEXITED(wstatus))
        return (unsigned)WEXITSTATUS(wstatus);
    return 128U + (unsigned)WTERMSIG(wstatus);
}
