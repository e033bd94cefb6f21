/*
 * Responses to each kind of request. However the bytes are cut, the same is understood; a head that
 * was written again is understood as the same.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/http.h"

enum { SAID_MAX = 8 << 20, BYTEWISE_MAX = 512 };

static void same_in_cuts(const uint8_t *p, size_t n, const char *method, uint64_t seed)
{
	struct buf whole, cut;

	buf_init(&whole, SAID_MAX);
	http_script(p, n, method, SCRIPT_WHOLE, &whole);
	for (int i = 0; i < 3; i++) {
		buf_init(&cut, SAID_MAX);
		http_script(p, n, method, i == 0 && n <= BYTEWISE_MAX ? SCRIPT_BYTES : seed + 2 + i,
			    &cut);
		must_equal(&whole, &cut);
		buf_done(&cut);
	}
	buf_done(&whole);
}

static void same_when_written(const uint8_t *p, size_t n)
{
	struct http_head h, again;
	struct buf out;
	size_t used;

	if (http_response_parse(&h, p, n, HTTP_TEST_LIMITS, false, &used, NULL) != 1)
		return;
	buf_init(&out, SAID_MAX);
	MUST(http_head_write(&h, &out) == 0);
	MUST(http_response_parse(&again, buf_data(&out), buf_len(&out), HTTP_TEST_LIMITS, false,
				 &used, NULL) == 1);
	MUST(used == buf_len(&out) && h.status == again.status && again.minor == 1);
	MUST(strcmp(h.reason, again.reason) == 0 && h.field_count == again.field_count);
	for (size_t i = 0; i < h.field_count; i++) {
		MUST(strcmp(h.fields[i].name, again.fields[i].name) == 0);
		MUST(strcmp(h.fields[i].value, again.fields[i].value) == 0);
	}
	http_head_done(&h);
	http_head_done(&again);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const methods[] = {"GET", "HEAD", "CONNECT", "POST"};
	struct input in = {p, n};
	uint8_t seed = input_byte(&in);

	if (in.n == 0)
		return 0;
	same_in_cuts(in.p, in.n, methods[seed % 4], seed);
	same_when_written(in.p, in.n);
	return 0;
}
