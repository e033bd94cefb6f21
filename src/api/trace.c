/* traceparent; see trace.h. */
#include "api/trace.h"

#include "base/rand.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

static bool is_hex(const char *p, size_t n, bool may_be_zero)
{
	bool zero = true;

	for (size_t i = 0; i < n; i++) {
		if (!p[i] || !strchr("0123456789abcdef", p[i]))
			return false;
		zero = zero && p[i] == '0';
	}
	return may_be_zero || !zero;
}

/* 00-<32>-<16>-<2>; of a later version what follows is passed over. */
void api_trace_take(struct api_trace *ret, const char *value)
{
	size_t n = value ? strlen(value) : 0;

	*ret = (struct api_trace){0};
	if (n < 55 || (n > 55 && (str_starts(value, "00") || value[55] != '-')) ||
	    str_starts(value, "ff") || !is_hex(value, 2, true) || value[2] != '-' ||
	    !is_hex(value + 3, 32, false) || value[35] != '-' || !is_hex(value + 36, 16, false) ||
	    value[52] != '-' || !is_hex(value + 53, 2, true))
		return;
	snprintf(ret->trace, sizeof(ret->trace), "%.32s", value + 3);
	snprintf(ret->parent, sizeof(ret->parent), "%.16s", value + 36);
	snprintf(ret->flags, sizeof(ret->flags), "%.2s", value + 53);
	rand_hex(ret->span, 8);
}

void api_trace_format(const struct api_trace *t, char ret[API_TRACEPARENT_SIZE])
{
	snprintf(ret, API_TRACEPARENT_SIZE, "00-%s-%s-%s", t->trace, t->span, t->flags);
}
