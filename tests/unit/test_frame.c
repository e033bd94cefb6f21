/* Frames: round trips, every cut, every broken rule. */
#include "tap.h"

#include "wire/frame.h"

#include "base/limits.h"

/* Feeds bytes in pieces and writes down what came out. */
static void run(const uint8_t *p, size_t n, size_t piece, struct buf *log)
{
	struct wire_decoder d;
	struct wire_frame f;
	int r = 0;

	wire_decoder_init(&d);
	while (r >= 0) {
		size_t room = 0, now;
		uint8_t *at;

		while ((r = wire_decoder_next(&d, &f)) > 0) {
			CHECK_EQ(buf_printf(log, "%d.%d.%u.%u:", f.type, f.stream, f.id, f.len), 0);
			CHECK_EQ(buf_append(log, f.payload, f.len), 0);
		}
		if (r < 0 || n == 0)
			break;
		at = wire_decoder_space(&d, &room);
		CHECK(at && room >= WIRE_HEADER);
		now = n < piece ? n : piece;
		now = now < room ? now : room;
		memcpy(at, p, now);
		wire_decoder_fill(&d, now);
		p += now;
		n -= now;
	}
	if (r < 0) {
		size_t room;

		CHECK_EQ(wire_decoder_next(&d, &f), -EBADMSG);
		CHECK(wire_decoder_space(&d, &room) == NULL);
	}
	CHECK_EQ(buf_printf(log, "=%d", r), 0);
	wire_decoder_done(&d);
}

TEST(cuts_do_not_matter)
{
	static uint8_t big[WIRE_DATA_MAX];
	struct buf b, want, got;

	buf_init(&b, 1 << 20);
	buf_init(&want, 1 << 20);
	memset(big, 'd', sizeof(big));
	CHECK_EQ(wire_encode(&b, WIRE_HELLO, 0, 0, "hi", 2), 0);
	CHECK_EQ(wire_encode(&b, WIRE_OK, 0, 0xffffffff, NULL, 0), 0);
	CHECK_EQ(wire_encode(&b, WIRE_DATA, WIRE_STDERR, 7, big, sizeof(big)), 0);
	CHECK_EQ(wire_encode(&b, WIRE_EOF, WIRE_STDERR, 7, NULL, 0), 0);
	run(buf_data(&b), buf_len(&b), SIZE_MAX, &want);
	CHECK(strstr(buf_cstr(&want), "1.0.0.2:hi3.0.4294967295.0:5.2.7.65536:d"));
	for (size_t piece = 1; piece < 200; piece += 7) {
		buf_init(&got, 1 << 20);
		run(buf_data(&b), buf_len(&b), piece, &got);
		CHECK_EQ(buf_len(&got), buf_len(&want));
		CHECK_MEM(buf_data(&got), buf_data(&want), buf_len(&want));
		buf_done(&got);
	}
	buf_done(&b);
	buf_done(&want);
}

static int verdict(const uint8_t header[WIRE_HEADER])
{
	struct wire_decoder d;
	struct wire_frame f;
	size_t room;
	int r;

	wire_decoder_init(&d);
	memcpy(wire_decoder_space(&d, &room), header, WIRE_HEADER);
	wire_decoder_fill(&d, WIRE_HEADER);
	r = wire_decoder_next(&d, &f);
	wire_decoder_done(&d);
	return r;
}

TEST(broken_rules)
{
	/* len, type, stream, zero, id */
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, WIRE_OK, 0, 0, 0, 1, 0, 0, 0}), 1);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	/* A type that is not known is somebody else's newer one, and as bounded as the others. */
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, WIRE_TYPE_COUNT, 0, 0, 0, 1, 0, 0, 0}), 1);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, 255, 0, 0, 0, 1, 0, 0, 0}), 1);
	CHECK_EQ(verdict((uint8_t[]){1, 0, 16, 0, 255, 0, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, 255, 3, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, WIRE_OK, 3, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, WIRE_OK, 0, 1, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 0, 0, WIRE_OK, 0, 0, 1, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 1, 0, WIRE_DATA, 0, 0, 0, 1, 0, 0, 0}), 0);
	CHECK_EQ(verdict((uint8_t[]){1, 0, 1, 0, WIRE_DATA, 0, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){0, 0, 16, 0, WIRE_EXEC, 0, 0, 0, 1, 0, 0, 0}), 0);
	CHECK_EQ(verdict((uint8_t[]){1, 0, 16, 0, WIRE_EXEC, 0, 0, 0, 1, 0, 0, 0}), -EBADMSG);
	CHECK_EQ(verdict((uint8_t[]){255, 255, 255, 255, WIRE_EXEC, 0, 0, 0, 1, 0, 0, 0}),
		 -EBADMSG);
}

TEST(the_largest_frame_passes)
{
	char *p = calloc(1, WIRE_CONTROL_MAX + 1);
	struct buf b, log;

	buf_init(&b, 4 << 20);
	buf_init(&log, 4 << 20);
	CHECK_EQ(wire_encode(&b, WIRE_EXEC, 0, 1, p, WIRE_CONTROL_MAX + 1), -EMSGSIZE);
	CHECK_EQ(wire_encode(&b, WIRE_DATA, 0, 1, p, WIRE_DATA_MAX + 1), -EMSGSIZE);
	CHECK_EQ(buf_len(&b), 0);
	CHECK_EQ(wire_encode(&b, WIRE_EXEC, 0, 1, p, WIRE_CONTROL_MAX), 0);
	CHECK_EQ(wire_encode(&b, WIRE_OK, 0, 2, NULL, 0), 0);
	run(buf_data(&b), buf_len(&b), 5000, &log);
	CHECK_EQ(memcmp(buf_data(&log) + buf_len(&log) - 10, "3.0.2.0:=0", 10), 0);
	buf_done(&b);
	buf_done(&log);
	free(p);
}

TEST(encode_in_place)
{
	struct buf b, log;
	size_t at;

	buf_init(&b, 2 << 20);
	buf_init(&log, 1 << 20);
	CHECK_EQ(wire_encode(&b, WIRE_OK, 0, 9, NULL, 0), 0);
	CHECK_EQ(wire_encode_begin(&b, &at), 0);
	CHECK_EQ(buf_append(&b, "abc", 3), 0);
	CHECK_EQ(wire_encode_end(&b, at, WIRE_DATA, 1, 5), 0);
	CHECK_EQ(wire_encode_begin(&b, &at), 0);
	CHECK(buf_reserve(&b, WIRE_DATA_MAX + 1) != NULL);
	memset(buf_reserve(&b, WIRE_DATA_MAX + 1), 0, WIRE_DATA_MAX + 1);
	buf_commit(&b, WIRE_DATA_MAX + 1);
	CHECK_EQ(wire_encode_end(&b, at, WIRE_DATA, 1, 6), -EMSGSIZE);
	run(buf_data(&b), buf_len(&b), SIZE_MAX, &log);
	CHECK_STR(buf_cstr(&log), "3.0.9.0:5.1.5.3:abc=0");
	buf_done(&b);
	buf_done(&log);
}

TEST(a_full_buffer_is_left_as_it_was)
{
	struct buf b;
	size_t at;

	buf_init(&b, 20);
	CHECK_EQ(wire_encode(&b, WIRE_OK, 0, 1, NULL, 0), 0);
	CHECK_EQ(wire_encode(&b, WIRE_OK, 0, 2, NULL, 0), -ENOBUFS);
	CHECK_EQ(wire_encode_begin(&b, &at), -ENOBUFS);
	CHECK_EQ(buf_len(&b), WIRE_HEADER);
	buf_done(&b);
}

TAP_MAIN
