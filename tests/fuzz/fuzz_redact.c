/*
 * Values in a text. The first bytes choose a value, its form and how every byte is written; the
 * rest is the text around it. Nothing of it is left wherever it was put and however the text is
 * cut, cuts do not change what comes out, and what comes out is what came in but for asterisks.
 */
#include "fuzz.h"

#include "../unit/redact_forms.h"

enum { VALUE_MAX = 40, TEXT_MAX = 1 << 17 };

static unsigned choose(void *arg, unsigned below)
{
	return input_byte(arg) % below;
}

/* Cuts at other places than any that the input chooses. */
static unsigned choose_cut(void *arg, unsigned below)
{
	uint64_t *state = arg;

	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(*state >> 33) % below;
}

static void check_cuts(const struct redact *r, const struct buf *text, const struct buf *whole)
{
	for (uint64_t seed = 1; seed < 4; seed++) {
		uint64_t state = seed;
		struct chooser cuts = {.choose = choose_cut, .arg = &state};
		struct buf cut;

		buf_init(&cut, TEXT_MAX);
		redact_pass(r, buf_data(text), buf_len(text), &cuts, &cut);
		must_equal(whole, &cut);
		buf_done(&cut);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	struct chooser c = {.choose = choose, .arg = &in};
	uint8_t value[VALUE_MAX];
	struct buf text, whole;
	struct redact r = {0};
	size_t from, to, before, len;
	enum redact_form form;

	if (n < 4 || n > 4096)
		return 0;
	form = (enum redact_form)(input_byte(&in) % FORM_COUNT);
	len = 6 + input_byte(&in) % (VALUE_MAX - 6);
	before = input_byte(&in);
	for (size_t i = 0; i < len; i++)
		value[i] = input_byte(&in);
	buf_init(&text, TEXT_MAX);
	buf_init(&whole, TEXT_MAX);
	before = before < in.n ? before : in.n;
	if (before)
		MUST(buf_append(&text, in.p, before) == 0);
	in.p += before;
	in.n -= before;
	redact_form_write(&text, value, len, form, &c, &from, &to);
	if (in.n)
		MUST(buf_append(&text, in.p, in.n) == 0);
	MUST(redact_add(&r, value, len) == 0);
	redact_pass(&r, buf_data(&text), buf_len(&text), NULL, &whole);
	MUST(buf_len(&whole) == buf_len(&text));
	for (size_t i = 0; i < buf_len(&text); i++)
		MUST(buf_data(&whole)[i] == '*' ||
		     (buf_data(&whole)[i] == buf_data(&text)[i] && (i < from || i >= to)));
	check_cuts(&r, &text, &whole);
	redact_done(&r);
	buf_done(&text);
	buf_done(&whole);
	return 0;
}
