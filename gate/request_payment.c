/* The payment in a request's head: its header fields, the buyer's secret, the terms it meets. */
#include <openssl/sha.h>

#include "gate/request_parts.h"

#define RESUME_MIN 16
#define RESUME_MAX 256

void request_payment_headers(const struct http_head *head, struct payment_headers *out)
{
    for (size_t i = 0; i < head->n_fields; i++) {
        const struct http_field *f = &head->fields[i];
        if (http_str_is_nocase(f->name, "X-PAYMENT")) {
            out->v1 = f->value.len ? f->value.p : "";
            out->v1_len = f->value.len;
            out->v1_count++;
        } else if (http_str_is_nocase(f->name, "PAYMENT-SIGNATURE")) {
            out->v2 = f->value.len ? f->value.p : "";
            out->v2_len = f->value.len;
            out->v2_count++;
        }
    }
}

bool request_read_secret(struct request *r)
{
    const struct http_field *f = http_find(r->head, "Utter-Resume");
    if (!f)
        return true;
    if (http_count(r->head, "Utter-Resume") != 1 || f->value.len < RESUME_MIN ||
        f->value.len > RESUME_MAX)
        return false;
    SHA256((const unsigned char *)f->value.p, f->value.len, r->secret);
    r->has_secret = true;
    return true;
}

enum payment_fault request_bind(struct request *r, struct err *why)
{
    enum payment_fault fault = payment_bind(&r->payment, r->route, why);
    uint64_t now = loop_now_ms(r->gate->loop);
    if (fault == PAYMENT_OK && r->payment.offer)
        return fault;
    for (size_t i = r->gate->n_previous; i-- > 0;) {
        struct gate_terms *terms = &r->gate->previous[i];
        const struct route *route = NULL;
        struct err ignored;
        if (terms->until_ms < now ||
            route_find(&terms->config->routes, r->method, r->path, &route) != ROUTE_FOUND ||
            route->free || payment_bind(&r->payment, route, &ignored) || !r->payment.offer)
            continue;
        config_unref(r->config);
        r->config = config_ref(terms->config);
        r->route = route;
        return PAYMENT_OK;
    }
    return payment_bind(&r->payment, r->route, why);
}
