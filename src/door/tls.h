/*
 * TLS for channels (OpenSSL). Towards the box the door is the server, with a certificate made for
 * the name (ca.h); towards the upstream it is a client that verifies against the host's store.
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression, no early data, ALPN http/1.1 only. No key log:
 * the environment is never read for one.
 */
#pragma once

#include "base/err.h"
#include "door/channel.h"

#include <stdbool.h>

struct ca;
struct tls;

/* Loads the host's store (SSL_CERT_FILE and SSL_CERT_DIR are honoured, as everywhere) and the box's
 * authority, before the door confines itself. ca_pem holds certificate and key; NULL: nothing is
 * ever intercepted. */
int tls_new(struct tls **ret, const char *ca_pem, struct err *e);
void tls_free(struct tls *t);

/* Takes `below`, also on failure (NULL is returned then). The handshake runs by itself as the
 * channel is used: reads and writes give -EAGAIN until it is done; a failure is in channel->error.
 * */
struct channel *channel_tls_accept(struct tls *t, struct ev *ev, struct channel *below,
				   const char *host, struct err *e);
/* host is a name or an address: what the certificate must be for, and the SNI. cert and key (PEM,
 * may be NULL) are shown when the upstream asks. extra_ca (PEM, may be NULL) is trusted beside the
 * store. */
struct tls_identity {
	const char *cert_pem, *key_pem;
};
struct channel *channel_tls_connect(struct tls *t, struct ev *ev, struct channel *below,
				    const char *host, const struct tls_identity *id, struct err *e);
/* The handshake is over and, for a client, the certificate was right for the host. */
bool channel_tls_is_up(const struct channel *c);
