/* Columns for people; see table.h. */
#include "cli/table.h"

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* No text is cut below this, its ellipsis included. */
enum { GAP = 2, CUT_LEAST = 10 };

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

int text_escape(struct buf *b, const char *s)
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
	int r = text_escape(&t->text, *s ? s : "-");

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

/* How the table fits its line: the widths, and the columns that are left out. */
struct fit {
	size_t width[TABLE_COLUMNS_MAX];
	size_t last; /* the last column shown */
	unsigned hidden;
};

static size_t fit_total(const struct table *t, const struct fit *f)
{
	size_t total = 0;

	for (size_t i = 0; i < t->columns; i++)
		if (!(f->hidden & 1u << i))
			total += f->width[i] + (total ? GAP : 0);
	return total;
}

/* Numbers are whole or not there: half of one is another. */
static bool may_cut(const struct table *t, size_t column)
{
	return !((t->right | t->whole) & 1u << column);
}

static size_t least_width(const struct table *t, size_t column)
{
	size_t title = text_width(t->titles[column], strlen(t->titles[column]));
	size_t least = title > CUT_LEAST ? title : CUT_LEAST;

	return may_cut(t, column) && least < t->width[column] ? least : t->width[column];
}

/* Leaves out what may be, the last of them first, until the rest can be made to fit; then cuts, a
 * little of the widest at a time. The last column is cut before others: it is the text that goes on
 * and on. */
static void fit_line(const struct table *t, size_t line_max, struct fit *ret)
{
	struct fit least = {0};

	*ret = (struct fit){.last = t->columns - 1};
	memcpy(ret->width, t->width, sizeof(ret->width));
	if (line_max == 0)
		return;
	for (size_t i = 0; i < t->columns; i++)
		least.width[i] = least_width(t, i);
	for (size_t i = t->columns; i-- > 0 && fit_total(t, &least) > line_max;)
		least.hidden |= t->optional & 1u << i;
	ret->hidden = least.hidden;
	while (ret->hidden & 1u << ret->last)
		ret->last--;
	while (fit_total(t, ret) > line_max) {
		size_t widest = t->columns;

		if (ret->width[ret->last] > least.width[ret->last])
			widest = ret->last;
		for (size_t i = 0; i < t->columns && widest != ret->last; i++)
			if (!(ret->hidden & 1u << i) && ret->width[i] > least.width[i] &&
			    (widest == t->columns || ret->width[i] > ret->width[widest]))
				widest = i;
		if (widest == t->columns)
			break;
		ret->width[widest]--;
	}
	while (may_cut(t, ret->last) && ret->width[ret->last] > 1 && fit_total(t, ret) > line_max)
		ret->width[ret->last]--;
}

static void put_cell(const struct table *t, const struct fit *f, size_t column, const char *s,
		     struct buf *out)
{
	size_t len = strlen(s), width = text_width(s, len), room = f->width[column];
	bool is_right = t->right & 1u << column;

	if (width > room) {
		len = text_fit(s, len, room - 1);
		width = text_width(s, len) + 1;
	}
	if (is_right)
		put_spaces(out, room - width);
	(void)buf_append(out, s, len);
	if (s[len])
		(void)buf_append_str(out, "…");
	if (column == f->last)
		return;
	put_spaces(out, (is_right ? 0 : room - width) + GAP);
}

/* One line; cells are C strings one after the other. Returns where the next line's begin. */
static const char *print_line(const struct table *t, const struct fit *f, const char *const *titles,
			      const char *cells, struct buf *out)
{
	for (size_t i = 0; i < t->columns; i++) {
		if (!(f->hidden & 1u << i))
			put_cell(t, f, i, titles ? titles[i] : cells, out);
		if (!titles)
			cells += strlen(cells) + 1;
	}
	(void)buf_append_str(out, "\n");
	return cells;
}

int table_print(struct table *t, size_t line_max, struct buf *out)
{
	const char *cells = (const char *)buf_data(&t->text);
	struct fit f;

	if (t->error)
		return t->error;
	ASSERT(t->cells % t->columns == 0);
	fit_line(t, line_max, &f);
	print_line(t, &f, t->titles, NULL, out);
	for (size_t row = 0; row < t->cells / t->columns; row++)
		cells = print_line(t, &f, NULL, cells, out);
	return 0;
}

size_t text_wrap(const char *s, size_t n, size_t room)
{
	size_t fits = room ? text_fit(s, n, room) : n, at = fits;

	if (fits == n)
		return n;
	while (at > 0 && s[at] != ' ')
		at--;
	return at ? at : fits ? fits : 1;
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
