#include "tests/http/oracle.h"

#include <llhttp.h>

static int pause_at_end(llhttp_t *parser)
{
    (void)parser;
    return HPE_PAUSED;
}

bool oracle_takes(const char *data, size_t len, size_t *end, const char **why)
{
    llhttp_t parser;
    llhttp_settings_t settings;
    llhttp_settings_init(&settings);
    settings.on_message_complete = pause_at_end;
    llhttp_init(&parser, HTTP_REQUEST, &settings);
    llhttp_errno_t e = llhttp_execute(&parser, data, len);
    *why = llhttp_errno_name(e);
    *end = e == HPE_PAUSED ? (size_t)(llhttp_get_error_pos(&parser) - data) : 0;
    return e == HPE_PAUSED;
}
