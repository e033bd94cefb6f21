/* The hellos of a connection after its first; see hello_watch.h. */
#include "door/hello_watch.h"

#include "base/limits.h"

#include <errno.h>
#include <string.h>

enum {
	RECORD_CHANGE_CIPHER = 20,
	RECORD_ALERT = 21,
	RECORD_HANDSHAKE = 22,
	RECORD_DATA = 23,
	RECORD_MAJOR = 3,
	RECORD_MAX = (1 << 14) + 2048, /* with what encryption adds */
	MESSAGE_HEADER = 4,
	SERVER_HELLO = 2,
	RANDOM_AT = MESSAGE_HEADER + 2,
	/* One hello, and one more if the server asks for it. */
	HELLOS_MAX = 2,
};

/* The random of a ServerHello that is a HelloRetryRequest: SHA-256 of that word. */
static const uint8_t retry_random[32] = {
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
	0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
	0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

_Static_assert(RANDOM_AT + sizeof(retry_random) == WATCH_SERVER_HELLO, "as far as the random");

void hello_watch_start(struct hello_watch *w)
{
	*w = (struct hello_watch){.is_on = true, .hellos = 1};
	buf_init(&w->hello, DOOR_HELLO_MAX);
}

void hello_watch_done(struct hello_watch *w)
{
	buf_done(&w->hello);
	*w = (struct hello_watch){0};
}

static size_t record_length(const uint8_t header[WATCH_RECORD_HEADER])
{
	return (size_t)header[3] << 8 | header[4];
}

/* ---- the client ---- */

/* What is there of a record's header is one that may come now. */
static bool may_begin(const struct hello_watch *w)
{
	const uint8_t *h = w->client.header;
	bool is_handshake = h[0] == RECORD_HANDSHAKE;

	if (h[0] < RECORD_CHANGE_CIPHER || h[0] > RECORD_DATA)
		return false;
	/* Nothing stands between the records of one message. */
	if (!is_handshake && buf_len(&w->hello) > 0)
		return false;
	if (is_handshake && w->hellos >= HELLOS_MAX)
		return false;
	if (w->client.have > 1 && h[1] != RECORD_MAJOR)
		return false;
	return w->client.have < WATCH_RECORD_HEADER ||
	       (record_length(h) <= RECORD_MAX && (!is_handshake || record_length(h) > 0));
}

/* Handshake bytes, headers included, are kept until their message is whole. */
static int keep(struct hello_watch *w, const uint8_t *p, size_t n)
{
	if (w->client.header[0] != RECORD_HANDSHAKE)
		return 0;
	return buf_append(&w->hello, p, n) < 0 ? -EBADMSG : 0;
}

int hello_watch_client(struct hello_watch *w, const uint8_t *p, size_t n, size_t *ret_used,
		       struct hello *ret)
{
	size_t used = 0;
	int r = 0;

	while (used < n && r == 0) {
		size_t part;

		if (w->client.have < WATCH_RECORD_HEADER) {
			w->client.header[w->client.have++] = p[used++];
			if (!may_begin(w))
				return -EBADMSG;
			if (w->client.have < WATCH_RECORD_HEADER)
				continue;
			w->client.left = record_length(w->client.header);
			r = keep(w, w->client.header, WATCH_RECORD_HEADER);
		} else {
			part = w->client.left < n - used ? w->client.left : n - used;
			r = keep(w, p + used, part);
			used += part;
			w->client.left -= part;
		}
		if (r < 0 || w->client.left > 0)
			continue;
		w->client.have = 0;
		if (w->client.header[0] != RECORD_HANDSHAKE)
			continue;
		r = hello_parse(ret, buf_data(&w->hello), buf_len(&w->hello));
		if (r < 0)
			return -EBADMSG;
		if (r > 0) {
			w->hellos++;
			buf_clear(&w->hello);
		}
	}
	*ret_used = used;
	return r;
}

/* ---- the server ---- */

static void take_message(struct hello_watch *w, const uint8_t *p, size_t n)
{
	while (n > 0 && w->is_on) {
		size_t part;

		if (w->message_have < WATCH_SERVER_HELLO &&
		    (w->message_have < MESSAGE_HEADER || w->message_left > 0)) {
			w->message[w->message_have++] = *p++;
			n--;
			if (w->message_have == MESSAGE_HEADER)
				w->message_left = (size_t)w->message[1] << 16 |
						  (size_t)w->message[2] << 8 | w->message[3];
			else if (w->message_have > MESSAGE_HEADER)
				w->message_left--;
			/* As much of it as is needed is there: is it the server's choice? */
			if (w->message[0] == SERVER_HELLO &&
			    w->message_have == WATCH_SERVER_HELLO &&
			    memcmp(w->message + RANDOM_AT, retry_random, sizeof(retry_random)) != 0)
				w->is_on = false;
		} else {
			part = w->message_left < n ? w->message_left : n;
			w->message_left -= part;
			p += part;
			n -= part;
		}
		if (w->message_have >= MESSAGE_HEADER && w->message_left == 0)
			w->message_have = 0;
	}
}

void hello_watch_server(struct hello_watch *w, const uint8_t *p, size_t n)
{
	while (n > 0 && w->is_on && !w->is_lost) {
		uint8_t *header = w->server.header;
		size_t part;

		if (w->server.have < WATCH_RECORD_HEADER) {
			header[w->server.have++] = *p++;
			n--;
			w->is_lost = header[0] < RECORD_CHANGE_CIPHER ||
				     header[0] > RECORD_HANDSHAKE ||
				     (w->server.have > 1 && header[1] != RECORD_MAJOR);
			w->server.left = record_length(header);
		} else {
			part = w->server.left < n ? w->server.left : n;
			if (header[0] == RECORD_HANDSHAKE)
				take_message(w, p, part);
			w->server.left -= part;
			p += part;
			n -= part;
		}
		if (w->server.have == WATCH_RECORD_HEADER && w->server.left == 0)
			w->server.have = 0;
	}
}
