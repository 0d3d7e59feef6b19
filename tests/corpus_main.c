/*
 * Replays a fuzz target over its corpus where libFuzzer is not linked: each file, each of its
 * prefixes at a few lengths, and each file with single bits flipped. usage: TARGET CORPUS_DIR
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void replay(const char *path)
{
    static uint8_t data[1 << 20];
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    size_t n = fread(data, 1, sizeof(data), f);
    fclose(f);
    uint8_t *copy = malloc(n ? n : 1);
    for (size_t cut = 0; cut <= n; cut += n / 16 + 1) {
        memcpy(copy, data, cut);
        LLVMFuzzerTestOneInput(copy, cut);
    }
    for (size_t i = 0; i < n && i < 4096; i++) {
        memcpy(copy, data, n);
        copy[i] ^= (uint8_t)(1u << (i % 8));
        LLVMFuzzerTestOneInput(copy, n);
    }
    memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_DIR\n", argv[0]);
        return 2;
    }
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        perror(argv[1]);
        return 1;
    }
    int files = 0;
    for (struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        char path[4096];
        snprintf(path, sizeof(path), "%s/%s", argv[1], e->d_name);
        replay(path);
        files++;
    }
    closedir(dir);
    printf("%d corpus files replayed\n", files);
    return files ? 0 : 1;
}
