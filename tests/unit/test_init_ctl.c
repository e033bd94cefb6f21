/* Requests of a box's own at init's socket: what is passed on, and what hostile ones get. */
#include "init_spawn.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "wire/hello.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { WAIT_MS = 60000 };

struct box {
	int fd; /* the link, owned */
	pid_t pid;
	char name[40];
	struct wire_decoder decoder;
};

static struct box *box_start(void)
{
	static struct box b;
	const char *args[] = {"--ctl", b.name, NULL};
	struct inherited none = {0};
	int pair[2];

	snprintf(b.name, sizeof(b.name), "cove-test-ctl-%d", (int)getpid());
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	b.fd = pair[0];
	wire_decoder_init(&b.decoder);
	b.pid = init_spawn(pair[1], pair[1], &none, args);
	return &b;
}

static void say(struct box *b, const struct buf *out)
{
	CHECK_EQ(fd_write_full(b->fd, buf_data(out), buf_len(out)), 0);
}

/* The next frame of init's. */
static struct wire_frame hear(struct box *b, enum wire_type type)
{
	struct pollfd p = {.fd = b->fd, .events = POLLIN};
	struct wire_frame f;
	int r;

	while ((r = wire_decoder_next(&b->decoder, &f)) == 0) {
		size_t room;
		uint8_t *at = wire_decoder_space(&b->decoder, &room);
		ssize_t n;

		CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
		n = recv(b->fd, at, room, 0);
		CHECK(n > 0);
		wire_decoder_fill(&b->decoder, (size_t)n);
	}
	CHECK_EQ(r, 1);
	CHECK_EQ(f.type, type);
	return f;
}

static void meet(struct box *b)
{
	struct wire_hello ours = wire_hello_ours();
	struct buf out;

	hear(b, WIRE_HELLO);
	buf_init(&out, 4096);
	CHECK_EQ(wire_hello_encode(&out, 0, 0, &ours), 0);
	say(b, &out);
	buf_done(&out);
}

static void box_stop(struct box *b)
{
	int status;

	fd_close(&b->fd);
	CHECK_EQ(waitpid(b->pid, &status, 0), b->pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	wire_decoder_done(&b->decoder);
}

#define BOX_TEST(name)                                                                       \
	TEST_IN(name, (struct box * b), struct box *box = box_start(); meet(box); body(box); \
		box_stop(box);)

static int ask_socket(const struct box *b)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path + 1, b->name, strlen(b->name));
	CHECK(fd >= 0);
	CHECK_EQ(connect(fd, (struct sockaddr *)&at,
			 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(b->name))),
		 0);
	return fd;
}

static int ask(const struct box *b, const char *bytes, size_t n)
{
	int fd = ask_socket(b);

	CHECK_EQ(fd_write_full(fd, bytes, n), 0);
	return fd;
}

static struct wire_ctl hear_ask(struct box *b, uint32_t *ret_id)
{
	struct wire_frame f = hear(b, WIRE_CTL);
	struct wire_ctl m;

	CHECK_EQ(wire_ctl_decode(&f, &m), 0);
	CHECK(f.id != 0);
	CHECK_EQ(m.uid, getuid());
	*ret_id = f.id;
	return m;
}

static void answer(struct box *b, uint32_t id, uint64_t kind, const char *text)
{
	struct wire_ctl_answer m = {.kind = kind, .text = text};
	struct buf out;

	buf_init(&out, 1 << 20);
	CHECK_EQ(wire_ctl_answer_encode(&out, id, 0, &m), 0);
	say(b, &out);
	buf_done(&out);
}

/* All that comes until init closes; takes fd. */
static const char *read_all(int fd)
{
	static char text[CTL_TEXT_MAX + 1024];
	ssize_t n = 0, got;

	while ((got = recv(fd, text + n, sizeof(text) - 1 - (size_t)n, 0)) > 0)
		n += got;
	CHECK(got == 0 || errno == ECONNRESET); /* what it did not read is lost */
	text[n] = 0;
	close(fd);
	return text;
}

static void must_work(struct box *b)
{
	int fd = ask(b, "info\n", 5);
	uint32_t id;

	CHECK_EQ(hear_ask(b, &id).verb, WIRE_CTL_INFO);
	answer(b, id, 0, "fine\n");
	CHECK_STR(read_all(fd), "ok\nfine\n");
}

BOX_TEST(a_request_and_its_answer)
{
	static const char text[] = "json snapshot before\n";
	int fd = ask(b, text, strlen(text));
	struct wire_ctl m;
	uint32_t id;

	m = hear_ask(b, &id);
	CHECK(m.verb == WIRE_CTL_SNAPSHOT && m.json == 1);
	CHECK_STR(m.name, "before");
	answer(b, id, 0, "{}\n");
	CHECK_STR(read_all(fd), "ok\n{}\n");
	/* In pieces it is the same. */
	fd = ask(b, "bud", 3);
	CHECK_EQ(fd_write_full(fd, "get\n", 4), 0);
	CHECK_EQ(hear_ask(b, &id).verb, WIRE_CTL_BUDGET);
	answer(b, id, ERR_DENIED, "you may not");
	CHECK_STR(read_all(fd), "error denied you may not\n");
	must_work(b);
}

BOX_TEST(what_is_no_request_never_reaches_the_keeper)
{
	static const struct {
		const char *p;
		size_t n;
	} bad[] = {{"\n", 1},
		   {"info x\n", 7},
		   {"info\0\n", 6},
		   {"snapshot ../a\n", 14},
		   {"snapshot a\0b\n", 13},
		   {"info\ninfo\n", 10},
		   {"\xff\xfe\n", 3}};
	char long_one[4 * CTL_LINE_MAX];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK(strncmp(read_all(ask(b, bad[i].p, bad[i].n)), "error invalid ", 14) == 0);
	memset(long_one, 'a', sizeof(long_one));
	CHECK(strncmp(read_all(ask(b, long_one, sizeof(long_one))), "error invalid ", 14) == 0);
	must_work(b);
}

BOX_TEST(who_does_not_wait_is_forgotten)
{
	int fd = ask(b, "snapshot a\n", 11);
	uint32_t id;

	hear_ask(b, &id);
	close(fd);
	must_work(b); /* its end was seen */
	answer(b, id, 0, "made\n");
	close(ask(b, "inf", 3)); /* and one that ends in its line */
	must_work(b);
	/* An answer to nobody at all. */
	answer(b, 4711, 0, "what\n");
	must_work(b);
}

/* The queue is bounded; those that hold it are ended by others' ends, not by their number. */
BOX_TEST(many_that_say_nothing_hold_up_only_themselves)
{
	int idle[INIT_CTL_CONNS_MAX], fd;
	uint32_t id;

	for (unsigned i = 0; i < INIT_CTL_CONNS_MAX; i++)
		idle[i] = ask_socket(b);
	fd = ask(b, "info\n", 5);
	close(idle[0]);
	CHECK_EQ(hear_ask(b, &id).verb, WIRE_CTL_INFO);
	answer(b, id, 0, "fine\n");
	CHECK_STR(read_all(fd), "ok\nfine\n");
	for (unsigned i = 1; i < INIT_CTL_CONNS_MAX; i++)
		close(idle[i]);
	must_work(b);
}

BOX_TEST(more_than_a_second_takes_wait_and_are_answered)
{
	for (unsigned i = 0; i < 3 * INIT_CTL_PER_S; i++)
		must_work(b);
}

/* An answer that cannot be read is the keeper's failure: the box ends. */
TEST(a_keeper_that_says_nonsense_ends_it)
{
	struct box *b = box_start();
	struct buf out;
	int status;

	meet(b);
	buf_init(&out, 4096);
	CHECK_EQ(wire_encode(&out, WIRE_CTL, 0, 1, "\1\2", 2), 0);
	say(b, &out);
	buf_done(&out);
	CHECK_EQ(waitpid(b->pid, &status, 0), b->pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

TAP_MAIN
