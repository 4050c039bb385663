/* cmocka with the headers it expects to be there. Included by every unit test. */
#ifndef BRAID_TESTS_CMOCKA_ALL_H
#define BRAID_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#endif
