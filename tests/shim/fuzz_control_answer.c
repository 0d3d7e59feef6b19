/* Answers of a hostile sandbox: first byte picks the call, the rest is what it sends. */
#include <stdlib.h>

#include "shim/control_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    enum control_call call = (enum control_call)(data[0] % (CONTROL_CALL_NETWORK + 1));
    const char *text = (const char *)data + 1;
    size_t used = 0;
    struct control_scan scan = { 0 };
    if (control_scan(&scan, text, size - 1, &used) != CONTROL_SCAN_END)
        return 0;
    struct control_answer answer;
    control_answer_parse(call, text, used, "c1", &answer);
    if (answer.reply.outcome == CONTROL_OK && call == CONTROL_CALL_WAIT &&
        answer.reply.wait_status > 0xffff)
        abort();
    if (answer.reply.outcome == CONTROL_OK && call == CONTROL_CALL_EXEC && answer.reply.pid <= 0)
        abort();
    control_answer_fini(&answer);
    return 0;
}
