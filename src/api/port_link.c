/*
 * Links to ports, for browsers and others that set no fields.
 *
 *	<until, in seconds>.<id of the key that made it, or "operator">.<HMAC, 64 hex digits>
 *
 * What is signed is the box's name on this machine, when it was made, the port, and the first two
 * parts. So a link opens no other port, no other box, and not the next one of that name. It is
 * void when its time is over, its key is removed or may no longer run things, or the machine's seal
 * (store/seal.h) is another. The box never sees it.
 */
#include "api/ports.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/locked.h"
#include "store/record.h"
#include "store/seal.h"

#include <errno.h>
#include <stdio.h>

enum { SIGNED_SIZE = 256, MAC_HEX = 2 * SHA256_BYTES, UNTIL_DIGITS_MAX = 12 };
#define OPERATOR "operator"

static int seal_of(struct api *a, struct err *e)
{
	uint8_t *seal;
	int r;

	if (a->seal)
		return 0;
	seal = locked_alloc(SEAL_BYTES);
	r = seal ? seal_read(&a->cove->state, seal, e) : err_errno(e, ENOMEM, "read the seal");
	if (r < 0)
		locked_free(seal);
	else
		a->seal = seal;
	return r;
}

static void sign(const struct api *a, const char *box, uint64_t created_ms, unsigned port,
		 const char *until, const char *issuer, char ret[MAC_HEX + 1])
{
	char text[SIGNED_SIZE];
	uint8_t mac[SHA256_BYTES];
	int n = snprintf(text, sizeof(text), "cove port 1\n%s\n%llu\n%u\n%s\n%s\n", box,
			 (unsigned long long)created_ms, port, until, issuer);

	ASSERT(n > 0 && n < SIGNED_SIZE);
	sha256_hmac(a->seal, SEAL_BYTES, text, (size_t)n, mac);
	str_hex(mac, sizeof(mac), ret);
}

/* When the box that has this name now was made. */
static int made_ms(struct api *a, const char *box, uint64_t *ret, struct err *e)
{
	struct record record;
	int r = record_load(&a->cove->state, box, &record, e);

	if (r < 0)
		return r;
	*ret = record.spec.created_ms;
	record_done(&record);
	return 0;
}

int api_port_link(struct api_call *c, const char *box, unsigned port, uint64_t expires_ms,
		  char ret[PORT_LINK_SIZE], struct err *e)
{
	const char *issuer = c->who.key ? c->who.key->id : OPERATOR;
	char until[24], mac[MAC_HEX + 1];
	uint64_t created_ms;
	int r = made_ms(c->api, box, &created_ms, e);

	if (r == 0)
		r = seal_of(c->api, e);
	if (r < 0)
		return r;
	snprintf(until, sizeof(until), "%llu", (unsigned long long)(expires_ms / 1000));
	sign(c->api, box, created_ms, port, until, issuer, mac);
	snprintf(ret, PORT_LINK_SIZE, "%s.%s.%s", until, issuer, mac);
	return 0;
}

struct link_parts {
	char until[UNTIL_DIGITS_MAX + 1], issuer[KEY_ID_SIZE], mac[MAC_HEX + 1];
};

static bool take_part(const char **at, const char *end, char stop, char *ret, size_t size)
{
	const char *to = stop ? memchr(*at, stop, (size_t)(end - *at)) : end;
	size_t n = to ? (size_t)(to - *at) : size;

	if (n == 0 || n >= size)
		return false;
	memcpy(ret, *at, n);
	ret[n] = 0;
	*at = to + 1;
	return true;
}

static bool parse(const char *p, size_t n, struct link_parts *ret)
{
	const char *end = p + n;

	return take_part(&p, end, '.', ret->until, sizeof(ret->until)) &&
	       take_part(&p, end, '.', ret->issuer, sizeof(ret->issuer)) &&
	       take_part(&p, end, 0, ret->mac, sizeof(ret->mac)) && strlen(ret->mac) == MAC_HEX;
}

/* Is who made it still there, and may have made it? Then they are who asks: what is open ends with
 * their key. */
static bool take_issuer(struct api_call *c, const char *issuer, const char *box)
{
	struct key *key;
	bool ok;

	if (strcmp(issuer, OPERATOR) == 0) {
		snprintf(c->who.by, sizeof(c->who.by), "link of the operator");
		return true;
	}
	key = calloc(1, sizeof(*key));
	ok = key && str_is_key_id(issuer) &&
	     key_read(&c->api->cove->state, issuer, key, NULL) == 0 && !key->revoked_ms &&
	     key_may(key, KEY_RUN) &&
	     (key_may(key, KEY_ADMIN) || key_name_out(key->id, KEY_OF_BOX, box));
	if (ok) {
		snprintf(c->who.by, sizeof(c->who.by), "link of key %s", key->name);
		c->who.key = take_ptr(key);
	}
	if (key)
		key_done(key);
	free(key);
	return ok;
}

bool api_port_link_take(struct api_call *c, const struct api_port_ask *ask, const char *token,
			size_t len, uint64_t *ret_left_ms)
{
	uint64_t until, created_ms, now = clock_wall_ms();
	struct link_parts p;
	char mac[MAC_HEX + 1];
	volatile char differs = 0;

	if (!parse(token, len, &p) || !str_parse_u64(p.until, UINT64_MAX / 1000, &until) ||
	    until * 1000 <= now || made_ms(c->api, ask->box, &created_ms, NULL) < 0 ||
	    seal_of(c->api, NULL) < 0)
		return false;
	sign(c->api, ask->box, created_ms, ask->number, p.until, p.issuer, mac);
	for (size_t i = 0; i < MAC_HEX; i++)
		differs = (char)(differs | (mac[i] ^ p.mac[i]));
	if (differs || !take_issuer(c, p.issuer, ask->box))
		return false;
	*ret_left_ms = until * 1000 - now;
	return true;
}
