/*
 * The facilitator's HTTP face: /verify, /settle, /supported, and what tests read and set.
 *
 * Every answer says that no chain is behind it.
 */
#pragma once

#include "base/err.h"
#include "base/loop.h"
#include "base/own.h"
#include "gate/facilitator/book.h"

#define SERVICE_NOTE "no chain is behind this facilitator: balances are entries in a local book"

/* What a second settle of the same authorization gets once the money moved. */
enum resettle {
    RESETTLE_OFFICIAL,      /* it is verified again first: nonce used */
    RESETTLE_PENDING_STORE, /* the first answer for five minutes, then nonce used */
    RESETTLE_IDEMPOTENT,    /* the first answer, always */
};

struct service_config {
    enum resettle resettle;
    bool faults;                /* offer POST /script and POST /fund */
    const char *token;          /* required as a bearer token, or NULL */
    struct evm_address address; /* of the facilitator: what upto permits name */
    struct judge_wallets wallets;
};

struct service;

/* Config is copied, what it points to and loop and book are borrowed. */
CHECKED enum err_kind service_new(struct loop *loop, struct book *book,
                                  const struct service_config *config, const char *listen,
                                  struct service **out, struct err *err);
void service_free(struct service *s);
DEFINE_CLEANUP(struct service, service_free, service_freep)
int service_port(const struct service *s);
