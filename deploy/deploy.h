/*
 * The commands of utter-deploy that change things, and what they share.
 *
 * Each takes the lock of the slug it works on. They print one line a step to stdout; errors are
 * returned.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "deploy/containerd.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

struct deploy {
    struct settings *settings;
    struct containerd *cd;
    char *logger; /* absolute path of utter-log */
    FILE *out;    /* where steps are told; borrowed */
};

/* Reads the settings and opens containerd (its namespace is made). */
CHECKED enum err_kind deploy_open(const char *settings_path, struct deploy *out, struct err *err);
void deploy_close(struct deploy *deploy);

/* Path of a program that lies beside this one; the caller's. */
char *deploy_beside(const char *name);

/* One line about what was done. */
void deploy_say(const struct deploy *deploy, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* ---- realise.c ---- */
/* Makes a plan true, whatever part of it holds already. `old` is what ran before where ids differ,
 * or NULL. *changed tells whether anything had to be done. */
struct realise {
    const struct plan *plan;
    const struct plan *old;
    const char *token;                 /* source file, or NULL */
    const struct upstreams *upstreams; /* sources of credentials, or NULL */
    bool changed;
    bool handler_started;
};
CHECKED enum err_kind realise(struct deploy *deploy, struct realise *what, struct err *err);
/* Ends containers and namespaces of the slug that are not the plan's (plan NULL: all of them). */
CHECKED enum err_kind realise_sweep(struct deploy *deploy, const struct slug *slug,
                                    const struct plan *plan, int grace_ms, struct err *err);
/* Removes everything of the slug on the host but its state. */
CHECKED enum err_kind realise_undo(struct deploy *deploy, const struct plan *plan, int grace_ms,
                                   struct err *err);
/* Looks at the gate from the host: its alive answer (instance id), the caller's. */
CHECKED enum err_kind realise_gate_alive(const struct plan *plan, char **instance, struct err *err);
/* Looks at the gate through Traefik's entry point; ERR_PRECONDITION says what answered instead. */
CHECKED enum err_kind realise_route_alive(const struct deploy *deploy, const struct plan *plan,
                                          const char *instance, int wait_ms, struct err *err);
/* "address:port" of every other slug's handler, gate and data proxy: an array, the caller's. */
CHECKED enum err_kind realise_others(const struct deploy *deploy, const struct plan *plan,
                                     json_t **out, struct err *err);
/* A GET on the gate's admin socket. The answer is parsed JSON, the caller's. */
CHECKED enum err_kind realise_admin(const struct plan *plan, const char *path, json_t **out,
                                    struct err *err);

/* ---- up.c, down.c ---- */
CHECKED enum err_kind deploy_up(struct deploy *deploy, const char *file, struct err *err);
/* The same for a recorded slug, without its file: what drifted is put back. `renew`: the handler is
 * replaced even if it runs. */
CHECKED enum err_kind deploy_again(struct deploy *deploy, const char *slug, bool renew,
                                   bool *changed, struct err *err);
struct down {
    bool purge; /* the ledger and everything recorded too */
    bool force; /* although payments are unresolved */
    int wait_ms;
};
CHECKED enum err_kind deploy_down(struct deploy *deploy, const char *slug, const struct down *how,
                                  struct err *err);
