/*
 * DNS messages: what was read can be written and reads the same; a verdict depends on the message
 * alone; and what came as an answer never holds more than was in it.
 */
#include "fuzz.h"

#include "base/dns.h"

#include <errno.h>

static void same_question(const struct dns_question *a, const struct dns_question *b)
{
	MUST(a->id == b->id && a->type == b->type && a->recursion == b->recursion);
	MUST(a->edns == b->edns && strcmp(a->name, b->name) == 0);
}

/* On exactly its own bytes, so that a read beyond them shows. */
static int parse_question(struct dns_question *ret, const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	int r;

	MUST(copy);
	if (n)
		memcpy(copy, p, n);
	r = dns_question_parse(ret, copy, n);
	free(copy);
	return r;
}

static void check_question(const uint8_t *p, size_t n)
{
	static const uint8_t addr[1][16] = {{127, 0, 0, 1}};
	struct dns_question q = {0}, again;
	struct dns_answer a;
	uint8_t out[DNS_MESSAGE_MAX];
	int r = parse_question(&q, p, n), len;

	MUST(r == 0 || r == -EBADMSG || r == -EINVAL || r == -EOPNOTSUPP);
	if (r == -EBADMSG)
		return;
	len = dns_answer_format(&q, r ? DNS_FORMERR : DNS_OK, NULL, 0, 0, out, sizeof(out));
	MUST(len > 0 && parse_question(&again, out, (size_t)len) == -EBADMSG);
	if (r < 0)
		return;
	MUST(dns_answer_parse(&a, &q, out, (size_t)len) == 0 && a.count == 0);
	len = dns_question_format(&q, out, sizeof(out));
	MUST(len > 0 && parse_question(&again, out, (size_t)len) == 0);
	same_question(&q, &again);
	for (int cut = 0; cut < len; cut++)
		MUST(parse_question(&again, out, (size_t)cut) < 0);
	if (q.type != DNS_A)
		return;
	len = dns_answer_format(&q, DNS_OK, addr, 1, 60, out, sizeof(out));
	MUST(len > 0 && dns_answer_parse(&a, &q, out, (size_t)len) == 0);
	MUST(a.count == 1 && a.ttl_s == 60 && memcmp(a.addrs[0], addr[0], 4) == 0);
}

/* The question is what the message says it is, so that mutations reach the records. */
static void check_answer(const uint8_t *p, size_t n)
{
	uint8_t *ask = malloc(n + 1);
	struct dns_question q = {0};
	struct dns_answer a, b;
	int r;

	MUST(ask);
	if (n)
		memcpy(ask, p, n);
	for (size_t i = 2; i < 12 && i < n; i++)
		ask[i] = i == 5;
	/* What follows the question is in the way of reading it as one. */
	for (size_t len = 12; len <= n && !q.type; len++)
		if (dns_question_parse(&q, ask, len) < 0)
			q.type = 0;
	memcpy(ask, p, n);
	r = dns_answer_parse(&a, &q, ask, n);
	MUST(r == 0 || r == -EBADMSG);
	if (r == 0) {
		MUST(a.count <= DNS_ADDRS_MAX && a.code <= DNS_REFUSED);
		MUST(a.count * (q.type == DNS_AAAA ? 28u : 16u) <= n);
		MUST(a.count == 0 || (a.code == DNS_OK && !a.cut));
		/* Only what the counts speak of is read. */
		ask[n] = 0xff;
		MUST(dns_answer_parse(&b, &q, ask, n + 1) == 0 && b.count == a.count);
	}
	free(ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	if (n > DNS_MESSAGE_MAX)
		return 0;
	check_question(p, n);
	if (n)
		check_answer(p, n);
	return 0;
}
