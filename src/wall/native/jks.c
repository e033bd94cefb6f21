/* A Java trust store; see jks.h. */
#include "wall/native/jks.h"

#include "base/sha1.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TRUSTED_CERT = 2, COUNT_AT = 8 };

static int put_number(struct buf *out, uint64_t v, unsigned bytes)
{
	uint8_t b[8];

	for (unsigned i = 0; i < bytes; i++)
		b[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	return buf_append(out, b, bytes);
}

static int put_string(struct buf *out, const char *s)
{
	int r = put_number(out, strlen(s), 2);

	return r < 0 ? r : buf_append_str(out, s);
}

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Appends the bytes. -EBADMSG where it is no base64. */
static int put_base64(struct buf *out, const char *p, const char *end)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (; p < end; p++) {
		uint8_t byte;
		int v;

		if (*p == '\n' || *p == '\r' || *p == ' ' || *p == '\t')
			continue;
		if (*p == '=')
			break;
		v = sextet(*p);
		if (v < 0)
			return -EBADMSG;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		byte = (uint8_t)(bits >> have);
		if (buf_append(out, &byte, 1) < 0)
			return -ENOBUFS;
	}
	return 0;
}

/* One outermost SEQUENCE and nothing after it: what every certificate is. */
static bool is_sequence(const uint8_t *der, size_t n)
{
	size_t len = 0, head = 2, more;

	if (n < 4 || der[0] != 0x30)
		return false;
	more = der[1] & 0x80 ? der[1] & 0x7fu : 0;
	if (more > 3)
		return false;
	for (size_t i = 0; i < more; i++)
		len = len << 8 | der[2 + i];
	return head + more + (more ? len : der[1]) == n;
}

/* 1 if it was added, 0 if it is no certificate. */
static int put_cert(struct buf *out, unsigned number, const char *p, const char *end)
{
	size_t before = buf_len(out), at;
	char alias[24];
	uint64_t len;
	int r;

	snprintf(alias, sizeof(alias), "cove-%u", number);
	r = put_number(out, TRUSTED_CERT, 4);
	if (r == 0)
		r = put_string(out, alias);
	if (r == 0)
		r = put_number(out, 0, 8); /* when it was added: nobody looks */
	if (r == 0)
		r = put_string(out, "X.509");
	if (r == 0)
		r = put_number(out, 0, 4);
	if (r < 0)
		return r;
	at = buf_len(out);
	r = put_base64(out, p, end);
	len = buf_len(out) - at;
	if (r == -EBADMSG || (r == 0 && !is_sequence(buf_data(out) + at, len))) {
		out->len = before;
		return 0;
	}
	for (unsigned i = 0; i < 4 && r == 0; i++)
		out->data[out->start + at - 4 + i] = (uint8_t)(len >> (8 * (3 - i)));
	return r < 0 ? r : 1;
}

static int put_seal(struct buf *out)
{
	uint8_t digest[SHA1_BYTES];
	struct sha1 s;

	sha1_init(&s);
	sha1_add(&s, "\0c\0h\0a\0n\0g\0e\0i\0t", 16);
	sha1_add(&s, "Mighty Aphrodite", 16);
	sha1_add(&s, buf_data(out), buf_len(out));
	sha1_end(&s, digest);
	return buf_append(out, digest, sizeof(digest));
}

int jks_make(struct buf *out, const char *pem, size_t len)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----";
	static const char end[] = "-----END CERTIFICATE-----";
	const char *p = pem, *stop = pem + len;
	unsigned count = 0;
	int r = put_number(out, 0xfeedfeedu, 4);

	if (r == 0)
		r = put_number(out, 2, 4);
	if (r == 0)
		r = put_number(out, 0, 4);
	while (r >= 0 && count < JKS_CERTS_MAX) {
		const char *from = memmem(p, (size_t)(stop - p), begin, sizeof(begin) - 1), *to;

		if (!from)
			break;
		from += sizeof(begin) - 1;
		to = memmem(from, (size_t)(stop - from), end, sizeof(end) - 1);
		if (!to)
			break;
		r = put_cert(out, count, from, to);
		count += r > 0;
		p = to + sizeof(end) - 1;
	}
	if (r < 0)
		return r;
	for (unsigned i = 0; i < 4; i++)
		out->data[out->start + COUNT_AT + i] = (uint8_t)(count >> (8 * (3 - i)));
	return put_seal(out);
}
