/* The facilitator of the gate's bench: finds every payment valid and says that it moved, at once
 * and without a book, so that the gate is what is measured. usage: facilitator_double; prints its
 * port */
#include <stdio.h>
#include <string.h>

#include "http/server.h"

struct facilitator_double {
    unsigned long long transfers;
};

static void answer(struct http_request *request, const char *body, size_t len)
{
    static const struct http_header headers[] = { { "Content-Type", "application/json" } };
    http_answer(
        request,
        &(struct http_answer){
            .status = 200, .headers = headers, .n_headers = 1, .body = body, .body_len = len });
}

/* The first 0x… of 40 digits after "from", or nothing. */
static void find_payer(const char *body, size_t len, char out[43])
{
    static const char mark[] = "\"from\":\"";
    const char *at = memmem(body, len, mark, sizeof(mark) - 1);
    out[0] = '\0';
    if (!at || (size_t)(body + len - at) < sizeof(mark) - 1 + 42)
        return;
    memcpy(out, at + sizeof(mark) - 1, 42);
    out[42] = '\0';
}

static void on_body(struct http_request *request, enum http_body result, const void *data,
                    size_t len, void *arg)
{
    struct facilitator_double *f = arg;
    char text[512], payer[43] = "";
    int n;
    if (result == HTTP_BODY_OK)
        find_payer(data, len, payer);
    if (http_str_is(http_request_head(request)->path, "/verify"))
        n = snprintf(text, sizeof(text), "{\"isValid\":true,\"payer\":\"%s\"}", payer);
    else
        n = snprintf(text, sizeof(text),
                     "{\"success\":true,\"transaction\":\"0x%064llx\",\"network\":\"eip155:84532\","
                     "\"payer\":\"%s\"}",
                     ++f->transfers, payer);
    answer(request, text, (size_t)n);
}

static void on_request(void *arg, struct http_request *request)
{
    static const char supported[] =
        "{\"kinds\":[{\"x402Version\":2,\"scheme\":\"exact\",\"network\":\"eip155:84532\"},"
        "{\"x402Version\":1,\"scheme\":\"exact\",\"network\":\"base-sepolia\"}],"
        "\"extensions\":[],\"signers\":{}}";
    if (http_str_is(http_request_head(request)->path, "/supported"))
        answer(request, supported, sizeof(supported) - 1);
    else
        http_request_read_body(request, 65536, on_body, arg);
}

int main(void)
{
    struct err err = { 0 };
    struct loop *loop = NULL;
    struct http_server *server = NULL;
    struct facilitator_double state = { 0 };
    const struct http_server_config config = { .on_request = on_request, .arg = &state };
    if (loop_new(&loop, &err) || http_server_new(loop, &config, &server, &err) ||
        http_server_listen(server, "127.0.0.1:0", &err)) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    (void)printf("%d\n", http_server_port(server, 0));
    (void)fflush(stdout);
    return (int)loop_run(loop, &err);
}
