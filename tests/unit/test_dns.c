/* DNS messages: questions, answers, and what is neither. */
#include "tap.h"

#include "base/dns.h"

#include <arpa/inet.h>

static struct dns_question ask(const char *name, uint16_t type)
{
	struct dns_question q = {.id = 0x1234, .type = type, .recursion = true};

	snprintf(q.name, sizeof(q.name), "%s", name);
	return q;
}

/* A message by hand. */
struct made {
	uint8_t p[DNS_MESSAGE_MAX];
	size_t n;
};

static void add(struct made *m, const void *p, size_t n)
{
	CHECK(m->n + n <= sizeof(m->p));
	memcpy(m->p + m->n, p, n);
	m->n += n;
}

static void add16(struct made *m, unsigned v)
{
	uint8_t b[2] = {(uint8_t)(v >> 8), (uint8_t)v};

	add(m, b, 2);
}

static void add_name(struct made *m, const char *s)
{
	while (*s) {
		size_t n = strcspn(s, ".");
		uint8_t len = (uint8_t)n;

		add(m, &len, 1);
		add(m, s, n);
		s += n + (s[n] == '.');
	}
	add(m, "", 1);
}

static void add_header(struct made *m, unsigned flags, unsigned answers)
{
	add16(m, 0x1234);
	add16(m, flags);
	add16(m, 1);
	add16(m, answers);
	add16(m, 0);
	add16(m, 0);
}

static void add_record(struct made *m, const char *name, unsigned type, unsigned ttl)
{
	add_name(m, name);
	add16(m, type);
	add16(m, 1);
	add16(m, 0);
	add16(m, ttl);
}

static void add_a(struct made *m, const char *name, unsigned ttl, const char *addr)
{
	uint8_t b[4];

	CHECK_EQ(inet_pton(AF_INET, addr, b), 1);
	add_record(m, name, DNS_A, ttl);
	add16(m, 4);
	add(m, b, 4);
}

static void add_cname(struct made *m, const char *name, unsigned ttl, const char *target)
{
	add_record(m, name, DNS_CNAME, ttl);
	add16(m, (unsigned)strlen(target) + 2);
	add_name(m, target);
}

static void start_answer(struct made *m, const char *name, unsigned flags, unsigned answers)
{
	m->n = 0;
	add_header(m, flags, answers);
	add_name(m, name);
	add16(m, DNS_A);
	add16(m, 1);
}

TEST(a_question_there_and_back)
{
	static const char *const names[] = {"", "a", "example.com", "_srv.x-y.z0", "xn--abc.de"};
	struct dns_question q, got;
	uint8_t out[512];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		for (int edns = 0; edns < 2; edns++) {
			int n;

			q = ask(names[i], DNS_AAAA);
			q.edns = edns;
			n = dns_question_format(&q, out, sizeof(out));
			CHECK(n > 0);
			CHECK_EQ(dns_question_parse(&got, out, (size_t)n), 0);
			CHECK_STR(got.name, names[i]);
			CHECK_EQ(got.type, DNS_AAAA);
			CHECK_EQ(got.id, 0x1234);
			CHECK(got.recursion && got.edns == (bool)edns);
			for (int cut = 0; cut < n; cut++)
				CHECK(dns_question_parse(&got, out, (size_t)cut) < 0);
			out[n] = 0;
			CHECK_EQ(dns_question_parse(&got, out, (size_t)n + 1), -EINVAL);
			CHECK_EQ(dns_question_format(&q, out, (size_t)n), n);
			CHECK_EQ(dns_question_format(&q, out, (size_t)n - 1), -ENOBUFS);
		}
}

TEST(names_come_in_lower_case)
{
	struct dns_question q = ask("ExAmPlE.Com", DNS_A), got;
	uint8_t out[512];
	int n = dns_question_format(&q, out, sizeof(out));

	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), 0);
	CHECK_STR(got.name, "example.com");
	out[13] = 'X';
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), 0);
	CHECK_STR(got.name, "xxample.com");
}

TEST(what_is_no_name_is_not_asked)
{
	char label[80], name[300] = "";
	struct dns_question q;
	uint8_t out[512];
	static const char *const bad[] = {".",	  "a.",	 ".a",	"a..b",	    "a b",
					  "a\nb", "a/b", "a@b", "\xc3\xa9", "a\\b"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		q = ask(bad[i], DNS_A);
		CHECK_EQ(dns_question_format(&q, out, sizeof(out)), -EINVAL);
		CHECK_EQ(dns_answer_format(&q, DNS_OK, NULL, 0, 0, out, sizeof(out)), -EINVAL);
	}
	memset(label, 'a', 64);
	label[64] = 0;
	q = ask(label, DNS_A);
	CHECK_EQ(dns_question_format(&q, out, sizeof(out)), -EINVAL);
	q = ask(label + 1, DNS_A);
	CHECK(dns_question_format(&q, out, sizeof(out)) > 0);
	for (int i = 0; i < 126; i++)
		strcat(name, "a.");
	strcat(name, "b");
	CHECK_EQ(strlen(name), DNS_NAME_MAX);
	q = ask(name, DNS_A);
	CHECK_EQ(dns_question_format(&q, out, sizeof(out)), 12 + 255 + 4);
	memset(q.name, 'a', sizeof(q.name));
	CHECK_EQ(dns_question_format(&q, out, sizeof(out)), -EINVAL);
}

TEST(what_cannot_be_answered_and_what_can)
{
	struct dns_question q = ask("a.b", DNS_A), got;
	uint8_t out[64], back[64];
	int n = dns_question_format(&q, out, sizeof(out));

	CHECK_EQ(dns_question_parse(&got, out, 0), -EBADMSG);
	CHECK_EQ(dns_question_parse(&got, out, 11), -EBADMSG);
	out[2] |= 0x80; /* an answer: answering it could go on for ever */
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EBADMSG);
	out[2] = 0x28;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EOPNOTSUPP);
	CHECK_EQ(got.id, 0x1234);
	out[2] = 1;
	out[5] = 2;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	out[5] = 0;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	CHECK_EQ(dns_answer_format(&got, DNS_FORMERR, NULL, 0, 0, back, sizeof(back)), 12);
	CHECK_EQ(back[3] & 15, DNS_FORMERR);
	CHECK_EQ(back[5], 0);
	out[5] = 1;
	out[n - 1] = 3; /* class CHAOS */
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EOPNOTSUPP);
	out[n - 1] = 1;
	out[13] = '.'; /* a dot within a label would be another name as text */
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	out[13] = 0;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	out[12] = 0xc0; /* a name that points at itself, and into the header */
	out[13] = 12;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	out[13] = 0;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
	out[12] = 0x41;
	CHECK_EQ(dns_question_parse(&got, out, (size_t)n), -EINVAL);
}

TEST(an_answer_there_and_back)
{
	static const uint8_t addrs[DNS_ADDRS_MAX + 1][16] = {{198, 18, 0, 1}, {198, 18, 0, 2}};
	struct dns_question q = ask("some.host", DNS_A);
	struct dns_answer a;
	uint8_t out[DNS_MESSAGE_MAX];
	int n;

	for (size_t count = 0; count <= DNS_ADDRS_MAX; count++)
		for (int type = DNS_A; type <= DNS_AAAA; type += DNS_AAAA - DNS_A) {
			q.type = (uint16_t)type;
			q.edns = count % 2;
			n = dns_answer_format(&q, DNS_OK, addrs, count, 30, out, sizeof(out));
			CHECK(n > 0);
			CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), 0);
			CHECK_EQ(a.count, count);
			CHECK_EQ(a.ttl_s, count ? 30 : 0);
			for (size_t i = 0; i < count; i++)
				CHECK_MEM(a.addrs[i], addrs[i], 16);
			CHECK_EQ(
				dns_answer_format(&q, DNS_OK, addrs, count, 30, out, (size_t)n - 1),
				-ENOBUFS);
		}
	CHECK_EQ(dns_answer_format(&q, DNS_OK, addrs, DNS_ADDRS_MAX + 1, 30, out, sizeof(out)),
		 -ENOBUFS);
	q.type = 16;
	CHECK_EQ(dns_answer_format(&q, DNS_OK, addrs, 1, 30, out, sizeof(out)), -EINVAL);
}

/* RFC 2308: without an SOA record whoever remembers the answer chooses for how long. */
TEST(no_such_name_holds_for_as_long_as_it_says)
{
	/* Name: as in the question; SOA, IN, ttl 7, 22 bytes: root, root, five numbers. */
	static const uint8_t soa[] = {0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 7, 0, 22, 0, 0, 0, 0, 0,
				      1,    0,	0, 0, 1, 0, 0, 0, 1, 0, 0, 0,  1, 0, 0, 0, 7};
	struct dns_question q = ask("some.host", DNS_A);
	struct dns_answer a;
	uint8_t out[512];
	int plain = dns_answer_format(&q, DNS_OK, NULL, 0, 7, out, sizeof(out));
	int n = dns_answer_format(&q, DNS_NXDOMAIN, NULL, 0, 7, out, sizeof(out));

	CHECK_EQ(n, plain + (int)sizeof(soa));
	CHECK_EQ(out[9], 1); /* one record of authority */
	CHECK_MEM(out + plain, soa, sizeof(soa));
	CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), 0);
	CHECK_EQ(a.code, DNS_NXDOMAIN);
	CHECK_EQ(a.count, 0);
	CHECK_EQ(dns_answer_format(&q, DNS_NXDOMAIN, NULL, 0, 7, out, (size_t)n - 1), -ENOBUFS);
	q.edns = true;
	CHECK_EQ(dns_answer_format(&q, DNS_NXDOMAIN, NULL, 0, 7, out, sizeof(out)), n + 11);
	CHECK_EQ(out[9], 1);
	CHECK_EQ(out[11], 1);
	/* What could not be read is no name. */
	q = (struct dns_question){.id = 1};
	CHECK_EQ(dns_answer_format(&q, DNS_NXDOMAIN, NULL, 0, 7, out, sizeof(out)), 12);
}

TEST(only_the_answer_to_this_question)
{
	static const uint8_t addr[1][16] = {{10, 0, 0, 1}};
	struct dns_question q = ask("some.host", DNS_A), other = q;
	struct dns_answer a;
	uint8_t out[512];
	int n = dns_answer_format(&q, DNS_OK, addr, 1, 30, out, sizeof(out));

	other.id = 1;
	CHECK_EQ(dns_answer_parse(&a, &other, out, (size_t)n), -EBADMSG);
	other = ask("some.hos", DNS_A);
	CHECK_EQ(dns_answer_parse(&a, &other, out, (size_t)n), -EBADMSG);
	other = ask("some.host", DNS_AAAA);
	CHECK_EQ(dns_answer_parse(&a, &other, out, (size_t)n), -EBADMSG);
	other = ask("SOME.host", DNS_A);
	CHECK_EQ(dns_answer_parse(&a, &other, out, (size_t)n), 0);
	CHECK_EQ(a.count, 1);
	for (int cut = 0; cut < n; cut++)
		CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)cut), -EBADMSG);
	out[2] &= 0x7f;
	CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), -EBADMSG);
	out[2] = 0x82;
	CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), 0);
	CHECK(a.cut && a.count == 0);
	out[2] = 0x80;
	out[3] = 0x83;
	CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), 0);
	CHECK_EQ(a.code, DNS_NXDOMAIN);
	CHECK_EQ(a.count, 0);
	out[3] = 0x8a;
	CHECK_EQ(dns_answer_parse(&a, &q, out, (size_t)n), 0);
	CHECK_EQ(a.code, DNS_SERVFAIL);
}

TEST(chains_are_followed_in_any_order)
{
	struct dns_question q = ask("www.x", DNS_A);
	struct dns_answer a;
	struct made m;

	start_answer(&m, "www.x", 0x8180, 5);
	add_a(&m, "end.y", 50, "192.0.2.1");
	add_a(&m, "other.z", 1, "192.0.2.99"); /* nobody asked */
	add_cname(&m, "mid.y", 40, "END.y");
	add_cname(&m, "www.x", 60, "mid.y");
	add_a(&m, "end.y", 70, "192.0.2.2");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), 0);
	CHECK_EQ(a.count, 2);
	CHECK_EQ(a.ttl_s, 40);
	CHECK_EQ(a.addrs[0][3], 1);
	CHECK_EQ(a.addrs[1][3], 2);
}

TEST(chains_end)
{
	struct dns_question q = ask("a0.x", DNS_A);
	struct dns_answer a;
	struct made m;
	char from[16], to[16];

	start_answer(&m, "a0.x", 0x8180, 2);
	add_cname(&m, "a0.x", 60, "b.x");
	add_cname(&m, "b.x", 60, "a0.x");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), -EBADMSG);
	for (int links = DNS_CHAIN_MAX; links <= DNS_CHAIN_MAX + 1; links++) {
		start_answer(&m, "a0.x", 0x8180, (unsigned)links + 1);
		for (int i = 0; i < links; i++) {
			snprintf(from, sizeof(from), "a%d.x", i);
			snprintf(to, sizeof(to), "a%d.x", i + 1);
			add_cname(&m, from, 60, to);
		}
		add_a(&m, to, 60, "192.0.2.1");
		CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), links > DNS_CHAIN_MAX ? -EBADMSG : 0);
		if (links == DNS_CHAIN_MAX)
			CHECK_EQ(a.count, 1);
	}
	/* A name that no host has leads nowhere, and harms nothing. */
	start_answer(&m, "a0.x", 0x8180, 1);
	add_cname(&m, "a0.x", 60, "b b.x");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), 0);
	CHECK_EQ(a.count, 0);
}

TEST(records_that_lie)
{
	struct dns_question q = ask("a.x", DNS_A);
	struct dns_answer a;
	struct made m;

	start_answer(&m, "a.x", 0x8180, 2); /* one more than there is */
	add_a(&m, "a.x", 60, "192.0.2.1");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), -EBADMSG);
	start_answer(&m, "a.x", 0x8180, 1); /* an address of five bytes */
	add_record(&m, "a.x", DNS_A, 60);
	add16(&m, 5);
	add(&m, "12345", 5);
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), -EBADMSG);
	start_answer(&m, "a.x", 0x8180, 1); /* a pointer forward */
	add(&m, "\xc0\x40", 2);
	add_a(&m, "", 60, "192.0.2.1");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), -EBADMSG);
	start_answer(&m, "a.x", 0x8180, 1); /* a target that does not end where its record does */
	add_record(&m, "a.x", DNS_CNAME, 60);
	add16(&m, 2);
	add_name(&m, "b");
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), -EBADMSG);
}

TEST(many_addresses_and_pointers)
{
	struct dns_question q = ask("a.x", DNS_A);
	struct dns_answer a;
	struct made m;

	start_answer(&m, "a.x", 0x8180, 200);
	for (int i = 0; i < 200; i++) {
		add(&m, "\xc0\x0c\0\1\0\1\x7f\xff\xff\xff\0\4\xc0\0\2", 15);
		add(&m, &(uint8_t){(uint8_t)i}, 1);
	}
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), 0);
	CHECK_EQ(a.count, DNS_ADDRS_MAX);
	CHECK_EQ(a.ttl_s, INT32_MAX);
	m.p[27] = 0x80; /* beyond 31 bits: none */
	CHECK_EQ(dns_answer_parse(&a, &q, m.p, m.n), 0);
	CHECK_EQ(a.ttl_s, 0);
}

TAP_MAIN
