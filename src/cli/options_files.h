/* Rows of the table in options.h: of the verbs that read, edit, search and watch files in a box. */
#pragma once

/* clang-format off */
#define OPTIONS_FILES(X) \
	X(LINES, "lines", 0, FROM, out_from, "A[:B]", "from line A, to line B; the first is 1") \
	X(BINARY, "binary", 0, FLAG, binary, NULL, "also what does not look like text") \
	X(EDIT_ALL, "all", 'a', FLAG, all, NULL, "every occurrence; else there must be just one") \
	X(REGEX, "regex", 'E', FLAG, regex, NULL, "TEXT is an extended regular expression") \
	X(IGNORE_CASE, "ignore-case", 'i', FLAG, ignore_case, NULL, \
		"upper and lower case are the same") \
	X(GLOB, "glob", 'g', TEXT, glob, "PATTERN", "only in files that match (`cove help glob`)") \
	X(CONTEXT, "context", 'C', COUNT, context, "N", "also N lines before and after each") \
	X(FIND_COUNT, "max", 'm', COUNT, count, "N", "no more than N; default 10000") \
	X(FIND_TIMEOUT, "timeout", 0, MS, box.timeout_ms, "TIME", \
		"search no longer than TIME; default 30s, at most 10m") \
	X(ANY_TYPE, "any", 0, FLAG, all, NULL, "also directories, links and what else there is") \
	X(RECURSIVE, "recursive", 'r', FLAG, recursive, NULL, "and all directories below")
/* clang-format on */
