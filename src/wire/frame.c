/* Frames; see frame.h. */
#include "wire/frame.h"

#include "base/err.h"
#include "base/limits.h"

#include <errno.h>
#include <string.h>

/* Reads are offered this much room, so that a flood of data frames costs few system calls. */
enum { READ_FIRST = 512, READ_ROOM = 4 * (WIRE_DATA_MAX + WIRE_HEADER) };

static uint32_t get_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t payload_max(unsigned type)
{
	return type == WIRE_DATA ? WIRE_DATA_MAX : WIRE_CONTROL_MAX;
}

void wire_decoder_init(struct wire_decoder *d)
{
	*d = (struct wire_decoder){0};
	buf_init(&d->in, WIRE_CONTROL_MAX + READ_ROOM + WIRE_HEADER);
}

void wire_decoder_done(struct wire_decoder *d)
{
	buf_done(&d->in);
}

static void drop_taken(struct wire_decoder *d)
{
	buf_consume(&d->in, d->taken);
	d->taken = 0;
}

uint8_t *wire_decoder_space(struct wire_decoder *d, size_t *ret_room)
{
	uint8_t *p;

	if (d->error)
		return NULL;
	drop_taken(d);
	/* A quiet link keeps a small buffer; one whose last read filled it gets a large one. */
	p = buf_reserve(&d->in, d->hungry ? READ_ROOM : READ_FIRST);
	if (p)
		*ret_room = d->in.cap - d->in.start - d->in.len;
	return p;
}

void wire_decoder_fill(struct wire_decoder *d, size_t n)
{
	buf_commit(&d->in, n);
	d->hungry = d->in.start + d->in.len == d->in.cap;
}

void wire_decoder_trim(struct wire_decoder *d)
{
	drop_taken(d);
	if (buf_len(&d->in) == 0)
		buf_done(&d->in);
}

int wire_decoder_next(struct wire_decoder *d, struct wire_frame *ret)
{
	const uint8_t *h;
	uint32_t len;

	if (d->error)
		return d->error;
	drop_taken(d);
	if (buf_len(&d->in) < WIRE_HEADER)
		return 0;
	h = buf_data(&d->in);
	len = get_u32(h);
	if (h[4] == 0 || h[5] >= WIRE_STREAM_COUNT || h[6] != 0 || h[7] != 0 ||
	    len > payload_max(h[4])) {
		d->error = -EBADMSG;
		return d->error;
	}
	if (buf_len(&d->in) < WIRE_HEADER + (size_t)len)
		return 0;
	*ret = (struct wire_frame){
		.type = (enum wire_type)h[4],
		.stream = h[5],
		.id = get_u32(h + 8),
		.payload = h + WIRE_HEADER,
		.len = len,
	};
	d->taken = WIRE_HEADER + (size_t)len;
	return 1;
}

bool wire_decoder_is_last(const struct wire_decoder *d)
{
	size_t left = buf_len(&d->in) - d->taken;
	const uint8_t *h = buf_data(&d->in) + d->taken;

	return left < WIRE_HEADER || left - WIRE_HEADER < get_u32(h);
}

static void put_header(uint8_t *h, enum wire_type type, uint8_t stream, uint32_t id, uint32_t len)
{
	put_u32(h, len);
	h[4] = (uint8_t)type;
	h[5] = stream;
	h[6] = h[7] = 0;
	put_u32(h + 8, id);
}

int wire_encode(struct buf *out, enum wire_type type, uint8_t stream, uint32_t id, const void *p,
		size_t n)
{
	uint8_t *h;

	if (n > payload_max(type))
		return -EMSGSIZE;
	h = buf_reserve(out, WIRE_HEADER + n);
	if (!h)
		return -ENOBUFS;
	put_header(h, type, stream, id, (uint32_t)n);
	if (n > 0)
		memcpy(h + WIRE_HEADER, p, n);
	buf_commit(out, WIRE_HEADER + n);
	return 0;
}

int wire_encode_begin(struct buf *out, size_t *ret_at)
{
	if (!buf_reserve(out, WIRE_HEADER))
		return -ENOBUFS;
	*ret_at = buf_len(out);
	buf_commit(out, WIRE_HEADER);
	return 0;
}

int wire_encode_end(struct buf *out, size_t at, enum wire_type type, uint8_t stream, uint32_t id)
{
	size_t n = buf_len(out) - at - WIRE_HEADER;

	if (n > payload_max(type)) {
		out->len = at;
		return -EMSGSIZE;
	}
	put_header(out->data + out->start + at, type, stream, id, (uint32_t)n);
	return 0;
}
