/*
 * Lines. Text that parses is written again from its pairs and is the same text; any string as a
 * value comes back as it was. A text with its sum is known as whole; with one bit changed, or cut,
 * it is not.
 */
#include "fuzz.h"

#include "base/lines.h"

static void check_value(const char *value)
{
	const char *key, *got;
	struct lines l;
	struct buf b;
	char *text;

	buf_init(&b, 2 * strlen(value) + 64);
	MUST(lines_put(&b, "before", "x") == 0);
	MUST(lines_put(&b, "key", value) == 0);
	MUST(lines_put(&b, "after", "y") == 0);
	text = strdup(buf_cstr(&b));
	MUST(text);
	lines_init(&l, text, buf_len(&b));
	MUST(lines_next(&l, &key, &got) == 1 && strcmp(got, "x") == 0);
	MUST(lines_next(&l, &key, &got) == 1 && strcmp(key, "key") == 0 && strcmp(got, value) == 0);
	MUST(lines_next(&l, &key, &got) == 1 && strcmp(got, "y") == 0);
	MUST(lines_next(&l, &key, &got) == 0);
	free(text);
	buf_done(&b);
}

static void check_sum(const uint8_t *p, size_t n)
{
	size_t bit = n > 0 ? p[0] * 8u + p[n - 1] % 8u : 0;
	struct buf b;
	char *text;

	buf_init(&b, LINES_SUM_BYTES + n + 1);
	MUST(lines_begin_sum(&b) == 0 && buf_append(&b, p, n) == 0);
	lines_end_sum(&b);
	text = (char *)b.data + b.start;
	MUST(lines_check_sum(text, buf_len(&b)) == 1);
	bit %= buf_len(&b) * 8;
	text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
	MUST(lines_check_sum(text, buf_len(&b)) != 1);
	text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
	if (n > 0 && p[n - 1] != 0)
		MUST(lines_check_sum(text, buf_len(&b) - 1) != 1);
	buf_done(&b);
	/* As it came: whatever it begins with. */
	if (n > 0)
		MUST(lines_check_sum((const char *)p, n) <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});
	const char *key, *value;
	struct lines l;
	struct buf b;
	int r;

	check_value(text);
	check_sum(p, n);
	buf_init(&b, n + 1);
	lines_init(&l, text, n);
	while ((r = lines_next(&l, &key, &value)) > 0)
		MUST(lines_put(&b, key, value) == 0);
	if (r == 0) {
		MUST(buf_len(&b) == n);
		MUST(n == 0 || memcmp(buf_data(&b), p, n) == 0);
	}
	buf_done(&b);
	free(text);
	return 0;
}
