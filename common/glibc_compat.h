/*
 * Force-included into every C file (tools/cmake/braid_build.cmake). The shared objects must load on systems as old as RHEL 8
 * (glibc 2.28), because NCCL reports a plugin that does not load only at INFO and then runs without it. Newer C libraries
 * give old functions new symbol versions (libpthread and libdl moved into libc in 2.34, C23 strtol in 2.38); the lines below
 * bind to the version that every system has. tools/check/glibc tells when a symbol above the ceiling slips in.
 * Sanitizer builds keep the default versions, which the sanitizers intercept.
 */
#ifndef BRAID_COMMON_GLIBC_COMPAT_H
#define BRAID_COMMON_GLIBC_COMPAT_H

#if defined(__linux__) && !defined(BRAID_SANITIZED) && !defined(__ASSEMBLER__)
#include <features.h>
#if defined(__GLIBC__) && (defined(__x86_64__) || defined(__aarch64__))
#ifdef __x86_64__
#define BRAID_GLIBC_BASE      "GLIBC_2.2.5"
#define BRAID_GLIBC_SINCE_27  "GLIBC_2.7"
#define BRAID_GLIBC_SINCE_234 "GLIBC_2.3.4"
#define BRAID_GLIBC_SINCE_212 "GLIBC_2.12"
#else
#define BRAID_GLIBC_BASE      "GLIBC_2.17"
#define BRAID_GLIBC_SINCE_27  "GLIBC_2.17"
#define BRAID_GLIBC_SINCE_234 "GLIBC_2.17"
#define BRAID_GLIBC_SINCE_212 "GLIBC_2.17"
#endif
#define BRAID_BIND(symbol, version) __asm__(".symver " #symbol "," #symbol "@" version)
#if __GLIBC_PREREQ(2, 34)
BRAID_BIND(pthread_create, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_join, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_detach, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_once, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_kill, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_key_create, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_key_delete, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_getspecific, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_setspecific, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_mutex_trylock, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_rwlock_rdlock, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_rwlock_wrlock, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_rwlock_unlock, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_sigmask, BRAID_GLIBC_BASE);
BRAID_BIND(pthread_setaffinity_np, BRAID_GLIBC_SINCE_234);
BRAID_BIND(pthread_getaffinity_np, BRAID_GLIBC_SINCE_234);
BRAID_BIND(pthread_setname_np, BRAID_GLIBC_SINCE_212);
BRAID_BIND(sem_init, BRAID_GLIBC_BASE);
BRAID_BIND(sem_post, BRAID_GLIBC_BASE);
BRAID_BIND(sem_wait, BRAID_GLIBC_BASE);
BRAID_BIND(sem_destroy, BRAID_GLIBC_BASE);
BRAID_BIND(dlopen, BRAID_GLIBC_BASE);
BRAID_BIND(dlsym, BRAID_GLIBC_BASE);
BRAID_BIND(dlvsym, BRAID_GLIBC_BASE);
BRAID_BIND(dlclose, BRAID_GLIBC_BASE);
BRAID_BIND(dlerror, BRAID_GLIBC_BASE);
BRAID_BIND(dladdr, BRAID_GLIBC_BASE);
BRAID_BIND(shm_open, BRAID_GLIBC_BASE);
BRAID_BIND(shm_unlink, BRAID_GLIBC_BASE);
#endif
#if __GLIBC_PREREQ(2, 38)
#define BRAID_BIND_AS(symbol, old, version) __asm__(".symver " #symbol "," #old "@" version)
BRAID_BIND_AS(__isoc23_strtol, strtol, BRAID_GLIBC_BASE);
BRAID_BIND_AS(__isoc23_strtoul, strtoul, BRAID_GLIBC_BASE);
BRAID_BIND_AS(__isoc23_strtoll, strtoll, BRAID_GLIBC_BASE);
BRAID_BIND_AS(__isoc23_strtoull, strtoull, BRAID_GLIBC_BASE);
BRAID_BIND_AS(__isoc23_sscanf, __isoc99_sscanf, BRAID_GLIBC_SINCE_27);
BRAID_BIND_AS(__isoc23_fscanf, __isoc99_fscanf, BRAID_GLIBC_SINCE_27);
#endif
#endif
#endif

#endif
