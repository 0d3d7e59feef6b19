/* Paths as outside bytes: what is accepted is canonical, stays canonical, and hides nothing. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gate/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > PATH_MAX_BYTES)
        return 0;
    char *in = malloc(size + 1), *once = malloc(size + 1), *twice = malloc(size + 1);
    memcpy(in, data, size);
    if (path_canonical((struct http_str){ in, size }, once, NULL) == ERR_OK) {
        int fine = path_canonical((struct http_str){ once, strlen(once) }, twice, NULL) == ERR_OK &&
                   strcmp(once, twice) == 0 && once[0] == '/' && !strstr(once, "//") &&
                   !strstr(once, "/../") && !strstr(once, "/./") && !strchr(once, '\\');
        if (!fine) {
            fprintf(stderr, "not canonical: %s\n", once);
            abort();
        }
    }
    free(in);
    free(once);
    free(twice);
    return 0;
}
