/*
 * DNS messages; see dns.h.
 *
 *	 0    2       4     6     8     10    12
 *	+----+-------+-----+-----+-----+-----+----------+---------+ - -
 *	| id | flags | qd  | an  | ns  | ar  | question | records
 *	+----+-------+-----+-----+-----+-----+----------+---------+ - -
 *
 * A reader walks over the message with one position that only grows; a pointer in a name leads
 * strictly before the part it stands in, so a name ends after at most as many jumps as it has bytes
 * before it, and its text is bounded by DNS_NAME_MAX. Of an answer only the answer section is read:
 * what the others hold is never used.
 */
#include "base/dns.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum {
	HEADER = 12,
	LABEL_MAX = 63,
	POINTER = 0xc0,
	CLASS_IN = 1,
	RECORD_FIXED = 10,    /* after its name: type, class, ttl, length */
	SOA_DATA = 2 + 5 * 4, /* two names that are the root, five numbers */
	UDP_ROOM = 1232,      /* what we tell others that we can take, below any usual MTU */

	FLAG_ANSWER = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_CUT = 0x0200,
	FLAG_ASK = 0x0100,
	FLAG_CAN = 0x0080,
	FLAG_CODE = 0x000f,
};

struct dns_reader {
	const uint8_t *p;
	size_t n, at;
};

/* A name as text. One that no host can have is odd: it is skipped, and equals nothing. */
struct dns_name {
	char text[DNS_NAME_MAX + 1];
	bool odd;
};

struct dns_record {
	struct dns_name name;
	uint16_t type, class;
	uint32_t ttl_s;
	size_t at, len; /* its data */
};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static uint8_t *put32(uint8_t *p, uint32_t v)
{
	return put16(put16(p, v >> 16), v & 0xffff);
}

/* The byte in lower case, or 0 where it is none of a name. */
static char name_byte(uint8_t c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c | 0x20);
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ? (char)c
											: 0;
}

/* Reads the name at r->at and goes behind it. */
static int read_name(struct dns_reader *r, struct dns_name *ret)
{
	size_t at = r->at, part = r->at, len = 0;
	bool jumped = false;

	ret->odd = false;
	for (;;) {
		size_t n;

		if (at >= r->n)
			return -EBADMSG;
		n = r->p[at++];
		if (n >= POINTER) {
			if (at >= r->n)
				return -EBADMSG;
			n = (n & 0x3f) << 8 | r->p[at++];
			if (!jumped)
				r->at = at;
			jumped = true;
			if (n >= part || n < HEADER)
				return -EBADMSG;
			at = part = n;
			continue;
		}
		if (n > LABEL_MAX || n > r->n - at)
			return -EBADMSG;
		if (n == 0)
			break;
		if (len + (len > 0) + n > DNS_NAME_MAX)
			return -EBADMSG;
		if (len > 0)
			ret->text[len++] = '.';
		for (; n > 0; n--) {
			char c = name_byte(r->p[at++]);

			ret->odd = ret->odd || !c;
			ret->text[len++] = c ? c : '?';
		}
	}
	if (!jumped)
		r->at = at;
	ret->text[len] = 0;
	return 0;
}

static int read_record(struct dns_reader *r, struct dns_record *ret)
{
	const uint8_t *p;

	if (read_name(r, &ret->name) < 0 || r->n - r->at < RECORD_FIXED)
		return -EBADMSG;
	p = r->p + r->at;
	ret->type = get16(p);
	ret->class = get16(p + 2);
	ret->ttl_s = (uint32_t)get16(p + 4) << 16 | get16(p + 6);
	if (ret->ttl_s > INT32_MAX) /* RFC 2181: as if it were none */
		ret->ttl_s = 0;
	ret->len = get16(p + 8);
	ret->at = r->at + RECORD_FIXED;
	if (ret->len > r->n - ret->at)
		return -EBADMSG;
	r->at = ret->at + ret->len;
	return 0;
}

/* The question of a message with exactly one. */
static int read_question(struct dns_reader *r, struct dns_name *ret, uint16_t *ret_type,
			 uint16_t *ret_class)
{
	if (get16(r->p + 4) != 1 || read_name(r, ret) < 0 || r->n - r->at < 4)
		return -EBADMSG;
	*ret_type = get16(r->p + r->at);
	*ret_class = get16(r->p + r->at + 2);
	r->at += 4;
	return 0;
}

/* Whatever else is there has to be records to the last byte; the one that matters is OPT. */
static int read_extras(struct dns_reader *r, bool *ret_edns)
{
	for (unsigned left = get16(r->p + 10); left > 0; left--) {
		struct dns_record rec;

		if (read_record(r, &rec) < 0)
			return -EBADMSG;
		if (rec.type == DNS_OPT && !rec.name.text[0])
			*ret_edns = true;
	}
	return r->at == r->n ? 0 : -EBADMSG;
}

int dns_question_parse(struct dns_question *ret, const void *p, size_t n)
{
	struct dns_reader r = {.p = p, .n = n, .at = HEADER};
	uint16_t flags, type, class;
	struct dns_name name;
	bool edns = false;

	if (n < HEADER)
		return -EBADMSG;
	flags = get16(r.p + 2);
	if (flags & FLAG_ANSWER)
		return -EBADMSG;
	*ret = (struct dns_question){.id = get16(r.p), .recursion = flags & FLAG_ASK};
	if (flags & FLAG_OPCODE)
		return -EOPNOTSUPP;
	if (get16(r.p + 6) || get16(r.p + 8) || read_question(&r, &name, &type, &class) < 0 ||
	    read_extras(&r, &edns) < 0 || name.odd || type == 0)
		return -EINVAL;
	if (class != CLASS_IN)
		return -EOPNOTSUPP;
	ret->type = type;
	ret->edns = edns;
	memcpy(ret->name, name.text, sizeof(name.text));
	return 0;
}

/* Writes the name and what follows it in a question. NULL if it is no name; room was made sure. */
static uint8_t *put_question(uint8_t *p, const struct dns_question *q)
{
	const char *s = q->name;

	while (*s) {
		size_t n = strcspn(s, ".");

		if (n == 0 || n > LABEL_MAX || (s[n] == '.' && !s[n + 1]))
			return NULL;
		*p++ = (uint8_t)n;
		for (; n > 0; n--, s++) {
			char c = name_byte((uint8_t)*s);

			if (!c)
				return NULL;
			*p++ = (uint8_t)c;
		}
		s += *s == '.';
	}
	*p++ = 0;
	return put16(put16(p, q->type), CLASS_IN);
}

static size_t question_bytes(const struct dns_question *q)
{
	size_t len = strnlen(q->name, sizeof(q->name));

	return q->type ? len + (len ? 2 : 1) + 4 : 0;
}

/* The OPT record: no name, our room instead of a class, no flags, no data. */
static uint8_t *put_opt(uint8_t *p)
{
	*p++ = 0;
	return put16(put32(put16(put16(p, DNS_OPT), UDP_ROOM), 0), 0);
}

/* For how long there is no such name (RFC 2308). The zone is the name that was asked for; its
 * server and who is responsible for it are the root. */
static uint8_t *put_soa(uint8_t *p, uint32_t ttl_s)
{
	p = put16(put16(put16(p, POINTER << 8 | HEADER), DNS_SOA), CLASS_IN);
	p = put16(put32(p, ttl_s), SOA_DATA);
	*p++ = 0;
	*p++ = 0;
	for (int i = 0; i < 4; i++) /* serial, refresh, retry, expire */
		p = put32(p, 1);
	return put32(p, ttl_s);
}

enum { OPT_BYTES = 1 + RECORD_FIXED };

int dns_answer_format(const struct dns_question *q, enum dns_code code, const uint8_t (*addrs)[16],
		      size_t count, uint32_t ttl_s, void *out, size_t size)
{
	size_t len = q->type == DNS_A ? 4 : 16;
	bool has_soa = code == DNS_NXDOMAIN && q->type;
	size_t need = HEADER + question_bytes(q) + count * (2 + RECORD_FIXED + len) +
		      (has_soa ? 2 + RECORD_FIXED + SOA_DATA : 0) + (q->edns ? OPT_BYTES : 0);
	uint8_t *p = out;

	if (strnlen(q->name, sizeof(q->name)) == sizeof(q->name) ||
	    (count > 0 && q->type != DNS_A && q->type != DNS_AAAA))
		return -EINVAL;
	if (count > DNS_ADDRS_MAX || need > size)
		return -ENOBUFS;
	p = put16(p, q->id);
	p = put16(p, FLAG_ANSWER | (q->recursion ? FLAG_ASK : 0) | FLAG_CAN |
			     ((unsigned)code & FLAG_CODE));
	p = put16(put16(p, q->type ? 1 : 0), (unsigned)count);
	p = put16(put16(p, has_soa ? 1 : 0), q->edns ? 1 : 0);
	if (q->type)
		p = put_question(p, q);
	if (!p)
		return -EINVAL;
	for (size_t i = 0; i < count; i++) {
		p = put16(put16(put16(p, POINTER << 8 | HEADER), q->type), CLASS_IN);
		p = put16(put32(p, ttl_s), (unsigned)len);
		memcpy(p, addrs[i], len);
		p += len;
	}
	if (has_soa)
		p = put_soa(p, ttl_s);
	if (q->edns)
		p = put_opt(p);
	return (int)(p - (uint8_t *)out);
}

int dns_question_format(const struct dns_question *q, void *out, size_t size)
{
	uint8_t *p = out;

	if (strnlen(q->name, sizeof(q->name)) == sizeof(q->name) || q->type == 0)
		return -EINVAL;
	if (HEADER + question_bytes(q) + (q->edns ? OPT_BYTES : 0) > size)
		return -ENOBUFS;
	p = put16(put16(p, q->id), q->recursion ? FLAG_ASK : 0);
	p = put16(put16(put16(put16(p, 1), 0), 0), q->edns ? 1 : 0);
	p = put_question(p, q);
	if (p && q->edns)
		p = put_opt(p);
	return p ? (int)(p - (uint8_t *)out) : -EINVAL;
}

/* One look through the answers for `owner`: takes its addresses, or tells what it is another name
 * of. 1: another name, in *ret_next. */
static int read_answers(const struct dns_reader *from, unsigned records,
			const struct dns_question *q, const char *owner, struct dns_answer *a,
			struct dns_name *ret_next)
{
	size_t len = q->type == DNS_AAAA ? 16 : 4;
	struct dns_reader r = *from;
	struct dns_record rec;
	bool alias = false;

	for (; records > 0; records--) {
		if (read_record(&r, &rec) < 0)
			return -EBADMSG;
		if (rec.class != CLASS_IN || rec.name.odd || strcmp(rec.name.text, owner) != 0)
			continue;
		if (rec.type == q->type && (q->type == DNS_A || q->type == DNS_AAAA)) {
			if (rec.len != len)
				return -EBADMSG;
			if (a->count < DNS_ADDRS_MAX)
				memcpy(a->addrs[a->count++], r.p + rec.at, len);
		} else if (rec.type == DNS_CNAME && !alias) {
			struct dns_reader target = {.p = r.p, .n = rec.at + rec.len, .at = rec.at};

			if (read_name(&target, ret_next) < 0 || target.at != target.n)
				return -EBADMSG;
			alias = true;
		} else {
			continue;
		}
		a->ttl_s = rec.ttl_s < a->ttl_s ? rec.ttl_s : a->ttl_s;
	}
	return a->count == 0 && alias && !ret_next->odd;
}

int dns_answer_parse(struct dns_answer *ret, const struct dns_question *q, const void *p, size_t n)
{
	struct dns_reader r = {.p = p, .n = n, .at = HEADER};
	uint16_t flags, type, class;
	struct dns_name owner, next;
	unsigned code;
	int follow = 1;

	if (n < HEADER || get16(r.p) != q->id)
		return -EBADMSG;
	flags = get16(r.p + 2);
	if (!(flags & FLAG_ANSWER) || (flags & FLAG_OPCODE) ||
	    read_question(&r, &owner, &type, &class) < 0 || type != q->type || class != CLASS_IN ||
	    owner.odd || strcasecmp(owner.text, q->name) != 0)
		return -EBADMSG;
	code = flags & FLAG_CODE;
	*ret = (struct dns_answer){.code = code <= DNS_REFUSED ? (enum dns_code)code : DNS_SERVFAIL,
				   .cut = flags & FLAG_CUT,
				   .ttl_s = INT32_MAX};
	for (int i = 0; follow == 1 && !ret->cut && ret->code == DNS_OK; i++) {
		if (i > DNS_CHAIN_MAX)
			return -EBADMSG;
		follow = read_answers(&r, get16(r.p + 6), q, owner.text, ret, &next);
		if (follow < 0)
			return follow;
		if (follow > 0)
			owner = next;
	}
	if (ret->count == 0)
		ret->ttl_s = 0;
	return 0;
}
