/* A client's first TLS message: the name in it, and everything that must not pass for one. */
#include "hello_make.h"
#include "tap.h"

#include "base/limits.h"
#include "door/hello.h"

static struct buf b;
static struct hello h;

static int parse(void)
{
	return hello_parse(&h, buf_data(&b), buf_len(&b));
}

static uint8_t *at(size_t i)
{
	return b.data + b.start + i;
}

TEST(the_name_is_found_in_lower_case_whatever_the_records)
{
	for (size_t record = 0; record < 90; record++) {
		hello_make(&b, "API.Example.com", 0, record);
		CHECK_EQ(parse(), 1);
		CHECK_STR(h.sni, "api.example.com");
		CHECK(!h.has_ech && !h.has_alpn);
	}
	hello_make(&b, NULL, 1, 0);
	CHECK_EQ(parse(), 1);
	CHECK_STR(h.sni, "");
	CHECK(h.has_ech);
	buf_done(&b);
}

TEST(half_a_hello_needs_more_and_what_follows_it_does_not_matter)
{
	hello_make(&b, "a.test", 0, 11);
	for (size_t i = 0; i < buf_len(&b); i++)
		CHECK_EQ(hello_parse(&h, buf_data(&b), i), 0);
	CHECK_EQ(buf_append(&b, "\x17\3\3\0\1x", 6), 0);
	CHECK_EQ(parse(), 1);
	CHECK_STR(h.sni, "a.test");
	buf_done(&b);
}

TEST(what_is_not_tls_is_said_at_once)
{
	CHECK_EQ(hello_parse(&h, "GET / HTTP/1.1\r\n", 16), -EPROTO);
	CHECK_EQ(hello_parse(&h, "\x80\x2e\2", 3), -EPROTO);
	CHECK_EQ(hello_parse(&h, "\x16\4", 2), -EPROTO);
	CHECK_EQ(hello_parse(&h, "\x13\3", 2), -EPROTO);
	CHECK_EQ(hello_parse(&h, "\x19\3", 2), -EPROTO);
	CHECK_EQ(hello_parse(&h, "\x16", 1), 0);
	CHECK_EQ(hello_parse(&h, "", 0), 0);
}

TEST(whatever_version_a_record_names_its_hello_is_looked_at)
{
	for (unsigned minor = 0; minor < 256; minor++) {
		hello_make(&b, "a.test", 0, 30);
		*at(2) = (uint8_t)minor;
		*at(37) = (uint8_t)(255 - minor);
		CHECK_EQ(parse(), 1);
		CHECK_STR(h.sni, "a.test");
	}
	buf_done(&b);
}

TEST(tls_that_begins_with_no_hello_is_broken)
{
	for (unsigned type = 20; type <= 24; type++) {
		uint8_t p[] = {(uint8_t)type, 3, 9, 0, 2, 2, 0};

		CHECK_EQ(hello_parse(&h, p, 1), 0);
		CHECK_EQ(hello_parse(&h, p, 2), type == 22 ? 0 : -EBADMSG);
		CHECK_EQ(hello_parse(&h, p, sizeof(p)), -EBADMSG);
	}
}

TEST(a_hello_in_the_form_of_ssl_2_is_broken)
{
	CHECK_EQ(hello_parse(&h, "\x80", 1), 0);
	CHECK_EQ(hello_parse(&h, "\x80\x2e", 2), 0);
	CHECK_EQ(hello_parse(&h, "\x80\x2e\1", 3), -EBADMSG);
	CHECK_EQ(hello_parse(&h, "\x80\x2e\1\3\1", 5), -EBADMSG);
	CHECK_EQ(hello_parse(&h, "\xff\xff\1\0\2", 5), -EBADMSG);
}

TEST(a_name_that_could_be_read_in_two_ways_is_broken)
{
	static const char odd[] = {0, ' ', '\n', 127, (char)0xc3};
	/* The name is the last thing in the message. */
	for (size_t i = 0; i < sizeof(odd); i++) {
		hello_make(&b, "a.test", 0, 0);
		*at(buf_len(&b) - 3) = (uint8_t)odd[i];
		CHECK_EQ(parse(), -EBADMSG);
	}
	/* An empty name; one that is longer than its list; another kind of name. */
	hello_make(&b, "", 0, 0);
	CHECK_EQ(parse(), -EBADMSG);
	hello_make(&b, "a.test", 0, 0);
	*at(buf_len(&b) - 7) += 1;
	CHECK_EQ(parse(), -EBADMSG);
	hello_make(&b, "a.test", 0, 0);
	*at(buf_len(&b) - 9) = 1;
	CHECK_EQ(parse(), -EBADMSG);
	buf_done(&b);
}

TEST(odd_records_are_broken)
{
	hello_make(&b, "a.test", 0, 0);
	/* Not a ClientHello. */
	*at(5) = 2;
	CHECK_EQ(parse(), -EBADMSG);
	/* One byte more in the record than in the message. */
	hello_make(&b, "a.test", 0, 0);
	*at(4) += 1;
	CHECK_EQ(parse(), -EBADMSG);
	/* Another kind of record in the middle. */
	hello_make(&b, "a.test", 0, 20);
	*at(25) = 23;
	CHECK_EQ(parse(), -EBADMSG);
	/* A record with nothing in it, and one that is too long. */
	CHECK_EQ(hello_parse(&h, "\x16\3\1\0\0", 5), -EBADMSG);
	CHECK_EQ(hello_parse(&h, "\x16\3\1\x40\1", 5), -EBADMSG);
	/* A message that cannot fit. */
	CHECK_EQ(hello_parse(&h, "\x16\3\1\1\0\1\0\xff\xff", 9), -EBADMSG);
	buf_done(&b);
}

TEST(one_byte_per_record_is_refused_at_the_limit)
{
	static uint8_t p[DOOR_HELLO_MAX];

	for (size_t i = 0; i + 6 <= sizeof(p); i += 6)
		memcpy(p + i, "\x16\3\1\0\1\0", 6);
	p[5] = 1;
	p[17] = 0x3f; /* the length's middle byte: 16,128 bytes to come */
	CHECK_EQ(hello_parse(&h, p, sizeof(p) - 4), 0);
	CHECK_EQ(hello_parse(&h, p, sizeof(p)), -EBADMSG);
}

TAP_MAIN
