/* dataproxy/rate: the burst, then the rate, whatever the gaps. */
#include "dataproxy/rate.h"

#include "tests/test.h"

static void test_burst_then_rate(void **state)
{
    (void)state;
    struct rate rate;
    uint32_t retry = 0;
    rate_init(&rate, 60, 5, 1000);
    for (int i = 0; i < 5; i++)
        assert_true(rate_take(&rate, 1000, &retry));
    assert_false(rate_take(&rate, 1000, &retry));
    assert_int_equal(retry, 2);
    assert_false(rate_take(&rate, 1999, &retry));
    assert_true(rate_take(&rate, 2000, &retry));
    assert_false(rate_take(&rate, 2000, &retry));
    int taken = 0;
    for (uint64_t now = 2000; now < 62000; now += 7)
        taken += rate_take(&rate, now, &retry);
    assert_in_range(taken, 59, 60);
    taken = 0;
    for (int i = 0; i < 10; i++)
        taken += rate_take(&rate, UINT64_MAX / 2, &retry);
    assert_int_equal(taken, 5);
}

static void test_no_limit(void **state)
{
    (void)state;
    struct rate rate;
    uint32_t retry;
    rate_init(&rate, 0, 0, 0);
    for (int i = 0; i < 1000; i++)
        assert_true(rate_take(&rate, 0, &retry));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_burst_then_rate),
                                        cmocka_unit_test(test_no_limit) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
