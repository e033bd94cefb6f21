/* Compressed content; see inflate.h. */
#include "door/inflate.h"

#include "base/limits.h"
#include "base/locked.h"

#include <errno.h>
#include <stdlib.h>
#include <strings.h>
#define ZLIB_CONST /* it does not write to its input */
#include <zlib.h>

/* How zlib is told which form it is. */
enum { BITS_RAW = -MAX_WBITS, BITS_ZLIB = MAX_WBITS, BITS_GZIP = MAX_WBITS + 16 };

enum inflater_state {
	INFLATER_FIRST,	 /* deflate: its first byte tells whether it has a header */
	INFLATER_BEGUN,	 /* a member begins: nothing of it came yet */
	INFLATER_WITHIN, /* a member */
	INFLATER_OVER,	 /* nothing may follow */
};

struct inflater {
	z_stream stream;
	enum inflater_state state;
	bool is_gzip;
	uint64_t in, out;
};

static void *allocate(void *arg, unsigned items, unsigned size)
{
	size_t n;

	return __builtin_mul_overflow((size_t)items, (size_t)size, &n) ? NULL : locked_alloc(n);
}

static void release(void *arg, void *p)
{
	locked_free(p);
}

static int start(struct inflater *z, int bits)
{
	z->state = INFLATER_BEGUN;
	return inflateInit2(&z->stream, bits) == Z_OK ? 0 : -ENOMEM;
}

int inflater_new(struct inflater **ret, const char *coding)
{
	bool is_gzip = strcasecmp(coding, "gzip") == 0 || strcasecmp(coding, "x-gzip") == 0;
	struct inflater *z;
	int r = 0;

	if (!is_gzip && strcasecmp(coding, "deflate") != 0)
		return -EOPNOTSUPP;
	z = calloc(1, sizeof(*z));
	if (!z)
		return -ENOMEM;
	z->is_gzip = is_gzip;
	z->stream.zalloc = allocate;
	z->stream.zfree = release;
	if (is_gzip)
		r = start(z, BITS_GZIP);
	if (r < 0)
		inflater_free(z);
	else
		*ret = z;
	return r;
}

void inflater_free(struct inflater *z)
{
	if (!z)
		return;
	if (z->state != INFLATER_FIRST)
		inflateEnd(&z->stream);
	free(z);
}

/* By the standard deflate has zlib's header. Many servers leave it away; the low four bits of a
 * header are 8, which in deflate's own bits is a stored block whose padding is not zero. */
static int start_deflate(struct inflater *z, uint8_t first)
{
	return start(z, (first & 0x0f) == Z_DEFLATED ? BITS_ZLIB : BITS_RAW);
}

/* A member has ended: gzip may go on with the next one. */
static int end_member(struct inflater *z)
{
	z->state = z->is_gzip ? INFLATER_BEGUN : INFLATER_OVER;
	return z->is_gzip && inflateReset(&z->stream) != Z_OK ? -EBADMSG : 0;
}

int inflater_feed(struct inflater *z, const uint8_t *p, size_t n, size_t *ret_used, uint8_t *out,
		  size_t room, size_t *ret_len, struct err *e)
{
	size_t used = 0, len = 0;
	int r = 0, rc;

	if (n > 0 && z->state == INFLATER_FIRST)
		r = start_deflate(z, p[0]);
	while (r == 0 && len < room && (used < n || z->state == INFLATER_WITHIN)) {
		if (z->state == INFLATER_OVER) {
			r = -EBADMSG;
			break;
		}
		z->stream.next_in = p + used;
		z->stream.avail_in = (unsigned)(n - used);
		z->stream.next_out = out + len;
		z->stream.avail_out = (unsigned)(room - len);
		rc = inflate(&z->stream, Z_NO_FLUSH);
		z->state = INFLATER_WITHIN;
		used = n - z->stream.avail_in;
		len = room - z->stream.avail_out;
		if (rc == Z_STREAM_END)
			r = end_member(z);
		else if (rc != Z_OK && rc != Z_BUF_ERROR)
			r = rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
		else if (used == n)
			break;
	}
	if (r == -ENOMEM)
		return err_errno(e, ENOMEM, "inflate a compressed answer");
	if (r < 0)
		return err_set(e, ERR_PROTOCOL, -r, "a compressed answer is broken");
	z->in += used;
	z->out += len;
	if (z->out > INFLATE_FREE_MAX && z->out / INFLATE_RATIO_MAX > z->in)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "a compressed answer grows more than %u times, as bombs do",
			       INFLATE_RATIO_MAX);
	*ret_used = used;
	*ret_len = len;
	return len == room;
}

int inflater_close(const struct inflater *z, struct err *e)
{
	bool is_whole = z->state == INFLATER_OVER || z->in == 0 ||
			(z->is_gzip && z->state == INFLATER_BEGUN);

	return is_whole ? 0
			: err_set(e, ERR_PROTOCOL, EBADMSG, "a compressed answer ends too early");
}
