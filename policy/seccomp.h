/*
 * Inside policy/: the filter that the guest gets. runsc takes the first rule that matches, so ours
 * come first and the guarded names are taken out of the caller's: no profile can open what is
 * closed here, and none is needed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/* The profile for runsc, a new reference. caller may be NULL. *kept tells whether the caller's
 * rules are in it (they are dropped when an action is none that runsc and we know). */
json_t *seccomp_guarded(const json_t *caller, bool *kept);
