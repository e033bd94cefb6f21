/* An HTTP answer of the door's own: to a proxy's client, or to a request that was looked at. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct answer {
	unsigned status;
	const char *host, *rule; /* NULL: none to name */
	uint16_t port;		 /* 0: the same */
	bool is_head;		 /* the request was HEAD: the body is left out */
	bool keeps;		 /* the connection goes on after it */
};

/* What an error is answered with. The readers of requests put the status into its code; an errno is
 * none. */
unsigned answer_status(const struct err *e);
/* Appends head and body. -ENOBUFS where they do not fit; then a part may have been appended. */
int answer_write(struct buf *out, const struct answer *a, const struct err *e);
