/*
 * Reading a configuration tree so that every fault is told, each with its place. config*.c only.
 *
 * A reader returns the value, or its fallback after a fault was counted; the caller reads on and
 * asks scan->faults once at the end.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gate/config.h"

struct scan {
    config_fault_fn *fault;
    void *arg;
    unsigned faults;
    struct gate_config *c; /* being made; owns what scan_made() returns */
    size_t made_n;
};

/* One object of the tree and its name in messages, "routes[2].answer". */
struct at {
    struct scan *s;
    const json_t *object; /* borrowed; NULL when absent: every member is then absent */
    char where[96];
};

void scan_fault(struct scan *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void scan_warning(struct scan *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A composed string; lives as long as the configuration. */
const char *scan_made(struct scan *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A zeroed array; lives as long as the configuration. */
void *scan_array(struct scan *s, size_t n, size_t size);

/* `object` itself with unknown keys reported; a value that is no object is a fault. */
struct at scan_at(struct scan *s, const json_t *object, const char *const keys[], const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));
/* A member object of `at`, absent allowed. */
struct at scan_member(const struct at *at, const char *key, const char *const keys[]);

const char *scan_text(const struct at *at, const char *key, bool required, const char *fallback);
int64_t scan_int(const struct at *at, const char *key, int64_t min, int64_t max, int64_t fallback);
bool scan_bool(const struct at *at, const char *key, bool fallback);
/* Index of the word in `words` (NULL-terminated). */
size_t scan_word(const struct at *at, const char *key, const char *const words[], size_t fallback);
/* A list of strings, NULL-terminated, never NULL. */
const char **scan_list(const struct at *at, const char *key, size_t max);
const char *scan_path(const struct at *at, const char *key, bool required); /* absolute */
/* Printable text of at most max bytes, UTF-8, no control bytes. */
const char *scan_label(const struct at *at, const char *key, size_t max, const char *fallback);

/* "ADDR:PORT" or "unix:/path". `prefix` ("http://" or "") stands before an address. */
void scan_endpoint(const struct at *at, const char *key, const char *prefix, struct endpoint *out);

/* config_pay.c: the offers of one route, into route. `pay` is the array of the route or the file.
 */
void scan_offers(struct scan *s, const json_t *pay, const char *where, const char *price,
                 struct route *route, uint32_t max_timeout_s);
/* config_route.c */
void scan_routes(struct scan *s, const json_t *root);
void route_fini(struct route *r);

/* http(s)://host[:port] with nothing after; authority is where host[:port] begins. */
bool url_is_origin(const char *url, const char **authority);
/* The host part of an authority is 127.0.0.0/8, [::1] or localhost. */
bool authority_is_loopback(const char *authority);
