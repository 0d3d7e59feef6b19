/*
 * Whole answers of one upstream, kept for a while so that a handler's repeated question costs the
 * upstream once.
 *
 * Only what the operator opted into: GET answers of status 200, per upstream, bounded in bytes and
 * time. All requests of a slug share it: they see the upstream through the same credential.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct cache;

struct cache_entry {
    const char *content_type; /* NULL: none */
    const uint8_t *body;
    size_t len;
    uint64_t age_ms;
};

struct cache *cache_new(size_t max_bytes, uint32_t ttl_ms);
void cache_free(struct cache *cache);
DEFINE_CLEANUP(struct cache, cache_free, cache_freep)

/* The entry's pointers are valid until the next cache_put() or cache_free(). */
bool cache_get(struct cache *cache, const char *key, uint64_t now_ms, struct cache_entry *out);
/* Copies; the oldest make room. What is larger than the cache is not kept. */
void cache_put(struct cache *cache, const char *key, const char *content_type, const void *body,
               size_t len, uint64_t now_ms);
size_t cache_bytes(const struct cache *cache);
