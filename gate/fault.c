#include "gate/fault.h"

#ifdef UTTER_FAULTS

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* The only state of its kind: a process has one death, and this file is in no shipped build. */
static atomic_int times;
static void (*on_death)(void);

void fault_on_death(void (*hook)(void))
{
    on_death = hook;
}

void fault_point(const char *name)
{
    const char *want = getenv("UTTER_FAULT");
    if (!want)
        return;
    size_t n = strcspn(want, ":");
    if (strlen(name) != n || strncmp(name, want, n))
        return;
    int nth = want[n] ? atoi(want + n + 1) : 1;
    if (atomic_fetch_add(&times, 1) + 1 != nth)
        return;
    if (on_death)
        on_death();
    (void)raise(SIGKILL);
    __builtin_trap(); /* where a system call filter forbids the signal */
}

#else
extern int fault_is_off; /* a translation unit needs a declaration */
#endif
