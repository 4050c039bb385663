/* Preloaded into a process: looking through the loaded libraries takes a while, during which another thread may be unloading one. */
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info *, size_t, void *), void *arg)
{
    int (*real)(int (*)(struct dl_phdr_info *, size_t, void *), void *);

    *(void **)&real = dlsym(RTLD_NEXT, "dl_iterate_phdr");
    usleep(3000);
    return real(visit, arg);
}
