/*
 * A snapshot's record. The sum that the text must have is put before it, so that the fuzzer gets
 * past it; what is taken formats to a text that is taken again and formats to the same.
 */
#include "fuzz.h"

#include "base/lines.h"
#include "store/snapshot.h"

static char *with_sum(const struct input *in, size_t *ret_len)
{
	struct buf b;
	char *text;

	buf_init(&b, SNAPSHOT_RECORD_MAX);
	MUST(lines_begin_sum(&b) == 0);
	MUST(buf_append(&b, in->p, in->n) == 0);
	lines_end_sum(&b);
	*ret_len = buf_len(&b);
	text = malloc(*ret_len + 1);
	MUST(text);
	memcpy(text, buf_data(&b), *ret_len);
	text[*ret_len] = 0;
	buf_done(&b);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	struct snapshot *s = calloc(2, sizeof(*s));
	struct buf one, two;
	size_t len;
	char *text;

	if (n > SNAPSHOT_RECORD_MAX / 4) {
		free(s);
		return 0;
	}
	buf_init(&one, SNAPSHOT_RECORD_MAX);
	buf_init(&two, SNAPSHOT_RECORD_MAX);
	MUST(s);
	text = with_sum(&in, &len);
	if (snapshot_take(&s[0], text, len) == 0) {
		MUST(s[0].layer_count <= SPEC_LAYER_MAX && s[0].tag_count <= SNAPSHOT_TAGS_MAX);
		MUST(snapshot_format(&s[0], &one) == 0);
		MUST(snapshot_take(&s[1], strdup(buf_cstr(&one)), buf_len(&one)) == 0);
		MUST(snapshot_format(&s[1], &two) == 0);
		must_equal(&one, &two);
	}
	snapshot_done(&s[0]);
	snapshot_done(&s[1]);
	buf_done(&one);
	buf_done(&two);
	free(s);
	return 0;
}
