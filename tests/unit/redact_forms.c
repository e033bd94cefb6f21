/* Forms of a value; see redact_forms.h. */
#include "redact_forms.h"

#include "base/base64.h"
#include "base/err.h"

#include <string.h>

static unsigned choose(const struct chooser *c, unsigned below)
{
	return c->choose(c->arg, below);
}

static void put(struct buf *out, const void *p, size_t n)
{
	ASSERT(buf_append(out, p, n) == 0);
}

/* The escapes that have a letter or a name, or false. */
static bool put_named(struct buf *out, uint8_t byte, bool html)
{
	static const char meant[] = "\b\t\n\f\r\"\\/'", letters[] = "btnfr\"\\/'";
	static const char *const names[] = {"&&amp;", "<&lt;", ">&gt;", "\"&quot;", "'&apos;"};
	const char *at = byte ? strchr(meant, byte) : NULL;

	for (size_t i = 0; html && i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i][0] == byte) {
			put(out, names[i] + 1, strlen(names[i] + 1));
			return true;
		}
	if (html || !at)
		return false;
	put(out, "\\", 1);
	put(out, letters + (at - meant), 1);
	return true;
}

static void put_byte(struct buf *out, uint8_t byte, const struct chooser *c)
{
	static const char *const ways[] = {
		"\\u%04x",     "\\u%04X",	 "\\x%02x",   "&#%u;",	   "&#%04u;",
		"&#x%x;",      "&#x%03X;",	 "%%%02X",    "%%%02x",	   "%%25%02X",
		"%%25%02x",    "%%2525%02x",	 "%%u%04x",   "\\\\u%04x", "&amp;#%u;",
		"\\u0026#%u;", "%%26%%23%u%%3B", "%%5cu%04x", "&#37;%02x"};
	unsigned way = choose(c, 3 + sizeof(ways) / sizeof(ways[0]));

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (way >= 3)
		ASSERT(buf_printf(out, ways[way - 3], (unsigned)byte) == 0);
	else if (way == 0 || !put_named(out, byte, way == 2))
		put(out, &byte, 1);
#pragma GCC diagnostic pop
}

/* Now and then something between two symbols. */
static void put_break(struct buf *out, size_t at, size_t width, const char *between)
{
	if (width > 0 && at > 0 && at % width == 0)
		put(out, between, strlen(between));
}

static void write_base64(struct buf *out, const uint8_t *value, size_t n, const struct chooser *c,
			 size_t *ret_from, size_t *ret_to)
{
	static const char *const breaks[] = {"\n", "\r\n", "\n  ", "\\n", " ", "%0D%0A", "&#10;"};
	uint8_t plain[512], letters[1024];
	size_t before = choose(c, 8), after = choose(c, 4), width = choose(c, 2) ? 0 : 60, len;
	const char *between = breaks[choose(c, sizeof(breaks) / sizeof(breaks[0]))];

	ASSERT(before + n + after <= sizeof(plain));
	memset(plain, 'u', sizeof(plain));
	memcpy(plain + before, value, n);
	len = base64_encode(plain, before + n + after, choose(c, 2), letters);
	for (size_t i = 0; i < len; i++) {
		/* A first line is as long as the others only where others stand before it. */
		if (i == before * 8 / 6)
			*ret_from = buf_len(out);
		put_break(out, i, width, between);
		put(out, letters + i, 1);
		if (i == ((before + n) * 8 - 1) / 6)
			*ret_to = buf_len(out);
	}
}

static void write_hex(struct buf *out, const uint8_t *value, size_t n, const struct chooser *c)
{
	static const char *const breaks[] = {"", ":", " ", "-", ", ", ",0x", "\n", ", 0x"};
	const char *between = breaks[choose(c, sizeof(breaks) / sizeof(breaks[0]))];
	bool is_upper = choose(c, 2);

	for (size_t i = 0; i < n; i++) {
		put_break(out, i, between[0] == '\n' ? 20 : 1, between);
		ASSERT(buf_printf(out, is_upper ? "%02X" : "%02x", value[i]) == 0);
	}
}

void redact_form_write(struct buf *out, const uint8_t *value, size_t n, enum redact_form form,
		       const struct chooser *c, size_t *ret_from, size_t *ret_to)
{
	*ret_from = buf_len(out);
	for (size_t i = 0; i < n && form == FORM_TEXT; i++)
		put_byte(out, value[i], c);
	if (form == FORM_HEX)
		write_hex(out, value, n, c);
	*ret_to = buf_len(out);
	if (form == FORM_BASE64)
		write_base64(out, value, n, c, ret_from, ret_to);
}

void redact_pass(const struct redact *r, const uint8_t *in, size_t n, const struct chooser *cuts,
		 struct buf *out)
{
	struct redact_stream s = {0};
	struct buf held;
	size_t at = 0;

	buf_init(&held, n + 1);
	while (at < n) {
		size_t part = cuts ? 1 + choose(cuts, 40) : n, safe;

		part = part < n - at ? part : n - at;
		put(&held, in + at, part);
		at += part;
		safe = redact_part(r, &s, held.data + held.start, buf_len(&held), at < n);
		ASSERT(safe <= buf_len(&held) && (at < n || safe == buf_len(&held)));
		put(out, buf_data(&held), safe);
		buf_consume(&held, safe);
	}
	ASSERT(buf_len(&held) == 0);
	buf_done(&held);
}
