/* TLS as a stream: ends, halves, single bytes, much, and what a peer can do to us on the way. */
#include "tap.h"

#include "tls_rig.h"

#include "base/fd.h"

#include <sys/resource.h>
#include <sys/socket.h>

static const struct tls_upstream up_good = {.host = "good.test", .port = 443};

static void talk_cut(SSL *ssl, int handshake)
{
	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_write(ssl, "half an answ", 12), 12);
	/* Waits for the question's end, then goes without a word. */
	while (SSL_read(ssl, (char[64]){0}, 64) > 0)
		;
}

TLS_TEST(end_without_close_notify)
{
	struct side s;
	pid_t pid;

	converse(w, &s, peer_start(SERVER(w, .talk = talk_cut), &pid), 0, "good.test");
	CHECK_EQ(s.result, -ECONNRESET);
	CHECK(!s.ended);
	CHECK_EQ(s.got_len, 12);
	CHECK_STR(s.channel->error.msg, "the server closed the connection for 'good.test' without "
					"saying that it was the end");
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

static void talk_after_end(SSL *ssl, int handshake)
{
	char p[64];

	CHECK_EQ(handshake, 1);
	while (SSL_read(ssl, p, sizeof(p)) > 0)
		;
	CHECK_EQ(SSL_get_shutdown(ssl), SSL_RECEIVED_SHUTDOWN);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(SSL_write(ssl, "0123456789", 10), 10);
	SSL_shutdown(ssl);
}

TLS_TEST(half_close)
{
	struct side s;
	pid_t pid;

	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		converse(w, &s,
			 peer_start(SERVER(w, .max_version = v, .talk = talk_after_end), &pid), 0,
			 "good.test");
		CHECK_EQ(s.result, 0);
		CHECK_EQ(s.got_len, 10000);
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
}

TLS_TEST(byte_by_byte)
{
	struct side s;
	pid_t pid;

	for (int v = TLS1_2_VERSION; v <= TLS1_3_VERSION; v++) {
		converse(w, &s, peer_start(SERVER(w, .max_version = v, .talk = talk_echo), &pid), 1,
			 "good.test");
		CHECK_EQ(s.result, 0);
		CHECK_EQ(s.got_len, 10);
		side_done(&s);
		CHECK_EQ(peer_wait(pid), 0);
	}
}

/* What OpenSSL holds already is not seen by the socket: we are told all the same. */
TLS_TEST(small_reads_of_a_large_record)
{
	struct channel *c;
	struct side s;
	pid_t pid;
	int fd;

	fd = peer_start(SERVER(w, .talk = talk_after_end), &pid);
	c = channel_tls_connect(w->tls, w->ev, rig_channel_new(w->ev, fd, 0), &up_good, &w->e);
	side_init(&s, w->ev, c, "");
	s.read_size = 3;
	side_run(&s);
	CHECK_EQ(s.result, 0);
	CHECK_EQ(s.got_len, 10000);
	CHECK(s.turns >= 3333);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

static void talk_slow_echo(SSL *ssl, int handshake)
{
	static char p[1 << 20];
	int size = 4096, n;
	size_t held = 0;

	CHECK_EQ(handshake, 1);
	setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	/* Takes much before it gives anything back, so that both sides fill up. */
	while ((n = SSL_read(ssl, p + held, (int)(sizeof(p) - held))) > 0) {
		held += (size_t)n;
		if (held == sizeof(p)) {
			CHECK_EQ(SSL_write(ssl, p, (int)held), (int)held);
			held = 0;
		}
	}
	if (held)
		CHECK_EQ(SSL_write(ssl, p, (int)held), (int)held);
	SSL_shutdown(ssl);
}

TEST(much_with_back_pressure)
{
	enum { BYTES = 24 << 20 };
	uint8_t *p = malloc(BYTES);
	int size = 4096;
	struct channel *c;
	struct world w;
	struct side s;
	pid_t pid;
	int fd;

	CHECK(p);
	for (size_t i = 0; i < BYTES; i++)
		p[i] = (uint8_t)(i * 2654435761u >> 13);
	world_init(&w, &good_leaf, NULL);
	fd = peer_start(SERVER(&w, .talk = talk_slow_echo), &pid);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	c = channel_tls_connect(w.tls, w.ev, rig_channel_new(w.ev, fd, 0), &up_good, &w.e);
	side_init(&s, w.ev, c, "");
	s.send = p;
	s.send_len = BYTES;
	side_run(&s);
	CHECK_EQ(s.result, 0);
	CHECK_EQ(s.got_len, BYTES);
	CHECK_MEM(s.got, p, BYTES);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
	free(p);
	world_done(&w);
}

static void talk_early(SSL *ssl, int handshake)
{
	char p[1];

	CHECK_EQ(handshake, 1);
	CHECK_EQ(SSL_read(ssl, p, 1), 1);
	CHECK_EQ(SSL_write(ssl, "too large", 9), 9);
	SSL_shutdown(ssl);
}

/* A server that answers and goes before it has read everything: its answer can still be read. */
TLS_TEST(answer_before_the_end_of_the_question)
{
	enum { BYTES = 8 << 20 };
	uint8_t *p = calloc(1, BYTES);
	struct channel *c;
	struct side s;
	char got[64];
	pid_t pid;
	int fd;

	fd = peer_start(SERVER(w, .talk = talk_early), &pid);
	c = channel_tls_connect(w->tls, w->ev, rig_channel_new(w->ev, fd, 0), &up_good, &w->e);
	side_init(&s, w->ev, c, "");
	s.send = p;
	s.send_len = BYTES;
	s.no_read = true;
	side_run(&s);
	CHECK(s.result == -EPIPE || s.result == -ECONNRESET);
	CHECK_EQ(channel_read(s.channel, got, sizeof(got)), 9);
	CHECK_MEM(got, "too large", 9);
	CHECK_EQ(channel_read(s.channel, got, sizeof(got)), 0);
	CHECK(channel_write(s.channel, "x", 1) < 0);
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
	free(p);
}

/* Asks for new keys without end and never reads the answers: what waits stays bounded. */
static void talk_key_updates(SSL *ssl, int handshake)
{
	struct timeval tv = {.tv_sec = 1};

	CHECK_EQ(handshake, 1);
	setsockopt(SSL_get_fd(ssl), SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	for (int i = 0; i < 20000; i++) {
		if (!SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) || SSL_do_handshake(ssl) != 1)
			break;
	}
}

TLS_TEST(key_updates_without_end)
{
	struct rusage before, after;
	struct side s;
	pid_t pid;

	getrusage(RUSAGE_SELF, &before);
	converse(w, &s, peer_start(SERVER(w, .talk = talk_key_updates), &pid), 0, "good.test");
	getrusage(RUSAGE_SELF, &after);
	CHECK(s.result < 0);
#ifndef __SANITIZE_ADDRESS__
	CHECK(after.ru_maxrss - before.ru_maxrss < 4096);
#endif
	side_done(&s);
	CHECK_EQ(peer_wait(pid), 0);
}

/* Ends in every state: before the loop ran, in the middle of the handshake, with bytes waiting. */
TLS_TEST(free_at_any_time)
{
	int pair[2];

	for (int i = 0; i < 4; i++) {
		struct channel *c;

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
		c = channel_tls_connect(w->tls, w->ev, rig_channel_new(w->ev, pair[0], 0), &up_good,
					&w->e);
		CHECK(c);
		channel_want(c, CHANNEL_IN | CHANNEL_OUT);
		if (i & 1)
			CHECK_EQ(channel_write(c, "x", 1), -EAGAIN);
		channel_free(c, i & 2);
		close(pair[1]);
	}
}

TAP_MAIN
