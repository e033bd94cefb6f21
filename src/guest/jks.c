/* A Java trust store; see jks.h. */
#include "guest/jks.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/sha.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TRUSTED_CERT = 2, COUNT_AT = 8, JKS_MORE_MAX = 64 << 10 };

/* Magic and version; the count comes next. */
static const uint8_t jks_head[COUNT_AT] = {0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2};

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

/* Appends the bytes. -EBADMSG where it is no base64. */
static int put_base64(struct buf *out, const char *p, const char *end)
{
	size_t n = (size_t)(end - p);
	uint8_t *to = buf_reserve(out, n / 4 * 3 + 4);
	ssize_t len = to ? base64_decode(p, n, to) : -ENOBUFS;

	if (len < 0)
		return (int)len;
	buf_commit(out, (size_t)len);
	return 0;
}

static void set_number(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * (3 - i)));
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
		r = put_number(out, 0, 8); /* when it was added: not used */
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
	if (r == 0)
		set_number(out->data + out->start + at - 4, (uint32_t)len);
	return r < 0 ? r : 1;
}

static void seal_begin(struct sha *s)
{
	sha1_init(s);
	sha_add(s, "\0c\0h\0a\0n\0g\0e\0i\0t", 16);
	sha_add(s, "Mighty Aphrodite", 16);
}

/* Appends what pem has, at most so many that there are GUEST_JKS_CERTS_MAX; returns how many. */
static int put_certs(struct buf *out, unsigned count, const char *pem, size_t len)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----";
	static const char end[] = "-----END CERTIFICATE-----";
	const char *p = pem, *stop = pem + len;
	int added = 0, r = 0;

	while (r >= 0 && count + (unsigned)added < GUEST_JKS_CERTS_MAX) {
		const char *from = memmem(p, (size_t)(stop - p), begin, sizeof(begin) - 1), *to;

		if (!from)
			break;
		from += sizeof(begin) - 1;
		to = memmem(from, (size_t)(stop - from), end, sizeof(end) - 1);
		if (!to)
			break;
		r = put_cert(out, count + (unsigned)added, from, to);
		added += r > 0;
		p = to + sizeof(end) - 1;
	}
	return r < 0 ? r : added;
}

int guest_jks_make(struct buf *out, const char *pem, size_t len)
{
	uint8_t digest[SHA1_BYTES];
	struct sha seal;
	int r = buf_append(out, jks_head, sizeof(jks_head));

	if (r == 0)
		r = put_number(out, 0, 4);
	if (r == 0)
		r = put_certs(out, 0, pem, len);
	if (r < 0)
		return r;
	set_number(out->data + out->start + COUNT_AT, (uint32_t)r);
	seal_begin(&seal);
	sha_add(&seal, buf_data(out), buf_len(out));
	sha_end(&seal, digest);
	return buf_append(out, digest, sizeof(digest));
}

/* Writes what is hashed. */
static int pass(struct sha *seal, int to, const void *p, size_t n)
{
	sha_add(seal, p, n);
	return fd_write_full(to, p, n);
}

static int pass_rest(struct sha *seal, int to, int from, size_t left)
{
	uint8_t chunk[16 << 10];
	int r = 0;

	while (left > 0 && r == 0) {
		size_t want = left < sizeof(chunk) ? left : sizeof(chunk);
		ssize_t n = fd_read_full(from, chunk, want);

		if (n != (ssize_t)want)
			return n < 0 ? (int)n : -EIO;
		r = pass(seal, to, chunk, want);
		left -= want;
	}
	return r;
}

int guest_jks_extend(int to, int from, size_t size, const char *pem)
{
	uint8_t head[COUNT_AT + 4], digest[SHA1_BYTES];
	uint32_t count = 0;
	struct sha seal;
	struct buf more;
	int r;

	if (size < sizeof(head) + SHA1_BYTES ||
	    fd_read_full(from, head, sizeof(head)) != sizeof(head) ||
	    memcmp(head, jks_head, sizeof(jks_head)) != 0)
		return -EBADMSG;
	for (unsigned i = 0; i < 4; i++)
		count = count << 8 | head[COUNT_AT + i];
	if (count >= GUEST_JKS_CERTS_MAX)
		return -EBADMSG;
	buf_init(&more, JKS_MORE_MAX);
	r = put_certs(&more, count, pem, strlen(pem));
	if (r >= 0) {
		set_number(head + COUNT_AT, count + (uint32_t)r);
		seal_begin(&seal);
		r = pass(&seal, to, head, sizeof(head));
	}
	if (r == 0)
		r = pass_rest(&seal, to, from, size - sizeof(head) - SHA1_BYTES);
	if (r == 0)
		r = pass(&seal, to, buf_data(&more), buf_len(&more));
	buf_done(&more);
	if (r < 0)
		return r;
	sha_end(&seal, digest);
	return fd_write_full(to, digest, sizeof(digest));
}
