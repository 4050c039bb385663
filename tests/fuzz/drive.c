/*
 * Runs a fuzz target for CTest: every seed as it is, every seed cut at many places, then a fixed number of mutations from a fixed
 * random sequence, so that a failure comes back. Usage: target COUNT SEED_FILE ...; with COUNT 0 only the seeds.
 * An input that crashes is the content of the file named by FUZZ_LAST, written before each call when that is given as first
 * argument "--last FILE".
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (256 * 1024)

struct text {
    uint8_t *data;
    size_t bytes;
};

static uint64_t state = 0x9e3779b97f4a7c15ull;
static const char *last_file;
static unsigned long done;

/* xorshift64*, for the same inputs on every machine. */
static uint64_t next_random(void)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1dull;
}

static size_t below(size_t limit)
{
    return limit == 0 ? 0 : (size_t)(next_random() % limit);
}

static void feed(const uint8_t *data, size_t bytes)
{
    /* A copy of exact size, so that reading past the end is seen. */
    uint8_t *copy = malloc(bytes > 0 ? bytes : 1);

    if (copy == NULL)
        abort();
    memcpy(copy, data, bytes);
    if (last_file != NULL) {
        FILE *file = fopen(last_file, "wb");

        if (file != NULL) {
            fwrite(data, 1, bytes, file);
            fclose(file);
        }
    }
    LLVMFuzzerTestOneInput(copy, bytes);
    free(copy);
    done++;
}

/* Replaces `cut` bytes at `at` by `bytes` from `from`; false if it would grow too large. */
static int splice(struct text *t, size_t at, size_t cut, const void *from, size_t bytes)
{
    if (t->bytes - cut + bytes > MAX_BYTES)
        return 0;
    memmove(t->data + at + bytes, t->data + at + cut, t->bytes - at - cut);
    memcpy(t->data + at, from, bytes);
    t->bytes = t->bytes - cut + bytes;
    return 1;
}

static void insert_word(struct text *t)
{
    static const char *const numbers[] = {
        "0", "-1", "1", "65536", "4294967296", "99999999999999999999", "0x", "1e9", "nan"};
    size_t words = 0, pick;
    const char *word;

    while (braid_fuzz_words[words] != NULL)
        words++;
    pick = below(words + sizeof(numbers) / sizeof(numbers[0]));
    word = pick < words ? braid_fuzz_words[pick] : numbers[pick - words];
    splice(t, below(t->bytes + 1), 0, word, strlen(word));
}

static void change(struct text *t, const struct text *other)
{
    size_t at = below(t->bytes), length = below(32) + 1;

    if (length > t->bytes - at)
        length = t->bytes - at;
    switch (below(7)) {
    case 0:
        if (t->bytes > 0)
            t->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (t->bytes > 0)
            t->data[at] = (uint8_t)next_random();
        break;
    case 2: splice(t, at, length, "", 0); break;
    case 3: {
        uint8_t copy[32];

        memcpy(copy, t->data + at, length);
        splice(t, below(t->bytes + 1), 0, copy, length);
        break;
    }
    case 4: {
        size_t from = below(other->bytes), bytes = below(other->bytes - from) + 1;

        if (other->bytes > 0)
            splice(t, at, 0, other->data + from, bytes > 512 ? 512 : bytes);
        break;
    }
    default: insert_word(t); break;
    }
}

static struct text load(const char *path)
{
    struct text t = {malloc(MAX_BYTES + 1), 0};
    FILE *file = fopen(path, "rb");

    if (t.data == NULL || file == NULL) {
        perror(path);
        exit(1);
    }
    t.bytes = fread(t.data, 1, MAX_BYTES, file);
    fclose(file);
    return t;
}

int main(int argc, char **argv)
{
    unsigned long count;
    struct text *seeds, work;
    int first = 1;

    if (argc > 3 && strcmp(argv[1], "--last") == 0) {
        last_file = argv[2];
        first = 3;
    }
    if (argc < first + 2) {
        fprintf(stderr, "usage: %s [--last FILE] COUNT SEED_FILE ...\n", argv[0]);
        return 2;
    }
    count = strtoul(argv[first], NULL, 10);
    argc -= first + 1;
    argv += first + 1;
    seeds = calloc((size_t)argc, sizeof(*seeds));
    work.data = malloc(MAX_BYTES + 1);
    if (seeds == NULL || work.data == NULL)
        return 1;
    for (int i = 0; i < argc; i++) {
        seeds[i] = load(argv[i]);
        feed(seeds[i].data, seeds[i].bytes);
        for (int cut = 0; cut < 16 && count > 0; cut++)
            feed(seeds[i].data, seeds[i].bytes * (size_t)cut / 16);
    }
    for (unsigned long n = 0; n < count; n++) {
        const struct text *seed = &seeds[below((size_t)argc)];
        size_t changes = below(8) + 1;

        memcpy(work.data, seed->data, seed->bytes);
        work.bytes = seed->bytes;
        while (changes-- > 0)
            change(&work, &seeds[below((size_t)argc)]);
        feed(work.data, work.bytes);
    }
    printf("%lu inputs from %d seeds\n", done, argc);
    for (int i = 0; i < argc; i++)
        free(seeds[i].data);
    free(seeds);
    free(work.data);
    return 0;
}
