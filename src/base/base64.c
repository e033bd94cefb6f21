/* Base64 both ways; see base64.h. */
#include "base/base64.h"

#include <errno.h>

size_t base64_encode(const uint8_t *p, size_t n, bool url, uint8_t *out)
{
	static const char alphabets[2][65] = {
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"};
	const char *letters = alphabets[url];
	size_t len = 0;

	for (size_t i = 0; i < n; i += 3) {
		uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) |
			     (i + 2 < n ? p[i + 2] : 0);

		out[len++] = (uint8_t)letters[v >> 18];
		out[len++] = (uint8_t)letters[v >> 12 & 63];
		out[len++] = i + 1 < n ? (uint8_t)letters[v >> 6 & 63] : '=';
		out[len++] = i + 2 < n ? (uint8_t)letters[v & 63] : '=';
	}
	return len;
}

ssize_t base64_decode(const char *p, size_t n, uint8_t *out)
{
	/* A table, because bundles of certificates are decoded while a box starts. 0: none of
	 * base64; otherwise one more than the letter is worth. */
	enum { SKIP = 65, STOP = 66 };
	static const uint8_t worth[256] = {
		['A'] = 1,    ['B'] = 2,     ['C'] = 3,	  ['D'] = 4,  ['E'] = 5,     ['F'] = 6,
		['G'] = 7,    ['H'] = 8,     ['I'] = 9,	  ['J'] = 10, ['K'] = 11,    ['L'] = 12,
		['M'] = 13,   ['N'] = 14,    ['O'] = 15,  ['P'] = 16, ['Q'] = 17,    ['R'] = 18,
		['S'] = 19,   ['T'] = 20,    ['U'] = 21,  ['V'] = 22, ['W'] = 23,    ['X'] = 24,
		['Y'] = 25,   ['Z'] = 26,    ['a'] = 27,  ['b'] = 28, ['c'] = 29,    ['d'] = 30,
		['e'] = 31,   ['f'] = 32,    ['g'] = 33,  ['h'] = 34, ['i'] = 35,    ['j'] = 36,
		['k'] = 37,   ['l'] = 38,    ['m'] = 39,  ['n'] = 40, ['o'] = 41,    ['p'] = 42,
		['q'] = 43,   ['r'] = 44,    ['s'] = 45,  ['t'] = 46, ['u'] = 47,    ['v'] = 48,
		['w'] = 49,   ['x'] = 50,    ['y'] = 51,  ['z'] = 52, ['0'] = 53,    ['1'] = 54,
		['2'] = 55,   ['3'] = 56,    ['4'] = 57,  ['5'] = 58, ['6'] = 59,    ['7'] = 60,
		['8'] = 61,   ['9'] = 62,    ['+'] = 63,  ['/'] = 64, ['\n'] = SKIP, ['\r'] = SKIP,
		[' '] = SKIP, ['\t'] = SKIP, ['='] = STOP};
	uint32_t bits = 0;
	unsigned have = 0;
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		uint8_t v = worth[(uint8_t)p[i]];

		if (v == SKIP)
			continue;
		if (v == STOP)
			break;
		if (v == 0)
			return -EBADMSG;
		bits = bits << 6 | (v - 1u);
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		out[len++] = (uint8_t)(bits >> have);
	}
	return (ssize_t)len;
}
