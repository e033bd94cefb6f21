/*
 * Envelopes. However the bytes are cut, the same messages come and the same refusal; and what came
 * is, written again, what was read.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/envelope.h"

#include <errno.h>

enum { ROOM = 8 << 20, MESSAGE_MAX = 300 };

/* Appends the messages to said as they are written; returns the refusal, or 0. *ret_good is how
 * many bytes they had. */
static int read_all(struct input in, uint64_t seed, struct buf *said, size_t *ret_good,
		    enum err_kind *ret_kind)
{
	struct envelope_reader r;
	struct envelope message;
	uint64_t state = seed + 1;
	struct err e = {0};
	size_t used, take, at = 0;
	int x = 0;

	envelope_reader_init(&r, MESSAGE_MAX);
	*ret_good = 0;
	while (at < in.n && x >= 0) {
		take = seed ? http_script_random(&state) % 24 : in.n;
		take = take < in.n - at ? take : in.n - at;
		x = envelope_feed(&r, in.p + at, take, &used, &message, &e);
		if (x < 0)
			break;
		MUST(used <= take && (x == 1 || used == take));
		at += used;
		if (x == 1) {
			MUST(message.len <= MESSAGE_MAX);
			MUST(envelope_write(said, message.is_end, message.data, message.len) == 0);
			*ret_good = at;
		}
	}
	if (x >= 0)
		MUST((envelope_close(&r, NULL) == 0) == (*ret_good == in.n));
	envelope_reader_done(&r);
	*ret_kind = e.kind;
	return x < 0 ? x : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);
	enum err_kind kind, cut_kind;
	size_t good, cut_good;
	struct buf said, cut;
	int r;

	buf_init(&said, ROOM);
	r = read_all(in, 0, &said, &good, &kind);
	MUST(good == buf_len(&said) && (good == 0 || memcmp(buf_data(&said), in.p, good) == 0));
	for (uint64_t seed = 1; seed < 4; seed++) {
		buf_init(&cut, ROOM);
		MUST(read_all(in, seed + how, &cut, &cut_good, &cut_kind) == r);
		MUST(cut_good == good && cut_kind == kind);
		must_equal(&said, &cut);
		buf_done(&cut);
	}
	buf_done(&said);
	return 0;
}
