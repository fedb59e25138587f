#include "trainer/base/open_output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

FILE *open_output(const char *path, int flags)
{
    const int descriptor = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
    if (descriptor < 0)
        return NULL;
    const int state = fcntl(descriptor, F_GETFL); /* O_NONBLOCK is for opening alone */
    if (state >= 0)
        (void)fcntl(descriptor, F_SETFL, state & ~O_NONBLOCK);
    FILE *stream = fdopen(descriptor, "wb");
    if (stream == NULL) {
        const int cause = errno;
        (void)close(descriptor);
        if ((flags & O_EXCL) != 0)
            (void)unlink(path);
        errno = cause;
    }
    return stream;
}
