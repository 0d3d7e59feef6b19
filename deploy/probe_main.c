/*
 * utter-probe: what a handler's place can reach and do, told from inside it.
 *
 * `utter-deploy audit --live` runs it as a handler of its own: under the same runtime, limits and
 * mounts, on the slug's network. One line a finding on stdout, the last one "end":
 *
 *   connected|refused|silent ADDRESS:PORT   for each argument
 *   uid N, capabilities HEX, nonewprivs N   of itself
 *   kernel RELEASE                          as uname says
 *   interface NAME                          each it has
 *   writable PATH                           each place of a fixed list where it could make a file
 */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/own.h"
#include "deploy/reach.h"

#define WAIT_MS 1000

static enum err_kind tell_reach(int n, char **targets, struct err *err)
{
    struct reach r CLEANUP(reach_fini) = { 0 };
    reach_init(&r);
    for (int i = 0; i < n; i++) {
        if (!reach_add_pair(&r, "", targets[i]))
            return err_set(err, ERR_INVALID, "%s is no address:port, or one too many", targets[i]);
    }
    if (n > 0 && reach_begin(&r, err))
        return err->kind;
    reach_wait(&r, WAIT_MS);
    for (int i = 0; i < n; i++)
        printf("%s %s\n",
               r.targets[i].connected ? "connected"
               : r.targets[i].reached ? "refused"
                                      : "silent",
               targets[i]);
    return ERR_OK;
}

static void tell_status(const char *key, const char *name)
{
    char line[256];
    size_t n = strlen(key);
    FILE *f CLEANUP_FILE = fopen("/proc/self/status", "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            printf("%s %s", name, line + n + 1 + strspn(line + n + 1, " \t"));
    }
}

static void tell_self(void)
{
    struct utsname names;
    printf("uid %u\n", (unsigned)getuid());
    tell_status("CapEff", "capabilities");
    printf("nonewprivs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    if (uname(&names) == 0)
        printf("kernel %s\n", names.release);
    struct if_nameindex *list = if_nameindex();
    for (size_t i = 0; list && list[i].if_index; i++)
        printf("interface %s\n", list[i].if_name);
    if (list)
        if_freenameindex(list);
}

static void tell_writable(void)
{
    static const char *const places[] = { "/",    "/etc", "/usr/bin", "/var",    "/proc/sys/kernel",
                                          "/sys", "/run", "/tmp",     "/dev/shm" };
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "%s/utter-probe", places[i]);
        int fd CLEANUP_FD = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            continue;
        printf("writable %s\n", places[i]);
        (void)unlink(path);
    }
}

int main(int argc, char **argv)
{
    struct err err = { 0 };
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("utter-probe " UTTER_VERSION);
        return 0;
    }
    if (tell_reach(argc - 1, argv + 1, &err)) {
        (void)fprintf(stderr, "utter-probe: %s\n", err.msg);
        return 1;
    }
    tell_self();
    tell_writable();
    puts("end");
    return 0;
}
