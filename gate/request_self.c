/* What the gate says itself before any price: whose host this is, that it lives, other methods. */
#include <stdio.h>
#include <string.h>

#include "gate/request_parts.h"

bool request_is_ours(const struct request *r)
{
    struct http_str authority = r->head->authority;
    char host[256];
    int port;
    if (!http_authority_parse(authority, host, sizeof(host), &port))
        return false;
    char full[272];
    if (port < 0)
        memcpy(full, host, strlen(host) + 1);
    else
        (void)snprintf(full, sizeof(full), "%s:%d", host, port);
    for (const char **h = r->config->hosts; *h; h++) {
        if (strcmp(*h, full) == 0 || ((port == 80 || port == 443) && strcmp(*h, host) == 0))
            return true;
    }
    return false;
}

enum step answer_alive(struct request *r)
{
    if (r->head->method != HTTP_GET && r->head->method != HTTP_HEAD)
        return answer_own(r, 405, NULL, NULL, "GET, HEAD");
    bool open = r->gate->ledger && ledger_healthy(r->gate->ledger);
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"instance\":\"%s\",\"ledger\":\"%s\"}\n",
                   r->gate->instance, open ? "open" : "closed");
    return answer_own(r, open ? 200 : 503, "application/json", body, NULL);
}

static bool is_preflight(const struct request *r)
{
    return r->head->method == HTTP_OPTIONS && r->config->cors && http_find(r->head, "Origin") &&
           http_find(r->head, "Access-Control-Request-Method");
}

/* No route for this method: what the gate says itself. HEAD where GET is sold shows the price. */
enum step answer_other_method(struct request *r)
{
    const struct route *sold = NULL;
    if (r->head->method == HTTP_OPTIONS)
        return is_preflight(r) ? answer_preflight(r)
                               : answer_own(r, 204, NULL, NULL, r->route->allow);
    if (r->head->method == HTTP_HEAD && !http_find(r->head, "PAYMENT-SIGNATURE") &&
        !http_find(r->head, "X-PAYMENT") &&
        route_find(&r->config->routes, "GET", r->path, &sold) == ROUTE_FOUND && !sold->free) {
        r->route = sold;
        return answer_challenge(r, OUTCOME_CHALLENGED, 402, PAYMENT_NONE, NULL);
    }
    return answer_own(r, 405, NULL, NULL, r->route->allow);
}
