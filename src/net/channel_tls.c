/*
 * TLS over a channel.
 *
 * How it works
 *
 * OpenSSL reads records straight from the channel below through a BIO of ours. What it writes goes
 * another way, so that it never has to be asked twice with the same bytes:
 *
 *	write        up to TLS_BATCH bytes become records where below has space for them, if it
 *	             is of that kind; else in the scratch (one for the whole door), which goes
 *	             down in one piece; what below does not take is copied to `out`
 *	next write   -EAGAIN until `out` is empty
 *	other        handshake messages, alerts, tickets and answers to KeyUpdate go to `out`
 *
 * So an idle connection has no buffers (OpenSSL gives its own back too), a busy one has at most
 * what one write made, and SSL_write never fails half way.
 *
 *	handshake --ok--> up --finish--> close_notify written; reads go on until the other side's
 *	    \              \
 *	     +--------------+--> failed: every call says the same, channel.error has the sentence
 *
 * Interest: what the owner wants is translated to what is wanted of below (want_below). Bytes that
 * OpenSSL holds already, an end or a failure are not seen by below: a deferred call per turn tells
 * the owner as long as it wants to know.
 */
#include "base/str.h"
#include "net/tls_parts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static struct channel_tls *tls_of(struct channel *c)
{
	return container(c, struct channel_tls, channel);
}

static int bio_read(BIO *bio, char *p, size_t n, size_t *ret)
{
	struct channel_tls *c = BIO_get_data(bio);
	ssize_t r;

	BIO_clear_retry_flags(bio);
	if (c->cork) {
		/* Nothing may be done with below while its space is being filled. */
		BIO_set_retry_read(bio);
		return 0;
	}
	if (buf_len(&c->fed)) {
		*ret = n < buf_len(&c->fed) ? n : buf_len(&c->fed);
		memcpy(p, buf_data(&c->fed), *ret);
		buf_consume(&c->fed, *ret);
		if (buf_len(&c->fed) == 0)
			buf_done(&c->fed);
		return 1;
	}
	r = channel_read(c->below, p, n);
	if (r > 0) {
		*ret = (size_t)r;
		return 1;
	}
	if (r == 0)
		c->below_ended = true;
	else if (r == -EAGAIN)
		BIO_set_retry_read(bio);
	else
		c->below_error = (int)r;
	return 0;
}

static int bio_write(BIO *bio, const char *p, size_t n, size_t *ret)
{
	struct channel_tls *c = BIO_get_data(bio);
	int r;

	BIO_clear_retry_flags(bio);
	if (c->cork) {
		/* tls_write leaves room for everything that one SSL_write may write. */
		ASSERT(n <= c->cork_room - c->corked);
		memcpy(c->cork + c->corked, p, n);
		c->corked += n;
	} else {
		r = buf_append(&c->out, p, n);
		if (r == -ENOBUFS) {
			BIO_set_retry_write(bio);
			return 0;
		}
		if (r < 0) {
			c->below_error = r;
			return 0;
		}
	}
	*ret = n;
	return 1;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *p)
{
	struct channel_tls *c = BIO_get_data(bio);

	switch (cmd) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return c->below_ended;
	default:
		return 0;
	}
}

BIO_METHOD *channel_tls_bio_new(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "channel");

	if (m && BIO_meth_set_read_ex(m, bio_read) && BIO_meth_set_write_ex(m, bio_write) &&
	    BIO_meth_set_ctrl(m, bio_ctrl))
		return m;
	BIO_meth_free(m);
	return NULL;
}

/* Below refused bytes. Where it only takes no more, what it has is still worth reading: the answer
 * of a server that did not wait for the whole request, or an alert that says why. */
static void note_refusal(struct channel_tls *c, int r)
{
	if (r == -EPIPE || r == -ECONNRESET)
		c->write_error = r;
	else
		c->below_error = r;
	buf_done(&c->out);
}

/* Gives below as much as it takes. Returns how much that was. */
static size_t send_down(struct channel_tls *c, const uint8_t *p, size_t n)
{
	size_t sent = 0;

	while (sent < n) {
		ssize_t r = channel_write(c->below, p + sent, n - sent);

		if (r == -EAGAIN || r == 0)
			break;
		if (r < 0) {
			note_refusal(c, (int)r);
			return n;
		}
		sent += (size_t)r;
	}
	return sent;
}

/* Sends what waits. True if nothing waits any more. */
static bool flush_out(struct channel_tls *c)
{
	if (c->below_error || c->write_error) {
		buf_done(&c->out);
	} else if (buf_len(&c->out)) {
		size_t n = send_down(c, buf_data(&c->out), buf_len(&c->out));

		buf_consume(&c->out, n < buf_len(&c->out) ? n : buf_len(&c->out));
		if (buf_len(&c->out) == 0)
			buf_done(&c->out);
	}
	return buf_len(&c->out) == 0;
}

static int fail(struct channel_tls *c)
{
	flush_out(c); /* an alert, so that the other side knows as well */
	c->failed = tls_why(c);
	return c->failed;
}

/* 0 if bytes can be sent, else why not. */
static int may_send(struct channel_tls *c)
{
	bool empty = flush_out(c);
	char byte;
	int ret;

	if (c->below_error)
		return fail(c);
	if (!c->write_error)
		return empty ? 0 : -EAGAIN;
	/* Below takes no more. An alert that came before says more than "broken pipe"; where there
	 * is something else to read it stays there. */
	ERR_clear_error();
	ret = SSL_peek(c->ssl, &byte, 1);
	c->more = ret == 1;
	if (c->below_error || (ret <= 0 && SSL_get_error(c->ssl, ret) == SSL_ERROR_SSL))
		return fail(c);
	ERR_clear_error();
	return tls_why_below(c, c->write_error);
}

/* After a call of OpenSSL that gave nothing: -EAGAIN, or what ended it. */
static int after_call(struct channel_tls *c, int ret)
{
	switch (SSL_get_error(c->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		c->read_on = CHANNEL_IN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		c->read_on = CHANNEL_OUT;
		return -EAGAIN;
	default:
		return fail(c);
	}
}

static int handshake(struct channel_tls *c)
{
	const uint8_t *alpn;
	unsigned n;
	int ret;

	if (c->failed)
		return c->failed;
	if (c->up)
		return 0;
	ERR_clear_error();
	ret = SSL_do_handshake(c->ssl);
	if (ret != 1) {
		ret = after_call(c, ret);
		flush_out(c);
		return ret == -EAGAIN && c->below_error ? fail(c) : ret;
	}
	flush_out(c);
	if (c->below_error)
		return fail(c);
	if (!c->is_server && SSL_get_verify_result(c->ssl) != X509_V_OK)
		return fail(c);
	/* Not every version of OpenSSL looks itself at what the server chose. */
	SSL_get0_alpn_selected(c->ssl, &alpn, &n);
	if (!c->is_server && n != 0 && (n != 8 || memcmp(alpn, "http/1.1", 8) != 0)) {
		c->failed = err_set(&c->channel.error, ERR_PROTOCOL, EPROTO,
				    "'%s' chose a protocol that was not offered", c->host);
		return c->failed;
	}
	c->up = true;
	c->read_on = CHANNEL_IN;
	c->more = SSL_has_pending(c->ssl) || buf_len(&c->fed);
	return 0;
}

/* What has to happen below, or in the next turn, for what the owner wants. */
static void want_below(struct channel_tls *c)
{
	unsigned wanted = c->channel.wanted, below = 0;
	bool again = false;

	if (c->failed) {
		again = wanted;
	} else {
		if (buf_len(&c->out))
			below |= CHANNEL_OUT;
		if (!c->up)
			below |= c->read_on;
		else if (wanted & CHANNEL_IN && c->more)
			again = true;
		else if (wanted & CHANNEL_IN)
			below |= c->read_on;
		if (c->up && wanted & CHANNEL_OUT && c->write_error)
			again = true;
		else if (c->up && wanted & CHANNEL_OUT)
			below |= CHANNEL_OUT;
	}
	channel_want(c->below, below);
	if (again)
		ev_defer(c->ev, &c->again);
}

/* Moves on with what below is ready for, and tells the owner. Last in every path: the owner may
 * free the channel. */
static void advance(struct channel_tls *c, unsigned what)
{
	bool was_up = c->up;
	unsigned ready = 0;

	if (!c->up)
		handshake(c);
	else if (what & CHANNEL_OUT && !c->failed)
		flush_out(c);
	if (!c->failed && c->below_error)
		fail(c);
	if (c->failed) {
		ready = CHANNEL_IN | CHANNEL_OUT;
	} else if (c->up) {
		if (c->more || (was_up && what & c->read_on))
			ready |= CHANNEL_IN;
		if (buf_len(&c->out) == 0 && (!was_up || what & CHANNEL_OUT || c->write_error))
			ready |= CHANNEL_OUT;
	}
	want_below(c);
	ready &= c->channel.wanted;
	if (ready && c->channel.on_ready)
		c->channel.on_ready(&c->channel, ready);
}

static void on_below(struct channel *below, unsigned what)
{
	advance(below->owner, what);
}

static void on_again(struct ev_defer *d)
{
	advance(container(d, struct channel_tls, again), 0);
}

static ssize_t tls_read(struct channel *channel, void *p, size_t n)
{
	struct channel_tls *c = tls_of(channel);
	size_t got = 0, k = 0;
	int r = handshake(c), ret = 1;

	if (r < 0 || n == 0) {
		want_below(c);
		return r;
	}
	ERR_clear_error();
	while (got < n && (ret = SSL_read_ex(c->ssl, (char *)p + got, n - got, &k)) == 1)
		got += k;
	if (ret == 1) {
		c->more = SSL_has_pending(c->ssl);
	} else if (SSL_get_error(c->ssl, ret) == SSL_ERROR_ZERO_RETURN) {
		c->more = true; /* the end can be read as often as one likes */
	} else {
		r = after_call(c, ret);
		c->more = false;
	}
	if (!c->failed)
		flush_out(c);
	want_below(c);
	return got ? (ssize_t)got : r;
}

/* Encrypts a batch into the room at c->cork, which ends with it. Returns how much of it was taken,
 * and for after_call what OpenSSL said last. */
static size_t encrypt(struct channel_tls *c, const uint8_t *p, size_t n, int *ret_last)
{
	size_t done = 0, k = 0, most = c->cork_room - TLS_AROUND;
	int ret = 1;

	ERR_clear_error();
	c->corked = 0;
	if (n > most)
		n = most;
	while (ret == 1 && done < n) {
		size_t part = n - done < TLS_RECORD ? n - done : TLS_RECORD;

		ret = SSL_write_ex(c->ssl, p + done, part, &k);
		if (ret == 1)
			done += k;
	}
	c->cork = NULL;
	*ret_last = ret;
	return done;
}

static ssize_t write_by_scratch(struct channel_tls *c, const uint8_t *p, size_t n)
{
	struct tls *t = c->tls;
	size_t done, sent;
	int last, r = 0;

	/* TLS in TLS would need the scratch twice; nothing does that. */
	ASSERT(!t->scratch_used);
	if (!t->scratch)
		t->scratch = malloc(TLS_SCRATCH);
	if (!t->scratch)
		return -ENOMEM;
	t->scratch_used = true;
	c->cork = t->scratch;
	c->cork_room = TLS_SCRATCH;
	done = encrypt(c, p, n, &last);
	/* What is not taken waits in `out`, which was empty. */
	sent = send_down(c, t->scratch, c->corked);
	if (sent < c->corked)
		r = buf_append(&c->out, t->scratch + sent, c->corked - sent);
	if (r < 0)
		note_refusal(c, r);
	t->scratch_used = false;
	return done > 0 || last == 1 ? (ssize_t)done : after_call(c, last);
}

static ssize_t write_records(struct channel_tls *c, const uint8_t *p, size_t n)
{
	size_t room = 0, done;
	uint8_t *to = channel_space(c->below, &room);
	int last;

	if (to && room > 2 * TLS_AROUND) {
		c->cork = to;
		c->cork_room = room;
		done = encrypt(c, p, n, &last);
		if (c->corked > 0)
			channel_put(c->below, c->corked);
		return done > 0 || last == 1 ? (ssize_t)done : after_call(c, last);
	}
	/* One that has space at times, and has none now, would only leave all of it to `out`. */
	if (c->below->ops->space && !to && channel_write(c->below, p, 0) == -EAGAIN)
		return -EAGAIN;
	return write_by_scratch(c, p, n);
}

static ssize_t tls_write(struct channel *channel, const void *p, size_t n)
{
	struct channel_tls *c = tls_of(channel);
	ssize_t r = handshake(c);

	if (r == 0 && c->finished)
		return -EPIPE;
	if (r == 0)
		r = may_send(c);
	if (r == 0 && n) {
		r = write_records(c, p, n < TLS_BATCH ? n : TLS_BATCH);
		if (r >= 0 && (c->below_error || c->write_error))
			r = may_send(c);
	}
	want_below(c);
	return r;
}

static int tls_finish(struct channel *channel)
{
	struct channel_tls *c = tls_of(channel);
	int r = handshake(c);

	if (r == 0)
		r = may_send(c);
	if (r == 0 && !c->finished) {
		ERR_clear_error();
		c->finished = true;
		r = SSL_shutdown(c->ssl) < 0 ? fail(c) : may_send(c);
	}
	if (r == 0)
		r = channel_finish(c->below);
	want_below(c);
	return r;
}

static void tls_want(struct channel *channel, unsigned what)
{
	want_below(tls_of(channel));
}

static void tls_end(struct channel *channel, bool abort)
{
	struct channel_tls *c = tls_of(channel);

	if (!abort && c->up && !c->failed && flush_out(c) && !c->finished) {
		ERR_clear_error();
		SSL_shutdown(c->ssl);
		flush_out(c);
	}
	ev_defer_cancel(c->ev, &c->again);
	SSL_free(c->ssl);
	X509_free(c->refused);
	ERR_clear_error();
	channel_free(c->below, abort);
	buf_done(&c->out);
	buf_done(&c->fed);
	free(c);
}

static const struct channel_ops tls_ops = {
	.read = tls_read,
	.write = tls_write,
	.finish = tls_finish,
	.want = tls_want,
	.free = tls_end,
};

/* Takes below, also on failure. */
static struct channel_tls *tls_begin(struct tls *t, struct ev *ev, struct channel *below,
				     const char *host, bool is_server)
{
	struct channel_tls *c = calloc(1, sizeof(*c));
	BIO *bio = BIO_new(t->bio);

	if (c)
		c->ssl = SSL_new(is_server ? t->server : t->client);
	if (!c || !bio || !c->ssl || !str_copy(c->host, sizeof(c->host), host)) {
		BIO_free(bio);
		if (c)
			SSL_free(c->ssl);
		free(c);
		channel_free(below, true);
		return NULL;
	}
	c->channel.ops = &tls_ops;
	c->below = below;
	c->tls = t;
	c->ev = ev;
	c->again.on_defer = on_again;
	c->is_server = is_server;
	c->read_on = CHANNEL_IN;
	buf_init(&c->out, TLS_OUT_MAX);
	buf_init(&c->fed, DOOR_BUFFER_MAX);
	BIO_set_data(bio, c);
	BIO_set_init(bio, 1);
	SSL_set_bio(c->ssl, bio, bio);
	SSL_set_app_data(c->ssl, c);
	below->owner = c;
	below->on_ready = on_below;
	return c;
}

static struct channel *tls_start(struct channel_tls *c)
{
	ev_defer(c->ev, &c->again);
	return &c->channel;
}

static struct channel *cannot_begin(struct err *e, const char *host)
{
	ERR_clear_error();
	err_set(e, ERR_FULL, ENOMEM, "TLS for '%.100s' cannot be begun", host);
	return NULL;
}

struct channel *channel_tls_accept(struct tls *t, struct ev *ev, struct channel *below,
				   const char *host, struct err *e)
{
	uint8_t id[SHA256_DIGEST_LENGTH];
	struct channel_tls *c;
	X509 *leaf = NULL;

	if (!t->ca) {
		channel_free(below, true);
		err_set(e, ERR_CONFLICT, EOPNOTSUPP,
			"the box has no certificate authority: TLS for '%.100s' cannot be looked "
			"into",
			host);
		return NULL;
	}
	if (ca_leaf(t->ca, host, &leaf, e) < 0) {
		channel_free(below, true);
		return NULL;
	}
	c = tls_begin(t, ev, below, host, true);
	if (!c)
		return cannot_begin(e, host);
	/* A ticket of one host is of no use for another. */
	SHA256((const uint8_t *)c->host, strlen(c->host), id);
	if (SSL_use_certificate(c->ssl, leaf) != 1 ||
	    SSL_use_PrivateKey(c->ssl, ca_leaf_key(t->ca)) != 1 ||
	    SSL_set_session_id_context(c->ssl, id, sizeof(id)) != 1) {
		channel_free(&c->channel, true);
		return cannot_begin(e, host);
	}
	SSL_set_accept_state(c->ssl);
	return tls_start(c);
}

struct channel *channel_tls_serve(struct tls *t, struct ev *ev, struct channel *below,
				  struct err *e)
{
	static const uint8_t id[] = "server";
	struct channel_tls *c = tls_begin(t, ev, below, "a client", true);

	if (!c)
		return cannot_begin(e, "a client");
	if (SSL_set_session_id_context(c->ssl, id, sizeof(id)) != 1) {
		channel_free(&c->channel, true);
		return cannot_begin(e, "a client");
	}
	SSL_set_accept_state(c->ssl);
	return tls_start(c);
}

int channel_tls_feed(struct channel *channel, const void *p, size_t n)
{
	return buf_append(&tls_of(channel)->fed, p, n);
}

static int use_identity(SSL *ssl, const struct tls_identity *id, const char *host, struct err *e)
{
	BIO *bio = BIO_new_mem_buf(id->cert_pem, -1);
	X509 *x = bio ? PEM_read_bio_X509_AUX(bio, NULL, pem_no_password, NULL) : NULL;
	int ok = x && SSL_use_certificate(ssl, x) == 1;
	EVP_PKEY *key = NULL;

	X509_free(x);
	while (ok && (x = PEM_read_bio_X509(bio, NULL, pem_no_password, NULL)) != NULL) {
		ok = SSL_add1_chain_cert(ssl, x) == 1;
		X509_free(x);
	}
	BIO_free(bio);
	ERR_clear_error();
	if (!ok)
		return err_set(e, ERR_INVALID, EINVAL,
			       "the client certificate for '%.100s' is not a certificate in PEM",
			       host);
	bio = BIO_new_mem_buf(id->key_pem, -1);
	if (bio)
		key = PEM_read_bio_PrivateKey(bio, NULL, pem_no_password, NULL);
	BIO_free(bio);
	if (!key) {
		ERR_clear_error();
		return err_set(e, ERR_INVALID, EINVAL,
			       "the key of the client certificate for '%.100s' is not a key in PEM "
			       "without a password",
			       host);
	}
	ok = SSL_use_PrivateKey(ssl, key);
	EVP_PKEY_free(key);
	ERR_clear_error();
	if (ok != 1)
		return err_set(e, ERR_INVALID, EINVAL,
			       "the key and the client certificate for '%.100s' are not a pair",
			       host);
	return 0;
}

struct channel *channel_tls_connect(struct tls *t, struct ev *ev, struct channel *below,
				    const struct tls_upstream *to, struct err *e)
{
	struct channel_tls *c = tls_begin(t, ev, below, to->host, false);
	X509_VERIFY_PARAM *param;
	SSL_SESSION *session;
	uint8_t addr[16];
	bool ok;

	if (!c)
		return cannot_begin(e, to->host);
	/* What the certificate must be for. Only alternative names count: a common name is free
	 * text. */
	param = SSL_get0_param(c->ssl);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
						       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (inet_pton(AF_INET, to->host, addr) == 1 || inet_pton(AF_INET6, to->host, addr) == 1)
		ok = X509_VERIFY_PARAM_set1_ip_asc(param, to->host) == 1;
	else
		ok = *to->host && X509_VERIFY_PARAM_set1_host(param, to->host, 0) == 1 &&
		     SSL_set_tlsext_host_name(c->ssl, to->host) == 1;
	if (!ok) {
		channel_free(&c->channel, true);
		return cannot_begin(e, to->host);
	}
	/* It costs as much as a copy of all that is read. */
	if (to->is_secret)
		SSL_set_options(c->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	c->port = to->port;
	c->has_id = to->id && to->id->cert_pem;
	if (c->has_id && use_identity(c->ssl, to->id, to->host, e) < 0) {
		channel_free(&c->channel, true);
		return NULL;
	}
	session = c->has_id ? NULL : tls_session_find(t, to->host, to->port);
	if (session)
		SSL_set_session(c->ssl, session);
	SSL_SESSION_free(session);
	SSL_set_connect_state(c->ssl);
	return tls_start(c);
}

bool channel_tls_is_up(const struct channel *c)
{
	const struct channel_tls *t = container(c, struct channel_tls, channel);

	return c->ops == &tls_ops && t->up && !t->failed;
}
