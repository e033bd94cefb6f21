/* Sizes as text; see size.h. */
#include "base/size.h"

#include <stddef.h>
#include <stdio.h>
#include <strings.h>

enum { DECIMALS_MAX = 9 };

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

/* Digits, and perhaps a point and more digits: whole + fraction / scale. Returns what follows, or
 * NULL if it does not begin with a digit or is beyond max. */
static const char *parse_decimal(const char *s, uint64_t max, uint64_t *ret_whole,
				 uint64_t *ret_fraction, uint64_t *ret_scale)
{
	uint64_t whole = 0, fraction = 0, scale = 1;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (whole > (max - (uint64_t)(*p - '0')) / 10)
			return NULL;
		whole = whole * 10 + (uint64_t)(*p - '0');
	}
	if (p == s)
		return NULL;
	if (*p == '.') {
		if (p[1] < '0' || p[1] > '9')
			return NULL;
		for (int n = 0; *++p >= '0' && *p <= '9'; n++) {
			if (n == DECIMALS_MAX)
				return NULL;
			fraction = fraction * 10 + (uint64_t)(*p - '0');
			scale *= 10;
		}
	}
	*ret_whole = whole;
	*ret_fraction = fraction;
	*ret_scale = scale;
	return p;
}

/* How far to the left a unit shifts, or -1: "", "B", "K", "KB", "KiB", ... */
static int unit_shift(const char *s)
{
	static const char letters[] = "KMGT";

	if (!*s || strcasecmp(s, "B") == 0)
		return 0;
	for (int i = 0; letters[i]; i++) {
		if (s[0] != letters[i] && s[0] != letters[i] + ('a' - 'A'))
			continue;
		if (!s[1] || strcasecmp(s + 1, "B") == 0 || strcasecmp(s + 1, "iB") == 0)
			return 10 * (i + 1);
	}
	return -1;
}

bool size_parse(const char *s, uint64_t *ret)
{
	const uint64_t max = 1ull << 63;
	uint64_t whole, fraction, scale;
	const char *rest = parse_decimal(s, max, &whole, &fraction, &scale);
	int shift = rest ? unit_shift(rest) : -1;

	/* Half a byte is none. */
	if (shift < 0 || whole > (max >> shift) - 1 || (shift == 0 && fraction))
		return false;
	/* At most 10^9 << 40: the product is made in 128 bits. */
	*ret = (whole << shift) + (uint64_t)(((__uint128_t)fraction << shift) / scale);
	return true;
}

const char *size_format(char ret[SIZE_TEXT], uint64_t bytes)
{
	size_t unit = 0;
	uint64_t tenths = 0;

	while (unit + 1 < sizeof(units) / sizeof(units[0]) && bytes >> (10 * unit) >= 1024)
		unit++;
	if (unit > 0)
		tenths = (uint64_t)(((__uint128_t)bytes * 10 + (1ull << (10 * unit - 1))) >>
				    (10 * unit));
	if (unit == 0)
		snprintf(ret, SIZE_TEXT, "%llu B", (unsigned long long)bytes);
	else if (tenths % 10 == 0 || tenths >= 1000)
		snprintf(ret, SIZE_TEXT, "%llu %s", (unsigned long long)((tenths + 5) / 10),
			 units[unit]);
	else
		snprintf(ret, SIZE_TEXT, "%llu.%llu %s", (unsigned long long)(tenths / 10),
			 (unsigned long long)(tenths % 10), units[unit]);
	return ret;
}

const char *size_format_exact(char ret[SIZE_TEXT], uint64_t bytes)
{
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		bytes /= 1024;
		unit++;
	}
	snprintf(ret, SIZE_TEXT, "%llu %s", (unsigned long long)bytes, units[unit]);
	return ret;
}

bool size_parse_milli(const char *s, uint64_t *ret)
{
	uint64_t whole, fraction, scale;
	const char *rest = parse_decimal(s, 1000000, &whole, &fraction, &scale);

	if (!rest || *rest || scale > 1000)
		return false;
	*ret = whole * 1000 + fraction * 1000 / scale;
	return true;
}
