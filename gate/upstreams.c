/*
 * A handler's way to its upstreams, for as long as it runs: a token made out to this request,
 * opened at the data proxy before the handler starts and ended before its answer goes anywhere.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "gate/request.h"

#define GRACE_S                                                                                    \
    5 /* a token outlives the handler's deadline by this; its end does not wait for it */

static void wipe_token(struct request *r)
{
    char *token = STEAL(r->data_token);
    if (token)
        explicit_bzero(token, strlen(token));
    free(token);
}

static void on_opened(void *arg, enum data_result result, const struct data_message *answer)
{
    struct request *r = arg;
    if (result == DATA_RESULT_OK) {
        request_go(r, STEP_HANDLER);
        return;
    }
    log_error("data_proxy_not_open", log_str("id", r->id),
              log_str("why", answer && answer->why[0] ? answer->why : "no answer"));
    reply_own(r, 502, "upstreams_unavailable");
    request_go(r, STEP_SEAL);
}

/* What both the message and the token say. */
static void fill(const struct request *r, struct data_message *message, struct data_token *token)
{
    const struct data_config *d = &r->config->data;
    int64_t now = (int64_t)time(NULL);
    uint32_t seconds = (r->route->handler_ms + 999) / 1000 + GRACE_S;
    seconds = seconds > DATA_LIFETIME_MAX ? DATA_LIFETIME_MAX : seconds;
    message->op = DATA_OPEN;
    message->calls = token->calls = d->calls;
    message->bytes = token->bytes = d->bytes;
    message->ms = (int64_t)seconds * 1000;
    token->issued_at = now;
    token->expires_at = now + seconds;
    (void)snprintf(message->id, sizeof(message->id), "%s", r->id);
    (void)snprintf(token->request_id, sizeof(token->request_id), "%s", r->id);
    (void)snprintf(token->slug, sizeof(token->slug), "%s", r->config->slug);
    for (size_t i = 0; i < DATA_SCOPE_MAX && r->route->upstreams[i]; i++) {
        const char *name = r->route->upstreams[i];
        (void)snprintf(message->scope[i], sizeof(message->scope[i]), "%s", name);
        (void)snprintf(token->scope[i], sizeof(token->scope[i]), "%s", name);
        message->n_scope = token->n_scope = i + 1;
    }
}

enum step upstreams_open(struct request *r)
{
    struct data_message message = { 0 };
    struct data_token token = { 0 };
    struct err err = { 0 };
    if (!route_has_upstreams(r->route))
        return STEP_HANDLER;
    fill(r, &message, &token);
    if (data_token_mint(r->gate->data_key, &token, &r->data_token, &err)) {
        log_error("data_token_not_made", log_str("id", r->id), log_str("why", err.msg));
        reply_own(r, 502, "upstreams_unavailable");
        return STEP_SEAL;
    }
    r->data_open = true;
    data_session_open(r->gate->data, &message, &r->data_pending, on_opened, r);
    return STEP_WAIT;
}

static void on_ended(void *arg, enum data_result result, const struct data_message *answer)
{
    struct request *r = arg;
    r->data_open = false;
    wipe_token(r);
    if (result != DATA_RESULT_OK)
        reply_own(r, 502, "upstreams_end_unknown");
    else if (answer->tainted)
        reply_own(r, 502, "credential_in_upstream_answer");
    if (result == DATA_RESULT_OK)
        log_info("upstreams_used", log_str("id", r->id), log_int("calls", answer->calls),
                 log_int("bytes", answer->bytes), log_bool("tainted", answer->tainted));
    request_go(r, STEP_SEAL);
}

enum step upstreams_close(struct request *r)
{
    if (!r->data_open)
        return STEP_SEAL;
    data_session_end(r->gate->data, r->id, &r->data_pending, on_ended, r);
    return STEP_WAIT;
}

void upstreams_abandon(struct request *r)
{
    data_pending_cancel(&r->data_pending);
    if (r->data_open && r->gate->data) {
        data_session_end(r->gate->data, r->id, &r->data_pending, on_ended, r);
        data_pending_cancel(&r->data_pending);
    }
    wipe_token(r);
}
