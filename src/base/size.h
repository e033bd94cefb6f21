/* Sizes in bytes as people write and read them; K, M, G and T are powers of 1024. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { SIZE_TEXT = 32 };

/* "512M", "2g", "1.5GiB", "64KB", "4096", "4096B". False if it is none, or more than 2^63. */
bool size_parse(const char *s, uint64_t *ret);

/* "512 MiB", "1.5 GiB", "832 B" into ret: near enough for people. */
const char *size_format(char ret[SIZE_TEXT], uint64_t bytes);
/* In the largest unit that it is a whole number of: "1536 MiB". */
const char *size_format_exact(char ret[SIZE_TEXT], uint64_t bytes);

/* "2", "0.5", "1.25": a number with at most three decimals, in thousandths. */
bool size_parse_milli(const char *s, uint64_t *ret);
