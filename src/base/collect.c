/* What a command prints; see collect.h. */
#include "base/collect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK_MAX = 80 };

void collect_init(struct collect *c, size_t max)
{
	*c = (struct collect){0};
	buf_init(&c->kept[0], max);
	buf_init(&c->kept[1], max);
}

void collect_init_ends(struct collect *c, size_t max)
{
	collect_init(c, max - max / 2);
	c->tail_max = max / 2;
	c->both_ends = true;
	buf_init(&c->tail[0], 2 * c->tail_max);
	buf_init(&c->tail[1], 2 * c->tail_max);
}

void collect_done(struct collect *c)
{
	for (int i = 0; i < 2; i++) {
		buf_done(&c->kept[i]);
		buf_done(&c->tail[i]);
	}
}

size_t collect_room(const struct collect *c, unsigned stream)
{
	return c->kept[stream].max - buf_len(&c->kept[stream]);
}

/* Twice as many as are wanted, so that they are moved once in as many bytes. */
static int add_tail(struct buf *b, size_t max, const uint8_t *p, size_t len)
{
	if (len >= max) {
		buf_clear(b);
		p += len - max;
		len = max;
	} else if (buf_len(b) + len > 2 * max) {
		buf_consume(b, buf_len(b) - (max - len));
	}
	return buf_append(b, p, len);
}

int collect_add(struct collect *c, unsigned stream, const void *data, size_t len)
{
	size_t room = collect_room(c, stream), first = len < room ? len : room;
	int r = buf_append(&c->kept[stream], data, first);

	c->seen[stream] += len;
	if (r < 0 || first == len || c->tail_max == 0)
		return r;
	return add_tail(&c->tail[stream], c->tail_max, (const uint8_t *)data + first, len - first);
}

void collect_close(struct collect *c)
{
	for (int i = 0; i < 2; i++) {
		c->kept[i].max = buf_len(&c->kept[i]);
		buf_done(&c->tail[i]);
	}
	c->tail_max = 0;
}

size_t collect_memory(const struct collect *c)
{
	return c->kept[0].cap + c->kept[1].cap + c->tail[0].cap + c->tail[1].cap;
}

static size_t tail_len(const struct collect *c, unsigned stream)
{
	size_t n = buf_len(&c->tail[stream]);

	return n < c->tail_max ? n : c->tail_max;
}

static uint64_t lost(const struct collect *c, unsigned stream)
{
	return c->seen[stream] - buf_len(&c->kept[stream]) - tail_len(c, stream);
}

bool collect_is_cut(const struct collect *c)
{
	return lost(c, 0) > 0 || lost(c, 1) > 0;
}

/* Bytes of a character whose rest is missing. */
static size_t cut_at_end(const uint8_t *p, size_t n)
{
	size_t back = 1;

	while (back < 4 && back < n && (p[n - back] & 0xc0) == 0x80)
		back++;
	if (n < back || p[n - back] < 0xc0)
		return 0;
	return back < (p[n - back] >= 0xf0 ? 4u : p[n - back] >= 0xe0 ? 3u : 2u) ? back : 0;
}

static size_t cut_at_start(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < 3 && i < n && (p[i] & 0xc0) == 0x80)
		i++;
	return i < n && (p[i] & 0xc0) == 0x80 ? 0 : i; /* four of them are no text */
}

/* whole: with the first bytes. */
static char *copy(const struct collect *c, unsigned stream, bool whole, size_t *ret_len)
{
	const struct buf *head = &c->kept[stream];
	size_t n = buf_len(head), tail = tail_len(c, stream), before = 0, after = 0;
	const uint8_t *end = buf_data(&c->tail[stream]);
	bool is_cut = c->both_ends && lost(c, stream) > 0;
	char mark[MARK_MAX] = "", *text, *at;

	if (tail)
		end += buf_len(&c->tail[stream]) - tail;
	if (is_cut && whole)
		before = cut_at_end(buf_data(head), n);
	if (is_cut)
		after = cut_at_start(end, tail);
	n -= before;
	tail -= after;
	if (is_cut)
		snprintf(mark, sizeof(mark), "%s[cove] %llu bytes were left out here\n",
			 n > 0 && buf_data(head)[n - 1] != '\n' ? "\n" : "",
			 (unsigned long long)(lost(c, stream) + before + after));
	n = whole ? n : 0;
	*ret_len = n + strlen(mark) + tail;
	at = text = malloc(*ret_len + 1);
	if (!text)
		return NULL;
	if (n > 0)
		at = (char *)memcpy(at, buf_data(head), n) + n;
	at = stpcpy(at, mark);
	if (tail > 0)
		memcpy(at, end + after, tail);
	text[*ret_len] = 0;
	return text;
}

char *collect_copy(const struct collect *c, unsigned stream, size_t *ret_len)
{
	return copy(c, stream, true, ret_len);
}

char *collect_copy_rest(const struct collect *c, unsigned stream, size_t *ret_len)
{
	return copy(c, stream, false, ret_len);
}
