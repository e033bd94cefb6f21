/* TLS towards the box: certificates made for the name, and clients of every kind. */
#include "tap.h"

#include "tls_rig.h"

#include "base/fd.h"
#include "net/ca.h"

#include <openssl/crypto.h>
#include <openssl/pem.h>
#include <sys/socket.h>

/* A door with an authority, which the clients in its box know. */
struct room {
	struct ev *ev;
	struct tls *tls;
	struct rig_cert ca; /* the certificate; no key */
	struct err e;
};

static void room_init(struct room *r)
{
	struct buf pem;
	BIO *bio;

	*r = (struct room){0};
	buf_init(&pem, CA_PEM_MAX);
	CHECK_EQ(ca_make(&pem, &r->e), 0);
	bio = BIO_new_mem_buf(buf_cstr(&pem), -1);
	r->ca.cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	CHECK(r->ca.cert);
	CHECK_EQ(ev_new(&r->ev), 0);
	CHECK_EQ(tls_new(&r->tls, buf_cstr(&pem), &r->e), 0);
	buf_done(&pem);
}

static void room_done(struct room *r)
{
	tls_free(r->tls);
	ev_free(r->ev);
	rig_cert_done(&r->ca);
}

#define ROOM_TEST(name)                                                                   \
	TEST_IN(name, (struct room * r), struct room room; room_init(&room); body(&room); \
		room_done(&room);)

static void answer(struct room *r, struct side *s, int fd, size_t chunk, const char *host)
{
	struct channel *c = rig_channel_new(r->ev, fd, chunk);

	c = channel_tls_accept(r->tls, r->ev, c, host, &r->e);
	side_init(s, r->ev, c, "an answer");
	side_run(s);
}

static void talk_ask(SSL *ssl, int handshake)
{
	char p[64];
	int n = 0, r;

	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_get_verify_result(ssl), X509_V_OK);
	CHECK_EQ(SSL_write(ssl, "hello", 5), 5);
	SSL_shutdown(ssl);
	while ((r = SSL_read(ssl, p + n, (int)sizeof(p) - n)) > 0)
		n += r;
	CHECK_EQ(SSL_get_error(ssl, r), SSL_ERROR_ZERO_RETURN);
	CHECK(n == 9 && memcmp(p, "an answer", 9) == 0);
}

/* A client that verifies as clients do, for names and addresses, new and old TLS. */
ROOM_TEST(client_that_verifies)
{
	static const char *const hosts[] = {"good.test", "a-b.c_d.xn--bcher-kva.test"};
	struct side s;
	pid_t pid;

	for (int i = 0; i < 4; i++) {
		struct peer p = {.trust = &r->ca,
				 .sni = hosts[i & 1],
				 .max_version = i & 2 ? TLS1_2_VERSION : 0,
				 .talk = talk_ask};

		answer(r, &s, peer_start(&p, &pid), i & 2 ? 1 : 0, hosts[i & 1]);
		CHECK_EQ(s.result, 0);
		CHECK(s.got_len == 5 && memcmp(s.got, "hello", 5) == 0);
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
}

/* Private keys are in memory that is locked and not dumped, and leave it. */
TEST(keys_are_in_locked_memory)
{
	struct room r;
	size_t used;

	room_init(&r);
	used = CRYPTO_secure_used();
	CHECK(used > 0);
	room_done(&r);
	CHECK(CRYPTO_secure_used() < used);
}

ROOM_TEST(client_that_does_not_trust_us)
{
	struct rig_cert other;
	struct side s;
	pid_t pid;

	rig_cert_make(&other, &(struct rig_cert_options){.name = "Other", .is_ca = true});
	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		struct peer p = {.trust = &other,
				 .sni = "good.test",
				 .max_version = v,
				 .talk = talk_refused};

		answer(r, &s, peer_start(&p, &pid), 0, "good.test");
		CHECK_EQ(s.result, -EKEYREJECTED);
		CHECK_STR(s.channel->error.msg,
			  "the client in the box does not trust Cove's certificate (it sent alert "
			  "unknown_ca): let it use the system's certificates, or give 'good.test' "
			  "a rule with tls: pass");
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
	rig_cert_done(&other);
}

static void talk_http1(SSL *ssl, int handshake)
{
	const uint8_t *alpn;
	unsigned n;

	SSL_get0_alpn_selected(ssl, &alpn, &n);
	CHECK(n == 8 && memcmp(alpn, "http/1.1", 8) == 0);
	talk_ask(ssl, handshake);
}

ROOM_TEST(protocols)
{
	struct peer both = {.trust = &r->ca, .alpn = "\x02h2\x08http/1.1", .talk = talk_http1};
	struct peer h2 = {.trust = &r->ca, .alpn = "\x02h2", .talk = talk_refused};
	struct side s;
	pid_t pid;

	answer(r, &s, peer_start(&both, &pid), 0, "good.test");
	CHECK_EQ(s.result, 0);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
	answer(r, &s, peer_start(&h2, &pid), 0, "good.test");
	CHECK_EQ(s.result, -EPROTO);
	CHECK(strstr(s.channel->error.msg, "HTTP/2 only") &&
	      strstr(s.channel->error.msg, "a rule with tls: pass"));
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

ROOM_TEST(old_clients_are_refused)
{
	struct side s;
	pid_t pid;

	for (int v = TLS1_VERSION; v <= TLS1_1_VERSION; v++) {
		answer(r, &s,
		       peer_start(&(struct peer){.max_version = v, .talk = talk_refused}, &pid), 0,
		       "good.test");
		CHECK_EQ(s.result, -EPROTO);
		CHECK_STR(s.channel->error.msg, "the client in the box for 'good.test' speaks "
						"neither TLS 1.2 nor TLS 1.3");
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
}

static void talk_renegotiate(SSL *ssl, int handshake)
{
	char p[64];

	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_renegotiate(ssl), 1);
	CHECK(SSL_do_handshake(ssl) != 1 || SSL_read(ssl, p, sizeof(p)) <= 0);
}

ROOM_TEST(renegotiation_is_refused)
{
	struct peer p = {.max_version = TLS1_2_VERSION, .talk = talk_renegotiate};
	struct side s;
	pid_t pid;

	answer(r, &s, peer_start(&p, &pid), 0, "good.test");
	CHECK(s.result < 0);
	CHECK_EQ(s.got_len, 0);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

static void talk_resumed(SSL *ssl, int handshake)
{
	static int round;

	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_session_reused(ssl), round == 1);
	CHECK_EQ(SSL_SESSION_get_max_early_data(SSL_get0_session(ssl)), 0);
	round++;
	talk_ask(ssl, handshake);
}

/* Fast reconnects; but a ticket of one host is none for another. */
ROOM_TEST(tickets_are_per_host)
{
	static const char *const hosts[] = {"good.test", "good.test", "too.test"};
	int fds[3];
	pid_t pid;

	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		peer_start_many(
			&(struct peer){.trust = &r->ca, .max_version = v, .talk = talk_resumed},
			fds, 3, &pid);
		for (int i = 0; i < 3; i++) {
			struct side s;

			answer(r, &s, fds[i], 0, hosts[i]);
			CHECK_EQ(s.result, 0);
			side_done(&s);
		}
		CHECK_EQ(peer_wait(pid), 0);
	}
}

/* The beginning was read before, to see where it wants to go: all cuts of it are alike. */
ROOM_TEST(fed_bytes_come_first)
{
	for (size_t first = 1; first < 300; first += 37) {
		struct peer p = {.trust = &r->ca, .sni = "good.test", .talk = talk_ask};
		struct channel *c;
		char hello[512];
		struct side s;
		pid_t pid;
		int fd = peer_start(&p, &pid);
		ssize_t n = recv(fd, hello, first, MSG_WAITALL);

		CHECK_EQ(n, (ssize_t)first);
		c = channel_tls_accept(r->tls, r->ev, rig_channel_new(r->ev, fd, 0), "good.test",
				       &r->e);
		CHECK_EQ(channel_tls_feed(c, hello, (size_t)n), 0);
		side_init(&s, r->ev, c, "an answer");
		side_run(&s);
		CHECK_EQ(s.result, 0);
		CHECK_EQ(s.got_len, 5);
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
}

/* All of it was read before, with what came after the hello: nothing wakes us from below. */
ROOM_TEST(fed_with_rubbish)
{
	static const char *const texts[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff\x01",
					    "\x15\x03\x01\x00\x02\x02\x28"};

	for (int i = 0; i < 3; i++) {
		struct channel *c;
		struct side s;
		int pair[2];

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		c = channel_tls_accept(r->tls, r->ev, rig_channel_new(r->ev, pair[0], 0),
				       "good.test", &r->e);
		CHECK_EQ(channel_tls_feed(c, texts[i], i == 2 ? 7 : strlen(texts[i])), 0);
		side_init(&s, r->ev, c, "an answer");
		side_run(&s);
		CHECK_EQ(s.result, -EPROTO);
		CHECK(s.channel->error.msg[0]);
		CHECK_EQ(s.sent, 0);
		side_done(&s);
		close(pair[1]);
	}
}

ROOM_TEST(hosts_without_a_certificate)
{
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK(channel_tls_accept(r->tls, r->ev, rig_channel_new(r->ev, pair[0], 0), "no such\nhost",
				 &r->e) == NULL);
	CHECK_EQ(r->e.kind, ERR_INVALID);
	close(pair[1]);
	tls_free(r->tls);
	CHECK_EQ(tls_new(&r->tls, NULL, &r->e), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	CHECK(channel_tls_accept(r->tls, r->ev, rig_channel_new(r->ev, pair[0], 0), "good.test",
				 &r->e) == NULL);
	CHECK_STR(r->e.msg, "the box has no certificate authority: TLS for 'good.test' cannot be "
			    "looked into");
	close(pair[1]);
}

TAP_MAIN
