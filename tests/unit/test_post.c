/*
 * Requests to others' servers: addresses one after the other, answers in several heads, and a
 * resolver that does not answer. getaddrinfo(3) of this program is that resolver.
 */
#include "tap.h"

#include "base/fd.h"
#include "server/post.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

static const char *addresses[4];	  /* of every name; NULL ends them */
static int asked_fd = -1, answer_fd = -1; /* says that it was asked; waits before it answers */

struct answer {
	struct addrinfo info;
	struct sockaddr_in at;
};

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **ret)
{
	uint64_t one = 1;

	if (asked_fd >= 0)
		CHECK_EQ(write(asked_fd, &one, sizeof(one)), sizeof(one));
	if (answer_fd >= 0)
		CHECK_EQ(read(answer_fd, &one, sizeof(one)), sizeof(one));
	*ret = NULL;
	for (int i = 3; i >= 0; i--) {
		struct answer *a = addresses[i] ? calloc(1, sizeof(*a)) : NULL;

		if (!a)
			continue;
		a->at.sin_family = AF_INET;
		CHECK_EQ(inet_pton(AF_INET, addresses[i], &a->at.sin_addr), 1);
		a->info = (struct addrinfo){.ai_family = AF_INET,
					    .ai_socktype = SOCK_STREAM,
					    .ai_addr = (struct sockaddr *)&a->at,
					    .ai_next = *ret};
		*ret = &a->info;
	}
	return *ret ? 0 : EAI_NONAME;
}

void freeaddrinfo(struct addrinfo *list)
{
	while (list) {
		struct addrinfo *next = list->ai_next;

		free(list);
		list = next;
	}
}

/* ---- a server that answers one request ---- */

struct peer {
	int fd; /* listens */
	uint16_t port;
	const char *answer;
	pthread_t thread;
};

static void *answer_one(void *arg)
{
	struct peer *p = arg;
	char text[8192];
	size_t n = 0;
	int fd = accept(p->fd, NULL, NULL);

	while (n < sizeof(text) - 1) {
		ssize_t got = read(fd, text + n, sizeof(text) - 1 - n);

		CHECK(got > 0);
		n += (size_t)got;
		text[n] = 0;
		if (strstr(text, "\r\n\r\nbody"))
			break;
	}
	CHECK_EQ(fd_write_full(fd, p->answer, strlen(p->answer)), 0);
	close(fd);
	return NULL;
}

static void peer_start(struct peer *p, const char *answer)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);

	p->answer = answer;
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(bind(p->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	CHECK_EQ(listen(p->fd, 1), 0);
	CHECK_EQ(getsockname(p->fd, (struct sockaddr *)&at, &len), 0);
	p->port = ntohs(at.sin_port);
	CHECK_EQ(pthread_create(&p->thread, NULL, answer_one, p), 0);
}

static int send_to(const struct peer *p, int cancel_fd, unsigned *ret_status, struct err *e)
{
	struct poster *poster;
	char url[64];
	int r;

	snprintf(url, sizeof(url), "http://some.test:%u/x", p->port);
	CHECK_EQ(poster_new(&poster, e), 0);
	r = post_send(poster,
		      &(struct post){.url = url,
				     .fields = "Content-Type: text/plain\r\n",
				     .body = "body",
				     .len = 4,
				     .cancel_fd = cancel_fd},
		      ret_status, e);
	poster_free(poster);
	return r;
}

static void peer_end(struct peer *p)
{
	CHECK_EQ(pthread_join(p->thread, NULL), 0);
	close(p->fd);
}

TEST(an_address_that_refuses_is_followed_by_the_next)
{
	struct peer p;
	unsigned status = 0;
	struct err e = {0};

	peer_start(&p, "HTTP/1.1 204 No Content\r\n\r\n");
	addresses[0] = "127.9.9.8";
	addresses[1] = "127.9.9.9";
	addresses[2] = "127.0.0.1";
	CHECK_EQ(send_to(&p, -1, &status, &e), 0);
	CHECK_EQ(status, 204);
	peer_end(&p);
	addresses[2] = NULL;
	CHECK_EQ(send_to(&p, -1, &status, &e), -ECONNREFUSED);
	CHECK_EQ(e.code, ECONNREFUSED);
}

TEST(heads_before_the_answer_may_come_with_it)
{
	struct peer p;
	unsigned status = 0;
	struct err e = {0};

	addresses[0] = "127.0.0.1";
	peer_start(&p, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
		       "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	CHECK_EQ(send_to(&p, -1, &status, &e), 0);
	CHECK_EQ(status, 200);
	peer_end(&p);
}

static void *cancel_when_asked(void *arg)
{
	const int *cancel_fd = arg;
	uint64_t one = 1;

	CHECK_EQ(read(asked_fd, &one, sizeof(one)), sizeof(one));
	CHECK_EQ(write(*cancel_fd, &one, sizeof(one)), sizeof(one));
	return NULL;
}

TEST(a_resolver_that_does_not_answer_holds_up_no_end)
{
	int cancel_fd = eventfd(0, EFD_CLOEXEC);
	struct peer p = {.port = 1};
	unsigned status = 0;
	struct err e = {0};
	pthread_t thread;
	uint64_t one = 1;

	addresses[0] = "127.0.0.1";
	asked_fd = eventfd(0, EFD_CLOEXEC);
	answer_fd = eventfd(0, EFD_CLOEXEC);
	CHECK_EQ(pthread_create(&thread, NULL, cancel_when_asked, &cancel_fd), 0);
	CHECK_EQ(send_to(&p, cancel_fd, &status, &e), -ECANCELED);
	CHECK(e.kind == ERR_INTERRUPTED && e.code == ECANCELED);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	/* It answers after all, and what it found is freed. */
	CHECK_EQ(write(answer_fd, &one, sizeof(one)), sizeof(one));
	close(cancel_fd);
}

TAP_MAIN
