/*
 * The socket on which runsc hands over the master side of a container's terminal.
 *
 * It lies in a directory that only root can enter, takes one connection and one descriptor, which
 * must be a terminal, and is gone afterwards.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"

struct console;

/* Takes the master (the receiver closes it). */
typedef void console_fn(void *arg, int master);

/* Listens on `path` (at most 107 bytes). */
CHECKED enum err_kind console_new(struct loop *loop, const char *path, console_fn *fn, void *arg,
                                  struct console **out, struct err *err);
const char *console_path(const struct console *console);
void console_free(struct console *console); /* also unlinks the path */
DEFINE_CLEANUP(struct console, console_free, console_freep)
