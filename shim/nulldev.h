/*
 * A null device of our own.
 *
 * runsc changes the owner of whatever it gets as stdio to the sandbox's user; with /dev/null that
 * would be the host's. So what stands for "none" is a device node that is unlinked at once.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* *fd is the caller's. *shared is set where no device node could be made and it is the host's
 * /dev/null after all: its owner must then be put back with nulldev_restore(). */
CHECKED enum err_kind nulldev_open(int *fd, bool *shared, struct err *err);
void nulldev_restore(int fd);
