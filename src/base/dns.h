/*
 * DNS messages, sans-I/O: the questions that a stub in a box reads and answers, and those that the
 * door asks. One question per message, class IN; names in lower case without the last dot, of
 * letters, digits, dashes and underscores. Compression is followed backwards only, so it ends.
 */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dns_type { DNS_A = 1, DNS_NS = 2, DNS_CNAME = 5, DNS_SOA = 6, DNS_AAAA = 28, DNS_OPT = 41 };
enum dns_code {
	DNS_OK = 0,
	DNS_FORMERR = 1,
	DNS_SERVFAIL = 2,
	DNS_NXDOMAIN = 3,
	DNS_NOTIMP = 4,
	DNS_REFUSED = 5
};

struct dns_question {
	uint16_t id;
	uint16_t type; /* any; 0: what came could not be read, and an answer repeats none of it */
	bool recursion;
	bool edns;
	char name[DNS_NAME_MAX + 1]; /* "": the root */
};

/* -EBADMSG where nothing can be answered; -EINVAL where FORMERR can, -EOPNOTSUPP where NOTIMP can
 * (ret->id is set then, and the type is 0). */
int dns_question_parse(struct dns_question *ret, const void *p, size_t n);
/* An answer with these addresses (of the question's type; IPv4 in the first four bytes), or none.
 * One that says NXDOMAIN says by an SOA record that this holds for ttl_s. Returns its length,
 * -ENOBUFS, or -EINVAL if the question is none that could be asked. */
int dns_answer_format(const struct dns_question *q, enum dns_code code, const uint8_t (*addrs)[16],
		      size_t count, uint32_t ttl_s, void *out, size_t size);

/* Returns its length, -ENOBUFS, or -EINVAL if that is no name. */
int dns_question_format(const struct dns_question *q, void *out, size_t size);

enum { DNS_ADDRS_MAX = 16, DNS_CHAIN_MAX = 8 };
struct dns_answer {
	enum dns_code code;
	bool cut;	/* ask again over TCP */
	uint32_t ttl_s; /* the least of its chain; 0 without addresses */
	uint8_t addrs[DNS_ADDRS_MAX][16];
	size_t count; /* further ones are left out */
};
/* The answer to q: same id, same question, addresses of its type at the end of its chain of CNAMEs.
 * -EBADMSG if it is not an answer to q, or malformed. */
int dns_answer_parse(struct dns_answer *ret, const struct dns_question *q, const void *p, size_t n);
