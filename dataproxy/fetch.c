#include "dataproxy/fetch.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static void fail(struct fetch *fetch, const char *why)
{
    struct http_result result = { .outcome = HTTP_CALL_NO_CONNECT };
    (void)snprintf(result.why, sizeof(result.why), "%.*s", (int)sizeof(result.why) - 1, why);
    fetch->done(fetch->arg, &result);
}

static void call_next(struct fetch *fetch);

static void on_done(void *arg, const struct http_result *result)
{
    struct fetch *fetch = arg;
    fetch->call = NULL;
    if (result->outcome == HTTP_CALL_NO_CONNECT && fetch->next < fetch->n_addresses)
        call_next(fetch);
    else
        fetch->done(fetch->arg, result);
}

static bool on_head(void *arg, const struct http_result *head)
{
    struct fetch *fetch = arg;
    return fetch->spec.on_head(fetch->arg, head);
}

static enum http_data on_data(void *arg, const void *data, size_t len)
{
    struct fetch *fetch = arg;
    return fetch->spec.on_data(fetch->arg, data, len);
}

static void call_next(struct fetch *fetch)
{
    struct err err;
    struct http_call_spec spec = fetch->spec;
    spec.connect_to = fetch->address[fetch->next++];
    spec.on_head = fetch->spec.on_head ? on_head : NULL;
    spec.on_data = fetch->spec.on_data ? on_data : NULL;
    spec.done = on_done;
    spec.arg = fetch;
    if (http_call_start(fetch->fetcher->client, &spec, &fetch->call, &err))
        fail(fetch, err.msg);
}

static bool keep(struct fetch *fetch, const struct sockaddr_storage *address, const char **why)
{
    const struct sockaddr *sa = (const struct sockaddr *)address;
    const void *raw = sa->sa_family == AF_INET
                          ? (const void *)&((const struct sockaddr_in *)address)->sin_addr
                          : (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr;
    char *to = fetch->address[fetch->n_addresses];
    if (address_in_net(sa, sizeof(*address), &fetch->fetcher->own)) {
        *why = "the slug's own network";
        return false;
    }
    return address_allowed(sa, sizeof(*address), fetch->internal, why) &&
           inet_ntop(sa->sa_family, raw, to, sizeof(fetch->address[0]));
}

static void on_resolved(void *arg, const struct sockaddr_storage *addresses, size_t n,
                        const char *why)
{
    struct fetch *fetch = arg;
    char line[160];
    for (size_t i = 0; i < n; i++)
        fetch->n_addresses += keep(fetch, &addresses[i], &why);
    if (fetch->n_addresses) {
        call_next(fetch);
        return;
    }
    fetch->refused = n > 0;
    (void)snprintf(line, sizeof(line), n ? "address refused: %s" : "name not resolved: %s",
                   why ? why : "no address");
    fail(fetch, line);
}

void fetch_start(struct fetch *fetch, struct fetcher *fetcher, const char *host, bool internal,
                 const struct http_call_spec *spec, http_call_done_fn *done, void *arg)
{
    *fetch = (struct fetch){
        .fetcher = fetcher, .spec = *spec, .done = done, .arg = arg, .internal = internal
    };
    resolver_lookup(fetcher->resolver, host, on_resolved, fetch, &fetch->resolving);
}

void fetch_cancel(struct fetch *fetch)
{
    resolve_cancel(fetch->resolving);
    fetch->resolving = NULL;
    if (fetch->call)
        http_call_cancel(fetch->call);
    fetch->call = NULL;
}

void fetch_resume(struct fetch *fetch)
{
    if (fetch->call)
        http_call_resume(fetch->call);
}
