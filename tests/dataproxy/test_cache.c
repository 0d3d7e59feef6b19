/* dataproxy/cache: kept, replaced, expired, bounded. */
#include "dataproxy/cache.h"

#include <stdio.h>
#include <string.h>

#include "tests/test.h"

static void test_keep_replace_expire(void **state)
{
    (void)state;
    struct cache *cache CLEANUP(cache_freep) = cache_new(100000, 1000);
    struct cache_entry e;
    assert_false(cache_get(cache, "/a", 0, &e));
    cache_put(cache, "/a", "text/plain", "one", 3, 0);
    cache_put(cache, "/b", NULL, "", 0, 10);
    assert_true(cache_get(cache, "/a", 999, &e));
    assert_memory_equal(e.body, "one", 3);
    assert_string_equal(e.content_type, "text/plain");
    assert_int_equal(e.age_ms, 999);
    cache_put(cache, "/a", NULL, "two!", 4, 999);
    assert_true(cache_get(cache, "/a", 1500, &e));
    assert_int_equal(e.len, 4);
    assert_null(e.content_type);
    assert_false(cache_get(cache, "/b", 1500, &e));
    assert_false(cache_get(cache, "/a", 1999, &e));
    assert_int_equal(cache_bytes(cache), 0);
}

static void test_bounded(void **state)
{
    (void)state;
    struct cache *cache CLEANUP(cache_freep) = cache_new(10000, 100000);
    static char body[20000];
    struct cache_entry e;
    for (int i = 0; i < 1000; i++) {
        char key[16];
        (void)snprintf(key, sizeof(key), "/%d", i);
        cache_put(cache, key, NULL, body, 500, 0);
        assert_true(cache_bytes(cache) <= 10000);
    }
    assert_true(cache_get(cache, "/999", 0, &e));
    assert_false(cache_get(cache, "/0", 0, &e));
    cache_put(cache, "/999", NULL, body, sizeof(body), 0);
    assert_false(cache_get(cache, "/999", 0, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_keep_replace_expire),
                                        cmocka_unit_test(test_bounded) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
