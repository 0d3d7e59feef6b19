/* Any packet: refused or read; what is read encodes to a packet that reads the same. */
#include <stdlib.h>
#include <string.h>

#include "proto/data_session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct data_message m;
    struct data_message again;
    char packet[DATA_PACKET_MAX];
    if (data_message_decode(data, size, &m, NULL))
        return 0;
    if (m.op == DATA_REFUSED)
        return 0; /* its text is made printable, not kept */
    size_t len = data_message_encode(&m, packet);
    char second[DATA_PACKET_MAX];
    if (data_message_decode(packet, len, &again, NULL) ||
        data_message_encode(&again, second) != len || memcmp(packet, second, len) != 0)
        abort();
    return 0;
}
