/* Calls: what both engines share. The engines are client_curl.c and client_strict.c. */
#include "http/client.h"

#include <stdio.h>
#include <string.h>

#include "http/client_internal.h"

static void unlink_call(struct http_call *call)
{
    call->link.prev->next = call->link.next;
    call->link.next->prev = call->link.prev;
}

void call_free(struct http_call *call)
{
    loop_cancel(&call->timer);
    if (call->engine == ENGINE_CURL)
        curl_engine_end(call);
    else
        strict_engine_end(call);
    unlink_call(call);
    call->client->stats.running--;
    buf_wipe(&call->head);
    buf_wipe(&call->input);
    free(call);
}

void call_finish(struct http_call *call, enum http_call_outcome outcome, const char *why)
{
    struct http_client *client = call->client;
    struct http_result *r = &call->result;
    if (call->dead) {
        call_free(call);
        return;
    }
    r->outcome = outcome;
    r->ms = loop_now_ms(client->loop) - call->started_ms;
    (void)snprintf(r->why, sizeof(r->why), "%s", why ? why : "");
    r->body = call->input.len ? call->input.data : (const uint8_t *)"";
    r->body_len = call->input.len;
    client->stats.failures += outcome != HTTP_CALL_OK;
    client->stats.timeouts += outcome == HTTP_CALL_TIMEOUT;
    call->in_callback = true;
    call->done(call->arg, r);
    call_free(call);
}

bool call_tell_head(struct http_call *call)
{
    if (!call->on_head)
        return true;
    call->in_callback = true;
    bool go = call->on_head(call->arg, &call->result);
    call->in_callback = false;
    return go && !call->dead;
}

enum call_take call_take_data(struct http_call *call, const void *data, size_t len)
{
    if (!call->on_data) {
        if (len > call->response_max - call->input.len)
            return CALL_OVER;
        buf_append(&call->input, data, len);
        return CALL_TOOK;
    }
    call->in_callback = true;
    enum http_data said = call->on_data(call->arg, data, len);
    call->in_callback = false;
    if (call->dead)
        return CALL_STOP;
    if (said == HTTP_DATA_PAUSE) {
        call->paused = true;
        return CALL_PAUSED;
    }
    return said == HTTP_DATA_GO ? CALL_TOOK : CALL_STOP;
}

static enum err_kind check_spec(const struct http_call_spec *spec, struct err *err)
{
    if (!spec->done || !spec->url || !spec->method || !spec->deadline_ms)
        return err_set(err, ERR_INVALID, "call without method, URL, deadline or done");
    if (!http_token_valid(spec->method, strlen(spec->method)))
        return err_set(err, ERR_INVALID, "method is no token");
    for (const char *p = spec->url; *p; p++) {
        if ((unsigned char)*p <= 0x20 || (unsigned char)*p >= 0x7f || *p == '#')
            return err_set(err, ERR_INVALID, "URL has a byte that cannot be sent");
    }
    for (size_t i = 0; i < spec->n_headers; i++) {
        const struct http_header *h = &spec->headers[i];
        if (!http_token_valid(h->name, strlen(h->name)) ||
            !http_value_valid(h->value, strlen(h->value)))
            return err_set(err, ERR_INVALID, "header field %zu cannot be sent", i);
    }
    return ERR_OK;
}

static struct http_call *call_new(struct http_client *client, const struct http_call_spec *spec)
{
    struct http_call *call = xcalloc(1, sizeof(*call));
    call->client = client;
    call->engine = spec->flags & HTTP_CALL_STRICT ? ENGINE_STRICT : ENGINE_CURL;
    call->body = spec->body ? spec->body : "";
    call->body_len = spec->body_len;
    call->response_max = spec->response_max;
    call->deadline_ms = spec->deadline_ms;
    call->flags = spec->flags;
    call->guard = spec->guard;
    call->on_head = spec->on_head;
    call->on_data = spec->on_data;
    call->done = spec->done;
    call->arg = spec->arg;
    call->started_ms = loop_now_ms(client->loop);
    call->result.fields = call->fields;
    buf_init(&call->head, HTTP_HEAD_MAX);
    buf_init(&call->input, SIZE_MAX / 2);
    call->link.prev = client->calls.prev;
    call->link.next = &client->calls;
    client->calls.prev->next = &call->link;
    client->calls.prev = &call->link;
    client->stats.running++;
    client->stats.calls++;
    return call;
}

enum err_kind http_call_start(struct http_client *client, const struct http_call_spec *spec,
                              struct http_call **out, struct err *err)
{
    struct err mine = { 0 };
    struct err *e = err ? err : &mine;
    if (check_spec(spec, e))
        return e->kind;
    struct http_call *call = call_new(client, spec);
    enum err_kind kind = call->engine == ENGINE_CURL ? curl_engine_start(call, spec, e)
                                                     : strict_engine_start(call, spec, e);
    if (kind) {
        call_free(call);
        return kind;
    }
    if (out)
        *out = call;
    return ERR_OK;
}

static void on_dead(struct loop_timer *timer)
{
    call_free(timer->arg);
}

void http_call_cancel(struct http_call *call)
{
    call->dead = true;
    if (call->in_callback)
        return; /* its engine looks at `dead` right after */
    if (call->client->in_curl)
        loop_after(call->client->loop, &call->timer, 0, on_dead, call);
    else
        call_free(call);
}

void http_call_resume(struct http_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    if (call->engine == ENGINE_CURL)
        curl_engine_resume(call);
    else
        strict_engine_resume(call);
}

enum err_kind http_client_new(struct loop *loop, const struct http_client_config *config,
                              struct http_client **out, struct err *err)
{
    struct http_client *client CLEANUP(http_client_freep) = xcalloc(1, sizeof(*client));
    client->loop = loop;
    client->calls.prev = client->calls.next = &client->calls;
    client->connect_ms = config->connect_ms ? config->connect_ms : 3000;
    client->idle_ms = config->idle_ms ? config->idle_ms : 15000;
    client->ca_file = config->ca_file ? xstrdup(config->ca_file) : NULL;
    client->user_agent = xstrdup(config->user_agent ? config->user_agent : "utter/" UTTER_VERSION);
    if (curl_engine_init(client, config, err))
        return err ? err->kind : ERR_INTERNAL;
    *out = STEAL(client);
    return ERR_OK;
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    while (client->calls.next && client->calls.next != &client->calls)
        call_free((struct http_call *)client->calls.next);
    curl_engine_fini(client);
    free(client->ca_file);
    free(client->user_agent);
    free(client);
}

void http_client_stats(const struct http_client *client, struct http_client_stats *out)
{
    *out = client->stats;
}

const struct http_field *http_result_find(const struct http_result *result, const char *name)
{
    for (size_t i = 0; i < result->n_fields; i++) {
        if (http_str_is_nocase(result->fields[i].name, name))
            return &result->fields[i];
    }
    return NULL;
}

const char *http_call_outcome_name(enum http_call_outcome outcome)
{
    static const char *const names[] = {
        [HTTP_CALL_OK] = "ok",
        [HTTP_CALL_NO_CONNECT] = "no_connect",
        [HTTP_CALL_TIMEOUT] = "timeout",
        [HTTP_CALL_BROKEN] = "broken",
        [HTTP_CALL_TOO_LARGE] = "too_large",
        [HTTP_CALL_BAD_ANSWER] = "bad_answer",
        [HTTP_CALL_ABORTED] = "aborted",
        [HTTP_CALL_DENIED] = "denied",
    };
    return names[outcome];
}

/* ---- one call and no more ---- */

struct waiting {
    struct loop *loop;
    struct http_stored *store;
};

static size_t stored_size(const struct http_result *r)
{
    size_t n = r->n_fields * sizeof(struct http_field) + r->body_len + 1;
    for (size_t i = 0; i < r->n_fields; i++)
        n += r->fields[i].name.len + r->fields[i].value.len;
    return n;
}

static struct http_str store_str(char **at, struct http_str s)
{
    struct http_str kept = { *at, s.len };
    if (s.len)
        memcpy(*at, s.p, s.len);
    *at += s.len;
    return kept;
}

static void on_waited(void *arg, const struct http_result *result)
{
    struct waiting *w = arg;
    struct http_stored *store = w->store;
    store->bytes = xmalloc(stored_size(result));
    struct http_field *fields = (struct http_field *)(void *)store->bytes;
    char *at = store->bytes + result->n_fields * sizeof(*fields);
    store->result = *result;
    for (size_t i = 0; i < result->n_fields; i++) {
        fields[i].name = store_str(&at, result->fields[i].name);
        fields[i].value = store_str(&at, result->fields[i].value);
    }
    store->result.fields = fields;
    store->result.body = (const uint8_t *)at;
    if (result->body_len)
        memcpy(at, result->body, result->body_len);
    at[result->body_len] = '\0';
    loop_stop(w->loop);
}

enum err_kind http_call_wait(struct loop *loop, struct http_client *client,
                             const struct http_call_spec *spec, struct http_stored *store,
                             struct err *err)
{
    struct waiting waiting = { .loop = loop, .store = store };
    struct http_call_spec mine = *spec;
    mine.done = on_waited;
    mine.on_head = NULL;
    mine.on_data = NULL;
    mine.arg = &waiting;
    *store = (struct http_stored){ 0 };
    struct err e = { 0 };
    enum err_kind kind = http_call_start(client, &mine, NULL, err ? err : &e);
    return kind ? kind : loop_run(loop, err ? err : &e);
}

void http_stored_fini(struct http_stored *store)
{
    free(STEAL(store->bytes));
}
