/* Envelopes of the Connect protocol, read in every cut, and written. */
#include "tap.h"

#include "base/err.h"
#include "http/envelope.h"
#include "http_script.h"

enum { MAX = 16, RANDOM_CUTS = 30 };

static const char *const kinds[ERR_KIND_COUNT] = {
	[ERR_PROTOCOL] = "protocol",
	[ERR_LIMIT] = "limit",
	[ERR_UNSUPPORTED] = "unsupported",
};

static void feed(struct envelope_reader *r, const uint8_t *p, size_t n, struct buf *said, int *ret)
{
	uint8_t *exact = malloc(n ? n : 1);
	struct envelope message;
	struct err e = {0};
	size_t at = 0, used;

	memcpy(exact, p, n);
	do {
		*ret = envelope_feed(r, exact + at, n - at, &used, &message, &e);
		if (*ret == 1) {
			CHECK_EQ(buf_append_str(said, message.is_end ? "end<" : "<"), 0);
			CHECK_EQ(buf_append(said, message.data, message.len), 0);
			CHECK_EQ(buf_append_str(said, ">"), 0);
		}
		at += *ret >= 0 ? used : 0;
		CHECK(*ret != 0 || at == n);
	} while (*ret == 1);
	if (*ret < 0) {
		CHECK(kinds[e.kind] && e.msg[0]);
		CHECK_EQ(buf_append_str(said, kinds[e.kind]), 0);
	}
	free(exact);
}

static void check_bytes(const char *in, size_t n, const char *want)
{
	for (uint64_t cuts = 0; cuts <= SCRIPT_BYTES + RANDOM_CUTS; cuts++) {
		struct envelope_reader r;
		struct buf said;
		uint64_t state = cuts;
		int got = 0;

		buf_init(&said, 4096);
		envelope_reader_init(&r, MAX);
		for (size_t at = 0, take; at < n && got == 0; at += take) {
			take = cuts == SCRIPT_WHOLE   ? n
			       : cuts == SCRIPT_BYTES ? 1
						      : 1 + http_script_random(&state) % 9;
			take = take < n - at ? take : n - at;
			feed(&r, (const uint8_t *)in + at, take, &said, &got);
		}
		if (got == 0)
			CHECK_EQ(buf_append_str(&said, envelope_close(&r, NULL) == 0 ? "." : "cut"),
				 0);
		CHECK_STR(buf_cstr(&said), want);
		envelope_reader_done(&r);
		buf_done(&said);
	}
}

#define check(in, want) check_bytes(in, sizeof(in) - 1, want)

TEST(messages)
{
	check("", ".");
	check("\0\0\0\0\2{}", "<{}>.");
	check("\0\0\0\0\0", "<>.");
	check("\0\0\0\0\0\0\0\0\0\3abc\0\0\0\0\0", "<><abc><>.");
	check("\0\0\0\0\1a\2\0\0\0\2{}", "<a>end<{}>.");
	check("\2\0\0\0\0", "end<>.");
	check("\0\0\0\0\x10"
	      "0123456789abcdef",
	      "<0123456789abcdef>.");
}

TEST(cut)
{
	check("\0", "cut");
	check("\0\0\0\0", "cut");
	check("\0\0\0\0\1", "cut");
	check("\0\0\0\0\2{", "cut");
	check("\0\0\0\0\1a\2", "<a>cut");
}

TEST(refused)
{
	check("\0\0\0\0\x11", "limit");
	check("\0\0\0\1\0", "limit");
	check("\0\xff\xff\xff\xff", "limit");
	check("\0\0\0\0\1a\2\x80\0\0\0", "<a>limit");
	check("\1\0\0\0\1a", "unsupported");
	check("\3\0\0\0\1a", "unsupported");
	check("\1\xff\xff\xff\xff", "unsupported");
	check("\4\0\0\0\0", "protocol");
	check("\x80\0\0\0\0", "protocol");
	check("\5\0\0\0\0", "protocol");
	check("\2\0\0\0\2{}\0", "end<{}>protocol");
	check("\2\0\0\0\0\2\0\0\0\0", "end<>protocol");
	check("{\"process\":{}}", "protocol");
}

/* A length costs nothing until the bytes come. */
TEST(memory_follows_bytes)
{
	struct envelope_reader r;
	struct envelope message;
	size_t used;

	envelope_reader_init(&r, UINT32_MAX);
	CHECK_EQ(envelope_feed(&r, "\0\xff\xff\xff\xffx", 6, &used, &message, NULL), 0);
	CHECK(used == 6 && r.message.cap < 4096);
	envelope_reader_done(&r);
}

TEST(written)
{
	struct buf out;

	buf_init(&out, 5 + 2 + 5);
	CHECK_EQ(envelope_write(&out, false, "{}", 2), 0);
	CHECK_EQ(envelope_write(&out, true, "x", 1), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 7);
	CHECK_EQ(envelope_write(&out, true, NULL, 0), 0);
	CHECK_EQ(buf_len(&out), 12);
	CHECK_MEM(buf_data(&out), "\0\0\0\0\2{}\2\0\0\0\0", 12);
	CHECK_EQ(envelope_write(&out, false, "x", (size_t)UINT32_MAX + 1), -EMSGSIZE);
	CHECK_EQ(envelope_write(&out, false, "x", UINT32_MAX), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 12);
	buf_done(&out);
}

TAP_MAIN
