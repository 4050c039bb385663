/*
 * braid-tune plot: hands over to plot.py, which lies in share/braid/tools of the installation or the build. Called by: main.c.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/braid-tune/tune.h"

int cmd_plot(int argc, char **argv)
{
    char self[PATH_MAX], script[PATH_MAX + 64], **words = calloc((size_t)argc + 4, sizeof(*words));
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (!words || n <= 0)
        return 1;
    self[n] = 0;
    slash = strrchr(self, '/');
    snprintf(script, sizeof(script), "%.*s/../share/braid/tools/plot.py", (int)(slash - self),
             self);
    words[0] = "python3";
    words[1] = script;
    words[2] = "--tool";
    words[3] = self;
    memcpy(words + 4, argv + 1, (size_t)argc * sizeof(*words));
    execvp(words[0], words);
    fprintf(stderr, "braid-tune: python3: %s\n", strerror(errno));
    return 1;
}
