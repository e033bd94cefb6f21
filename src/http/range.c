/* Range; see range.h. */
#include "http/range.h"

#include "base/str.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { DIGITS = 20 };

/* A number that is larger than any is the largest: it is beyond the end in either case. */
static bool take_number(const char **p, uint64_t *ret)
{
	size_t n = strspn(*p, "0123456789");
	char text[DIGITS + 1];

	if (n == 0)
		return false;
	*ret = UINT64_MAX;
	if (n <= DIGITS) {
		memcpy(text, *p, n);
		text[n] = 0;
		if (!str_parse_u64(text, UINT64_MAX, ret))
			*ret = UINT64_MAX;
	}
	*p += n;
	return true;
}

int http_range_parse(const char *value, uint64_t size, uint64_t *ret_from, uint64_t *ret_count)
{
	uint64_t first = 0, last = UINT64_MAX;
	bool has_first, has_last;

	if (!value || strncasecmp(value, "bytes=", 6) != 0)
		return 0;
	value += 6;
	has_first = take_number(&value, &first);
	if (*value++ != '-')
		return 0;
	has_last = take_number(&value, &last);
	if (*value || (!has_first && !has_last) || (has_first && last < first))
		return 0;
	if (!has_first) {
		first = last < size ? size - last : 0;
		first = last == 0 ? size : first;
		last = UINT64_MAX;
	}
	if (first >= size)
		return -ERANGE;
	*ret_from = first;
	*ret_count = (last < size ? last + 1 : size) - first;
	return 1;
}
