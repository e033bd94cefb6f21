/* Strings: checks, escapes and parsing that more than one module needs. */
#pragma once

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies at most size - 1 bytes and always ends with NUL. False if it was cut. */
bool str_copy(char *dst, size_t size, const char *src);

bool str_starts(const char *s, const char *prefix);

/* Lower-case letters, digits and inner dashes, 1 to max bytes: what may be given as a name. */
bool str_is_plain_name(const char *s, size_t max);

/* The same, or what an API key made: before its name stands a namespace, 8 hex digits and '_',
 * which max counts too. Box, workspace, snapshot, prefix. */
enum { STR_NAMESPACE = 9 };
bool str_is_name(const char *s, size_t max);
/* What follows the namespace; all of a name that has none. */
const char *str_plain_name(const char *name);
/* 8 lower-case hex digits and no more. */
bool str_is_key_id(const char *s);

/* Of a box's persistent shell: letters, digits, dots, underscores and dashes, the first a letter or
 * a digit, 1 to SHELL_NAME_MAX bytes; so also a UUID. The rule as a sentence, for printf. */
bool str_is_shell_name(const char *s);
#define SHELL_NAME_RULE                                                                         \
	"the name of a shell has 1 to %u letters, digits, '.', '_' or '-', the first a letter " \
	"or a digit"

/* NAME of an environment variable: [A-Za-z_][A-Za-z0-9_]*. */
bool str_is_env_name(const char *s);

/* A whole decimal number, no sign, no space, no overflow beyond max. */
bool str_parse_u64(const char *s, uint64_t max, uint64_t *ret);
/* Octal digits alone, as of a file's mode. */
bool str_parse_octal(const char *s, unsigned max, unsigned *ret);

/* A duration: "90", "90s", "1.5s", "250ms", "10m", "2h", "1d"; a bare number is seconds. */
bool str_parse_ms(const char *s, uint64_t *ret_ms);

/* Appends text so that no byte of it can end a line, start a terminal sequence or leave its quotes:
 * control bytes, DEL, backslash, '"' and invalid UTF-8 as \n, \t, \\, \", \xHH. Valid UTF-8 passes,
 * except U+0080-U+009F, U+2028, U+2029 and the bidirectional controls, which are escaped too. */
int str_escape(struct buf *b, const char *s, size_t n);

/* Decodes one UTF-8 sequence: its length, or 0 where it is not valid (overlong, a surrogate, or
 * beyond 10FFFF). */
size_t str_utf8(const uint8_t *p, size_t n, uint32_t *ret_rune);

/* Runes that could break a line or fool the eye although they are valid: control characters, line
 * and paragraph separators, bidirectional controls. */
bool str_is_tricky(uint32_t rune);

/* True if all of it is valid UTF-8. */
bool str_is_utf8(const void *p, size_t n);

/* Writes 2 * n lower-case hex digits and a NUL. */
void str_hex(const void *p, size_t n, char *ret);

/* The candidate (the last is followed by NULL) that was meant by a word with a typo, or NULL. */
const char *str_closest(const char *word, const char *const *candidates);

/* Signals by name: "TERM", "SIGTERM", "15". 0 if unknown. str_signal_name gives "TERM", or NULL. */
int str_parse_signal(const char *s);
const char *str_signal_name(int sig);
