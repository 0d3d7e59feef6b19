/* The image nonewprivs of critest, made here: a set-uid program that says as whom it runs. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    return printf("Effective uid: %u\n", (unsigned)geteuid()) < 0;
}
