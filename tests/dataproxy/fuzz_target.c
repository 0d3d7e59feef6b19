/* Any bytes as a handler's request: what is understood has a declared upstream and a path with one
 * reading. */
#include <stdlib.h>
#include <string.h>

#include "dataproxy/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char text[] = "{\"slug\":\"s\",\"listen\":\"127.0.0.1:0\",\"admin\":\"unix:/"
                           "a\",\"session\":\"/s\",\"keys\":\"/k\",\"gate_uid\":0,"
                           "\"upstreams\":[{\"name\":\"api\",\"url\":\"https://api.example/"
                           "v1\",\"allow\":[{\"methods\":[\"GET\"],\"path\":\"/*\"}]}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config *config;
    struct http_field fields[HTTP_FIELDS_MAX];
    struct http_head head;
    struct http_fault fault;
    struct target target = { 0 };
    char *token = NULL;
    if (!config && config_parse(text, strlen(text), &config, NULL))
        abort();
    if (http_parse_request((const char *)data, size, fields, &head, &fault) != HTTP_PARSED)
        return 0;
    if (!target_read(config, &head, &target, NULL) &&
        (target.upstream != &config->upstream[0] ||
         !upstream_path_valid(target.path, strlen(target.path))))
        abort();
    target_fini(&target);
    if (!target_token(&head, &token, NULL) && strlen(token) > HTTP_HEAD_MAX)
        abort();
    free(token);
    return 0;
}
