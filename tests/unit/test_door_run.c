/* The real cove-door as a keeper starts it: what it says, what it records, how it is confined, and
 * how it ends. */
#include "store_home.h"
#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"
#include "door/config.h"
#include "store/audit.h"
#include "store/net.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct state st;
static struct err e;
static struct wire_decoder decoder;
static int link_fd = -1;
static pid_t door_pid;

static int put(const char *name, const char *text)
{
	autoclose int fd = openat(st.boxes_fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd_write_file(fd, name, text, strlen(text), 0600, false);
}

/* In the home that is there. */
static void run_door(void)
{
	struct door_config config = {
		.home = home_path, .box = "box", .created_ms = 7, .policy = "file"};
	const char *program = getenv("COVE_DOOR");
	int pair[2], config_fd;

	CHECK_EQ(door_config_write(&config, &config_fd, &e), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	door_pid = fork();
	if (door_pid == 0) {
		/* Above where they go, so that neither overwrites the other. */
		int a = fcntl(config_fd, F_DUPFD, 10), b = fcntl(pair[0], F_DUPFD, 10);

		dup2(a, DOOR_CONFIG_FD);
		dup2(b, DOOR_LINK_FD);
		sys_close_range(DOOR_LINK_FD + 1, ~0u, 0);
		execl(program, "cove-door", "run", NULL);
		_exit(127);
	}
	close(config_fd);
	close(pair[0]);
	link_fd = pair[1];
	wire_decoder_init(&decoder);
}

/* Before the home is removed: a broker that outlives its proxy still writes there. */
static void wait_for_all(void)
{
	if (getpid() != home_owner)
		return;
	fd_close(&link_fd);
	if (door_pid > 0)
		kill(door_pid, SIGKILL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
}

static void start_door(const char *policy)
{
	if (!getenv("COVE_DOOR"))
		SKIP("COVE_DOOR does not say where cove-door is");
	home_open(&st);
	CHECK_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
	atexit(wait_for_all);
	CHECK_EQ(mkdirat(st.boxes_fd, "box", 0700), 0);
	if (policy)
		CHECK_EQ(put(NET_POLICY_FILE, policy), 0);
	run_door();
}

/* The next frame but word of a denial, which comes before its answer; false: the door is gone. */
static bool next(struct wire_frame *f)
{
	size_t room;
	uint8_t *p;
	ssize_t n;
	int r;

	while ((r = wire_decoder_next(&decoder, f)) == 0 || (r > 0 && f->type == WIRE_DENIED)) {
		if (r > 0)
			continue;
		p = wire_decoder_space(&decoder, &room);
		CHECK(p);
		n = read(link_fd, p, room);
		if (n <= 0)
			return false;
		wire_decoder_fill(&decoder, (size_t)n);
	}
	return true;
}

static void send_frame(struct buf *b)
{
	CHECK_EQ(fd_write_full(link_fd, buf_data(b), buf_len(b)), 0);
	buf_clear(b);
}

static void say_connect(struct buf *b, uint32_t id, const char *host, unsigned port)
{
	struct wire_connect m = {.host = host, .port = port};

	CHECK_EQ(wire_connect_encode(b, WIRE_NET_BIT | id, 0, &m), 0);
	send_frame(b);
}

static void wait_hello(void)
{
	struct wire_hello m;
	struct wire_frame f;

	CHECK(next(&f));
	CHECK_EQ(f.type, WIRE_HELLO);
	CHECK_EQ(wire_hello_decode(&f, &m), 0);
	CHECK_STR(m.name, "box");
}

static int wait_end(void)
{
	int status;

	CHECK_EQ(waitpid(door_pid, &status, 0), door_pid);
	wire_decoder_done(&decoder);
	fd_close(&link_fd);
	return status;
}

static int listen_here(unsigned *ret_port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 8) == 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*ret_port = ntohs(a.sin_port);
	return fd;
}

static unsigned rows, allowed, denied;

static int on_row(void *arg, const char *box, const struct audit_row *row)
{
	rows++;
	if (strcmp(row->kind, "connect") == 0) {
		/* One that was cut later is shown so. */
		allowed += strcmp(row->verdict, "allow") == 0 || strcmp(row->verdict, "cut") == 0;
		if (strcmp(row->verdict, "deny") == 0)
			denied += row->count ? (unsigned)row->count : 1;
	}
	return 0;
}

static void read_record(void)
{
	struct audit_filter filter = {.box = "box"};
	struct audit_report report;

	CHECK_EQ(audit_read(&st, &filter, on_row, NULL, &e), 0);
	CHECK_EQ(audit_verify(&st, "box", &report, &e), 0);
}

static char status_text[8192];

/* A line of /proc/PID/status, after its name and tab. */
static const char *status_of(pid_t pid, const char *name)
{
	char path[64], *at;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = fd_read_full(fd, status_text, sizeof(status_text) - 1);
	CHECK(n > 0);
	status_text[n] = 0;
	at = strstr(status_text, name);
	CHECK(at);
	at += strlen(name) + 2;
	at[strcspn(at, "\n")] = 0;
	return at;
}

TEST(a_door_opens_passes_bytes_and_ends_with_its_keeper)
{
	char policy[256], text[16];
	struct wire_frame f;
	unsigned port;
	int listener = listen_here(&port), up;
	struct buf b;

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - {allow: 127.0.0.1, ports: [%u], private: true}\n", port);
	start_door(policy);
	wait_hello();
	buf_init(&b, 1 << 20);
	say_connect(&b, 1, "127.0.0.1", port);
	CHECK(next(&f));
	CHECK_EQ(f.type, WIRE_OK);
	up = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	CHECK(up >= 0);
	CHECK_EQ(wire_encode(&b, WIRE_DATA, WIRE_STDOUT, WIRE_NET_BIT | 1, "ping", 4), 0);
	send_frame(&b);
	CHECK_EQ(fd_read_full(up, text, 4), 4);
	CHECK_MEM(text, "ping", 4);
	CHECK_EQ(fd_write_full(up, "pong", 4), 0);
	CHECK(next(&f));
	CHECK_EQ(f.type, WIRE_DATA);
	CHECK_MEM(f.payload, "pong", 4);
	say_connect(&b, 2, "127.0.0.1", port == 1 ? 2 : port - 1);
	CHECK(next(&f));
	CHECK_EQ(f.type, WIRE_ERROR);
	/* The keeper goes: so does the door, and the transfer that ran is cut. */
	CHECK_EQ(shutdown(link_fd, SHUT_RDWR), 0);
	CHECK_EQ(wait_end(), 0);
	CHECK(read(up, text, 1) < 0 && errno == ECONNRESET);
	read_record();
	CHECK_EQ(allowed, 1);
	CHECK_EQ(denied, 1);
	buf_done(&b);
	close(up);
	close(listener);
}

TEST(a_door_is_confined_before_it_says_hello)
{
	start_door("version: 1\nrules:\n  - deny: \"*\"\n");
	wait_hello();
	CHECK_STR(status_of(door_pid, "NoNewPrivs"), "1");
	CHECK_STR(status_of(door_pid, "Seccomp"), "2");
	CHECK_STR(status_of(door_pid, "CapEff"), "0000000000000000");
	CHECK_STR(status_of(door_pid, "CapPrm"), "0000000000000000");
	fd_close(&link_fd);
	CHECK_EQ(wait_end(), 0);
}

TEST(a_door_without_a_policy_says_hello_and_lets_nothing_through)
{
	struct wire_frame f;
	struct wire_error m;
	struct buf b;

	start_door(NULL);
	wait_hello();
	buf_init(&b, 1 << 20);
	say_connect(&b, 1, "1.1.1.1", 443);
	CHECK(next(&f));
	CHECK_EQ(f.type, WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &m), 0);
	CHECK_EQ(m.kind, ERR_DENIED);
	fd_close(&link_fd);
	CHECK_EQ(wait_end(), 0);
	buf_done(&b);
}

TEST(nonsense_on_the_link_ends_the_door)
{
	struct wire_frame f;

	start_door("version: 1\nrules:\n  - deny: \"*\"\n");
	wait_hello();
	CHECK_EQ(fd_write_full(link_fd, "GET / HTTP/1.1\r\n\r\n", 18), 0);
	CHECK(!next(&f));
	CHECK_EQ(wait_end(), 0);
}

/* The door's only child. */
static pid_t broker_of(pid_t pid)
{
	char path[96], text[64];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		SKIP("this kernel does not tell a process's children");
	n = fd_read_full(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	text[n] = 0;
	return (pid_t)atoi(text);
}

TEST(without_its_broker_nothing_passes)
{
	struct wire_frame f;
	pid_t broker;

	start_door("version: 1\nrules:\n  - allow: \"*\"\n");
	wait_hello();
	broker = broker_of(door_pid);
	CHECK(broker > 1);
	CHECK_EQ(kill(broker, SIGKILL), 0);
	CHECK(!next(&f));
	CHECK(wait_end() != 0);
}

enum { FLOOD = 12000 };

static pid_t start_flood(void)
{
	pid_t pid = fork();
	struct buf b;

	if (pid != 0)
		return pid;
	buf_init(&b, 1 << 20);
	for (uint32_t i = 1; i <= FLOOD; i++)
		say_connect(&b, i, "evil.test", 443);
	_exit(0);
}

/* More denials than the broker can write down: the box waits, and the door lives on. */
TEST(a_slow_broker_slows_its_box_down_and_no_more)
{
	struct pollfd p = {.events = POLLIN};
	unsigned answers = 0;
	bool is_stopped = true;
	struct wire_frame f;
	pid_t broker, flood;

	start_door("version: 1\nrules:\n  - allow: a.test\n");
	wait_hello();
	p.fd = link_fd;
	broker = broker_of(door_pid);
	CHECK_EQ(kill(broker, SIGSTOP), 0);
	flood = start_flood();
	while (answers < FLOOD) {
		/* It says nothing more: what it does not say it did not take either. */
		if (wire_decoder_next(&decoder, &f) == 0) {
			if (is_stopped && poll(&p, 1, 500) == 0) {
				CHECK_EQ(kill(broker, SIGCONT), 0);
				is_stopped = false;
			}
			CHECK(next(&f));
		}
		answers += f.type == WIRE_ERROR;
	}
	CHECK(!is_stopped);
	CHECK_EQ(waitpid(flood, NULL, 0), flood);
	fd_close(&link_fd);
	CHECK_EQ(wait_end(), 0);
	read_record();
	CHECK_EQ(denied, FLOOD);
}

/* It became ours when its proxy was gone. */
static void wait_gone(pid_t pid)
{
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_door_that_was_killed_leaves_no_new_budgets)
{
	struct wire_frame f;
	struct wire_error m;
	char policy[256];
	unsigned port;
	int listener = listen_here(&port);
	struct buf b;

	snprintf(policy, sizeof(policy),
		 "version: 1\nbytes: 10\nrules:\n"
		 "  - {allow: 127.0.0.1, ports: [%u], private: true, rate: 2/h}\n",
		 port);
	start_door(policy);
	buf_init(&b, 1 << 20);
	for (unsigned i = 0; i < 3; i++) {
		pid_t broker;

		wait_hello();
		broker = broker_of(door_pid);
		say_connect(&b, 1, "127.0.0.1", port);
		CHECK(next(&f));
		CHECK_EQ(f.type, i < 2 ? WIRE_OK : WIRE_ERROR);
		if (i == 2)
			CHECK(wire_error_decode(&f, &m) == 0 && strstr(m.msg, "rate"));
		CHECK_EQ(kill(door_pid, SIGKILL), 0);
		(void)wait_end();
		wait_gone(broker);
		run_door();
	}
	wait_hello();
	fd_close(&link_fd);
	CHECK_EQ(wait_end(), 0);
	buf_done(&b);
	close(listener);
}

TEST(a_door_that_is_told_to_end_ends)
{
	struct wire_frame f;

	start_door("version: 1\nrules:\n  - deny: \"*\"\n");
	wait_hello();
	CHECK_EQ(kill(door_pid, SIGTERM), 0);
	CHECK(!next(&f));
	CHECK_EQ(wait_end(), 0);
}

TAP_MAIN
