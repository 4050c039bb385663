/* The parsers and printers of units.h. Written by hand because strtoll() is a different symbol in every C library generation. */
#include "common/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *skip_blanks(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* Digits with an optional sign; *end_p is the first character after them. */
static int parse_digits(const char *text, int64_t *value_p, const char **end_p)
{
    const char *p = skip_blanks(text);
    bool negative = *p == '-';
    int64_t value = 0;

    if (*p == '-' || *p == '+')
        p++;
    if (!isdigit((unsigned char)*p))
        return -EINVAL;
    for (; isdigit((unsigned char)*p); p++) {
        int digit = *p - '0';

        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return -ERANGE;
    }
    *value_p = value;
    *end_p = p;
    return 0;
}

int braid_parse_int(const char *text, int64_t *value_p)
{
    const char *end;
    int64_t value;
    int rc = parse_digits(text, &value, &end);

    if (rc != 0)
        return rc;
    if (*skip_blanks(end) != '\0')
        return -EINVAL;
    *value_p = value;
    return 0;
}

int braid_parse_bytes(const char *text, int64_t *bytes_p)
{
    static const char letters[] = "KMGT";
    const char *end, *letter;
    int64_t value;
    int rc = parse_digits(text, &value, &end);

    if (rc != 0)
        return rc;
    end = skip_blanks(end);
    letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    if (letter != NULL) {
        int64_t scale = (int64_t)1 << (10 * (letter - letters + 1));

        if (__builtin_mul_overflow(value, scale, &value))
            return -ERANGE;
        end++;
        if (*end == 'i')
            end++;
    }
    if (*end == 'B' || *end == 'b')
        end++;
    if (*skip_blanks(end) != '\0')
        return -EINVAL;
    *bytes_p = value;
    return 0;
}

char *braid_format_bytes(uint64_t bytes, char *buf, size_t buf_bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned int i = 0;

    while (value >= 1024.0 && i < 4) {
        value /= 1024.0;
        i++;
    }
    snprintf(buf, buf_bytes, value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
             names[i]);
    return buf;
}
