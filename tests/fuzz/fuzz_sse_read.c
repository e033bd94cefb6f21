/*
 * Server-sent events as a client reads them: however the bytes are cut, the same events come; and
 * those that are read are written again as what reads the same.
 */
#include "fuzz.h"

#include "http/sse_read.h"

enum { ROOM = 16 << 20, EVENT_ROOM = 256 };

static int read_as(struct input in, size_t step, struct buf *said, struct buf *again)
{
	struct sse_reader s;
	int r = 0;

	sse_reader_init(&s, EVENT_ROOM);
	while (in.n > 0 && r >= 0) {
		struct sse_event event;
		size_t used;

		r = sse_reader_feed(&s, in.p, in.n < step ? in.n : step, &used, &event, NULL);
		MUST(used <= in.n && (r > 0 || used > 0 || r < 0));
		in.p += used;
		in.n -= used;
		if (r <= 0)
			continue;
		MUST(event.len <= EVENT_ROOM);
		MUST(buf_printf(said, "%s|%s|", event.name ? event.name : "",
				event.id ? event.id : "") == 0 &&
		     buf_append(said, event.data, event.len) == 0 && buf_append(said, ";", 1) == 0);
		(void)sse_event_write(again, &event);
	}
	sse_reader_done(&s);
	MUST(buf_printf(said, "%s", r < 0 ? "refused" : ".") == 0);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct buf said, cut, again, third;

	buf_init(&said, ROOM);
	buf_init(&cut, ROOM);
	buf_init(&again, ROOM);
	buf_init(&third, ROOM);
	(void)read_as((struct input){p, n}, SIZE_MAX, &said, &again);
	(void)read_as((struct input){p, n}, 1 + n % 7, &cut, &third);
	must_equal(&said, &cut);
	buf_clear(&cut);
	MUST(read_as((struct input){buf_data(&again), buf_len(&again)}, 3, &cut, &third) >= 0);
	buf_done(&said);
	buf_done(&cut);
	buf_done(&again);
	buf_done(&third);
	return 0;
}
