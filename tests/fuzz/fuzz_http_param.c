/*
 * Parameters: what was found comes back as it is when it is written with http_query_add, the one
 * call agrees with the other, and decoding what was encoded gives the same bytes.
 */
#include "fuzz.h"

#include "http/http.h"

#include <errno.h>

static bool is_text(const struct buf *b, const char *s)
{
	return buf_len(b) == strlen(s) && (!*s || memcmp(buf_data(b), s, strlen(s)) == 0);
}

/* The parameters of the query one by one; returns how many have that name, or negative. */
static int count(const char *query, const char *name, struct buf *last)
{
	struct buf key, value;
	int found = 0, r;

	buf_init(&key, strlen(query) + 1);
	buf_init(&value, strlen(query) + 1);
	while ((r = http_query_next(&query, &key, &value)) == 1) {
		MUST(!memchr(buf_cstr(&key), 0, buf_len(&key)));
		MUST(!memchr(buf_cstr(&value), 0, buf_len(&value)));
		if (!is_text(&key, name))
			continue;
		found++;
		buf_clear(last);
		MUST(buf_append(last, buf_data(&value), buf_len(&value)) == 0);
	}
	MUST(r == 0 || r == -EINVAL);
	buf_done(&key);
	buf_done(&value);
	return r < 0 ? r : found;
}

static void check_query(const char *query, const char *name)
{
	size_t max = 4 * strlen(query) + 64;
	struct buf one, other, again;
	int r, n;

	buf_init(&one, max);
	buf_init(&other, max);
	buf_init(&again, max);
	r = http_query_find(query, name, &one);
	n = count(query, name, &other);
	MUST(r == (n < 0 || n > 1 ? -EINVAL : n));
	if (r <= 0) {
		MUST(buf_len(&one) == 0);
	} else {
		must_equal(&one, &other);
		MUST(http_query_add(&again, name, buf_cstr(&one)) == 0);
		buf_clear(&other);
		MUST(http_query_find(buf_cstr(&again), name, &other) == 1);
		must_equal(&one, &other);
	}
	buf_done(&one);
	buf_done(&other);
	buf_done(&again);
}

/* Every byte as an escape is the segment's own bytes again. */
static void check_segment(const uint8_t *p, size_t n)
{
	struct buf plain, escaped, again;
	int r;

	buf_init(&plain, n + 1);
	buf_init(&escaped, 3 * n + 1);
	buf_init(&again, 3 * n + 1);
	r = http_segment_decode((const char *)p, n, &plain);
	MUST(r == 0 || (r == -EINVAL && buf_len(&plain) == 0));
	for (size_t i = 0; r == 0 && i < buf_len(&plain); i++)
		MUST(buf_printf(&escaped, "%%%02x", buf_data(&plain)[i]) == 0);
	if (r == 0) {
		MUST(!memchr(buf_cstr(&plain), 0, buf_len(&plain)));
		MUST(!is_text(&plain, ".") && !is_text(&plain, ".."));
		MUST(http_segment_decode(buf_cstr(&escaped), buf_len(&escaped), &again) == 0);
		must_equal(&plain, &again);
	}
	buf_done(&plain);
	buf_done(&escaped);
	buf_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const names[] = {"path", "a", "a b", "", "\xc3\xa9", "="};
	struct input in = {p, n};
	unsigned which = input_byte(&in);
	char *text = input_text(&in);

	check_query(text, names[which % (sizeof(names) / sizeof(names[0]))]);
	check_segment(in.p, in.n);
	free(text);
	return 0;
}
