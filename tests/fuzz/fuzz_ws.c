/*
 * WebSocket frames, in both directions. What passes is what came, a piece of it at most held back;
 * cuts, and how much room the output has, do not change what passes or the verdict.
 */
#include "fuzz.h"

#include "../unit/http_script.h"
#include "http/ws.h"

#include <errno.h>

enum { OUT_MIN = 14 };

static int relay(struct ws_relay *w, struct input in, uint64_t seed, struct buf *all)
{
	uint64_t state = seed + 1;
	size_t used, take;
	struct buf out;
	int r = 0;

	buf_init(&out, seed ? OUT_MIN + seed % 50 : in.n + OUT_MIN);
	do {
		take = seed ? http_script_random(&state) % 24 : in.n;
		take = take < in.n ? take : in.n;
		r = ws_relay_feed(w, in.p, take, &used, &out, NULL);
		MUST(r < 0 || used <= take);
		if (buf_len(&out) > 0)
			MUST(buf_append(all, buf_data(&out), buf_len(&out)) == 0);
		/* Without bytes left it goes on until nothing waits any more. */
		if (r < 0 || (in.n == 0 && buf_len(&out) == 0))
			break;
		buf_clear(&out);
		in.p += used;
		in.n -= used;
	} while (true);
	buf_done(&out);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);
	struct buf whole, cut;
	struct ws_relay w;
	int r;

	if (in.n == 0)
		return 0;
	buf_init(&whole, n + OUT_MIN);
	ws_relay_init(&w, how & 1, how & 2);
	r = relay(&w, in, 0, &whole);
	MUST(r == 0 || r == -EBADMSG);
	MUST(buf_len(&whole) <= in.n);
	MUST(buf_len(&whole) == 0 || memcmp(buf_data(&whole), in.p, buf_len(&whole)) == 0);
	if (r == 0)
		MUST(in.n - buf_len(&whole) == w.have);
	for (uint64_t seed = 1; seed < 4; seed++) {
		buf_init(&cut, n + OUT_MIN);
		ws_relay_init(&w, how & 1, how & 2);
		MUST(relay(&w, in, seed + how, &cut) == r);
		must_equal(&whole, &cut);
		buf_done(&cut);
	}
	buf_done(&whole);
	return 0;
}
