/* Following the events of a box: the seam between its files and what its keeper sends. The keeper
 * is a process of ours that follows a script. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core/core.h"
#include "core_peer.h"
#include "tap.h"
#include "wire/hello.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static char home[64];
static pid_t keeper;

struct script {
	struct cove *cove;
	int box_fd, sock;
	bool is_visit; /* up for one client alone */
	bool is_old;   /* says HELLO without features */
	void (*run)(struct script *s);
	struct peer peer;
	uint32_t id;
};

/* ---- the keeper ---- */

static const char *row_of(uint64_t seq)
{
	static char row[64];

	snprintf(row, sizeof(row), "{\"seq\":%llu,\"event\":\"x\"}", (unsigned long long)seq);
	return row;
}

static void write_rows(int box_fd, const char *path, uint64_t from, uint64_t to)
{
	int fd = openat(box_fd, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	CHECK(fd >= 0);
	for (uint64_t i = from; i <= to; i++)
		dprintf(fd, "%s\n", row_of(i));
	close(fd);
}

static void send_row(struct script *s, uint64_t seq, bool has_text)
{
	struct wire_event m = {.seq = seq, .text = has_text ? row_of(seq) : NULL};

	CHECK_EQ(wire_event_encode(&s->peer.out, s->id, 0, &m), 0);
}

static void listen_now(struct script *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int run_fd = s->cove->state.run_fd;

	s->sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(mkdirat(run_fd, "b", 0700), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/b/keeper.sock", run_fd);
	CHECK_EQ(bind(s->sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(s->sock, 8), 0);
	/* Who came between the two waits for a change, as keepers make one. */
	CHECK_EQ(fchmodat(run_fd, "b/keeper.sock", 0600, 0), 0);
}

/* The next client, up to its SUBSCRIBE. */
static void accept_one(struct script *s)
{
	struct wire_hello hello = wire_hello_ours();

	hello.name = "b";
	if (s->is_old)
		hello.features = (struct wire_list){0};
	s->peer = (struct peer){.fd = accept(s->sock, NULL, NULL)};
	CHECK(s->peer.fd >= 0);
	wire_decoder_init(&s->peer.decoder);
	buf_init(&s->peer.out, WIRE_OUT_MAX);
	CHECK_EQ(wire_hello_encode(&s->peer.out, 0, 0, &hello), 0);
	peer_flush(&s->peer);
	s->id = peer_expect(&s->peer, WIRE_SUBSCRIBE).id;
}

static void hang_up(struct script *s)
{
	peer_flush(&s->peer);
	close(s->peer.fd);
}

static void keeper_main(struct script *s, int ready_fd)
{
	int lock_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK_EQ(record_open(&s->cove->state, "b", &s->box_fd, NULL), 0);
	CHECK_EQ(record_lock(s->box_fd, &lock_fd, NULL), 0);
	if (!s->is_visit)
		CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
	CHECK_EQ(write(ready_fd, "x", 1), 1);
	/* Whoever comes between lock and text hears of it. */
	if (s->is_visit)
		CHECK_EQ(record_write_visit(lock_fd, false, NULL), 0);
	s->run(s);
	_exit(0);
}

/* ---- the follower ---- */

struct seen {
	uint64_t rows[32];
	size_t count, enough;
	struct cove_error err;
};

static bool on_line(void *arg, const char *json)
{
	struct seen *s = arg;

	CHECK(s->count < 32);
	s->rows[s->count++] = event_row_seq(json);
	return s->count != s->enough;
}

static void start(struct script *s, void (*run)(struct script *s))
{
	struct spec spec = {
		.name = "b", .image = "host", .wall = "native", .created_ms = clock_wall_ms()};
	int ready[2], fd;
	char byte;

	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(cove_new(&s->cove,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  NULL),
		 0);
	CHECK_EQ(state_make(&s->cove->state, NULL), 0);
	CHECK_EQ(record_create(&s->cove->state, &spec, &fd, NULL), 0);
	CHECK_EQ(mkdirat(fd, "logs", 0700), 0);
	write_rows(fd, "logs/" EVENT_LOG_OLD, 1, 2);
	write_rows(fd, "logs/" EVENT_LOG, 3, 3);
	close(fd);
	if (!run)
		return;
	s->run = run;
	CHECK_EQ(pipe(ready), 0);
	keeper = fork();
	if (keeper == 0)
		keeper_main(s, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

/* Ends the script; rows 1 to last came, each once. */
static void finish(struct script *s, const struct seen *seen, size_t last)
{
	pid_t pid;
	int status;

	if (s->run) {
		CHECK_EQ(waitpid(keeper, &status, 0), keeper);
		CHECK_EQ(status, 0);
	}
	CHECK_EQ(seen->count, last);
	for (size_t i = 0; i < last; i++)
		CHECK_EQ(seen->rows[i], i + 1);
	cove_free(s->cove);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* Row 4 is in the file when that is read and comes from the keeper; 5 is sent before its turn in
 * the file, 6 in between of two that were too many. */
static void script_seam(struct script *s)
{
	listen_now(s);
	accept_one(s);
	write_rows(s->box_fd, "logs/" EVENT_LOG, 4, 8);
	send_row(s, 4, false);
	send_row(s, 4, true);
	send_row(s, 5, true);
	send_row(s, 8, true);
	send_row(s, 8, true);
	peer_send(&s->peer, WIRE_OK, 0, s->id);
	hang_up(s);
}

TEST(no_row_is_missing_or_twice)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_seam);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 8);
}

/* It wrote what it could not send any more. */
static void script_killed(struct script *s)
{
	listen_now(s);
	accept_one(s);
	send_row(s, 4, false);
	write_rows(s->box_fd, "logs/" EVENT_LOG, 4, 6);
	send_row(s, 4, true);
	peer_flush(&s->peer);
}

TEST(a_keeper_that_dies_leaves_its_rows)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_killed);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 6);
}

/* The first connection is given up, the second gets the rest. */
static void script_slow(struct script *s)
{
	listen_now(s);
	accept_one(s);
	send_row(s, 4, false);
	write_rows(s->box_fd, "logs/" EVENT_LOG, 4, 5);
	send_row(s, 4, true);
	hang_up(s);
	accept_one(s);
	send_row(s, 6, false);
	send_row(s, 6, true);
	peer_send(&s->peer, WIRE_OK, 0, s->id);
	hang_up(s);
}

TEST(a_lost_connection_is_made_again)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_slow);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 6);
}

/* A stop is under way: no more requests, one more row. */
static void script_ending(struct script *s)
{
	struct wire_error m = {.kind = ERR_CONFLICT, .msg = "ending"};

	listen_now(s);
	accept_one(s);
	CHECK_EQ(wire_error_encode(&s->peer.out, s->id, 0, &m), 0);
	peer_flush(&s->peer);
	write_rows(s->box_fd, "logs/" EVENT_LOG, 4, 4);
}

TEST(a_box_that_is_ending_is_read_to_its_end)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_ending);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 4);
}

static void script_once(struct script *s)
{
	if (s->sock <= 0)
		listen_now(s);
	accept_one(s);
	send_row(s, 4, false);
	send_row(s, 4, true);
	peer_send(&s->peer, WIRE_OK, 0, s->id);
	hang_up(s);
}

/* The test process holds the only word to go on: the follower is started by the script itself. */
static void script_late(struct script *s)
{
	struct seen seen = {0};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		CHECK_EQ(cove_events(s->cove, "b", true, on_line, &seen, &seen.err), 0);
		CHECK_EQ(seen.count, 4);
		_exit(0);
	}
	script_once(s);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

TEST(a_box_that_comes_up_is_waited_for)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_late);
	finish(&s, &seen, 0);
}

static void script_two(struct script *s)
{
	struct script other;

	listen_now(s);
	accept_one(s);
	other = *s;
	accept_one(&other);
	send_row(&other, 4, false);
	send_row(s, 4, false);
	send_row(s, 4, true);
	send_row(&other, 4, true);
	peer_send(&s->peer, WIRE_OK, 0, s->id);
	peer_send(&other.peer, WIRE_OK, 0, other.id);
	hang_up(s);
	hang_up(&other);
}

TEST(two_follow_one_box)
{
	struct script s = {0};
	struct seen seen = {0};
	pid_t pid;
	int status;

	start(&s, script_two);
	pid = fork();
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	CHECK_EQ(seen.count, 4);
	if (pid == 0)
		_exit(0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	finish(&s, &seen, 4);
}

/* It has never heard of SUBSCRIBE, and is not asked. */
static void script_old(struct script *s)
{
	s->is_old = true;
	listen_now(s);
	accept_one(s);
	_exit(1);
}

TEST(an_older_keeper_is_named)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, script_old);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), -ENOTSUP);
	CHECK_EQ(seen.err.kind, COVE_UNSUPPORTED);
	CHECK_EQ(seen.count, 0);
	/* What it wrote can be read. */
	CHECK_EQ(cove_events(s.cove, "b", false, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 3);
}

/* It answers one client alone, which is not us: it has no socket, and ends when we have read. */
static void script_visit(struct script *s)
{
	pause();
}

TEST(a_box_that_is_up_for_a_copy_is_not_waited_for)
{
	struct script s = {.is_visit = true};
	struct seen seen = {0}, all = {0};
	int status;

	start(&s, script_visit);
	CHECK_EQ(cove_events(s.cove, "b", false, on_line, &all, &all.err), 0);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	CHECK_EQ(all.count, 3);
	kill(keeper, SIGKILL);
	CHECK_EQ(waitpid(keeper, &status, 0), keeper);
	s.run = NULL;
	finish(&s, &seen, 3);
}

/* Killed with a client that it has not heard: the kernel took the connection. */
static void script_deaf(struct script *s)
{
	int fd;

	listen_now(s);
	fd = accept(s->sock, NULL, NULL);
	close(s->sock);
	CHECK_EQ(unlinkat(s->cove->state.run_fd, "b/keeper.sock", 0), 0);
	close(fd);
}

TEST(the_commands_of_a_box_whose_keeper_is_lost_are_read)
{
	struct script s = {0};
	struct seen seen = {0};
	struct cove_exec_info *infos = NULL;

	start(&s, script_deaf);
	CHECK_EQ(cove_execs(s.cove, "b", &infos, &seen.err), 0);
	free(infos);
	finish(&s, &seen, 0);
}

TEST(a_stopped_box_has_ended)
{
	struct script s = {0};
	struct seen seen = {0};

	start(&s, NULL);
	CHECK_EQ(cove_events(s.cove, "b", true, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 3);
}

TEST(enough_is_enough)
{
	struct script s = {0};
	struct seen seen = {.enough = 2};

	start(&s, NULL);
	CHECK_EQ(cove_events(s.cove, "b", false, on_line, &seen, &seen.err), 0);
	finish(&s, &seen, 2);
}

TAP_MAIN
