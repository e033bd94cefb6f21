/* A client's first TLS message, read without answering it: enough to know where it wants to go. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hello {
	char sni[256]; /* lower case; "" if there is none */
	bool has_ech;  /* an encrypted name beside it: cannot be judged */
	bool has_alpn;
	size_t len; /* bytes of the records that it stood in */
};

/* 1: it is one, whole; 0: more bytes are needed (at most DOOR_HELLO_MAX are looked at); -EPROTO:
 * not TLS; -EBADMSG: TLS, in whatever version and also in the form of SSL 2, but not a hello that
 * can be judged: another record, too long, split in an odd way, two names, a NUL in the name. */
int hello_parse(struct hello *ret, const void *p, size_t n);
