/*
 * The two contexts of TLS, and the sessions with upstreams.
 *
 * One context serves all hosts: a connection gets its leaf when it is made (channel_tls.c), so a
 * host costs a certificate and not a context. AES-128-GCM comes first: with the processor's own
 * instructions it is the fastest, and nothing weaker is offered.
 *
 * Towards the box a session is resumed by tickets, whose keys live in the context: nothing is kept
 * per session. Towards upstreams the last session of each of DOOR_SESSIONS_MAX hosts and ports is
 * kept, for an hour at most, so that a certificate is looked at again.
 */
#include "net/tls.h"

#include "base/limits.h"
#include "net/tls_parts.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SESSION_S = 3600, VERIFY_DEPTH = 16 };
/* Locked memory for private keys: a client certificate's takes up to 3 KiB per connection. A key
 * that finds no room there is an error of that connection. */
enum { KEYS_BYTES = 1 << 20, KEYS_PART_MIN = 64 };

static const uint8_t alpn_http1[] = "\x08http/1.1";
enum { ALPN_LEN = sizeof(alpn_http1) - 1 };

/* Both sides alike. */
static SSL_CTX *make_context(const SSL_METHOD *method)
{
	SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx)
		return NULL;
	SSL_CTX_set_security_level(ctx, 2);
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					 SSL_OP_CIPHER_SERVER_PREFERENCE);
	SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_LEGACY_SERVER_CONNECT |
					   SSL_OP_ALLOW_CLIENT_RENEGOTIATION);
	SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
				      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	/* Several records with one read of what is below. */
	SSL_CTX_set_read_ahead(ctx, 1);
	SSL_CTX_set_default_read_buffer_len(ctx, TLS_READ_AHEAD);
	if (!SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) ||
	    !SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
					   "TLS_CHACHA20_POLY1305_SHA256") ||
	    !SSL_CTX_set_cipher_list(ctx, "ECDHE+AES128+AESGCM:ECDHE+AESGCM:ECDHE+CHACHA20:"
					  "DHE+AES128+AESGCM:DHE+AESGCM") ||
	    !SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384")) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

/* A client that wants HTTP/2 only, or something else, gets an alert at once. */
static int choose_alpn(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in,
		       unsigned in_len, void *arg)
{
	uint8_t *chosen = NULL;

	if (SSL_select_next_proto(&chosen, out_len, alpn_http1, ALPN_LEN, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *make_server(void)
{
	SSL_CTX *ctx = make_context(TLS_server_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(ctx, 1);
	SSL_CTX_set_max_early_data(ctx, 0);
	SSL_CTX_set_recv_max_early_data(ctx, 0);
	SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
	return ctx;
}

/* Parses what the chain leads to, then lets OpenSSL verify. */
static int verify(X509_STORE_CTX *ctx, void *arg)
{
	STACK_OF(X509) *chain = X509_STORE_CTX_get0_untrusted(ctx);
	X509_STORE *store = X509_STORE_CTX_get0_store(ctx);
	SSL *ssl = X509_STORE_CTX_get_ex_data(ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
	X509 *leaf = X509_STORE_CTX_get0_cert(ctx), *x;
	struct channel_tls *c = SSL_get_app_data(ssl);
	struct tls *t = arg;
	int r = leaf ? roots_add_issuers(t->roots, store, leaf) : -EINVAL;

	for (int i = 0; r == 0 && i < sk_X509_num(chain); i++)
		r = roots_add_issuers(t->roots, store, sk_X509_value(chain, i));
	if (r < 0)
		X509_STORE_CTX_set_error(ctx, X509_V_ERR_OUT_OF_MEM);
	else if (X509_verify_cert(ctx) > 0)
		return 1;
	/* For the sentence about it. */
	x = X509_STORE_CTX_get_current_cert(ctx);
	x = x ? x : leaf;
	if (x && X509_up_ref(x)) {
		X509_free(c->refused);
		c->refused = x;
		c->refused_depth = X509_STORE_CTX_get_error_depth(ctx);
	}
	return 0;
}

static void session_drop(struct tls_session *s)
{
	free(s->host);
	SSL_SESSION_free(s->session);
	*s = (struct tls_session){0};
}

static bool session_is_of(const struct tls_session *s, const char *host, uint16_t port)
{
	return s->host && s->port == port && strcmp(s->host, host) == 0;
}

static struct tls_session *session_place(struct tls *t, const char *host, uint16_t port)
{
	struct tls_session *oldest = &t->sessions[0];

	for (unsigned i = 0; i < DOOR_SESSIONS_MAX; i++) {
		struct tls_session *s = &t->sessions[i];

		if (session_is_of(s, host, port))
			return s;
		if (s->used < oldest->used)
			oldest = s;
	}
	return oldest;
}

/* The upstream gave us a session. One that was made with a client certificate belongs to that
 * certificate: it is not kept. */
static int on_session(SSL *ssl, SSL_SESSION *session)
{
	struct channel_tls *c = SSL_get_app_data(ssl);
	struct tls_session fresh = {.used = ++c->tls->tick, .port = c->port}, *s;
	long seconds = SSL_SESSION_get_timeout(session);

	if (c->has_id || !SSL_SESSION_is_resumable(session))
		return 0;
	fresh.host = strdup(c->host);
	if (!fresh.host)
		return 0;
	fresh.until = time(NULL) + (seconds < SESSION_S ? seconds : SESSION_S);
	s = session_place(c->tls, c->host, c->port);
	/* A resumed session's ticket does not prolong what was looked at when it began. */
	if (session_is_of(s, c->host, c->port) && SSL_session_reused(ssl) && s->until < fresh.until)
		fresh.until = s->until;
	session_drop(s);
	fresh.session = session;
	*s = fresh;
	return 1; /* the reference is ours now */
}

SSL_SESSION *tls_session_find(struct tls *t, const char *host, uint16_t port)
{
	struct tls_session *s = session_place(t, host, port);

	if (!session_is_of(s, host, port))
		return NULL;
	if (time(NULL) >= s->until) {
		session_drop(s);
		return NULL;
	}
	s->used = ++t->tick;
	return SSL_SESSION_up_ref(s->session) ? s->session : NULL;
}

/* The upstream wants a client certificate, and none was given: it may go on without. */
static int on_asked(SSL *ssl, X509 **cert, EVP_PKEY **key)
{
	struct channel_tls *c = SSL_get_app_data(ssl);

	c->asked = true;
	return 0;
}

static SSL_CTX *make_client(struct tls *t)
{
	SSL_CTX *ctx = make_context(TLS_client_method());

	if (!ctx)
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_verify_depth(ctx, VERIFY_DEPTH);
	SSL_CTX_set_cert_verify_callback(ctx, verify, t);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, on_session);
	SSL_CTX_set_client_cert_cb(ctx, on_asked);
	if (SSL_CTX_set_alpn_protos(ctx, alpn_http1, ALPN_LEN) != 0) {
		SSL_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

static int start_openssl(struct err *e)
{
	/* Newer versions of OpenSSL may be built to read it by themselves. */
	unsetenv("SSLKEYLOGFILE");
	if (!OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) ||
	    (!CRYPTO_secure_malloc_initialized() &&
	     !CRYPTO_secure_malloc_init(KEYS_BYTES, KEYS_PART_MIN)))
		return crypto_failed(e, "start OpenSSL");
	return 0;
}

static int check_readable(const char *path, struct err *e)
{
	return access(path, R_OK) == 0 ? 0
				       : err_set(e, ERR_INVALID, errno, "'%s' cannot be read: %s",
						 path, strerrordesc_np(errno));
}

int tls_new_server(struct tls **ret, const char *cert_path, const char *key_path, struct err *e)
{
	struct tls *t;
	int r = start_openssl(e);

	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_errno(e, ENOMEM, "start TLS");
	t->bio = channel_tls_bio_new();
	t->server = make_server();
	if (!t->bio || !t->server)
		r = crypto_failed(e, "start TLS");
	else if (check_readable(cert_path, e) < 0 || check_readable(key_path, e) < 0)
		r = -EINVAL;
	else if (SSL_CTX_use_certificate_chain_file(t->server, cert_path) != 1)
		r = err_set(e, ERR_INVALID, EINVAL, "'%s' is no certificate (PEM)", cert_path);
	else if (SSL_CTX_use_PrivateKey_file(t->server, key_path, SSL_FILETYPE_PEM) != 1 ||
		 SSL_CTX_check_private_key(t->server) != 1)
		r = err_set(e, ERR_INVALID, EINVAL, "'%s' is not the key (PEM) of that certificate",
			    key_path);
	ERR_clear_error();
	if (r < 0)
		tls_free(t);
	else
		*ret = t;
	return r;
}

int tls_new(struct tls **ret, const char *ca_pem, struct err *e)
{
	struct tls *t;
	int r = start_openssl(e);

	if (r < 0)
		return r;
	t = calloc(1, sizeof(*t));
	if (!t)
		return err_errno(e, ENOMEM, "start TLS");
	r = roots_new(&t->roots, e);
	if (r == 0 && ca_pem)
		r = ca_open(&t->ca, ca_pem, e);
	if (r == 0) {
		t->bio = channel_tls_bio_new();
		t->server = t->ca ? make_server() : NULL;
		t->client = make_client(t);
		if (!t->bio || (t->ca && !t->server) || !t->client)
			r = crypto_failed(e, "start TLS");
	}
	if (r < 0) {
		tls_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	for (unsigned i = 0; i < DOOR_SESSIONS_MAX; i++)
		session_drop(&t->sessions[i]);
	SSL_CTX_free(t->server);
	SSL_CTX_free(t->client);
	BIO_meth_free(t->bio);
	ca_free(t->ca);
	roots_free(t->roots);
	free(t->scratch);
	free(t);
}
