/* Single files of a cgroup. Private to shim/cgroup_*.c and shim/metrics.c. */
#pragma once

#include "shim/cgroup.h"

#define CGROUP_FILE_SIZE 16384

/* The text without its final newline, fresh. ERR_NOT_FOUND: no such file or no such cgroup any
 * more. */
CHECKED enum err_kind cgroup_file_read(const char *dir, const char *file, char **out,
                                       struct err *err);
CHECKED enum err_kind cgroup_file_write(const char *dir, const char *file, const char *text,
                                        struct err *err);
