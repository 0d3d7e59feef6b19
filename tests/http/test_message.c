/* http/message: the table of facts that every vector of request smuggling is refused by, and what
 * is accepted. */
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/message.h"

#define TAIL "Host: a\r\n\r\n"

struct vector {
    const char *name;
    const char *bytes;
    int status; /* 0: accepted; -1: partial */
    size_t len; /* 0: strlen */
};

static const struct vector VECTORS[] = {
    { "plain GET", "GET / HTTP/1.1\r\n" TAIL, 0, 0 },
    { "leading CRLF", "\r\n\r\nGET / HTTP/1.1\r\n" TAIL, 0, 0 },
    { "leading bare LF", "\nGET / HTTP/1.1\r\n" TAIL, 400, 0 },
    { "CL then TE", "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" TAIL,
      400, 0 },
    { "TE then CL", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n" TAIL,
      400, 0 },
    { "two different CL", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n" TAIL, 400,
      0 },
    { "two equal CL", "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n" TAIL, 400,
      0 },
    { "CL list", "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n" TAIL, 400, 0 },
    { "CL plus", "POST / HTTP/1.1\r\nContent-Length: +3\r\n" TAIL, 400, 0 },
    { "CL minus", "POST / HTTP/1.1\r\nContent-Length: -3\r\n" TAIL, 400, 0 },
    { "CL hex", "POST / HTTP/1.1\r\nContent-Length: 0x3\r\n" TAIL, 400, 0 },
    { "CL empty", "POST / HTTP/1.1\r\nContent-Length:\r\n" TAIL, 400, 0 },
    { "CL 20 digits", "POST / HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n" TAIL, 400, 0 },
    { "CL over int64", "POST / HTTP/1.1\r\nContent-Length: 9223372036854775808\r\n" TAIL, 400, 0 },
    { "CL inner blank", "POST / HTTP/1.1\r\nContent-Length: 1 2\r\n" TAIL, 400, 0 },
    { "CL fine", "POST / HTTP/1.1\r\nContent-Length: 12\r\n" TAIL, 0, 0 },
    { "CL leading zero is one number", "POST / HTTP/1.1\r\nContent-Length: 003\r\n" TAIL, 0, 0 },
    { "TE chunked", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" TAIL, 0, 0 },
    { "TE Chunked case", "POST / HTTP/1.1\r\nTransfer-Encoding: CHUNKED\r\n" TAIL, 0, 0 },
    { "TE gzip, chunked", "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" TAIL, 400, 0 },
    { "TE identity", "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n" TAIL, 400, 0 },
    { "TE xchunked", "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n" TAIL, 400, 0 },
    { "TE quoted", "POST / HTTP/1.1\r\nTransfer-Encoding: \"chunked\"\r\n" TAIL, 400, 0 },
    { "TE parameter", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked;q=1\r\n" TAIL, 400, 0 },
    { "TE VT",
      "POST / HTTP/1.1\r\nTransfer-Encoding: \x0b"
      "chunked\r\n" TAIL,
      400, 0 },
    { "TE empty", "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n" TAIL, 400, 0 },
    { "TE twice a",
      "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n" TAIL, 400,
      0 },
    { "TE twice b",
      "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n" TAIL, 400,
      0 },
    { "TE on 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" TAIL, 400, 0 },
    { "space before colon", "POST / HTTP/1.1\r\nContent-Length : 3\r\n" TAIL, 400, 0 },
    { "tab before colon", "POST / HTTP/1.1\r\nTransfer-Encoding\t: chunked\r\n" TAIL, 400, 0 },
    { "fold", "GET / HTTP/1.1\r\nX-A: 1\r\n two\r\n" TAIL, 400, 0 },
    { "fold in TE", "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n" TAIL, 400, 0 },
    { "fold by tab", "GET / HTTP/1.1\r\nX-A: 1\r\n\ttwo\r\n" TAIL, 400, 0 },
    { "fold at once", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400, 0 },
    { "bare LF", "GET / HTTP/1.1\nHost: a\n\n", 400, 0 },
    { "bare LF in fields", "GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400, 0 },
    { "bare LF at end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400, 0 },
    { "bare CR in value", "GET / HTTP/1.1\r\nX: a\rb\r\n" TAIL, 400, 0 },
    { "bare CR in target", "GET /\r HTTP/1.1\r\n" TAIL, 400, 0 },
    { "CR CR LF", "GET / HTTP/1.1\r\r\n" TAIL, 400, 0 },
    { "NUL in value", "GET / HTTP/1.1\r\nX: a\0b\r\nHost: a\r\n\r\n", 400, 35 },
    { "NUL in name", "GET / HTTP/1.1\r\nX\0: ab\r\nHost: a\r\n\r\n", 400, 35 },
    { "control byte",
      "GET / HTTP/1.1\r\nX: a\x01"
      "b\r\n" TAIL,
      400, 0 },
    { "DEL",
      "GET / HTTP/1.1\r\nX: a\x7f"
      "b\r\n" TAIL,
      400, 0 },
    { "obs-text",
      "GET / HTTP/1.1\r\nX: a\xff"
      "b\r\n" TAIL,
      0, 0 },
    { "bad name", "GET / HTTP/1.1\r\nX(y): b\r\n" TAIL, 400, 0 },
    { "8-bit name", "GET / HTTP/1.1\r\nX\xc3: b\r\n" TAIL, 400, 0 },
    { "empty name", "GET / HTTP/1.1\r\n: b\r\n" TAIL, 400, 0 },
    { "no colon", "GET / HTTP/1.1\r\nX\r\n" TAIL, 400, 0 },
    { "empty value", "GET / HTTP/1.1\r\nX:\r\n" TAIL, 0, 0 },
    { "blank value", "GET / HTTP/1.1\r\nX: \t \r\n" TAIL, 0, 0 },
    { "two Host", "GET / HTTP/1.1\r\nHost: a\r\n" TAIL, 400, 0 },
    { "no Host", "GET / HTTP/1.1\r\n\r\n", 400, 0 },
    { "no Host on 1.0", "GET / HTTP/1.0\r\n\r\n", 0, 0 },
    { "empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400, 0 },
    { "Host list", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400, 0 },
    { "Host userinfo", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, 0 },
    { "Host path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, 0 },
    { "Host port", "GET / HTTP/1.1\r\nHost: a:80\r\n\r\n", 0, 0 },
    { "Host bad port", "GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", 400, 0 },
    { "Host empty port", "GET / HTTP/1.1\r\nHost: a:\r\n\r\n", 400, 0 },
    { "Host big port", "GET / HTTP/1.1\r\nHost: a:70000\r\n\r\n", 400, 0 },
    { "Host v6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0, 0 },
    { "Host v6 open", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, 0 },
    { "absolute", "GET http://a/x HTTP/1.1\r\n" TAIL, 0, 0 },
    { "absolute other host", "GET http://b/x HTTP/1.1\r\n" TAIL, 400, 0 },
    { "absolute no path", "GET http://a HTTP/1.1\r\n" TAIL, 0, 0 },
    { "absolute query", "GET http://a?x HTTP/1.1\r\n" TAIL, 0, 0 },
    { "absolute userinfo", "GET http://u@a/ HTTP/1.1\r\n" TAIL, 400, 0 },
    { "absolute ftp", "GET ftp://a/ HTTP/1.1\r\n" TAIL, 400, 0 },
    { "asterisk", "OPTIONS * HTTP/1.1\r\n" TAIL, 0, 0 },
    { "asterisk GET", "GET * HTTP/1.1\r\n" TAIL, 400, 0 },
    { "CONNECT", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 0, 0 },
    { "CONNECT no port", "CONNECT a HTTP/1.1\r\n" TAIL, 400, 0 },
    { "CONNECT path", "CONNECT /a HTTP/1.1\r\n" TAIL, 400, 0 },
    { "target without slash", "GET a HTTP/1.1\r\n" TAIL, 400, 0 },
    { "empty target", "GET  HTTP/1.1\r\n" TAIL, 400, 0 },
    { "two blanks", "GET  / HTTP/1.1\r\n" TAIL, 400, 0 },
    { "tab", "GET\t/\tHTTP/1.1\r\n" TAIL, 400, 0 },
    { "trailing blank", "GET / HTTP/1.1 \r\n" TAIL, 400, 0 },
    { "fragment", "GET /#x HTTP/1.1\r\n" TAIL, 400, 0 },
    { "8-bit target", "GET /\xc3\xa4 HTTP/1.1\r\n" TAIL, 400, 0 },
    { "0.9", "GET /\r\n" TAIL, 400, 0 },
    { "HTTP/0.9", "GET / HTTP/0.9\r\n" TAIL, 505, 0 },
    { "HTTP/1.2", "GET / HTTP/1.2\r\n" TAIL, 505, 0 },
    { "HTTP/2.0", "GET / HTTP/2.0\r\n" TAIL, 505, 0 },
    { "HTTP/1.10", "GET / HTTP/1.10\r\n" TAIL, 400, 0 },
    { "http/1.1", "GET / http/1.1\r\n" TAIL, 400, 0 },
    { "h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, 0 },
    { "TLS hello", "\x16\x03\x01\x02", 400, 0 },
    { "long method", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGH / HTTP/1.1\r\n" TAIL, 501, 0 },
    { "unknown method", "BREW / HTTP/1.1\r\n" TAIL, 0, 0 },
    { "Expect", "POST / HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n" TAIL, 0, 0 },
    { "Expect foo", "POST / HTTP/1.1\r\nExpect: foo\r\n" TAIL, 417, 0 },
    { "Expect twice", "POST / HTTP/1.1\r\nExpect: 100-continue\r\nExpect: 100-continue\r\n" TAIL,
      400, 0 },
    { "Expect foo on 1.0", "POST / HTTP/1.0\r\nExpect: foo\r\n" TAIL, 0, 0 },
    { "partial line", "GET / HT", -1, 0 },
    { "partial fields", "GET / HTTP/1.1\r\nHost: a\r\n", -1, 0 },
    { "nothing", "", -1, 0 },
    { "partial CRLF", "\r", -1, 0 },
};

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(VECTORS) / sizeof(VECTORS[0]); i++) {
        const struct vector *v = &VECTORS[i];
        struct http_field fields[HTTP_FIELDS_MAX];
        struct http_head head;
        struct http_fault fault = { 0 };
        size_t len = v->len ? v->len : strlen(v->bytes);
        enum http_parsed p = http_parse_request(v->bytes, len, fields, &head, &fault);
        int got = p == HTTP_PARSED ? 0 : p == HTTP_PARTIAL ? -1 : fault.status;
        if (got != v->status)
            fail_msg("%s: got %d, want %d (%s)", v->name, got, v->status,
                     fault.why ? fault.why : "");
        if (p == HTTP_PARSED)
            assert_int_equal(head.size, len);
    }
}

/* Every cut of an acceptable head is partial, none is refused. */
static void test_every_cut_is_partial(void **state)
{
    (void)state;
    static const char head_bytes[] =
        "\r\nPOST http://a:8/x?y HTTP/1.1\r\nHost: a:8\r\nX-Y:  z \t\r\nExpect: 100-continue\r\n"
        "Content-Length: 5\r\nConnection: Keep-Alive, foo\r\n\r\n";
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    struct http_fault fault;
    for (size_t n = 0; n < sizeof(head_bytes) - 1; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, head_bytes, n);
        assert_int_equal(http_parse_request(cut, n, fields, &head, &fault), HTTP_PARTIAL);
        free(cut);
    }
    assert_int_equal(http_parse_request(head_bytes, sizeof(head_bytes) - 1, fields, &head, &fault),
                     HTTP_PARSED);
    assert_true(http_str_is(head.path, "/x"));
    assert_true(http_str_is(head.query, "y"));
    assert_true(http_str_is(head.authority, "a:8"));
    assert_true(http_str_is(head.scheme, "http"));
    assert_true(http_str_is(http_find(&head, "x-y")->value, "z"));
    assert_true(head.expect_continue);
    assert_int_equal(head.method, HTTP_POST);
    assert_int_equal(head.content_length, 5);
    assert_true(head.keep_alive);
}

static enum http_parsed parse_built(const char *fmt_head, size_t repeat, const char *unit,
                                    struct http_fault *fault)
{
    size_t unit_len = strlen(unit), size = strlen(fmt_head) + repeat * unit_len + 64;
    char *bytes = malloc(size);
    char *at = stpcpy(bytes, fmt_head);
    for (size_t i = 0; i < repeat; i++)
        at = stpcpy(at, unit);
    if (strchr(unit, ':'))
        at = stpcpy(at, "\r\n");
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    enum http_parsed p = http_parse_request(bytes, (size_t)(at - bytes), fields, &head, fault);
    free(bytes);
    return p;
}

static void test_limits(void **state)
{
    (void)state;
    struct http_fault fault = { 0 };
    assert_int_equal(parse_built("GET / HTTP/1.1\r\nHost: a\r\n", 99, "X: y\r\n", &fault),
                     HTTP_PARSED);
    assert_int_equal(parse_built("GET / HTTP/1.1\r\nHost: a\r\n", 100, "X: y\r\n", &fault),
                     HTTP_REFUSED);
    assert_int_equal(fault.status, 431);
    assert_int_equal(parse_built("GET / HTTP/1.1\r\nHost: a\r\nX: ", 40000, "y", &fault),
                     HTTP_REFUSED);
    assert_int_equal(fault.status, 431);
    assert_int_equal(parse_built("GET /", 40000, "y", &fault), HTTP_REFUSED);
    assert_int_equal(fault.status, 414);
    assert_int_equal(parse_built("GET /", 20000, "y", &fault), HTTP_PARTIAL);
    char *line = malloc(10000);
    memset(line, 'a', 10000);
    memcpy(line, "GET /", 5);
    memcpy(line + 9000, " HTTP/1.1\r\n", 12);
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    assert_int_equal(http_parse_request(line, 9011, fields, &head, &fault), HTTP_REFUSED);
    assert_int_equal(fault.status, 414);
    free(line);
}

struct answer_vector {
    const char *name, *bytes;
    enum http_method method;
    bool fine;
    enum http_framing framing;
};

static const struct answer_vector ANSWERS[] = {
    { "length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", HTTP_GET, true,
      HTTP_FRAMED_LENGTH },
    { "chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_GET, true,
      HTTP_FRAMED_CHUNKED },
    { "close", "HTTP/1.1 200 OK\r\n\r\n", HTTP_GET, true, HTTP_FRAMED_CLOSE },
    { "1.0 length", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n", HTTP_GET, true,
      HTTP_FRAMED_LENGTH },
    { "no reason", "HTTP/1.1 200\r\nContent-Length: 3\r\n\r\n", HTTP_GET, true,
      HTTP_FRAMED_LENGTH },
    { "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", HTTP_HEAD, true, HTTP_FRAMED_NONE },
    { "204", "HTTP/1.1 204 No\r\n\r\n", HTTP_GET, true, HTTP_FRAMED_NONE },
    { "304 with length", "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", HTTP_GET, true,
      HTTP_FRAMED_NONE },
    { "204 with length", "HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n", HTTP_GET, false, 0 },
    { "204 chunked", "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_GET, false, 0 },
    { "100 chunked", "HTTP/1.1 100 Go\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_GET, false, 0 },
    { "both", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
      HTTP_GET, false, 0 },
    { "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n", HTTP_GET,
      false, 0 },
    { "TE on 1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", HTTP_GET, false, 0 },
    { "TE gzip", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", HTTP_GET, false, 0 },
    { "bare LF", "HTTP/1.1 200 OK\nContent-Length: 3\n\n", HTTP_GET, false, 0 },
    { "fold", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 3\r\n\r\n", HTTP_GET, false, 0 },
    { "NUL-free control", "HTTP/1.1 200 OK\r\nX: a\x02\r\nContent-Length: 3\r\n\r\n", HTTP_GET,
      false, 0 },
    { "bare CR", "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\nContent-Length: 3\r\n\r\n", HTTP_GET,
      false, 0 },
    { "status 99", "HTTP/1.1 099 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "status 600", "HTTP/1.1 600 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "status 20", "HTTP/1.1 20 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "status 2000", "HTTP/1.1 2000 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "no version", "200 OK\r\n\r\n", HTTP_GET, false, 0 },
    { "leading CRLF", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", HTTP_GET, false, 0 },
};

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(ANSWERS) / sizeof(ANSWERS[0]); i++) {
        const struct answer_vector *v = &ANSWERS[i];
        struct http_field fields[HTTP_FIELDS_MAX];
        struct http_head head;
        struct http_fault fault = { 0 };
        enum http_parsed p =
            http_parse_response(v->bytes, strlen(v->bytes), v->method, fields, &head, &fault);
        if ((p == HTTP_PARSED) != v->fine || p == HTTP_PARTIAL)
            fail_msg("%s: parsed %d (%s)", v->name, (int)p, fault.why ? fault.why : "");
        if (v->fine && head.framing != v->framing)
            fail_msg("%s: framing %d", v->name, (int)head.framing);
        if (!v->fine)
            assert_int_equal(fault.status, 502);
    }
}

/* Every byte at every place of a short and of a long value: only controls but the tab are refused.
 */
static void test_value_bytes(void **state)
{
    (void)state;
    char text[40];
    for (size_t len = 1; len < sizeof(text); len += 7) {
        for (size_t at = 0; at < len; at++) {
            for (int c = 0; c < 256; c++) {
                memset(text, c == 'x' ? 0x80 : 'x', sizeof(text));
                text[at] = (char)c;
                bool fine = (c >= 0x20 && c != 0x7f) || c == '\t';
                assert_int_equal(http_value_valid(text, len), fine);
            }
        }
    }
    memset(text, '\t', sizeof(text));
    assert_true(http_value_valid(text, sizeof(text)));
    text[39] = '\n';
    assert_false(http_value_valid(text, sizeof(text)));
}

static void test_words(void **state)
{
    (void)state;
    assert_true(http_list_has((struct http_str){ "a, Close ,b", 11 }, "close"));
    assert_true(http_list_has((struct http_str){ "gzip;q=1", 8 }, "gzip"));
    assert_false(http_list_has((struct http_str){ "closed", 6 }, "close"));
    assert_false(http_list_has((struct http_str){ "", 0 }, "close"));
    assert_string_equal(http_reason(402), "Payment Required");
    assert_string_equal(http_method_name(HTTP_PATCH), "PATCH");
    assert_int_equal(http_method_of((struct http_str){ "get", 3 }), HTTP_OTHER);
    char host[256];
    int port;
    assert_true(http_authority_parse((struct http_str){ "ExAmple.COM:8402", 16 }, host,
                                     sizeof(host), &port));
    assert_string_equal(host, "example.com");
    assert_int_equal(port, 8402);
    assert_false(http_value_valid("a\r\nb", 4));
    assert_false(http_token_valid("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_every_cut_is_partial),
        cmocka_unit_test(test_limits),  cmocka_unit_test(test_answers),
        cmocka_unit_test(test_words),   cmocka_unit_test(test_value_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
