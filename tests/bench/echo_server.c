/* The upstream of the benches: answers every request with the same 240 bytes, keep-alive. usage:
 * echo_server; prints its port */
#include <stdio.h>
#include <string.h>

#include "http/server.h"

static void on_request(void *arg, struct http_request *request)
{
    static const char body[240] = "{\"answer\":\"the same for everybody\"}";
    static const struct http_header headers[] = { { "Content-Type", "application/json" } };
    (void)arg;
    http_answer(request, &(struct http_answer){ .status = 200,
                                                .headers = headers,
                                                .n_headers = 1,
                                                .body = body,
                                                .body_len = sizeof(body) });
}

int main(void)
{
    struct err err = { 0 };
    struct loop *loop = NULL;
    struct http_server *server = NULL;
    const struct http_server_config config = { .on_request = on_request };
    if (loop_new(&loop, &err) || http_server_new(loop, &config, &server, &err) ||
        http_server_listen(server, "127.0.0.1:0", &err)) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    (void)printf("%d\n", http_server_port(server, 0));
    (void)fflush(stdout);
    return (int)loop_run(loop, &err);
}
