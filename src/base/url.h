/* The parts of a URL of http or https that somebody gives, to be asked as it was given. */
#pragma once

#include "base/limits.h"

#include <stdbool.h>
#include <stdint.h>

struct url {
	bool is_tls;
	char host[DNS_NAME_MAX + 3]; /* without brackets; whether it is one is for net/host.h */
	uint16_t port;
	const char *path; /* points into the text; "" for "/" */
};
/* -EINVAL: neither http nor https, with user information or a fragment, or without a host. */
int url_parse(struct url *ret, const char *text);
