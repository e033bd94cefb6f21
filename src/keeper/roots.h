/*
 * What this host trusts beyond its distribution: certificates that its administrator put where
 * update-ca-certificates and update-ca-trust look. A network that inspects TLS needs them in a box,
 * too: what the door passes through has such a certificate. An image's own choice of public
 * authorities stays as it is.
 */
#pragma once

#include "base/buf.h"

/* The directories of Debian and Alpine, Fedora, Arch; ends with NULL. */
extern const char *const keeper_roots_places[];

/* Appends each certificate in the PEM files of these directories and of those in them, and nothing
 * else that is there. One that does not fit into out, or a file that cannot be read, is passed
 * over. -ENOMEM. */
int keeper_roots_read(const char *const *places, struct buf *out);
