/*
 * Braid's version, for #if and for people. CMake and the packages read it from here. Before 1.0 the minor number changes when programs
 * must be compiled again, and libbraid's soname with it; the patch number never does.
 */
#ifndef BRAID_VERSION_H
#define BRAID_VERSION_H

#define BRAID_VERSION_MAJOR  0
#define BRAID_VERSION_MINOR  1
#define BRAID_VERSION_PATCH  0
#define BRAID_VERSION_STRING "0.1.0"

/* One number to compare: #if BRAID_VERSION >= BRAID_VERSION_NUMBER(0, 2, 0) */
#define BRAID_VERSION_NUMBER(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define BRAID_VERSION                                                                              \
    BRAID_VERSION_NUMBER(BRAID_VERSION_MAJOR, BRAID_VERSION_MINOR, BRAID_VERSION_PATCH)

#endif
