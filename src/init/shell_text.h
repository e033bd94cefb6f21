/*
 * What can be told of a line's text without parsing it; shell_text.c says why that is needed. Every
 * answer errs to the side that is only slower or parses later.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Can it make an unset variable an error, for itself and for the texts after it? */
bool text_defines_abort(const char *s);
bool text_sets_nounset(const char *s); /* `set -u`: for how long, $- tells */
/* Where such an error can be: is it to be parsed as a whole? errexit: the shell's option. */
bool text_needs_braces(const char *s, bool errexit);
/* Bytes of its first lines which set options and aliases and expand nothing. */
size_t text_head_len(const char *s);
