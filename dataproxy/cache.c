#include "dataproxy/cache.h"

#include <string.h>

struct item {
    struct item *newer;
    char *key;
    char *content_type;
    uint8_t *body;
    size_t len;
    size_t size; /* what it counts for */
    uint64_t put_ms;
};

/* A queue by age: the oldest expire first and make room first. Small by nature, so look-up is a
 * walk. */
struct cache {
    size_t max_bytes;
    uint32_t ttl_ms;
    size_t bytes;
    struct item *oldest;
    struct item **end;
};

struct cache *cache_new(size_t max_bytes, uint32_t ttl_ms)
{
    struct cache *cache = xcalloc(1, sizeof(*cache));
    *cache = (struct cache){ .max_bytes = max_bytes, .ttl_ms = ttl_ms };
    cache->end = &cache->oldest;
    return cache;
}

static void remove_item(struct cache *cache, struct item **at)
{
    struct item *item = *at;
    *at = item->newer;
    if (cache->end == &item->newer)
        cache->end = at;
    cache->bytes -= item->size;
    free(item->key);
    free(item->content_type);
    free(item->body);
    free(item);
}

void cache_free(struct cache *cache)
{
    if (!cache)
        return;
    while (cache->oldest)
        remove_item(cache, &cache->oldest);
    free(cache);
}

static struct item **find(struct cache *cache, const char *key)
{
    struct item **at = &cache->oldest;
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->newer;
    return at;
}

bool cache_get(struct cache *cache, const char *key, uint64_t now_ms, struct cache_entry *out)
{
    while (cache->oldest && now_ms - cache->oldest->put_ms >= cache->ttl_ms)
        remove_item(cache, &cache->oldest);
    const struct item *item = *find(cache, key);
    if (!item)
        return false;
    *out = (struct cache_entry){ .content_type = item->content_type,
                                 .body = item->body,
                                 .len = item->len,
                                 .age_ms = now_ms - item->put_ms };
    return true;
}

void cache_put(struct cache *cache, const char *key, const char *content_type, const void *body,
               size_t len, uint64_t now_ms)
{
    size_t size = sizeof(struct item) + strlen(key) + len + 64;
    struct item **known = find(cache, key);
    if (*known)
        remove_item(cache, known);
    if (size > cache->max_bytes)
        return;
    while (cache->bytes + size > cache->max_bytes)
        remove_item(cache, &cache->oldest);
    struct item *item = xcalloc(1, sizeof(*item));
    *item = (struct item){ .key = xstrdup(key), .len = len, .size = size, .put_ms = now_ms };
    item->content_type = content_type ? xstrdup(content_type) : NULL;
    item->body = xmalloc(len);
    if (len)
        memcpy(item->body, body, len);
    *cache->end = item;
    cache->end = &item->newer;
    cache->bytes += size;
}

size_t cache_bytes(const struct cache *cache)
{
    return cache->bytes;
}
