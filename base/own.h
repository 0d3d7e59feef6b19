/*
 * Ownership that can be seen: cleanup attributes, hand-over by name, allocators that abort.
 *
 * A local that owns something is declared with CLEANUP(type_freep) or one of the ready-made
 * forms; handing it on is spelt STEAL(p) or steal_fd(&fd). No goto ladders.
 */
#pragma once

#include <dirent.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

/* Moves a pointer out of a variable and leaves NULL there. */
#define STEAL(p)                                                                                   \
    ({                                                                                             \
        __typeof__(p) steal_tmp_ = (p);                                                            \
        (p) = NULL;                                                                                \
        steal_tmp_;                                                                                \
    })

/* Defines `name`(T **) for CLEANUP from a free function that accepts NULL. */
#define DEFINE_CLEANUP(T, free_fn, name)                                                           \
    static inline void name(T **p)                                                                 \
    {                                                                                              \
        free_fn(*p);                                                                               \
        *p = NULL;                                                                                 \
    }

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static inline void own_free_(void *p)
{
    free(*(void **)p);
}

static inline void own_close_(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static inline void own_fclose_(FILE **f)
{
    if (*f)
        (void)fclose(*f);
}

static inline void own_closedir_(DIR **d)
{
    if (*d)
        (void)closedir(*d);
}

#define CLEANUP_FREE CLEANUP(own_free_)    /* char *s CLEANUP_FREE = NULL; */
#define CLEANUP_FD CLEANUP(own_close_)     /* int fd CLEANUP_FD = -1; */
#define CLEANUP_FILE CLEANUP(own_fclose_)  /* FILE *f CLEANUP_FILE = NULL; */
#define CLEANUP_DIR CLEANUP(own_closedir_) /* DIR *d CLEANUP_DIR = NULL; */

static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

/* Allocation never returns NULL: without memory the process aborts. Sizes from outside are
 * capped by the caller before they come here. Returned memory is the caller's, freed by free(). */
void *xmalloc(size_t size);
void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t size);
void *xreallocarray(void *p, size_t n, size_t size);
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
