/*
 * Named points at which a test ends the process. Nothing in a shipped build.
 *
 * A library built with UTTER_FAULTS (tests only) dies by SIGKILL at the point named in the
 * environment variable UTTER_FAULT
 * ("NAME" or "NAME:N" for the Nth time), after running the hook that a test may have set (loss of
 * power).
 */
#pragma once

#ifdef UTTER_FAULTS
void fault_point(const char *name);
/* Runs right before the process dies. */
void fault_on_death(void (*hook)(void));
#else
#define fault_point(name) ((void)0)
#endif
