/*
 * Escapes; see escape.h.
 *
 * How it works
 *
 * An escape is its first character ('%', '\' or '&') and what follows. That first character may
 * itself have come out of an escape, which gives the levels: "%2541" is '%', then "%25" read as
 * '%', then that and "41" read as 'A'. What follows is read with at most one level below it
 * ("&%2365;"). Every escape is bounded, so reading one place takes bounded time.
 */
#include "door/escape.h"

#include <string.h>

enum { DIGITS_MAX = 8, NAME_BYTES = 7, POINT_MAX = 0x10ffff };

/* What comes next in a text. */
struct escape_cursor {
	const uint8_t *p;
	size_t n, at;
	bool is_plain; /* no escapes below this one */
};

static bool read_escape(struct escape_cursor *c, uint32_t first, struct escape_reading *ret);

/* The next character without its escape. */
static bool next_char(struct escape_cursor *c, uint32_t *ret)
{
	struct escape_cursor below = {.p = c->p, .n = c->n, .at = c->at + 1, .is_plain = true};
	struct escape_reading inner;

	if (c->at >= c->n)
		return false;
	*ret = c->p[c->at];
	if (!c->is_plain && escape_begins(c->p[c->at]) && read_escape(&below, *ret, &inner)) {
		*ret = inner.value;
		c->at = below.at;
	} else {
		c->at++;
	}
	return true;
}

static bool next_digits(struct escape_cursor *c, unsigned count, uint32_t *ret)
{
	uint32_t v = 0, digit;

	for (unsigned i = 0; i < count; i++) {
		if (!next_char(c, &digit) || escape_hex_digit(digit) < 0)
			return false;
		v = v << 4 | (uint32_t)escape_hex_digit(digit);
	}
	*ret = v;
	return true;
}

/* The second half of a pair, if it is there: as one character, or where nothing is below as six. */
static void read_low_half(struct escape_cursor *c, uint32_t *point)
{
	struct escape_cursor ahead = *c;
	uint32_t low, letter;

	if (*point < 0xd800 || *point > 0xdbff || !next_char(&ahead, &low))
		return;
	if (low == '\\' &&
	    (!next_char(&ahead, &letter) || letter != 'u' || !next_digits(&ahead, 4, &low)))
		return;
	if (low < 0xdc00 || low > 0xdfff)
		return;
	*point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
	*c = ahead;
}

/* What follows a backslash. A second one is that, whatever it would begin. */
static bool read_backslash(struct escape_cursor *c, struct escape_reading *ret)
{
	static const char letters[] = "btnfrv0", meant[] = "\b\t\n\f\r\v";
	bool is_doubled = c->at < c->n && c->p[c->at] == '\\';
	const char *letter;
	uint32_t what = '\\';

	c->at += is_doubled;
	if (!is_doubled && !next_char(c, &what))
		return false;
	if (what == 'u' || what == 'x') {
		ret->is_byte = what == 'x';
		if (!next_digits(c, what == 'u' ? 4 : 2, &ret->value))
			return false;
		read_low_half(c, &ret->value);
		return true;
	}
	if (what == 0 || what >= 0x80)
		return false;
	letter = strchr(letters, (int)what);
	ret->is_byte = true;
	ret->value = letter ? (uint8_t)meant[letter - letters] : what;
	return letter || strchr("\"\\/'", (int)what);
}

static bool read_percent(struct escape_cursor *c, struct escape_reading *ret)
{
	struct escape_cursor ahead = *c;
	uint32_t what;

	if (next_char(&ahead, &what) && what == 'u') {
		*c = ahead;
		return next_digits(c, 4, &ret->value);
	}
	ret->is_byte = true;
	return next_digits(c, 2, &ret->value);
}

/* The semicolon may be missing. */
static void skip_semicolon(struct escape_cursor *c)
{
	struct escape_cursor ahead = *c;
	uint32_t what;

	if (next_char(&ahead, &what) && what == ';')
		*c = ahead;
}

/* After "&#". */
static bool read_number(struct escape_cursor *c, struct escape_reading *ret)
{
	struct escape_cursor ahead = *c;
	uint32_t digit, v = 0, base = 10;
	unsigned count = 0;

	if (next_char(&ahead, &digit) && (digit == 'x' || digit == 'X')) {
		base = 16;
		*c = ahead;
	}
	for (ahead = *c; count < DIGITS_MAX && next_char(&ahead, &digit); count++) {
		int worth = escape_hex_digit(digit);

		if (worth < 0 || (uint32_t)worth >= base)
			break;
		v = v * base + (uint32_t)worth;
		*c = ahead;
	}
	skip_semicolon(c);
	ret->value = v;
	return count > 0 && v <= POINT_MAX;
}

/* Names of what may stand in a credential. */
static const struct {
	char name[NAME_BYTES];
	uint8_t len;
	char value;
} names[] = {{"amp", 3, '&'},	 {"lt", 2, '<'},      {"gt", 2, '>'},	  {"quot", 4, '"'},
	     {"apos", 4, '\''},	 {"sol", 3, '/'},     {"bsol", 4, '\\'},  {"plus", 4, '+'},
	     {"equals", 6, '='}, {"lowbar", 6, '_'},  {"colon", 5, ':'},  {"percnt", 6, '%'},
	     {"period", 6, '.'}, {"comma", 5, ','},   {"num", 3, '#'},	  {"semi", 4, ';'},
	     {"excl", 4, '!'},	 {"dollar", 6, '$'},  {"commat", 6, '@'}, {"ast", 3, '*'},
	     {"lpar", 4, '('},	 {"rpar", 4, ')'},    {"quest", 5, '?'},  {"hyphen", 6, '-'},
	     {"Tab", 3, '\t'},	 {"NewLine", 7, '\n'}};

static bool read_name(struct escape_cursor *c, struct escape_reading *ret)
{
	char word[NAME_BYTES];
	struct escape_cursor ahead = *c;
	uint32_t what;

	for (uint8_t n = 1; n <= NAME_BYTES && next_char(&ahead, &what) && what < 0x80; n++) {
		word[n - 1] = (char)what;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (names[i].len != n || memcmp(names[i].name, word, n) != 0)
				continue;
			*c = ahead;
			skip_semicolon(c);
			ret->value = (uint8_t)names[i].value;
			return true;
		}
		if (n == 1 && !strchr(ESCAPE_NAMES_BEGIN, (int)what))
			return false;
	}
	return false;
}

/* What stands behind its first character, which was read. */
static bool read_escape(struct escape_cursor *c, uint32_t first, struct escape_reading *ret)
{
	struct escape_cursor ahead = *c;
	uint32_t what;

	*ret = (struct escape_reading){0};
	if (first == '%')
		return read_percent(c, ret);
	if (first == '\\')
		return read_backslash(c, ret);
	if (first != '&' || !next_char(&ahead, &what))
		return false;
	if (what != '#')
		return read_name(c, ret);
	*c = ahead;
	return read_number(c, ret);
}

unsigned escape_read(const uint8_t *p, size_t n, struct escape_reading ret[ESCAPE_READINGS])
{
	struct escape_cursor c = {.p = p, .n = n, .at = 1};
	unsigned count = 1;

	ret[0] = (struct escape_reading){.value = p[0], .len = 1, .is_byte = true};
	while (count < ESCAPE_READINGS && read_escape(&c, ret[count - 1].value, &ret[count])) {
		ret[count].len = (uint16_t)c.at;
		count++;
	}
	return count;
}
