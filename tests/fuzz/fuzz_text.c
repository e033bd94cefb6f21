/*
 * Text helpers over any bytes: escaping leaves nothing that could break a line, JSON strings are
 * ASCII-safe and closed, paths normalise once and for all, names and numbers agree with themselves.
 */
#include "fuzz.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"

static void check_escape(const uint8_t *p, size_t n)
{
	struct buf b;

	buf_init(&b, 4 * n + 1);
	MUST(str_escape(&b, (const char *)p, n) == 0);
	for (size_t i = 0; i < buf_len(&b);) {
		const uint8_t *at = buf_data(&b) + i;
		uint32_t rune;
		size_t len = str_utf8(at, buf_len(&b) - i, &rune);

		MUST(len > 0 && rune >= 0x20 && !(rune >= 0x7f && rune < 0xa0));
		MUST(rune != '"');
		/* A backslash always has its second half, so a quote never stands alone. */
		if (rune == '\\') {
			MUST(i + 1 < buf_len(&b) && strchr("nrtx\\\"", at[1]));
			len = 2;
		}
		i += len;
	}
	buf_done(&b);
}

static void check_json(const uint8_t *p, size_t n)
{
	struct json j;
	struct buf b;

	buf_init(&b, 6 * n + 64);
	json_init(&j, &b);
	json_strn(&j, (const char *)p, n);
	MUST(j.error == 0 && buf_len(&b) >= 2);
	for (size_t i = 1; i + 1 < buf_len(&b);) {
		const uint8_t *at = buf_data(&b) + i;
		uint32_t rune;
		size_t len = str_utf8(at, buf_len(&b) - 1 - i, &rune);

		MUST(len > 0 && rune >= 0x20 && rune != '"');
		if (rune == '\\') {
			MUST(i + 2 < buf_len(&b) && strchr("nrtu\\\"", at[1]));
			len = 2;
		}
		i += len;
	}
	buf_clear(&b);
	json_init(&j, &b);
	json_base64(&j, p, n);
	MUST(j.error == 0);
	buf_done(&b);
}

static void check_path(const char *text)
{
	char once[BOX_PATH_MAX], twice[BOX_PATH_MAX];

	if (path_normalize(once, sizeof(once), text)) {
		MUST(path_is_absolute(once));
		MUST(path_normalize(twice, sizeof(twice), once) && strcmp(once, twice) == 0);
		MUST(strcmp(once, "/") == 0 || path_is_safe_relative(once + 1));
	}
	if (path_is_safe_relative(text) && path_join(once, sizeof(once), "/root", text)) {
		MUST(path_normalize(twice, sizeof(twice), once) && strcmp(once, twice) == 0);
		MUST(str_starts(twice, "/root/"));
	}
}

static void check_parsers(const char *text)
{
	uint64_t v;

	if (str_parse_u64(text, UINT64_MAX, &v)) {
		uint64_t again;

		MUST(str_parse_u64(text, v, &again) && again == v);
		MUST(v == 0 || !str_parse_u64(text, v - 1, &again));
	}
	if (str_parse_ms(text, &v))
		MUST(text[0] >= '0' && text[0] <= '9');
	if (str_is_name(text, BOX_NAME_MAX))
		MUST(path_is_safe_relative(text));
	MUST(str_parse_signal(text) >= 0 && str_parse_signal(text) <= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});

	check_escape(p, n);
	check_json(p, n);
	check_path(text);
	check_parsers(text);
	free(text);
	return 0;
}
