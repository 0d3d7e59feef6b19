#include "shim/nulldev.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"

static int make_node(void)
{
    char path[96];
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    (void)snprintf(path, sizeof(path), "/dev/.utter-null-%d-%lld%09ld", (int)getpid(),
                   (long long)now.tv_sec, now.tv_nsec);
    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) != 0)
        return -1;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    (void)unlink(path);
    return fd;
}

enum err_kind nulldev_open(int *fd, bool *shared, struct err *err)
{
    *shared = false;
    *fd = make_node();
    if (*fd >= 0)
        return ERR_OK;
    *fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (*fd < 0)
        return err_sys(err, errno, "/dev/null");
    *shared = true;
    return ERR_OK;
}

void nulldev_restore(int fd)
{
    struct stat st;
    if (fstat(fd, &st) == 0 && st.st_uid != 0 && fchown(fd, 0, 0) != 0)
        log_warn("null_device", log_str("why", "its owner cannot be put back"));
}
