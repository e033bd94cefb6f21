/* Envelopes of the Connect protocol; see envelope.h. */
#include "http/envelope.h"

#include "http/text.h"

#include <string.h>

void envelope_reader_init(struct envelope_reader *r, size_t message_max)
{
	*r = (struct envelope_reader){.message_max = message_max};
	buf_init(&r->message, message_max);
}

void envelope_reader_done(struct envelope_reader *r)
{
	buf_done(&r->message);
}

/* The head is there. */
static int check_head(struct envelope_reader *r, struct err *e)
{
	uint8_t flags = r->head[0];

	r->left = 0;
	for (unsigned i = 1; i < ENVELOPE_HEAD; i++)
		r->left = r->left << 8 | r->head[i];
	if (flags & ~(ENVELOPE_COMPRESSED | ENVELOPE_END))
		return err_set(e, ERR_PROTOCOL, EBADMSG, "a message with unknown flags: 0x%02x",
			       flags);
	if (flags & ENVELOPE_COMPRESSED)
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "a compressed message; send them as they are (identity)");
	if (r->left > r->message_max)
		return err_set(e, ERR_LIMIT, EMSGSIZE, "a message of more than %zu bytes",
			       r->message_max);
	return 0;
}

/* Takes what it can of a head or of a message. */
static int take(struct envelope_reader *r, const uint8_t *p, size_t n, size_t *ret_used,
		struct err *e)
{
	bool in_head = r->have < ENVELOPE_HEAD;
	size_t want = in_head ? ENVELOPE_HEAD - r->have : r->left;

	*ret_used = n < want ? n : want;
	if (in_head) {
		memcpy(r->head + r->have, p, *ret_used);
		r->have += (unsigned)*ret_used;
		return r->have == ENVELOPE_HEAD ? check_head(r, e) : 0;
	}
	r->left -= *ret_used;
	if (buf_append(&r->message, p, *ret_used) < 0)
		return err_errno(e, ENOMEM, "read a message");
	return 0;
}

int envelope_feed(struct envelope_reader *r, const void *p, size_t n, size_t *ret_used,
		  struct envelope *ret, struct err *e)
{
	const uint8_t *bytes = p;
	size_t used = 0;

	*ret_used = 0;
	if (r->is_reported)
		buf_clear(&r->message);
	r->is_reported = false;
	while (used < n) {
		size_t took;
		int x;

		if (r->ended)
			return err_set(e, ERR_PROTOCOL, EBADMSG,
				       "something after the last message");
		x = take(r, bytes + used, n - used, &took, e);
		if (x < 0)
			return x;
		used += took;
		if (r->have < ENVELOPE_HEAD || r->left > 0)
			continue;
		*ret = (struct envelope){.data = buf_data(&r->message),
					 .len = buf_len(&r->message),
					 .is_end = r->head[0] & ENVELOPE_END};
		*ret_used = used;
		r->ended = ret->is_end;
		r->is_reported = true;
		r->have = 0;
		return 1;
	}
	*ret_used = used;
	return 0;
}

int envelope_close(const struct envelope_reader *r, struct err *e)
{
	if (r->have > 0)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "a stream that ends within a message");
	return 0;
}

int envelope_write(struct buf *out, bool is_end, const void *p, size_t n)
{
	uint8_t *to;

	if (n > UINT32_MAX)
		return -EMSGSIZE;
	to = buf_reserve(out, ENVELOPE_HEAD + n);
	if (!to)
		return http_no_room(out, ENVELOPE_HEAD + n);
	*to++ = is_end ? ENVELOPE_END : 0;
	for (unsigned i = 0; i < 4; i++)
		*to++ = (uint8_t)(n >> 8 * (3 - i));
	if (n > 0)
		memcpy(to, p, n);
	buf_commit(out, ENVELOPE_HEAD + n);
	return 0;
}
