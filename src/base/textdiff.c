/*
 * Unified text diffs; see textdiff.h.
 *
 * How it works: lines become numbers, the same for the same line, so that comparing two is cheap.
 * What both begin and end with is set aside. The rest is searched greedily: v[k] is how far one
 * comes on diagonal k with d edits, and of every d the row of v is kept, so that the way can be
 * walked back. The way marks the lines that go and those that come; hunks are read off the marks.
 */
#include "base/textdiff.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 3 };

struct textdiff_line {
	const char *at;
	size_t len;    /* with its newline */
	uint64_t hash; /* the same for the same bytes */
	bool marked;   /* it goes, or it comes */
};

struct textdiff_side {
	struct textdiff_line *lines; /* owned */
	size_t count;
};

bool textdiff_is_text(const struct textdiff_text *t)
{
	return t->len <= TEXTDIFF_BYTES_MAX && (t->len == 0 || !memchr(t->data, 0, t->len));
}

static int split(const struct textdiff_text *t, struct textdiff_side *ret)
{
	size_t count = 0;

	*ret = (struct textdiff_side){0};
	for (size_t i = 0; i < t->len; i++)
		count += t->data[i] == '\n';
	count += t->len > 0 && t->data[t->len - 1] != '\n';
	if (count == 0)
		return 0;
	ret->lines = calloc(count, sizeof(*ret->lines));
	if (!ret->lines)
		return -ENOMEM;
	for (size_t at = 0; at < t->len; ret->count++) {
		struct textdiff_line *l = &ret->lines[ret->count];
		const char *end = memchr(t->data + at, '\n', t->len - at);

		l->at = t->data + at;
		l->len = end ? (size_t)(end - l->at) + 1 : t->len - at;
		l->hash = 14695981039346656037u;
		for (size_t i = 0; i < l->len; i++)
			l->hash = (l->hash ^ (uint8_t)l->at[i]) * 1099511628211u;
		at += l->len;
	}
	return 0;
}

static bool is_same(const struct textdiff_line *a, const struct textdiff_line *b)
{
	return a->hash == b->hash && a->len == b->len && memcmp(a->at, b->at, a->len) == 0;
}

static void mark_all(struct textdiff_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lines[i].marked = true;
}

enum { NOWHERE = -1 };

/* How far one comes on diagonal k with one edit more than those of row v (d of them): by a line of
 * b (down) or of a. NOWHERE: there is no such way. */
static int step(const int *v, int k, int d, int n, int m, bool *ret_down)
{
	int left = k - 1 >= -d && k - 1 <= d ? v[k - 1] : NOWHERE;
	int up = k + 1 >= -d && k + 1 <= d ? v[k + 1] : NOWHERE;
	bool has_left = left != NOWHERE && left < n, has_up = up != NOWHERE && up - k <= m;

	*ret_down = has_up && (!has_left || left < up);
	return *ret_down ? up : has_left ? left + 1 : NOWHERE;
}

/* Walks back from the end and marks what the edits were. rows[d] is v after d edits, whose middle
 * is at d. */
static void mark_way(struct textdiff_line *a, struct textdiff_line *b, int n, int m,
		     int *const *rows, int d)
{
	int k = n - m;

	for (; d > 0; d--) {
		const int *v = rows[d - 1] + (d - 1);
		bool down;
		int x = step(v, k, d - 1, n, m, &down);

		if (down)
			b[x - k - 1].marked = true;
		else
			a[x - 1].marked = true;
		k += down ? 1 : -1;
	}
}

static void free_rows(int **rows, int count)
{
	for (int i = 0; i < count; i++)
		free(rows[i]);
	free(rows);
}

/* Marks the shortest way between two lists whose first and last lines differ. 1: it is too long. */
static int search(struct textdiff_line *a, size_t a_count, struct textdiff_line *b, size_t b_count)
{
	int n = (int)a_count, m = (int)b_count, d = 0;
	int **rows = calloc(TEXTDIFF_EDITS_MAX + 1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	for (; d <= (int)TEXTDIFF_EDITS_MAX; d++) {
		int *v = malloc((size_t)(2 * d + 1) * sizeof(*v));

		rows[d] = v;
		if (!v) {
			free_rows(rows, d);
			return -ENOMEM;
		}
		v += d;
		for (int k = -d; k <= d; k += 2) {
			bool down;
			int x = d ? step(rows[d - 1] + (d - 1), k, d - 1, n, m, &down) : 0;

			while (x != NOWHERE && x < n && x - k < m && is_same(&a[x], &b[x - k]))
				x++;
			v[k] = x;
			if (x == n && x - k == m) {
				mark_way(a, b, n, m, rows, d);
				free_rows(rows, d + 1);
				return 0;
			}
		}
	}
	free_rows(rows, d);
	return 1;
}

static int mark(struct textdiff_side *a, struct textdiff_side *b)
{
	size_t first = 0, last = 0, least = a->count < b->count ? a->count : b->count;
	int r;

	while (first < least && is_same(&a->lines[first], &b->lines[first]))
		first++;
	while (last < least - first &&
	       is_same(&a->lines[a->count - 1 - last], &b->lines[b->count - 1 - last]))
		last++;
	if (a->count == first + last || b->count == first + last)
		r = 1; /* only lines that go, or only such that come */
	else
		r = search(a->lines + first, a->count - first - last, b->lines + first,
			   b->count - first - last);
	if (r <= 0)
		return r;
	if (a->count > first + last)
		mark_all(a->lines + first, a->count - first - last);
	if (b->count > first + last)
		mark_all(b->lines + first, b->count - first - last);
	return 0;
}

/* ---- writing ---- */

static int put_line(struct buf *out, char sign, const struct textdiff_line *l)
{
	int r = buf_append(out, &sign, 1);

	if (r == 0)
		r = buf_append(out, l->at, l->len);
	if (r == 0 && l->at[l->len - 1] != '\n')
		r = buf_append_str(out, "\n\\ No newline at end of file\n");
	return r;
}

/* "12,3"; of no line the number of the one before. */
static int put_range(struct buf *out, char sign, size_t first, size_t count)
{
	if (count == 1)
		return buf_printf(out, "%c%zu", sign, first + 1);
	return buf_printf(out, "%c%zu,%zu", sign, count ? first + 1 : first, count);
}

/* Where the hunk that begins with these lines ends: after a change that is followed by more lines
 * of both than two contexts. */
static void find_end(const struct textdiff_side *a, const struct textdiff_side *b, size_t *x,
		     size_t *y)
{
	size_t quiet = 0;

	while (*x < a->count || *y < b->count) {
		bool goes = *x < a->count && a->lines[*x].marked;
		bool comes = *y < b->count && b->lines[*y].marked;

		if (!goes && !comes && ++quiet > 2 * CONTEXT)
			break;
		if (goes || comes)
			quiet = 0;
		*x += goes || !comes;
		*y += comes || !goes;
	}
	quiet = quiet > 2 * CONTEXT ? quiet - 1 : quiet;
	*x -= quiet > CONTEXT ? quiet - CONTEXT : 0;
	*y -= quiet > CONTEXT ? quiet - CONTEXT : 0;
}

static int put_lines(struct buf *out, const struct textdiff_side *a, const struct textdiff_side *b,
		     size_t x, size_t y, size_t x_end, size_t y_end)
{
	int r = 0;

	while ((x < x_end || y < y_end) && r == 0) {
		if (x < x_end && a->lines[x].marked)
			r = put_line(out, '-', &a->lines[x++]);
		else if (y < y_end && b->lines[y].marked)
			r = put_line(out, '+', &b->lines[y++]);
		else {
			r = put_line(out, ' ', &a->lines[x++]);
			y++;
		}
	}
	return r;
}

static int write_hunks(struct buf *out, const struct textdiff_side *a,
		       const struct textdiff_side *b)
{
	size_t x = 0, y = 0;
	int r = 0;

	while (r == 0) {
		size_t before, x_end, y_end;

		while (x < a->count && y < b->count && !a->lines[x].marked && !b->lines[y].marked) {
			x++;
			y++;
		}
		if (x == a->count && y == b->count)
			break;
		before = x < y ? x : y;
		before = before < CONTEXT ? before : CONTEXT;
		x_end = x;
		y_end = y;
		find_end(a, b, &x_end, &y_end);
		x -= before;
		y -= before;
		r = buf_append_str(out, "@@ ");
		if (r == 0)
			r = put_range(out, '-', x, x_end - x);
		if (r == 0)
			r = buf_append_str(out, " ");
		if (r == 0)
			r = put_range(out, '+', y, y_end - y);
		if (r == 0)
			r = buf_append_str(out, " @@\n");
		if (r == 0)
			r = put_lines(out, a, b, x, y, x_end, y_end);
		x = x_end;
		y = y_end;
	}
	return r;
}

int textdiff_unified(const struct textdiff_text *a, const struct textdiff_text *b, struct buf *out)
{
	struct textdiff_side x = {0}, y = {0};
	int r = split(a, &x);

	if (r == 0)
		r = split(b, &y);
	if (r == 0)
		r = mark(&x, &y);
	if (r == 0)
		r = write_hunks(out, &x, &y);
	free(x.lines);
	free(y.lines);
	return r;
}
