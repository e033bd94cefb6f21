/*
 * TLS for channels (OpenSSL). Towards the box the door is the server, with a certificate made for
 * the name (ca.h); towards the upstream it is a client that verifies against the host's store
 * (roots.h), and against nothing else.
 *
 * TLS 1.2 and 1.3, no renegotiation, no compression, no early data, ALPN http/1.1 only. No key log:
 * the environment is never read for one, nor is OpenSSL's configuration file.
 *
 * After tls_new no file is needed.
 */
#pragma once

#include "base/err.h"
#include "net/channel.h"

#include <stdbool.h>
#include <stdint.h>

struct ca;
struct tls;

/* Reads the host's store (SSL_CERT_FILE and SSL_CERT_DIR are honoured) and opens the box's
 * authority, before the door confines itself. ca_pem holds certificate and key; NULL: nothing is
 * ever intercepted. A host without a store is no error: no upstream is trusted then. */
int tls_new(struct tls **ret, const char *ca_pem, struct err *e);
/* For a server of ours: one certificate, with its chain, and its key, from PEM files. */
int tls_new_server(struct tls **ret, const char *cert_path, const char *key_path, struct err *e);
void tls_free(struct tls *t); /* after its channels; NULL is fine */

/* Takes `below`, also on failure (NULL is returned then). The handshake runs by itself in the loop;
 * reads and writes give -EAGAIN until it is done. CHANNEL_OUT: it is up. A failure is in
 * channel->error, as a sentence:
 *
 *	-EKEYREJECTED  the certificate was refused, by us or by the other side
 *	-ECONNRESET    the end came without close_notify
 *	-EPROTO        what came is not the TLS that is spoken here
 *	other          what below said
 */
struct channel *channel_tls_accept(struct tls *t, struct ev *ev, struct channel *below,
				   const char *host, struct err *e);
/* The same with the certificate of tls_new_server. */
struct channel *channel_tls_serve(struct tls *t, struct ev *ev, struct channel *below,
				  struct err *e);
/* Bytes that were read from below before the channel was made (a ClientHello that was looked at):
 * right after channel_tls_accept, once. -ENOMEM, -ENOBUFS beyond DOOR_BUFFER_MAX. */
int channel_tls_feed(struct channel *c, const void *p, size_t n);

struct tls_identity {
	const char *cert_pem, *key_pem;
};
/* host is a name or an address: what the certificate must be for, and (a name only) the SNI. A
 * session is resumed for the same host and port only. The identity may be NULL; it is shown when
 * the upstream asks, and a connection with one is never resumed from, nor for, another. */
struct tls_upstream {
	const char *host;
	uint16_t port;
	const struct tls_identity *id;
	bool is_secret; /* a credential goes there and may come back: what was read is wiped */
};
struct channel *channel_tls_connect(struct tls *t, struct ev *ev, struct channel *below,
				    const struct tls_upstream *to, struct err *e);
/* The handshake is over and, for a client, the certificate was right for the host. */
bool channel_tls_is_up(const struct channel *c);
