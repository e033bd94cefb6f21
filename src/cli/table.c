/* Columns for people; see table.h. */
#include "cli/table.h"

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { GAP = 2 };

void table_init(struct table *t, const char *const *titles, unsigned right)
{
	*t = (struct table){.titles = titles, .right = right};
	buf_init(&t->text, TABLE_BYTES_MAX);
	for (size_t i = 0; titles[i]; i++) {
		ASSERT(++t->columns <= TABLE_COLUMNS_MAX);
		t->width[i] = text_width(titles[i], strlen(titles[i]));
	}
}

void table_done(struct table *t)
{
	buf_done(&t->text);
}

/* East Asian wide and emoji blocks: coarse, but wrong only by where a column starts. */
static bool is_wide(uint32_t r)
{
	return (r >= 0x1100 && r <= 0x115f) || (r >= 0x2e80 && r <= 0xa4cf) ||
	       (r >= 0xac00 && r <= 0xd7a3) || (r >= 0xf900 && r <= 0xfaff) ||
	       (r >= 0xfe30 && r <= 0xfe6f) || (r >= 0xff00 && r <= 0xff60) ||
	       (r >= 0x1f300 && r <= 0x1faff) || (r >= 0x20000 && r <= 0x3fffd);
}

static bool is_combining(uint32_t r)
{
	return (r >= 0x300 && r <= 0x36f) || (r >= 0x200b && r <= 0x200d) ||
	       (r >= 0x20d0 && r <= 0x20ff) || (r >= 0xfe00 && r <= 0xfe0f);
}

/* One rune: its bytes and its columns. A byte that is no UTF-8 counts as one of each. */
static size_t rune_step(const char *s, size_t n, size_t *ret_columns)
{
	uint32_t rune = 0;
	/* Nearly all of what is shown is ASCII. */
	size_t len = (uint8_t)*s < 0x80 ? 0 : str_utf8((const uint8_t *)s, n, &rune);

	if (len == 0) {
		*ret_columns = 1;
		return 1;
	}
	*ret_columns = is_combining(rune) ? 0 : is_wide(rune) ? 2 : 1;
	return len;
}

size_t text_width(const char *s, size_t n)
{
	size_t width = 0, columns;

	for (size_t i = 0; i < n; width += columns)
		i += rune_step(s + i, n - i, &columns);
	return width;
}

/* How many bytes of s fit in that many columns. */
static size_t text_fit(const char *s, size_t n, size_t room)
{
	size_t i = 0, width = 0, columns;

	while (i < n) {
		size_t len = rune_step(s + i, n - i, &columns);

		if (width + columns > room)
			break;
		width += columns;
		i += len;
	}
	return i;
}

static int escape_cell(struct buf *b, const char *s)
{
	int r = 0;

	while (r == 0 && *s) {
		size_t plain = strspn(s, "\"\\"), n;

		r = buf_append(b, s, plain);
		s += plain;
		n = strcspn(s, "\"\\");
		if (r == 0)
			r = str_escape(b, s, n);
		s += n;
	}
	return r;
}

void table_cell(struct table *t, const char *s)
{
	size_t before = buf_len(&t->text), column = t->cells++ % t->columns, width;
	int r = escape_cell(&t->text, *s ? s : "-");

	if (r == 0) {
		width = text_width((const char *)buf_data(&t->text) + before,
				   buf_len(&t->text) - before);
		if (width > t->width[column])
			t->width[column] = width;
		r = buf_append(&t->text, "", 1);
	}
	if (r < 0 && !t->error)
		t->error = r;
}

void table_cellf(struct table *t, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	table_cell(t, text);
}

static void put_spaces(struct buf *out, size_t n)
{
	static const char spaces[] = "                                ";

	for (size_t part; n > 0; n -= part) {
		part = n < sizeof(spaces) ? n : sizeof(spaces) - 1;
		(void)buf_append(out, spaces, part);
	}
}

/* One line; cells are C strings one after the other. Returns where the next line's begin. */
static const char *print_line(const struct table *t, const char *const *titles, const char *cells,
			      size_t line_max, struct buf *out)
{
	size_t used = 0;

	for (size_t i = 0; i < t->columns; i++) {
		const char *s = titles ? titles[i] : cells;
		size_t len = strlen(s), width = text_width(s, len), pad;
		bool last = i + 1 == t->columns, cut = false;

		if (!titles)
			cells += len + 1;
		if (last && line_max > used + 1 && used + width > line_max) {
			len = text_fit(s, len, line_max - used - 1);
			cut = true;
		}
		pad = t->width[i] > width ? t->width[i] - width : 0;
		if (t->right & 1u << i)
			put_spaces(out, pad);
		(void)buf_append(out, s, len);
		if (cut)
			(void)buf_append_str(out, "…");
		if (last)
			break;
		if (t->right & 1u << i)
			pad = 0;
		put_spaces(out, pad + GAP);
		used += t->width[i] + GAP;
	}
	(void)buf_append_str(out, "\n");
	return cells;
}

int table_print(struct table *t, size_t line_max, struct buf *out)
{
	const char *cells = (const char *)buf_data(&t->text);

	if (t->error)
		return t->error;
	ASSERT(t->cells % t->columns == 0);
	print_line(t, t->titles, NULL, line_max, out);
	for (size_t row = 0; row < t->cells / t->columns; row++)
		cells = print_line(t, NULL, cells, line_max, out);
	return 0;
}

const char *text_duration(char ret[16], uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (ms < 1000)
		snprintf(ret, 16, "%u ms", (unsigned)ms);
	else if (ms < 10000)
		snprintf(ret, 16, "%.1f s", (double)ms / 1000);
	else if (s < 120)
		snprintf(ret, 16, "%u s", (unsigned)s);
	else if (s < 2 * 3600)
		snprintf(ret, 16, "%u min", (unsigned)(s / 60));
	else if (s < 2 * 86400)
		snprintf(ret, 16, "%u h", (unsigned)(s / 3600));
	else
		snprintf(ret, 16, "%u days", (unsigned)(s / 86400 % 1000000));
	return ret;
}
