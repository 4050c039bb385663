/*
 * A fuzz target is one file with one function and, for CTest, drive.c: the same file also links against libFuzzer
 * (clang -fsanitize=fuzzer,address tests/fuzz/x.c ...), which calls the function by this name.
 */
#ifndef BRAID_TESTS_FUZZ_H
#define BRAID_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Words that this target's inputs are made of, ended by NULL; mutations insert them. May be { NULL }. */
extern const char *const braid_fuzz_words[];

/* Feeds one input. Returns 0; a fault is a crash, an abort() or a sanitizer report. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#endif
