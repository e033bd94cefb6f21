/*
 * One character of a text, in every way in which writers escape it: JSON (\u0041, \x41 and the
 * short ones), HTML (&#65; &#x41; and names), percent (%41 and %u0041), and one of these within
 * another (%2541, \\u0041, &amp;#65;, \u0026#65;).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ESCAPE_DEPTH = 3, /* escapes within escapes */
	ESCAPE_READINGS = ESCAPE_DEPTH + 1,
};

/* With one of these a name of HTML may begin. */
#define ESCAPE_NAMES_BEGIN "abcdeghlnpqrsTN"

/* What the text at one place may stand for. */
struct escape_reading {
	uint32_t value;
	uint16_t len; /* bytes of the text */
	bool is_byte; /* of some encoding; otherwise a code point */
};

/* The byte at p itself first, then what it begins, one level after the other. n > 0. Returns how
 * many there are. */
unsigned escape_read(const uint8_t *p, size_t n, struct escape_reading ret[ESCAPE_READINGS]);

static inline bool escape_begins(uint8_t c)
{
	return c == '%' || c == '\\' || c == '&';
}

/* The value of a digit, or -1. */
static inline int escape_hex_digit(uint32_t c)
{
	if (c >= '0' && c <= '9')
		return (int)(c - '0');
	if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f' && c < 0x80)
		return (int)((c | 0x20) - 'a') + 10;
	return -1;
}
