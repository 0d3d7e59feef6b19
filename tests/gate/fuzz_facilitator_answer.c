/* First byte: how it was asked; then status (2 bytes), then the body. Whatever comes, a refusal
 * needs a single first send, and a success our network. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gate/settle_outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3)
        return 0;
    struct settle_asked asked = {
        .network = "eip155:84532",
        .network2 = data[0] & 8 ? "base-sepolia" : NULL,
        .payer = data[0] & 4 ? "0x857b06519e91e3a54538791bdbb0e22373e36b66" : "",
        .amount = "10000",
        .first_send = data[0] & 1,
        .delivered_once = data[0] & 2,
    };
    struct facilitator_reply reply = {
        .transport = FACILITATOR_ANSWERED,
        .status = (data[1] << 8 | data[2]) % 600,
        .body = (const char *)data + 3,
        .len = size - 3,
    };
    struct settle_outcome settle;
    settle_outcome_read(&asked, &reply, &settle);
    bool ok2xx = reply.status >= 200 && reply.status < 300;
    if (settle.verdict == SETTLE_REFUSED)
        assert(asked.first_send && asked.delivered_once && !settle.transaction[0] &&
               settle.reason[0]);
    if (settle.verdict == SETTLE_SETTLED)
        assert(ok2xx && settle.transaction[0]);
    struct verify_outcome verify;
    verify_outcome_read(asked.payer, &reply, &verify);
    if (verify.verdict == VERIFY_VALID)
        assert(ok2xx);
    for (const char *p = verify.reason; *p; p++)
        assert(*p > ' ' && *p < 127 && *p != '"' && *p != '<');
    return 0;
}
