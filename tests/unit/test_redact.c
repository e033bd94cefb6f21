/* Values are found in all their forms, wherever the text is cut, and nothing else is touched. */
#include "tap.h"

#include "redact_forms.h"

TAP_MAIN

static unsigned seed = 1;

static unsigned number(unsigned below)
{
	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

static unsigned choose(void *arg, unsigned below)
{
	return number(below);
}

static const struct chooser any = {.choose = choose};

/* Few letters, so that values overlap themselves and each other, and those that mean something. */
static size_t make_value(uint8_t *to, size_t min, size_t max)
{
	size_t n = min + number((unsigned)(max - min + 1));

	for (size_t i = 0; i < n; i++)
		to[i] = (uint8_t)(number(5) ? (unsigned)"abA/%\\&41;#"[number(11)] : number(256));
	return n;
}

static void check_same(const struct buf *a, const struct buf *b)
{
	CHECK_EQ(buf_len(a), buf_len(b));
	CHECK_MEM(buf_data(a), buf_data(b), buf_len(a));
}

/* Whole or cut, of all that may stand for it nothing is left, and nothing else is touched. */
TEST(every_form_of_every_byte)
{
	for (unsigned round = 0; round < 1500; round++) {
		enum redact_form form = (enum redact_form)number(FORM_COUNT);
		struct buf text, whole, cut;
		struct redact r = {0};
		uint8_t value[70];
		size_t n = make_value(value, form == FORM_TEXT ? 1 : 6, sizeof(value)), from, to;

		buf_init(&text, 1 << 16);
		buf_init(&whole, 1 << 16);
		buf_init(&cut, 1 << 16);
		for (unsigned i = number(60); i > 0; i--)
			CHECK_EQ(buf_append(&text, &"\"%4\\u0&#x("[number(10)], 1), 0);
		CHECK_EQ(buf_append_str(&text, "~"), 0);
		redact_form_write(&text, value, n, form, &any, &from, &to);
		CHECK_EQ(buf_append_str(&text, "~ something else"), 0);
		CHECK_EQ(redact_add(&r, value, n), 0);
		redact_pass(&r, buf_data(&text), buf_len(&text), NULL, &whole);
		redact_pass(&r, buf_data(&text), buf_len(&text), &any, &cut);
		check_same(&whole, &cut);
		for (size_t i = from; i < to; i++)
			CHECK(buf_data(&whole)[i] == '*');
		for (size_t i = 0; i < buf_len(&whole) && n > 5; i++)
			CHECK(buf_data(&whole)[i] == buf_data(&text)[i] || (i >= from && i < to));
		redact_done(&r);
		buf_done(&text);
		buf_done(&whole);
		buf_done(&cut);
	}
}

/* Two values in one text of forms, whole ones and halves, overlapping and in the way. */
TEST(cuts_do_not_matter)
{
	for (unsigned round = 0; round < 300; round++) {
		struct buf text, whole, cut;
		struct redact r = {0};
		uint8_t values[2][60];
		size_t n[2], from, to;

		buf_init(&text, 1 << 16);
		buf_init(&whole, 1 << 16);
		buf_init(&cut, 1 << 16);
		for (size_t i = 0; i < 2; i++) {
			n[i] = make_value(values[i], 1, i ? 12 : 60);
			CHECK_EQ(redact_add(&r, values[i], n[i]), 0);
		}
		while (buf_len(&text) < 3000) {
			size_t which = number(2);

			redact_form_write(&text, values[which],
					  number(3) ? n[which] : number((unsigned)n[which] + 1),
					  (enum redact_form)number(FORM_COUNT), &any, &from, &to);
			for (unsigned i = number(4); i > 0; i--)
				CHECK_EQ(buf_append(&text, &"abAB =/\n"[number(8)], 1), 0);
		}
		redact_pass(&r, buf_data(&text), buf_len(&text), NULL, &whole);
		redact_pass(&r, buf_data(&text), buf_len(&text), &any, &cut);
		check_same(&whole, &cut);
		redact_done(&r);
		buf_done(&text);
		buf_done(&whole);
		buf_done(&cut);
	}
}

static void check_gone(const char *value, const char *form)
{
	char text[512];
	struct redact r = {0};
	size_t n = (size_t)snprintf(text, sizeof(text), "<%s>", form);

	CHECK_EQ(redact_add(&r, value, strlen(value)), 0);
	redact_whole(&r, (uint8_t *)text, n);
	for (size_t i = 1; i + 1 < n; i++)
		CHECK(text[i] == '*');
	CHECK(text[0] == '<' && text[n - 1] == '>');
	redact_done(&r);
}

TEST(forms)
{
	check_gone("s3cr3t/+=\"\\", "s3cr3t/+=\"\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t/+=\\\"\\\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t\\/+=\\\"\\\\");
	check_gone("s3cr3t/+=\"\\", "s3cr3t%2F%2B%3D%22%5C");
	check_gone("s3cr3t/+=\"\\", "s3cr3t%2f%2b%3d%22%5c");
	check_gone("s3cr3t/+", "s3cr3t/%2B");
	check_gone("s3cr3t/+", "%73%33cr3t%252F%2B");
	check_gone("a<b>&c", "a\\u003cb\\u003e\\u0026c");
	check_gone("a<b>&c", "a&lt;b&gt;&amp;c");
	check_gone("a<b>&c", "a&amp;lt;b&#62;&#x000026;c");
	check_gone("line\none\ttwo", "line\\none\\ttwo");
	check_gone("sesame123", "c2VzYW1lMTIz");
	check_gone("sesame123", "736573616d65313233");
	check_gone("sesame123", "73:65:73:61:6D:65:31:32:33");
	check_gone("two words", "two+words");
	check_gone("gr\xc3\xbc\xc3\x9f", "gr\\u00fc\\u00DF");
	check_gone("gr\xc3\xbc\xc3\x9f", "gr&#252;%c3%9f");
	check_gone("k\xf0\x9f\x94\x91y", "k\\ud83d\\udd11y");
	check_gone("k\xf0\x9f\x94\x91y", "k&#x1f511;y");
	check_gone("gr\xfc\xdf", "gr\\u00fc\\u00DF");
}

/* Base64 in lines, as mail and PEM have it, also where the lines are escaped ones. */
TEST(wrapped)
{
	static const char value[] = "open-sesame-1234567890-abcdefghijklmnopqrstuvwxyz-0123456789";

	for (unsigned round = 0; round < 300; round++) {
		struct redact r = {0};
		struct buf text, out;
		size_t from, to;

		buf_init(&text, 4096);
		buf_init(&out, 4096);
		CHECK_EQ(redact_add(&r, value, strlen(value)), 0);
		redact_form_write(&text, (const uint8_t *)value, strlen(value), FORM_BASE64, &any,
				  &from, &to);
		redact_pass(&r, buf_data(&text), buf_len(&text), &any, &out);
		for (size_t i = from; i < to; i++)
			CHECK(buf_data(&out)[i] == '*');
		redact_done(&r);
		buf_done(&text);
		buf_done(&out);
	}
}

/* What has nothing of it comes through as it was, whatever it looks like. */
TEST(other_texts_stay)
{
	static const char *const letters[] = {
		"0123456789abcdef",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\n",
		"%0123456789abcdef",
		"\\u00123456789abcdef\"n",
		"&#x0123456789;ampltgq",
		"de4711-coy "};
	struct redact r = {0};
	struct buf text, out;

	CHECK_EQ(redact_add(&r, "decoy-4711-decoy", 16), 0);
	for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
		buf_init(&text, 1 << 20);
		buf_init(&out, 1 << 20);
		for (unsigned k = 0; k < 80000; k++)
			CHECK_EQ(buf_append(&text,
					    letters[i] + number((unsigned)strlen(letters[i])), 1),
				 0);
		redact_pass(&r, buf_data(&text), buf_len(&text), NULL, &out);
		check_same(&text, &out);
		buf_done(&text);
		buf_done(&out);
	}
	redact_done(&r);
}

TEST(nothing_and_much)
{
	uint8_t *big = malloc(65536), *text = malloc(1 << 20);
	struct redact r = {0};

	CHECK(big && text);
	CHECK_EQ(redact_add(&r, "", 0), 0);
	CHECK_EQ(r.count, 0);
	redact_done(&r);
	memset(big, 'a', 65536);
	CHECK_EQ(redact_add(&r, big, 65536), 0);
	/* Every place is nearly the whole value: the work is bounded, and nothing gets through. */
	memset(text, 'a', 1 << 20);
	redact_whole(&r, text, 1 << 20);
	for (size_t i = 0; i < 1 << 19; i++)
		CHECK(text[i] == '*');
	redact_done(&r);
	redact_done(&r);
	free(big);
	free(text);
}

/* What waits is the same for all values of about a length. */
TEST(hold)
{
	CHECK_EQ(redact_hold(0), 0);
	CHECK_EQ(redact_hold(1), redact_hold(64));
	CHECK_EQ(redact_hold(65), redact_hold(128));
	CHECK(redact_hold(64) < redact_hold(65));
	CHECK(redact_hold(DOOR_SECRET_MAX / 3 * 4) + DOOR_BUFFER_MAX < REDACT_HELD_MAX);
}

/* A whole line goes at once, unless it could be one of wrapped base64. */
TEST(lines)
{
	static const struct {
		const char *text;
		bool waits;
	} lines[] = {{"data: {\"a\": 1}\n", false},    {"some words, and a word\n", false},
		     {"c2VzYW1lMTIzc2VzYW1l\n", true}, {"c2VzYW1lMTIzc2VzYW1l\r\n", true},
		     {"73 65 73 61 6d 65 31\n", true}, {"no line end", true}};
	struct redact r = {0};

	CHECK_EQ(redact_add(&r, "sesame123", 9), 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct redact_stream s = {0};
		uint8_t text[64];
		size_t n = strlen(lines[i].text);

		memcpy(text, lines[i].text, n);
		CHECK_EQ(redact_part(&r, &s, text, n, true), lines[i].waits ? 0 : n);
	}
	redact_done(&r);
}
