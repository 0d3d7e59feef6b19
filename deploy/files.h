/*
 * A slug's files and directories: configuration, ledger, token, names.
 *
 * The gate's user owns what the gate writes; everything else is root's. The token's durable copy is
 * root's (0600) and goes into a tmpfs that only the gate's container binds.
 */
#pragma once

#include "base/err.h"
#include "deploy/plan.h"
#include "deploy/settings.h"

/* Everything that must be there before a container starts. `token_source` may be NULL: then the
 * durable copy is used where there is one. */
CHECKED enum err_kind files_make(const struct plan *plan, const char *token_source,
                                 struct err *err);
/* Credentials of the upstreams: durable copies first, then into the data proxy's tmpfs. `upstreams`
 * may be NULL: then the durable copies are used. */
CHECKED enum err_kind files_secrets(const struct plan *plan, const struct upstreams *upstreams,
                                    struct err *err);
/* The gate's configuration by atomic replace; *hash is the sha256 (hex) of its bytes. */
CHECKED enum err_kind files_gate_config(const struct plan *plan, char hash[65], struct err *err);
/* Replaces the token in place, durable copy first. */
CHECKED enum err_kind files_token(const struct plan *plan, const char *source, struct err *err);
/* What lives in the run directory; with `state` also ledger and everything else. Absent is fine. */
CHECKED enum err_kind files_remove_run(const struct plan *plan, struct err *err);
CHECKED enum err_kind files_remove_state(const struct plan *plan, struct err *err);
/* Refuses below 1 GiB or 10 % free where the state lives; *text is a line about it, the caller's.
 */
CHECKED enum err_kind files_check_space(const struct settings *settings, char **text,
                                        struct err *err);
