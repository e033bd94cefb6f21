/*
 * For tests of TLS: certificates made on the spot, a channel over a socket that can be made slow,
 * and a peer: another process with an ordinary, blocking OpenSSL.
 */
#pragma once

#include "net/channel.h"
#include "net/tls.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

struct rig_cert {
	X509 *cert;
	EVP_PKEY *key;
};

struct rig_cert_options {
	const char *name;	     /* common name */
	const char *alt;	     /* "DNS:x,IP:1.2.3.4"; NULL: none */
	const struct rig_cert *from; /* NULL: signs itself */
	bool is_ca;
	int from_days, to_days; /* 0, 0: yesterday to in a month */
};

void rig_cert_make(struct rig_cert *ret, const struct rig_cert_options *o);
void rig_cert_done(struct rig_cert *c);
/* Owned texts. */
char *rig_cert_pem(const struct rig_cert *c);
char *rig_key_pem(const struct rig_cert *c);
/* Certificates in a file below the test's own directory that becomes SSL_CERT_FILE. */
void rig_trust(const struct rig_cert *const *certs, size_t count);
const char *rig_dir(void); /* removed by rig_dir_done */
void rig_dir_done(void);

/* Reads and writes at most `chunk` bytes at a time; 0: any number. Takes fd. */
struct channel *rig_channel_new(struct ev *ev, int fd, size_t chunk);

struct peer {
	bool is_server;
	const struct rig_cert *cert;  /* shown */
	const struct rig_cert *extra; /* sent after it */
	const struct rig_cert *trust; /* NULL: anybody */
	const struct rig_cert *ask;   /* a server: a client certificate from this one is a must */
	int min_version, max_version; /* 0: any */
	const char *alpn;	      /* on the wire; a server chooses its first, offered or not */
	const char *sni;
	/* In the peer's process; handshake is what SSL_do_handshake returned. Exit status 0 if it
	 * returns. */
	void (*talk)(SSL *ssl, int handshake);
};

/* Returns our end. */
int peer_start(const struct peer *p, pid_t *ret_pid);
/* Several connections, one after the other, with one SSL_CTX (and, for a client, the session of
 * the one before). */
void peer_start_many(const struct peer *p, int *ret_fds, unsigned count, pid_t *ret_pid);
int peer_wait(pid_t pid); /* its exit status */

/* Talks for a peer. */
void talk_echo(SSL *ssl, int handshake);    /* until the end, then close_notify */
void talk_hello(SSL *ssl, int handshake);   /* says "hello", close_notify, reads until the end */
void talk_refused(SSL *ssl, int handshake); /* checks that the handshake failed */

/* Our side of a conversation: sends `send`, finishes, reads until the end. */
struct side {
	struct channel *channel;
	struct ev *ev;
	const uint8_t *send;
	size_t send_len, sent;
	bool finish, finished; /* finish: when all is sent */
	bool no_read;
	size_t read_size; /* of one read; 0: 64 KiB */
	uint8_t *got;	  /* owned */
	size_t got_len, got_max;
	bool ended;
	int result; /* of the last read or write */
	unsigned turns;
};

void side_init(struct side *s, struct ev *ev, struct channel *c, const char *text);
void side_run(struct side *s); /* until the end or a failure */
void side_done(struct side *s);

/* A world: an authority that the host trusts, a leaf of it, and a door. */
struct world {
	struct ev *ev;
	struct tls *tls;
	struct rig_cert root, leaf;
	uint16_t port; /* of upstreams, as sessions know them */
	struct err e;
};

/* For good.test and 192.0.2.7. */
extern const struct rig_cert_options good_leaf;

/* ca_pem: the box's authority, or NULL. */
void world_init(struct world *w, const struct rig_cert_options *leaf, const char *ca_pem);
void world_done(struct world *w);

/* A server of the world, with its certificate and what else is said of it. */
#define SERVER(w, ...) (&(struct peer){.is_server = true, .cert = &(w)->leaf, __VA_ARGS__})

/* A test in a world whose server has the good certificate. */
#define TLS_TEST(name)                                        \
	TEST_IN(name, (struct world * w), struct world world; \
		world_init(&world, &good_leaf, NULL); body(&world); world_done(&world);)
/* Connects as `host` and asks a question; ends with the side's result. */
void converse(struct world *w, struct side *s, int fd, size_t chunk, const char *host);
