/*
 * WebSocket frames and handshakes; see ws.h.
 *
 * How it works
 *
 * A frame's header is gathered in head[], two bytes first, then as many as those say. When it is
 * whole and good it waits for room in the output (have == need), is written, and `left` bytes of
 * payload follow. The header that is written has the bytes that came: there is only one way to
 * write it, since lengths must have their shortest form.
 */
#include "http/ws.h"

#include "base/base64.h"
#include "base/sha.h"
#include "http/reply.h"
#include "http/text.h"

#include <stdlib.h>
#include <string.h>

enum { FIN = 0x80, RESERVED = 0x70, MASKED = 0x80, FIRST = 2, SHORT_MAX = 125, KEY_CHARS = 24 };
#define LENGTH_MAX ((uint64_t)1 << 62)

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void ws_relay_init(struct ws_relay *w, bool from_client, bool extended)
{
	*w = (struct ws_relay){.from_client = from_client, .extended = extended, .need = FIRST};
}

static int refuse(struct err *e, const char *what)
{
	return http_refuse(e, -EBADMSG, 400, "%s", what);
}

/* The first two bytes are there. */
static int check_first(struct ws_relay *w, struct err *e)
{
	unsigned op = w->head[0] & 0x0f, len = w->head[1] & 0x7f;
	bool fin = w->head[0] & FIN, masked = w->head[1] & MASKED;

	if ((w->head[0] & RESERVED) && (!w->extended || op >= WS_OP_CLOSE))
		return refuse(e, "a WebSocket frame with reserved bits");
	if (masked != w->from_client)
		return refuse(e, masked ? "a masked WebSocket frame from a server"
					: "an unmasked WebSocket frame from a client");
	if (op > WS_OP_PONG || (op > WS_OP_BINARY && op < WS_OP_CLOSE))
		return refuse(e, "a WebSocket frame with an unknown opcode");
	if (op >= WS_OP_CLOSE && (!fin || len > SHORT_MAX))
		return refuse(e, "a WebSocket control frame that is long or cut");
	if (op == WS_OP_CLOSE && len == 1)
		return refuse(e, "a WebSocket close with half a code");
	if (op < WS_OP_CLOSE && (op == WS_OP_MORE) != w->in_message)
		return refuse(e, op == WS_OP_MORE ? "more of no WebSocket message"
						  : "a WebSocket message in a message");
	if (op < WS_OP_CLOSE)
		w->in_message = !fin;
	w->closed = op == WS_OP_CLOSE;
	w->need = FIRST + (len == 126 ? 2u : len == 127 ? 8u : 0u) + (masked ? 4u : 0u);
	return 0;
}

/* The whole header is there. */
static int check_length(struct ws_relay *w, struct err *e)
{
	unsigned len = w->head[1] & 0x7f, bytes = len == 126 ? 2 : len == 127 ? 8 : 0;
	uint64_t left = bytes ? 0 : len;

	for (unsigned i = 0; i < bytes; i++)
		left = left << 8 | w->head[FIRST + i];
	if ((bytes == 2 && left <= SHORT_MAX) || (bytes == 8 && left <= UINT16_MAX))
		return refuse(e, "a WebSocket length that is not in its shortest form");
	if (left > LENGTH_MAX)
		return refuse(e, "a WebSocket frame that is too large");
	w->left = left;
	return 0;
}

/* Takes one byte of a header. */
static int take_head(struct ws_relay *w, uint8_t c, struct err *e)
{
	int r = 0;

	if (w->closed && w->have == 0)
		return refuse(e, "something after the close of a WebSocket");
	w->head[w->have++] = c;
	if (w->have == FIRST)
		r = check_first(w, e);
	if (r == 0 && w->have == w->need)
		r = check_length(w, e);
	return r;
}

int ws_relay_feed(struct ws_relay *w, const void *p, size_t n, size_t *ret_used, struct buf *out,
		  struct err *e)
{
	const uint8_t *bytes = p;
	size_t used = 0;
	int r = 0;

	*ret_used = 0;
	while (r == 0) {
		size_t room = out->max - buf_len(out), take;

		if (w->have == w->need) {
			if (room < w->need)
				break;
			r = buf_append(out, w->head, w->need);
			w->have = 0;
			w->need = FIRST;
		} else if (used == n) {
			break;
		} else if (w->have == 0 && w->left > 0) {
			take = n - used < room ? n - used : room;
			take = w->left < take ? (size_t)w->left : take;
			if (take == 0)
				break;
			r = buf_append(out, bytes + used, take);
			w->left -= take;
			used += take;
		} else {
			r = take_head(w, bytes[used++], e);
		}
	}
	if (r == -ENOMEM)
		return http_refuse(e, r, 500, "no memory for a WebSocket frame");
	*ret_used = used;
	return r;
}

int ws_relay_head(struct ws_relay *w, const void *p, size_t n, size_t *ret_used,
		  struct ws_frame *ret, struct err *e)
{
	const uint8_t *bytes = p;
	int r = 0;

	*ret_used = 0;
	while (r == 0 && *ret_used < n && w->have < w->need)
		r = take_head(w, bytes[(*ret_used)++], e);
	if (r < 0 || w->have < w->need)
		return r;
	*ret = (struct ws_frame){.op = w->head[0] & 0x0f,
				 .is_last = w->head[0] & FIN,
				 .is_control = (w->head[0] & 0x0f) >= WS_OP_CLOSE,
				 .len = w->left};
	if (w->from_client)
		memcpy(ret->mask, w->head + w->need - sizeof(ret->mask), sizeof(ret->mask));
	w->have = 0;
	w->need = FIRST;
	return 1;
}

size_t ws_frame_write(const struct ws_frame *f, uint8_t out[WS_HEAD_MAX])
{
	unsigned bytes = f->len <= SHORT_MAX ? 0 : f->len <= UINT16_MAX ? 2 : 8;

	out[0] = (uint8_t)(f->op | (f->is_last ? FIN : 0));
	out[1] = bytes == 0 ? (uint8_t)f->len : bytes == 2 ? 126 : 127;
	for (unsigned i = 0; i < bytes; i++)
		out[FIRST + i] = (uint8_t)(f->len >> 8 * (bytes - 1 - i));
	return FIRST + bytes;
}

/* The value of a field that is there exactly once, or NULL. */
static const char *find_single(const struct http_head *h, const char *name)
{
	return http_head_count(h, name) == 1 ? http_head_find(h, name) : NULL;
}

static bool upgrades(const struct http_head *h)
{
	const char *upgrade = find_single(h, "upgrade");

	return upgrade && http_name_is(upgrade, "websocket") &&
	       http_head_has_token(h, "connection", "upgrade") &&
	       !http_head_find(h, "transfer-encoding");
}

int ws_check_request(const struct http_head *h, struct err *e)
{
	const char *version = find_single(h, "sec-websocket-version");
	const char *key = find_single(h, "sec-websocket-key");
	const char *length = http_head_find(h, "content-length");

	if (!h->method || strcmp(h->method, "GET") != 0 || h->minor != 1)
		return http_refuse(e, -EINVAL, 400, "a WebSocket begins with GET of HTTP/1.1");
	if (!upgrades(h) || (length && strcmp(length, "0") != 0))
		return http_refuse(e, -EINVAL, 400, "not a plain upgrade to websocket");
	if (!version || strcmp(version, "13") != 0)
		return http_refuse(e, -EINVAL, 400, "a WebSocket version that is not 13");
	/* 16 bytes in base64. */
	if (!key || strspn(key, base64) != KEY_CHARS - 2 || strcmp(key + KEY_CHARS - 2, "==") != 0)
		return http_refuse(e, -EINVAL, 400, "a WebSocket key that is not 16 bytes");
	return 0;
}

/* Is the extension at p, up to its parameters, one that the client offered? */
static bool was_offered(const struct http_head *request, const char *p, size_t n)
{
	const char *name = "sec-websocket-extensions";
	char chosen[64];

	n = strcspn(p, "; \t,") < n ? strcspn(p, "; \t,") : n;
	if (n == 0 || n >= sizeof(chosen))
		return false;
	memcpy(chosen, p, n);
	chosen[n] = '\0';
	for (size_t i = 0; i < request->field_count; i++) {
		const char *list = request->fields[i].value, *offer;
		size_t len;

		if (!http_name_is(request->fields[i].name, name))
			continue;
		while (http_list_next(&list, &offer, &len)) {
			size_t plain = strcspn(offer, "; \t,");

			if (http_token_is(offer, plain < len ? plain : len, chosen))
				return true;
		}
	}
	return false;
}

static bool extensions_ok(const struct http_head *request, const struct http_head *response)
{
	for (size_t i = 0; i < response->field_count; i++) {
		const char *list = response->fields[i].value, *p;
		size_t n;

		if (!http_name_is(response->fields[i].name, "sec-websocket-extensions"))
			continue;
		while (http_list_next(&list, &p, &n)) {
			if (!was_offered(request, p, n))
				return false;
		}
	}
	return true;
}

/* What a server that read the key must answer. */
static void answer_key(const char *key, char ret[29])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	uint8_t sum[SHA1_BYTES];
	struct sha s;

	sha1_init(&s);
	sha_add(&s, key, strlen(key));
	sha_add(&s, guid, sizeof(guid) - 1);
	sha_end(&s, sum);
	ret[base64_encode(sum, sizeof(sum), false, (uint8_t *)ret)] = '\0';
}

int ws_check_response(const struct http_head *request, const struct http_head *response,
		      struct err *e)
{
	const char *accept = find_single(response, "sec-websocket-accept");
	const char *protocol = http_head_find(response, "sec-websocket-protocol");
	const char *key = http_head_find(request, "sec-websocket-key");
	char want[29];

	if (response->status != 101 || !upgrades(response))
		return http_refuse(e, -EINVAL, 502, "not an agreement to a WebSocket");
	if (!key || !accept)
		return http_refuse(e, -EINVAL, 502, "a WebSocket without a key or its answer");
	answer_key(key, want);
	if (strcmp(accept, want) != 0)
		return http_refuse(e, -EINVAL, 502, "the answer to another WebSocket's key");
	if (protocol && (!find_single(response, "sec-websocket-protocol") ||
			 !http_head_has_token(request, "sec-websocket-protocol", protocol)))
		return http_refuse(e, -EINVAL, 502, "a WebSocket protocol that was not offered");
	if (!extensions_ok(request, response))
		return http_refuse(e, -EINVAL, 502, "a WebSocket extension that was not offered");
	return 0;
}

/* The next subprotocol that is offered; *at and *list begin as 0 and NULL. */
static bool next_offer(const struct http_head *h, size_t *at, const char **list, const char **ret,
		       size_t *ret_len)
{
	for (;;) {
		if (*list && http_list_next(list, ret, ret_len))
			return true;
		while (*at < h->field_count &&
		       !http_name_is(h->fields[*at].name, "sec-websocket-protocol"))
			(*at)++;
		if (*at == h->field_count)
			return false;
		*list = h->fields[(*at)++].value;
	}
}

const char *ws_offer_find(const struct http_head *request, const char *prefix, size_t *ret_len)
{
	const char *list = NULL, *p;
	size_t at = 0, n, len = strlen(prefix);

	while (next_offer(request, &at, &list, &p, &n)) {
		if (n < len || memcmp(p, prefix, len) != 0)
			continue;
		*ret_len = n;
		return p;
	}
	return NULL;
}

static bool offers(const struct http_head *request, const char *protocol)
{
	const char *list = NULL, *p;
	size_t at = 0, n;

	while (next_offer(request, &at, &list, &p, &n)) {
		if (n == strlen(protocol) && memcmp(p, protocol, n) == 0)
			return true;
	}
	return false;
}

int ws_accept_write(const struct http_head *request, const char *protocol, size_t n,
		    struct buf *out)
{
	char accept[29], *chosen = NULL;
	struct http_field fields[] = {{"Upgrade", "websocket"},
				      {"Sec-WebSocket-Accept", accept},
				      {"Sec-WebSocket-Protocol", NULL}};
	struct http_response r = {
		.status = 101, .framing = HTTP_SWITCHED, .fields = fields, .field_count = 2};
	const char *key = find_single(request, "sec-websocket-key");
	struct http_sent sent;
	int e = -EINVAL;

	if (!key)
		return -EINVAL;
	answer_key(key, accept);
	if (protocol) {
		chosen = strndup(protocol, n);
		if (!chosen)
			return -ENOMEM;
		fields[r.field_count++].value = chosen;
	}
	if (!chosen || offers(request, chosen))
		e = http_response_write(out, request, &r, &sent);
	free(chosen);
	return e;
}
