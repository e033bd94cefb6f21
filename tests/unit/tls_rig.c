/* Certificates, slow channels and peers for tests of TLS. */
#include "tls_rig.h"

#include "tap.h"

#include "base/fd.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { DAY = 86400 };

static void add_ext(X509 *x, X509 *issuer, int nid, const char *text)
{
	X509_EXTENSION *ext;
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, text);
	CHECK(ext && X509_add_ext(x, ext, -1));
	X509_EXTENSION_free(ext);
}

void rig_cert_make(struct rig_cert *ret, const struct rig_cert_options *o)
{
	static long serial = 1000;
	X509 *x = X509_new();
	X509 *issuer = o->from ? o->from->cert : x;
	X509_NAME *name = X509_get_subject_name(x);

	ret->key = EVP_EC_gen("P-256");
	ret->cert = x;
	CHECK(ret->key && X509_set_version(x, X509_VERSION_3));
	ASN1_INTEGER_set(X509_get_serialNumber(x), serial++);
	X509_gmtime_adj(X509_getm_notBefore(x), (o->from_days ? o->from_days : -1) * (long)DAY);
	X509_gmtime_adj(X509_getm_notAfter(x), (o->to_days ? o->to_days : 30) * (long)DAY);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)o->name, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(issuer));
	X509_set_pubkey(x, ret->key);
	add_ext(x, issuer, NID_basic_constraints, o->is_ca ? "critical,CA:TRUE" : "CA:FALSE");
	add_ext(x, issuer, NID_subject_key_identifier, "hash");
	if (o->from)
		add_ext(x, issuer, NID_authority_key_identifier, "keyid");
	if (o->alt)
		add_ext(x, issuer, NID_subject_alt_name, o->alt);
	CHECK(X509_sign(x, o->from ? o->from->key : ret->key, EVP_sha256()));
}

void rig_cert_done(struct rig_cert *c)
{
	X509_free(c->cert);
	EVP_PKEY_free(c->key);
	*c = (struct rig_cert){0};
}

static char *take_text(BIO *bio)
{
	char *p, *text;
	long n = BIO_get_mem_data(bio, &p);

	text = strndup(p, (size_t)n);
	BIO_free(bio);
	CHECK(text);
	return text;
}

char *rig_cert_pem(const struct rig_cert *c)
{
	BIO *bio = BIO_new(BIO_s_mem());

	CHECK(PEM_write_bio_X509(bio, c->cert));
	return take_text(bio);
}

char *rig_key_pem(const struct rig_cert *c)
{
	BIO *bio = BIO_new(BIO_s_mem());

	CHECK(PEM_write_bio_PrivateKey(bio, c->key, NULL, NULL, 0, NULL, NULL));
	return take_text(bio);
}

static char dir_name[64];

const char *rig_dir(void)
{
	if (!*dir_name) {
		snprintf(dir_name, sizeof(dir_name), "/tmp/cove-test-tls-XXXXXX");
		CHECK(mkdtemp(dir_name));
	}
	return dir_name;
}

void rig_dir_done(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/trust.pem", dir_name);
	unlink(path);
	CHECK(rmdir(dir_name) == 0);
	*dir_name = '\0';
}

void rig_trust(const struct rig_cert *const *certs, size_t count)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/trust.pem", rig_dir());
	f = fopen(path, "we");
	CHECK(f);
	for (size_t i = 0; i < count; i++) {
		autofree char *pem = rig_cert_pem(certs[i]);

		fprintf(f, "# some words\n%s", pem);
	}
	CHECK(fclose(f) == 0);
	setenv("SSL_CERT_FILE", path, 1);
	unsetenv("SSL_CERT_DIR");
}

struct rig_channel {
	struct channel channel;
	struct ev *ev;
	struct ev_io io;
	size_t chunk;
};

static struct rig_channel *rig_of(struct channel *c)
{
	return container(c, struct rig_channel, channel);
}

static ssize_t rig_read(struct channel *channel, void *p, size_t n)
{
	struct rig_channel *c = rig_of(channel);
	ssize_t r = recv(c->io.fd, p, c->chunk && n > c->chunk ? c->chunk : n, MSG_DONTWAIT);

	return r < 0 ? -errno : r;
}

static ssize_t rig_write(struct channel *channel, const void *p, size_t n)
{
	struct rig_channel *c = rig_of(channel);
	ssize_t r = send(c->io.fd, p, c->chunk && n > c->chunk ? c->chunk : n,
			 MSG_DONTWAIT | MSG_NOSIGNAL);

	return r < 0 ? -errno : r;
}

static int rig_finish(struct channel *channel)
{
	return shutdown(rig_of(channel)->io.fd, SHUT_WR) < 0 ? -errno : 0;
}

static void rig_want(struct channel *channel, unsigned what)
{
	struct rig_channel *c = rig_of(channel);
	uint32_t events = (what & CHANNEL_IN ? EPOLLIN : 0) | (what & CHANNEL_OUT ? EPOLLOUT : 0);

	if (what && !c->io.added)
		CHECK_EQ(ev_io_add(c->ev, &c->io, events), 0);
	else if (what)
		CHECK_EQ(ev_io_set(c->ev, &c->io, events), 0);
	else
		ev_io_remove(c->ev, &c->io);
}

static void rig_event(struct ev_io *io, uint32_t events)
{
	struct rig_channel *c = container(io, struct rig_channel, io);
	unsigned what = 0;

	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_IN;
	if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		what |= CHANNEL_OUT;
	what &= c->channel.wanted;
	if (what)
		c->channel.on_ready(&c->channel, what);
}

static void rig_free(struct channel *channel, bool abort)
{
	struct rig_channel *c = rig_of(channel);

	ev_io_remove(c->ev, &c->io);
	close(c->io.fd);
	free(c);
}

struct channel *rig_channel_new(struct ev *ev, int fd, size_t chunk)
{
	static const struct channel_ops ops = {.read = rig_read,
					       .write = rig_write,
					       .finish = rig_finish,
					       .want = rig_want,
					       .free = rig_free};
	struct rig_channel *c = calloc(1, sizeof(*c));

	CHECK(c);
	c->channel.ops = &ops;
	c->ev = ev;
	c->io.fd = fd;
	c->io.on_event = rig_event;
	c->chunk = chunk;
	return &c->channel;
}

static int choose(SSL *ssl, const uint8_t **out, uint8_t *out_len, const uint8_t *in, unsigned n,
		  void *arg)
{
	const uint8_t *alpn = arg;

	*out = alpn + 1;
	*out_len = alpn[0];
	return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *peer_context(const struct peer *p)
{
	SSL_CTX *ctx = SSL_CTX_new(p->is_server ? TLS_server_method() : TLS_client_method());

	CHECK(ctx);
	if (p->max_version && p->max_version < TLS1_2_VERSION) {
		SSL_CTX_set_security_level(ctx, 0);
		CHECK(SSL_CTX_set_cipher_list(ctx, "ALL:@SECLEVEL=0"));
	}
	CHECK(SSL_CTX_set_min_proto_version(ctx, p->min_version));
	CHECK(SSL_CTX_set_max_proto_version(ctx, p->max_version));
	if (p->cert)
		CHECK(SSL_CTX_use_certificate(ctx, p->cert->cert) == 1 &&
		      SSL_CTX_use_PrivateKey(ctx, p->cert->key) == 1);
	if (p->extra)
		CHECK(SSL_CTX_add1_chain_cert(ctx, p->extra->cert) == 1);
	if (p->trust || p->ask) {
		CHECK(X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx),
					  (p->trust ? p->trust : p->ask)->cert));
		SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	SSL_CTX_set_session_id_context(ctx, (const uint8_t *)"peer", 4);
	if (p->alpn && p->is_server)
		SSL_CTX_set_alpn_select_cb(ctx, choose, (void *)p->alpn);
	else if (p->alpn)
		CHECK(SSL_CTX_set_alpn_protos(ctx, (const uint8_t *)p->alpn,
					      (unsigned)strlen(p->alpn)) == 0);
	return ctx;
}

static void peer_talk(const struct peer *p, SSL_CTX *ctx, int fd, SSL_SESSION **session)
{
	SSL *ssl = SSL_new(ctx);
	int r;

	CHECK(ssl && SSL_set_fd(ssl, fd));
	if (p->is_server)
		SSL_set_accept_state(ssl);
	else
		SSL_set_connect_state(ssl);
	if (p->sni) {
		SSL_set_tlsext_host_name(ssl, p->sni);
		if (p->trust)
			SSL_set1_host(ssl, p->sni);
	}
	if (*session)
		SSL_set_session(ssl, *session);
	r = SSL_do_handshake(ssl);
	p->talk(ssl, r);
	if (!p->is_server) {
		SSL_SESSION_free(*session);
		*session = SSL_get1_session(ssl);
	}
	SSL_free(ssl);
	close(fd);
}

void peer_start_many(const struct peer *p, int *ret_fds, unsigned count, pid_t *ret_pid)
{
	SSL_SESSION *session = NULL;
	int theirs[8];
	SSL_CTX *ctx;

	CHECK(count <= 8);
	for (unsigned i = 0; i < count; i++) {
		int pair[2];

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		ret_fds[i] = pair[0];
		theirs[i] = pair[1];
	}
	*ret_pid = fork();
	CHECK(*ret_pid >= 0);
	if (*ret_pid > 0) {
		for (unsigned i = 0; i < count; i++)
			close(theirs[i]);
		return;
	}
	signal(SIGPIPE, SIG_IGN);
	ctx = peer_context(p);
	for (unsigned i = 0; i < count; i++)
		close(ret_fds[i]);
	for (unsigned i = 0; i < count; i++)
		peer_talk(p, ctx, theirs[i], &session);
	SSL_SESSION_free(session);
	SSL_CTX_free(ctx);
	tap_leave(0);
}

int peer_start(const struct peer *p, pid_t *ret_pid)
{
	int fd;

	peer_start_many(p, &fd, 1, ret_pid);
	return fd;
}

int peer_wait(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void talk_echo(SSL *ssl, int handshake)
{
	char p[16384];
	int n;

	CHECK_EQ(handshake, 1);
	while ((n = SSL_read(ssl, p, sizeof(p))) > 0)
		CHECK_EQ(SSL_write(ssl, p, n), n);
	CHECK_EQ(SSL_get_error(ssl, n), SSL_ERROR_ZERO_RETURN);
	SSL_shutdown(ssl);
}

void talk_hello(SSL *ssl, int handshake)
{
	char p[256];

	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_write(ssl, "hello", 5), 5);
	SSL_shutdown(ssl);
	while (SSL_read(ssl, p, sizeof(p)) > 0)
		;
}

void talk_refused(SSL *ssl, int handshake)
{
	char p[16];

	/* In TLS 1.3 a client learns of a refusal when it reads. */
	if (handshake == 1)
		CHECK(SSL_read(ssl, p, sizeof(p)) <= 0 &&
		      SSL_get_shutdown(ssl) != SSL_RECEIVED_SHUTDOWN);
}

static void side_write(struct side *s)
{
	while (s->sent < s->send_len) {
		ssize_t r = channel_write(s->channel, s->send + s->sent, s->send_len - s->sent);

		s->result = (int)r;
		if (r < 0)
			return;
		s->sent += (size_t)r;
	}
	if (s->finish && !s->finished) {
		s->result = channel_finish(s->channel);
		s->finished = s->result == 0;
	}
}

static void side_read(struct side *s)
{
	size_t want = s->read_size ? s->read_size : 65536;
	ssize_t r;

	if (s->got_max - s->got_len < want) {
		s->got_max = s->got_max * 2 + want;
		s->got = realloc(s->got, s->got_max);
		CHECK(s->got);
	}
	r = channel_read(s->channel, s->got + s->got_len, want);
	s->result = (int)r;
	if (r > 0)
		s->got_len += (size_t)r;
	else if (r == 0)
		s->ended = true;
}

/* One read and as many writes as go, each time we are told: so that it has to come again. */
static void side_ready(struct channel *c, unsigned what)
{
	struct side *s = c->owner;

	s->turns++;
	if (what & CHANNEL_OUT)
		side_write(s);
	if (what & CHANNEL_IN && !s->no_read && (s->result >= 0 || s->result == -EAGAIN))
		side_read(s);
	if ((s->ended && (s->finished || !s->finish)) || (s->result < 0 && s->result != -EAGAIN)) {
		channel_want(c, 0);
		ev_quit(s->ev);
		return;
	}
	channel_want(c, (s->ended || s->no_read ? 0 : CHANNEL_IN) |
				(s->sent < s->send_len || (s->finish && !s->finished) ? CHANNEL_OUT
										      : 0));
}

void side_init(struct side *s, struct ev *ev, struct channel *c, const char *text)
{
	*s = (struct side){.ev = ev, .channel = c, .finish = true};
	s->send = (const uint8_t *)text;
	s->send_len = strlen(text);
	CHECK(c);
	c->owner = s;
	c->on_ready = side_ready;
}

void side_run(struct side *s)
{
	channel_want(s->channel, (s->no_read ? 0 : CHANNEL_IN) | CHANNEL_OUT);
	CHECK_EQ(ev_run(s->ev), 0);
}

void side_done(struct side *s)
{
	channel_free(s->channel, false);
	free(s->got);
	*s = (struct side){0};
}

const struct rig_cert_options good_leaf = {.name = "x", .alt = "DNS:good.test,IP:192.0.2.7"};

void world_init(struct world *w, const struct rig_cert_options *leaf, const char *ca_pem)
{
	const struct rig_cert *roots[] = {&w->root};
	struct rig_cert_options o = *leaf;

	rig_cert_make(&w->root, &(struct rig_cert_options){.name = "Test Root", .is_ca = true});
	o.from = o.from ? o.from : &w->root;
	rig_cert_make(&w->leaf, &o);
	rig_trust(roots, 1);
	CHECK_EQ(ev_new(&w->ev), 0);
	CHECK_EQ(tls_new(&w->tls, ca_pem, &w->e), 0);
}

void world_done(struct world *w)
{
	tls_free(w->tls);
	ev_free(w->ev);
	rig_cert_done(&w->root);
	rig_cert_done(&w->leaf);
	rig_dir_done();
}

void converse(struct world *w, struct side *s, int fd, size_t chunk, const char *host)
{
	const struct tls_upstream to = {.host = host, .port = w->port};
	struct channel *c = rig_channel_new(w->ev, fd, chunk);

	c = channel_tls_connect(w->tls, w->ev, c, &to, &w->e);
	side_init(s, w->ev, c, "a question");
	side_run(s);
}
