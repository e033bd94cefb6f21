/*
 * What can be known of a line's text without parsing it; shell_text.c says why that is needed.
 * Every answer errs to the side that is only slower or parses later.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { TEXT_DELIMITER_MAX = 128 };

/* Can it make an unset variable an error, or define functions that do? */
bool text_defines_abort(const char *s);
bool text_has_must_be_set(const char *s); /* ${X?word} or ${X:?word}, with whatever X is */
bool text_sets_nounset(const char *s);	  /* `set -u`: for how long, $- tells */
/* Where such an error can be: is it to be parsed as a whole? errexit: the shell's option. */
bool text_needs_braces(const char *s, bool errexit);
/* Bytes of its first lines which set options and aliases and expand nothing. */
size_t text_head_len(const char *s);
/* Bytes of its first lines that can be parsed without the rest, up to the end of a line that
 * changes how the rest is parsed; 0 if there is none, or nothing after it. */
size_t text_part_len(const char *s);
/* The word after <<, as far as it is needed to find its line: without quotes. */
size_t text_take_delimiter(const char **at, char ret[TEXT_DELIMITER_MAX]);
bool text_is_nothing(const char *s); /* blank lines and comments only */
