/*
 * A client's first TLS message; see hello.h.
 *
 * The message may come in several records (RFC 8446, 5.1), so they are joined first: each must be a
 * handshake record that holds something, and nothing but the rest of the ClientHello may stand in
 * them. How the bytes were cut on their way here never changes the verdict, because everything
 * before the end of what is there is judged again each time, from the first byte.
 */
#include "door/hello.h"

#include "base/limits.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum {
	RECORD_HEADER = 5,
	RECORD_FIRST = 20, /* the kinds of record that there are */
	RECORD_HANDSHAKE = 22,
	RECORD_LAST = 24,
	RECORD_MAJOR = 3,
	SSL2_LENGTH_BIT = 0x80,
	SSL2_TYPE_AT = 2,
	RECORD_MAX = 1 << 14,
	MESSAGE_HEADER = 4,
	CLIENT_HELLO = 1,
	RANDOM_BYTES = 32,
	SESSION_MAX = 32,
	EXT_SERVER_NAME = 0,
	EXT_ALPN = 16,
	EXT_ECH = 0xfe0d,
	EXT_ESNI = 0xffce, /* what came before it */
	NAME_HOST = 0,
};

/* What is left to read. Once it failed everything it gives is empty. */
struct hello_reader {
	const uint8_t *p;
	size_t n;
	bool failed;
};

static struct hello_reader take(struct hello_reader *r, size_t n)
{
	struct hello_reader part = {r->p, n, false};

	if (r->failed || n > r->n) {
		r->failed = true;
		return (struct hello_reader){.failed = true};
	}
	r->p += n;
	r->n -= n;
	return part;
}

static unsigned take_number(struct hello_reader *r, size_t bytes)
{
	struct hello_reader part = take(r, bytes);
	unsigned v = 0;

	for (size_t i = 0; i < part.n; i++)
		v = v << 8 | part.p[i];
	return v;
}

/* A vector with its length before it. */
static struct hello_reader take_vector(struct hello_reader *r, size_t length_bytes)
{
	return take(r, take_number(r, length_bytes));
}

static bool take_name(struct hello *h, struct hello_reader body)
{
	struct hello_reader list = take_vector(&body, 2);
	unsigned type = take_number(&list, 1);
	struct hello_reader name = take_vector(&list, 2);

	/* One name of the one kind that there is. */
	if (body.failed || list.failed || body.n > 0 || list.n > 0 || type != NAME_HOST ||
	    name.n == 0 || name.n >= sizeof(h->sni))
		return false;
	for (size_t i = 0; i < name.n; i++) {
		if (name.p[i] <= ' ' || name.p[i] > '~')
			return false;
		h->sni[i] = (char)tolower(name.p[i]);
	}
	h->sni[name.n] = 0;
	return true;
}

static bool take_alpn(struct hello *h, struct hello_reader body)
{
	struct hello_reader list = take_vector(&body, 2);

	if (body.failed || body.n > 0 || list.n == 0)
		return false;
	h->has_alpn = true;
	while (list.n > 0) {
		struct hello_reader name = take_vector(&list, 1);

		if (list.failed || name.n == 0)
			return false;
	}
	return true;
}

static int parse_message(struct hello *ret, struct hello_reader m)
{
	struct hello_reader extensions;

	take(&m, 2 + RANDOM_BYTES);
	if (take_vector(&m, 1).n > SESSION_MAX)
		return -EBADMSG;
	if (take_vector(&m, 2).n % 2 || take_vector(&m, 1).n == 0 || m.failed)
		return -EBADMSG;
	if (m.n == 0)
		return 1;
	extensions = take_vector(&m, 2);
	if (m.failed || m.n > 0)
		return -EBADMSG;
	while (extensions.n > 0) {
		unsigned type = take_number(&extensions, 2);
		struct hello_reader body = take_vector(&extensions, 2);

		if (extensions.failed ||
		    (type == EXT_SERVER_NAME && (ret->sni[0] || !take_name(ret, body))) ||
		    (type == EXT_ALPN && (ret->has_alpn || !take_alpn(ret, body))))
			return -EBADMSG;
		ret->has_ech |= type == EXT_ECH || type == EXT_ESNI;
	}
	return 1;
}

/* 1: some server may take it for TLS, 0: that cannot be said yet, -EPROTO: none does. */
static int is_tls(const uint8_t *p, size_t n)
{
	if (p[0] >= RECORD_FIRST && p[0] <= RECORD_LAST)
		return n < 2 ? 0 : p[1] == RECORD_MAJOR ? 1 : -EPROTO;
	if (p[0] & SSL2_LENGTH_BIT)
		return n <= SSL2_TYPE_AT ? 0 : p[SSL2_TYPE_AT] == CLIENT_HELLO ? 1 : -EPROTO;
	return -EPROTO;
}

/* Joins the records. 1: message holds *ret_len bytes, which is all of it, out of *ret_used. */
static int join(const uint8_t *p, size_t n, uint8_t *message, size_t *ret_len, size_t *ret_used)
{
	const uint8_t *start = p;
	size_t have = 0, need = SIZE_MAX;

	while (have < need) {
		size_t len, part;

		if (n == 0)
			return 0;
		/* Servers do not look at the minor version, so it says nothing here either. */
		if (p[0] != RECORD_HANDSHAKE || (n > 1 && p[1] != RECORD_MAJOR))
			return -EBADMSG;
		if (n < RECORD_HEADER)
			return 0;
		len = (size_t)p[3] << 8 | p[4];
		if (len == 0 || len > RECORD_MAX)
			return -EBADMSG;
		p += RECORD_HEADER;
		n -= RECORD_HEADER;
		part = len < n ? len : n;
		/* The caller's bytes are no more than DOOR_HELLO_MAX, and so is this. */
		memcpy(message + have, p, part);
		have += part;
		if (have >= 1 && message[0] != CLIENT_HELLO)
			return -EBADMSG;
		if (have >= MESSAGE_HEADER && need == SIZE_MAX)
			need = MESSAGE_HEADER +
			       ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
		if (need != SIZE_MAX && need > DOOR_HELLO_MAX - RECORD_HEADER)
			return -EBADMSG;
		/* Anything after the message in its last record is not for us to understand. */
		if (have - part + len > need)
			return -EBADMSG;
		if (part < len)
			return 0;
		p += part;
		n -= part;
	}
	*ret_len = have;
	*ret_used = (size_t)(p - start);
	return 1;
}

int hello_parse(struct hello *ret, const void *p, size_t n)
{
	const uint8_t *bytes = p;
	uint8_t message[DOOR_HELLO_MAX];
	size_t len = 0, used = 0;
	int r;

	*ret = (struct hello){0};
	if (n == 0)
		return 0;
	r = is_tls(bytes, n);
	if (r <= 0)
		return r;
	r = join(bytes, n < DOOR_HELLO_MAX ? n : DOOR_HELLO_MAX, message, &len, &used);
	if (r == 0 && n >= DOOR_HELLO_MAX)
		return -EBADMSG;
	if (r <= 0)
		return r;
	r = parse_message(
		ret, (struct hello_reader){message + MESSAGE_HEADER, len - MESSAGE_HEADER, false});
	ret->len = used;
	if (r < 0)
		*ret = (struct hello){0};
	return r;
}
