/* Starting helper threads; see thread.h. */
#include "common/thread.h"

#include <signal.h>

int braid_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    err = pthread_create(thread, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0)
        return -err;
    pthread_setname_np(*thread, name);
    return 0;
}
