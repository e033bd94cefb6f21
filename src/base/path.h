/* Paths as text. Nothing here touches a filesystem. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where a box's programs are where neither its image nor its caller says so. */
#define PATH_OF_PROGRAMS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Writes a/b, one slash between. False if it does not fit. */
bool path_join(char *dst, size_t size, const char *a, const char *b);

/* Absolute, at most BOX_PATH_MAX - 1 bytes. */
bool path_is_absolute(const char *p);

/* Relative, no empty, "." or ".." component, no NUL: safe to create below a directory. */
bool path_is_safe_relative(const char *p);

/* Is inner the same as outer or below it, as text? Below "" and "/" is everything. */
bool path_is_within(const char *inner, const char *outer);

/* The last component, pointing into p: "/" for the root, "" after a trailing slash. */
const char *path_base(const char *p);

/* Collapses "//", "/./" and resolves ".." as text, for an absolute path inside a box. False if it
 * does not fit. */
bool path_normalize(char *dst, size_t size, const char *p);
