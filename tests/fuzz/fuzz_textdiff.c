/*
 * Text diffs. The first NUL parts the input into two texts; applied to the first, the hunks give
 * the second, and every line of them is what it says.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/textdiff.h"

struct cursor {
	const char *at, *end;
};

/* The next line without its newline; *ret_has: it had one. */
static size_t line_of(const struct cursor *c, bool *ret_has)
{
	const char *stop = c->at < c->end ? memchr(c->at, '\n', (size_t)(c->end - c->at)) : NULL;

	*ret_has = stop != NULL;
	return (size_t)((stop ? stop : c->end) - c->at);
}

static void copy_line(struct cursor *from, struct buf *out)
{
	bool has;
	size_t n = line_of(from, &has) + 1;

	MUST(from->at < from->end);
	n -= !has;
	MUST(buf_append(out, from->at, n) == 0);
	from->at += n;
}

/* One line of a hunk, whose newline is not the text's where a backslash follows. */
static void apply_line(struct cursor *hunks, struct cursor *a, struct buf *out)
{
	char sign = *hunks->at++;
	bool has;
	size_t n = line_of(hunks, &has);
	bool is_bare = has && hunks->at + n + 1 < hunks->end && hunks->at[n + 1] == '\\';
	size_t whole = n + !is_bare;

	MUST(has && (sign == ' ' || sign == '-' || sign == '+'));
	if (sign != '+') {
		MUST((size_t)(a->end - a->at) >= whole && memcmp(a->at, hunks->at, whole) == 0);
		a->at += whole;
	}
	if (sign != '-')
		MUST(buf_append(out, hunks->at, whole) == 0);
	hunks->at += n + 1;
	if (is_bare)
		hunks->at += line_of(hunks, &has) + 1;
}

static void apply(struct cursor hunks, struct cursor a, struct buf *out)
{
	size_t line = 1;
	const char *counted = a.at;

	while (hunks.at < hunks.end) {
		unsigned long from, count = 1;
		char *end;
		bool has;

		MUST(hunks.end - hunks.at > 4 && memcmp(hunks.at, "@@ -", 4) == 0);
		from = strtoul(hunks.at + 4, &end, 10);
		if (*end == ',')
			count = strtoul(end + 1, &end, 10);
		for (; counted < a.at; counted++)
			line += *counted == '\n';
		for (; line < from + (count == 0); line++)
			copy_line(&a, out);
		counted = a.at;
		hunks.at += line_of(&hunks, &has) + 1;
		while (hunks.at < hunks.end && *hunks.at != '@')
			apply_line(&hunks, &a, out);
	}
	MUST(buf_append(out, a.at, (size_t)(a.end - a.at)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *part = memchr(data, 0, size);
	struct textdiff_text a = {(const char *)data, part ? (size_t)(part - data) : size};
	struct textdiff_text b = {part ? (const char *)part + 1 : "", 0};
	struct buf hunks, got;

	if (part)
		b.len = size - a.len - 1;
	if (!textdiff_is_text(&b) || size > 64 << 10)
		return 0;
	buf_init(&hunks, 4 << 20);
	buf_init(&got, 1 << 20);
	MUST(textdiff_unified(&a, &b, &hunks) == 0);
	MUST((buf_len(&hunks) == 0) == (a.len == b.len && memcmp(a.data, b.data, a.len) == 0));
	apply((struct cursor){(const char *)buf_data(&hunks),
			      (const char *)buf_data(&hunks) + buf_len(&hunks)},
	      (struct cursor){a.data, a.data + a.len}, &got);
	MUST(buf_len(&got) == b.len && memcmp(buf_data(&got), b.data, b.len) == 0);
	buf_done(&hunks);
	buf_done(&got);
	return 0;
}
