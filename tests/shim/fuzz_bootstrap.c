/* Any bytes on standard input: no crash, and never another id or namespace. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/bootstrap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bootstrap b = { .action = BOOTSTRAP_START, .ns = "default", .id = "c1" };
    bootstrap_stdin(data, size, &b);
    assert(strcmp(b.ns, "default") == 0 && strcmp(b.id, "c1") == 0);
    assert(b.socket_dir[0] == '\0' || b.socket_dir[0] == '/');
    assert(strlen(b.socket_dir) <= BOOTSTRAP_SOCKET_DIR_MAX);
    return 0;
}
