/* Frames: how the bytes are cut changes nothing, and what came out encodes to what went in. */
#include "fuzz.h"

#include "base/limits.h"
#include "wire/frame.h"

/* Decodes in pieces, re-encodes every frame into out, and returns the verdict. */
static int decode(const uint8_t *p, size_t n, size_t piece, struct buf *out)
{
	struct wire_decoder d;
	struct wire_frame f;
	int r;

	wire_decoder_init(&d);
	for (;;) {
		size_t room = 0, now;
		uint8_t *at;

		while ((r = wire_decoder_next(&d, &f)) > 0)
			MUST(wire_encode(out, f.type, f.stream, f.id, f.payload, f.len) == 0);
		if (r < 0 || n == 0)
			break;
		at = wire_decoder_space(&d, &room);
		MUST(at && room >= WIRE_HEADER);
		now = n < piece ? n : piece;
		now = now < room ? now : room;
		memcpy(at, p, now);
		wire_decoder_fill(&d, now);
		p += now;
		n -= now;
	}
	if (r < 0)
		MUST(wire_decoder_next(&d, &f) == r);
	wire_decoder_done(&d);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf whole, cut;
	size_t piece = n > 0 ? 1u + p[0] % 61u : 1;
	int r;

	buf_init(&whole, n + 1);
	buf_init(&cut, n + 1);
	r = decode(p, n, SIZE_MAX, &whole);
	MUST(r == decode(p, n, piece, &cut));
	must_equal(&whole, &cut);
	MUST(buf_len(&whole) <= n);
	MUST(buf_len(&whole) == 0 || memcmp(buf_data(&whole), p, buf_len(&whole)) == 0);
	buf_done(&whole);
	buf_done(&cut);
	return 0;
}
