/* deploy/init: what is asked, what is written, what is refused with one line and no file. */
#include "deploy/init.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/text.h"
#include "deploy/endpoint.h"
#include "tests/test.h"

#define WALLET "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"

static enum err_kind run(const char *answers, const char *path, struct err *err)
{
    char *copy CLEANUP_FREE = xstrdup(answers);
    FILE *in CLEANUP_FILE = fmemopen(copy, strlen(copy), "r");
    FILE *out CLEANUP_FILE = fopen("/dev/null", "we");
    return init_run(in, out, path, err);
}

static void test_init(void **state)
{
    static const struct {
        const char *answers, *says;
    } refused[] = {
        { "A\n\n\n" WALLET "\na.example\n", "slug" },
        { "\n\n\n" WALLET "\na.example\n", "slug: needs an answer" },
        { "a\n\n\n0x12\na.example\n", "pay.to" },
        { "a\n\nmuch\n" WALLET "\na.example\n", "price" },
        { "a\n../x\n\n" WALLET "\na.example\n", "handler" },
        { "a\n\n\n" WALLET "\na\"b\n", "host: no quotes" },
        { "a\n\n\n" WALLET "\n", "host: needs an answer" },
    };
    char dir[] = "/tmp/ut-init.XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    char *path CLEANUP_FREE = xasprintf("%s/endpoint.yaml", dir);
    struct err err = { 0 };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        assert_int_equal(run(refused[i].answers, path, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, refused[i].says));
        assert_null(strchr(err.msg, '\n'));
        assert_int_not_equal(access(path, F_OK), 0);
    }
    assert_int_equal(run("shop\n\n0.02\n" WALLET "\nshop.example.com\n", path, &err), ERR_OK);
    struct endpoint *e CLEANUP(endpoint_freep) = NULL;
    assert_int_equal(endpoint_load(path, &e, &err), ERR_OK);
    assert_string_equal(e->slug.s, "shop");
    assert_string_equal(e->host, "shop.example.com");
    assert_string_equal(e->pay_to, WALLET);
    assert_int_equal(run("shop\n\n\n" WALLET "\nb.example\n", path, &err), ERR_EXISTS);
    (void)unlink(path);
    (void)rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_init) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
