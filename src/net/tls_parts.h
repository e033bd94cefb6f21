/* What the files of TLS share: tls.c (contexts, sessions), channel_tls.c (the channel) and
 * tls_why.c (its sentences). */
#pragma once

#include "base/buf.h"
#include "base/limits.h"
#include "net/ca.h"
#include "net/channel.h"
#include "net/roots.h"
#include "net/tls.h"

#include <openssl/ssl.h>
#include <time.h>

enum {
	TLS_RECORD = 16384,
	/* Plain bytes that one write takes, and room for them as records. */
	TLS_BATCH = 4 * TLS_RECORD,
	TLS_AROUND = 4096, /* more than the records of a batch have around their content */
	TLS_SCRATCH = TLS_BATCH + TLS_AROUND,
	/* Bytes of records that wait for what is below; beyond it nothing is read that would make
	 * more of them (answers to KeyUpdate). */
	TLS_OUT_MAX = 2 * TLS_SCRATCH,
	TLS_READ_AHEAD = 2 * TLS_RECORD + 1024,
	TLS_HOST_MAX = 255,
};

/* A session with an upstream. It holds the chain of certificates, some 15 KiB; as bytes it would be
 * a fifth of that, but reading them again takes as long as all the rest of a resumed handshake's
 * arithmetic. */
struct tls_session {
	char *host; /* owned */
	uint16_t port;
	SSL_SESSION *session; /* owned */
	uint64_t used;
	time_t until;
};

struct tls {
	SSL_CTX *server, *client; /* server: NULL without an authority */
	BIO_METHOD *bio;
	struct ca *ca; /* NULL: nothing is intercepted */
	struct roots *roots;
	struct tls_session sessions[DOOR_SESSIONS_MAX];
	uint64_t tick;
	/* Records on their way out, all of one write together; used within that call only. */
	uint8_t *scratch;
	bool scratch_used;
};

struct channel_tls {
	struct channel channel;
	struct channel *below; /* owned */
	struct tls *tls;       /* borrowed */
	struct ev *ev;	       /* borrowed */
	struct ev_defer again;
	SSL *ssl;
	char host[TLS_HOST_MAX + 1];
	uint16_t port;	/* of a client */
	struct buf out; /* records that below did not take yet */
	struct buf fed; /* bytes that were read before us */
	uint8_t *cork;	/* records go there: the scratch, or below's own space */
	size_t corked, cork_room;
	bool is_server, has_id; /* has_id: a client certificate was given */
	bool asked;		/* for a client certificate, and had none */
	bool up;		/* the handshake is over and all is well */
	bool more;		/* a read may give something without below being readable */
	bool finished;		/* close_notify was written */
	bool below_ended;
	unsigned read_on; /* what of below a read or the handshake waits for */
	int below_error;  /* negative: what below said, and that was the end */
	int write_error;  /* negative: below takes no more; what it has can still be read */
	X509 *refused;	  /* owned: the certificate that was not good enough */
	int refused_depth;
	int failed; /* negative: over, and channel.error says why */
};

/* tls.c: the session of the last connection to host and port, if one may be resumed; owned. */
SSL_SESSION *tls_session_find(struct tls *t, const char *host, uint16_t port);

/* channel_tls.c: how OpenSSL reads and writes a channel. */
BIO_METHOD *channel_tls_bio_new(void);

/* tls_why.c: the sentence for what just went wrong, from OpenSSL's queue and the verdict on the
 * certificate. Fills channel.error, and returns a negative errno. */
int tls_why(struct channel_tls *c);
/* The same where it is the channel below that said r. */
int tls_why_below(struct channel_tls *c, int r);
