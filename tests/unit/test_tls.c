/* TLS towards upstreams: whom the door believes, and what it says when it does not. */
#include "tap.h"

#include "tls_rig.h"

#include "base/fd.h"
#include "net/ca.h"

#include <openssl/pem.h>
#include <sys/socket.h>

/* The peer's certificate is not good enough: the sentence is what is expected. */
static void expect_refused(struct world *w, const struct peer *p, const char *host,
			   const char *sentence)
{
	struct side s;
	pid_t pid;
	int fd = peer_start(p, &pid);

	converse(w, &s, fd, 0, host);
	CHECK_EQ(s.result, -EKEYREJECTED);
	CHECK_STR(s.channel->error.msg, sentence);
	CHECK_EQ(s.sent, 0);
	CHECK(!channel_tls_is_up(s.channel));
	/* Whoever asks again hears the same. */
	CHECK_EQ(channel_read(s.channel, &pid, 0), -EKEYREJECTED);
	CHECK_EQ(channel_write(s.channel, "x", 1), -EKEYREJECTED);
	CHECK_EQ(channel_finish(s.channel), -EKEYREJECTED);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

static void talk_echo_good(SSL *ssl, int handshake)
{
	const uint8_t *alpn;
	unsigned n;

	CHECK_EQ(handshake, 1);
	CHECK_STR(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name), "good.test");
	SSL_get0_alpn_selected(ssl, &alpn, &n);
	CHECK(n == 8 && memcmp(alpn, "http/1.1", 8) == 0);
	CHECK_STR(SSL_get_cipher_name(ssl), "TLS_AES_128_GCM_SHA256");
	talk_echo(ssl, handshake);
}

TLS_TEST(right_name)
{
	struct side s;
	pid_t pid;

	converse(w, &s, peer_start(SERVER(w, .alpn = "\x08http/1.1", .talk = talk_echo_good), &pid),
		 0, "good.test");
	CHECK_EQ(s.result, 0);
	CHECK(channel_tls_is_up(s.channel));
	CHECK_EQ(s.got_len, 10);
	CHECK_MEM(s.got, "a question", 10);
	CHECK_EQ(channel_write(s.channel, "x", 1), -EPIPE);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

TLS_TEST(wrong_name)
{
	expect_refused(w, SERVER(w, .talk = talk_refused), "evil.test",
		       "the certificate of 'evil.test' is for 'good.test', '192.0.2.7'");
	expect_refused(w, SERVER(w, .talk = talk_refused), "sub.good.test",
		       "the certificate of 'sub.good.test' is for 'good.test', '192.0.2.7'");
	expect_refused(w, SERVER(w, .talk = talk_refused), "192.0.2.8",
		       "the certificate of '192.0.2.8' is for 'good.test', '192.0.2.7'");
}

TEST(common_name_is_no_name)
{
	struct world w;

	world_init(&w, &(struct rig_cert_options){.name = "good.test"}, NULL);
	expect_refused(&w, SERVER(&w, .talk = talk_refused), "good.test",
		       "the certificate of 'good.test' names no host at all");
	world_done(&w);
}

TEST(hostile_name_is_shown_plain)
{
	struct world w;

	world_init(&w, &(struct rig_cert_options){.name = "x", .alt = "DNS:a\x1b[31m'b\nc"}, NULL);
	expect_refused(&w, SERVER(&w, .talk = talk_refused), "good.test",
		       "the certificate of 'good.test' is for 'a?[31m?b?c'");
	world_done(&w);
}

static void talk_no_sni(SSL *ssl, int handshake)
{
	CHECK(SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name) == NULL);
	talk_echo(ssl, handshake);
}

TLS_TEST(address_in_the_certificate)
{
	struct side s;
	pid_t pid;

	converse(w, &s, peer_start(SERVER(w, .talk = talk_no_sni), &pid), 0, "192.0.2.7");
	CHECK_EQ(s.result, 0);
	CHECK_EQ(s.got_len, 10);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

TEST(expired_and_too_early)
{
	struct rig_cert_options old = good_leaf, young = good_leaf;
	char sentence[128], day[16];
	time_t at = time(NULL) - 10 * 86400;
	struct world w;

	old.from_days = -20;
	old.to_days = -10;
	world_init(&w, &old, NULL);
	strftime(day, sizeof(day), "%Y-%m-%d", gmtime(&at));
	snprintf(sentence, sizeof(sentence), "the certificate of 'good.test' has expired (on %s)",
		 day);
	expect_refused(&w, SERVER(&w, .talk = talk_refused), "good.test", sentence);
	world_done(&w);
	young.from_days = 5;
	world_init(&w, &young, NULL);
	at = time(NULL) + 5 * 86400;
	strftime(day, sizeof(day), "%Y-%m-%d", gmtime(&at));
	snprintf(sentence, sizeof(sentence),
		 "the certificate of 'good.test' is not valid yet (before %s)", day);
	expect_refused(&w, SERVER(&w, .talk = talk_refused), "good.test", sentence);
	world_done(&w);
}

TLS_TEST(signed_by_nobody_we_know)
{
	static const char unknown[] =
		"the certificate of 'good.test' is not signed by anyone this host trusts";
	static const char itself[] = "the certificate of 'good.test' is not signed by anyone this "
				     "host trusts, only by itself";
	struct rig_cert self, other, leaf;

	rig_cert_make(&self, &good_leaf);
	/* The name of a trusted one helps nobody. */
	rig_cert_make(&other, &(struct rig_cert_options){.name = "Test Root", .is_ca = true});
	rig_cert_make(&leaf, &(struct rig_cert_options){
				     .name = "x", .alt = "DNS:good.test", .from = &other});
	expect_refused(w, &(struct peer){.is_server = true, .cert = &self, .talk = talk_refused},
		       "good.test", itself);
	expect_refused(
		w,
		&(struct peer){
			.is_server = true, .cert = &leaf, .extra = &other, .talk = talk_refused},
		"good.test", unknown);
	rig_cert_done(&other);
	rig_cert_done(&leaf);
	rig_cert_make(&other, &(struct rig_cert_options){.name = "Nobody", .is_ca = true});
	rig_cert_make(&leaf, &(struct rig_cert_options){
				     .name = "x", .alt = "DNS:good.test", .from = &other});
	expect_refused(w, &(struct peer){.is_server = true, .cert = &leaf, .talk = talk_refused},
		       "good.test", unknown);
	rig_cert_done(&self);
	rig_cert_done(&other);
	rig_cert_done(&leaf);
}

/* E9: what the box trusts, the door does not: neither its own authority for the box, nor one that
 * the other side brings along. */
TEST(box_authority_is_not_trusted_upstream)
{
	struct rig_cert box, leaf;
	struct world w;
	struct buf pem;
	BIO *bio;

	buf_init(&pem, CA_PEM_MAX);
	CHECK_EQ(ca_make(&pem, NULL), 0);
	bio = BIO_new_mem_buf(buf_cstr(&pem), -1);
	box.cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	box.key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
	BIO_free(bio);
	CHECK(box.cert && box.key);
	world_init(&w, &good_leaf, buf_cstr(&pem));
	rig_cert_make(&leaf, &(struct rig_cert_options){
				     .name = "x", .alt = "DNS:good.test", .from = &box});
	expect_refused(
		&w,
		&(struct peer){
			.is_server = true, .cert = &leaf, .extra = &box, .talk = talk_refused},
		"good.test",
		"the certificate of 'good.test' is not signed by anyone this host trusts");
	rig_cert_done(&box);
	rig_cert_done(&leaf);
	buf_done(&pem);
	world_done(&w);
}

/* What is not TLS as it is spoken here. */
static void expect_protocol(struct world *w, const struct peer *p, int result, const char *sentence)
{
	struct side s;
	pid_t pid;
	int fd = peer_start(p, &pid);

	converse(w, &s, fd, 0, "good.test");
	CHECK_EQ(s.result, result);
	CHECK_STR(s.channel->error.msg, sentence);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

TLS_TEST(old_versions_are_refused)
{
	for (int v = TLS1_VERSION; v <= TLS1_1_VERSION; v++)
		expect_protocol(w, SERVER(w, .max_version = v, .talk = talk_refused), -EPROTO,
				"'good.test' speaks neither TLS 1.2 nor TLS 1.3");
}

/* Which of us notices, and so the sentence, depends on OpenSSL's version. */
TLS_TEST(protocol_that_was_not_offered)
{
	struct side s;
	pid_t pid;

	converse(w, &s, peer_start(SERVER(w, .alpn = "\x02h2", .talk = talk_refused), &pid), 0,
		 "good.test");
	CHECK_EQ(s.result, -EPROTO);
	CHECK_EQ(s.sent, 0);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

/* Bytes instead of TLS, then the end. */
static void expect_after(struct world *w, const char *bytes, int result, const char *sentence)
{
	struct side s;
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK_EQ(send(pair[1], bytes, strlen(bytes), 0), (ssize_t)strlen(bytes));
	shutdown(pair[1], SHUT_WR);
	converse(w, &s, pair[0], 0, "good.test");
	CHECK_EQ(s.result, result);
	CHECK_STR(s.channel->error.msg, sentence);
	side_done(&s);
	close(pair[1]);
}

TLS_TEST(not_tls_at_all)
{
	expect_after(w, "HTTP/1.1 400 Bad Request\r\n\r\n", -EPROTO,
		     "the server for 'good.test' does not speak TLS here");
	expect_after(w, "", -ECONNRESET,
		     "the server closed the connection for 'good.test' during the TLS handshake");
	expect_after(w, "\x16\x03", -ECONNRESET,
		     "the server closed the connection for 'good.test' during the TLS handshake");
}

static void talk_first_then_resumed(SSL *ssl, int handshake)
{
	static int round;

	CHECK_EQ(SSL_session_reused(ssl), round == 1 || round == 4);
	round++;
	talk_echo(ssl, handshake);
}

/* Neither another host nor another port of the same gets a session of the first. */
TEST(sessions_are_resumed_per_host_and_port)
{
	struct rig_cert_options o = {.name = "x", .alt = "DNS:good.test,DNS:too.test"};
	static const char *const hosts[] = {"good.test", "good.test", "too.test", "good.test",
					    "good.test"};
	struct world w;
	int fds[5];
	pid_t pid;

	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		world_init(&w, &o, NULL);
		peer_start_many(SERVER(&w, .max_version = v, .talk = talk_first_then_resumed), fds,
				5, &pid);
		for (int i = 0; i < 5; i++) {
			struct side s;

			w.port = i == 3 ? 8443 : 443;
			converse(&w, &s, fds[i], 0, hosts[i]);
			CHECK_EQ(s.result, 0);
			CHECK(channel_tls_is_up(s.channel));
			side_done(&s);
		}
		CHECK_EQ(peer_wait(pid), 0);
		world_done(&w);
	}
}

static void talk_known_client(SSL *ssl, int handshake)
{
	X509 *x = SSL_get1_peer_certificate(ssl);

	CHECK(x);
	X509_free(x);
	CHECK_EQ(SSL_session_reused(ssl), 0);
	talk_echo(ssl, handshake);
}

/* One conversation with a client certificate. */
static void show(struct world *w, int fd, const struct tls_identity *id)
{
	struct channel *c = rig_channel_new(w->ev, fd, 0);
	struct side s;

	c = channel_tls_connect(w->tls, w->ev, c,
				&(struct tls_upstream){.host = "good.test", .port = 443, .id = id},
				&w->e);
	side_init(&s, w->ev, c, "a question");
	side_run(&s);
	CHECK_EQ(s.result, 0);
	CHECK_EQ(s.got_len, 10);
	side_done(&s);
}

TLS_TEST(client_certificate)
{
	struct rig_cert client;
	autofree char *cert = NULL, *key = NULL;
	int fds[2];
	pid_t pid;

	rig_cert_make(&client, &(struct rig_cert_options){.name = "me", .from = &w->root});
	cert = rig_cert_pem(&client);
	key = rig_key_pem(&client);
	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		struct peer p = {.is_server = true,
				 .cert = &w->leaf,
				 .ask = &w->root,
				 .max_version = v,
				 .talk = talk_known_client};

		peer_start_many(&p, fds, 2, &pid);
		for (int i = 0; i < 2; i++)
			show(w, fds[i], &(struct tls_identity){cert, key});
		CHECK_EQ(peer_wait(pid), 0);
	}
	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++)
		expect_protocol(w,
				SERVER(w, .ask = &w->root, .max_version = v, .talk = talk_refused),
				-EKEYREJECTED,
				"'good.test' wants a client certificate, and the rule gives none: "
				"see client_cert");
	rig_cert_done(&client);
}

TLS_TEST(client_certificate_that_is_none)
{
	struct rig_cert a, b;
	autofree char *cert = NULL, *key = NULL;
	int pair[2];

	rig_cert_make(&a, &(struct rig_cert_options){.name = "a"});
	rig_cert_make(&b, &(struct rig_cert_options){.name = "b"});
	cert = rig_cert_pem(&a);
	key = rig_key_pem(&b);
	for (int i = 0; i < 3; i++) {
		static const char *const sentences[] = {
			"the client certificate for 'good.test' is not a certificate in PEM",
			"the key of the client certificate for 'good.test' is not a key in PEM "
			"without a password",
			"the key and the client certificate for 'good.test' are not a pair"};
		struct tls_identity id = {i == 0 ? "nonsense" : cert, i == 1 ? "" : key};

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		CHECK(channel_tls_connect(
			      w->tls, w->ev, rig_channel_new(w->ev, pair[0], 0),
			      &(struct tls_upstream){.host = "good.test", .port = 443, .id = &id},
			      &w->e) == NULL);
		CHECK_STR(w->e.msg, sentences[i]);
		close(pair[1]);
	}
	rig_cert_done(&a);
	rig_cert_done(&b);
}

/* HelloRequest from a server: it is not answered with a new handshake. */
static void talk_renegotiate(SSL *ssl, int handshake)
{
	uint8_t before[64] = {0}, after[64] = {0};

	CHECK_EQ(handshake, 1);
	SSL_get_finished(ssl, before, sizeof(before));
	SSL_renegotiate(ssl);
	SSL_do_handshake(ssl);
	while (SSL_read(ssl, (char[64]){0}, 64) > 0)
		;
	SSL_get_finished(ssl, after, sizeof(after));
	CHECK_MEM(before, after, sizeof(before));
}

TLS_TEST(no_renegotiation)
{
	struct side s;
	pid_t pid;

	converse(w, &s,
		 peer_start(SERVER(w, .max_version = TLS1_2_VERSION, .talk = talk_renegotiate),
			    &pid),
		 0, "good.test");
	CHECK(s.result < 0);
	CHECK(s.got_len == 0 || s.got_len == 5);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

TEST(key_log_is_not_written)
{
	char path[128];
	struct world w;
	struct side s;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/keys", rig_dir());
	setenv("SSLKEYLOGFILE", path, 1);
	world_init(&w, &good_leaf, NULL);
	converse(&w, &s, peer_start(SERVER(&w, .talk = talk_echo), &pid), 0, "good.test");
	CHECK_EQ(s.result, 0);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
	CHECK(access(path, F_OK) < 0);
	world_done(&w);
}

TAP_MAIN
