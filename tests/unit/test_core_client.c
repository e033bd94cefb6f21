/* What a server does in one loop: shared connections, commands of many boxes, starting and joining
 * boxes. The keepers of all boxes are one process of ours. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "core/client.h"
#include "core/life.h"
#include "core/round.h"
#include "core/up.h"
#include "core_peer.h"
#include "keeper/config.h"
#include "store/removal.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BOXES = 60 };

static char home[64];
static pid_t keepers;

/* ---- the keepers ---- */

struct fake_box {
	struct ev_io listener;
	struct ev *ev;
	int index;
};

struct fake_conn {
	struct wire_link link;
	int index;
};

static void on_fake_close(struct wire_link *l, int error)
{
	wire_link_done(l);
	free(container(l, struct fake_conn, link));
}

/* Box 1 answers nothing, box 2 hangs up in the middle, box 3 has no network; at the doors of all
 * others one request waits. */
static void answer_asks(struct fake_conn *c, uint32_t id)
{
	struct wire_ask ask = {.id = (uint64_t)c->index, .host = "x.org", .port = 443};
	struct wire_error none = {.kind = ERR_NOT_FOUND, .code = ENOENT, .msg = "no network"};
	struct buf *out = &c->link.out;

	if (c->index == 1)
		return;
	if (c->index == 3)
		CHECK_EQ(wire_error_encode(out, id, 0, &none), 0);
	else
		CHECK_EQ(wire_ask_encode(out, id, 0, &ask), 0);
	if (c->index == 2) {
		wire_link_push(&c->link);
		on_fake_close(&c->link, 0);
		return;
	}
	if (c->index != 3)
		CHECK_EQ(wire_encode(out, WIRE_OK, 0, id, NULL, 0), 0);
	wire_link_flush(&c->link);
}

/* Box 1 answers nothing, box 2 hangs up in the middle; all others print their number and end. */
static void on_fake_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct fake_conn *c = container(l, struct fake_conn, link);
	struct wire_started started = {.exec_id = f->id};
	struct exec_record end = {
		.exec_id = f->id, .has_exit = 1, .exit_code = 3, .cause = "exit", .cwd = "/"};
	char text[16];

	if (f->type == WIRE_DOOR)
		answer_asks(c, f->id);
	if (f->type != WIRE_EXEC || c->index == 1)
		return;
	CHECK_EQ(wire_started_encode(&l->out, f->id, 0, &started), 0);
	snprintf(text, sizeof(text), "box %d", c->index);
	CHECK_EQ(wire_encode(&l->out, WIRE_DATA, WIRE_STDOUT, f->id, text, strlen(text)), 0);
	if (c->index == 2) {
		wire_link_push(l);
		on_fake_close(l, 0);
		return;
	}
	CHECK_EQ(wire_exit_encode(&l->out, f->id, 0, &end), 0);
	wire_link_flush(l);
}

static void on_fake_accept(struct ev_io *io, uint32_t events)
{
	struct fake_box *b = container(io, struct fake_box, listener);
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN, .name = "box"};
	struct fake_conn *c = calloc(1, sizeof(*c));
	int fd = accept4(io->fd, NULL, NULL, SOCK_CLOEXEC);

	CHECK(fd >= 0 && c);
	c->index = b->index;
	c->link.on_frame = on_fake_frame;
	c->link.on_close = on_fake_close;
	CHECK_EQ(wire_link_init(&c->link, b->ev, fd, fd), 0);
	CHECK_EQ(wire_hello_encode(&c->link.out, 0, 0, &hello), 0);
	wire_link_flush(&c->link);
}

static const char *box_name(int i)
{
	static char name[16];

	snprintf(name, sizeof(name), "b%d", i);
	return name;
}

static int listen_at(struct cove *cove, const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	CHECK_EQ(mkdirat(cove->state.run_fd, name, 0700), 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/%s/keeper.sock",
		 cove->state.run_fd, name);
	CHECK_EQ(bind(sock, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(listen(sock, 8), 0);
	return sock;
}

static void keepers_main(struct cove *cove, int ready_fd)
{
	static struct fake_box boxes[BOXES];
	struct ev *ev;
	int box_fd, lock_fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK_EQ(ev_new(&ev), 0);
	for (int i = 0; i < BOXES; i++) {
		CHECK_EQ(record_open(&cove->state, box_name(i), &box_fd, NULL), 0);
		CHECK_EQ(record_lock(box_fd, &lock_fd, NULL), 0);
		CHECK_EQ(record_write_live(lock_fd, false, NULL), 0);
		close(box_fd);
		boxes[i] = (struct fake_box){.listener.on_event = on_fake_accept,
					     .listener.fd = listen_at(cove, box_name(i)),
					     .ev = ev,
					     .index = i};
		CHECK_EQ(ev_io_add(ev, &boxes[i].listener, EPOLLIN), 0);
	}
	CHECK_EQ(write(ready_fd, "x", 1), 1);
	ev_run(ev);
	_exit(1);
}

static struct cove *start(void)
{
	struct cove *cove;
	int ready[2], fd;
	char byte;

	snprintf(home, sizeof(home), "/tmp/cove-test-XXXXXX");
	CHECK(mkdtemp(home));
	CHECK_EQ(cove_new(&cove,
			  &(struct cove_options){.size = sizeof(struct cove_options), .home = home},
			  NULL),
		 0);
	CHECK_EQ(state_make(&cove->state, NULL), 0);
	for (int i = 0; i <= BOXES; i++) {
		struct spec spec = {.name = box_name(i),
				    .image = "host",
				    .wall = "native",
				    .created_ms = clock_wall_ms()};

		CHECK_EQ(record_create(&cove->state, &spec, &fd, NULL), 0);
		close(fd);
	}
	CHECK_EQ(pipe(ready), 0);
	keepers = fork();
	if (keepers == 0)
		keepers_main(cove, ready[1]);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return cove;
}

static void finish(struct cove *cove)
{
	pid_t pid;

	kill(keepers, SIGKILL);
	CHECK_EQ(waitpid(keepers, NULL, 0), keepers);
	cove_free(cove);
	pid = fork();
	if (pid == 0) {
		execl("/bin/rm", "rm", "-rf", home, NULL);
		_exit(127);
	}
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* ---- commands ---- */

struct job {
	struct core_async_exec a;
	struct ev *ev;
	unsigned *left;
	char out[32];
	int exit_code, result;
	bool done;
};

static void on_event(struct core_async_exec *a, const struct cove_event *ev)
{
	struct job *j = container(a, struct job, a);

	if (ev->type == COVE_EVENT_OUT) {
		CHECK(ev->len < sizeof(j->out));
		memcpy(j->out, ev->data, ev->len);
		CHECK_EQ(core_async_exec_took(a, WIRE_STDOUT, ev->len), 0);
	}
	if (ev->type == COVE_EVENT_EXIT)
		j->exit_code = ev->result.exit_code;
}

static void on_done(struct core_async_exec *a, int r, const struct err *e)
{
	struct job *j = container(a, struct job, a);

	CHECK(!j->done);
	j->done = true;
	j->result = r;
	if (--*j->left == 0)
		ev_quit(j->ev);
}

static void job_start(struct job *j, struct core_client *client, struct ev *ev, int i,
		      unsigned *left)
{
	struct cove_command command = {.size = sizeof(command), .line = "echo"};
	struct core_conn *conn;

	*j = (struct job){.a = {.on_event = on_event, .on_done = on_done}, .ev = ev, .left = left};
	CHECK_EQ(core_client_conn(client, box_name(i), &conn, NULL), 0);
	CHECK_EQ(core_async_exec_start(&j->a, conn, &command, 0, NULL), 0);
	++*left;
}

/* ---- one question to all ---- */

static bool count_ask(void *arg, const struct cove_ask *ask)
{
	unsigned *seen = arg;

	CHECK(ask->id < BOXES && strcmp(ask->box, box_name((int)ask->id)) == 0);
	seen[ask->id]++;
	return true;
}

TEST(a_box_that_does_not_answer_is_a_failure_of_its_own)
{
	struct cove *cove = start();
	struct cove_error err = {0};
	unsigned seen[BOXES] = {0};

	CHECK(cove_asks(cove, NULL, count_ask, seen, &err) < 0);
	CHECK_EQ(err.kind, COVE_TIMEOUT);
	CHECK(strstr(err.message, "'b1'"));
	for (unsigned i = 0; i < BOXES; i++)
		CHECK_EQ(seen[i], i != 1 && i != 3);
	finish(cove);
}

static bool stop_at_once(void *arg, const struct cove_ask *ask)
{
	++*(unsigned *)arg;
	return false;
}

TEST(an_answer_can_end_a_question_to_all)
{
	struct cove *cove = start();
	struct cove_error err = {0};
	unsigned count = 0;

	CHECK_EQ(cove_asks(cove, NULL, stop_at_once, &count, &err), 0);
	CHECK_EQ(count, 1);
	finish(cove);
}

struct short_round {
	struct core_round round;
	unsigned frames, ended, late;
};

static int encode_asks(struct core_round *round, struct buf *out, uint32_t id)
{
	return wire_door_encode(out, id, 0, &(struct wire_door){0});
}

static int count_frame(struct core_round *round, size_t i, struct core_request *q,
		       const struct wire_frame *f, struct err *e)
{
	container(round, struct short_round, round)->frames++;
	return f->type == WIRE_OK;
}

static void count_end(struct core_round *round, size_t i, int r, const struct err *e)
{
	struct short_round *s = container(round, struct short_round, round);

	s->ended++;
	s->late += r == -ETIMEDOUT;
	if (r == -ETIMEDOUT)
		CHECK_EQ(e->kind, ERR_TIMEOUT);
}

/* More than are asked at once, most of which answer nothing: those that were not begun are late,
 * too, and each is told of once. */
TEST(one_time_limit_is_for_all_boxes)
{
	enum { MANY = 300 };
	const char *boxes[MANY] = {"b0", "none", "b2", "b3"};
	struct short_round s = {
		.round = {.encode = encode_asks, .on_frame = count_frame, .on_end = count_end}};
	struct cove *cove = start();

	for (int i = 4; i < MANY; i++)
		boxes[i] = "b1";
	boxes[MANY - 1] = "b4";
	CHECK_EQ(core_round_run(&s.round, cove, boxes, MANY, 1500, NULL), 0);
	CHECK_EQ(s.ended, MANY);
	CHECK(s.late >= MANY - 4 && s.late < MANY); /* on a busy host others, too */
	CHECK(s.frames <= 3);
	/* None at all. */
	CHECK_EQ(core_round_run(&s.round, cove, boxes, 0, 1500, NULL), 0);
	CHECK_EQ(s.ended, MANY);
	finish(cove);
}

/* A program that has few left asks fewer at once. */
TEST(boxes_wait_for_descriptors)
{
	const char *boxes[] = {"b4", "b5", "b6", "b7", "b8", "b9", "b10", "b11"};
	enum { COUNT = sizeof(boxes) / sizeof(boxes[0]) };
	struct short_round s = {
		.round = {.encode = encode_asks, .on_frame = count_frame, .on_end = count_end}};
	struct cove *cove = start();
	int next = fcntl(0, F_DUPFD_CLOEXEC, 3);
	struct rlimit few = {(rlim_t)next + 4, (rlim_t)next + 4};

	close(next);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
	CHECK_EQ(core_round_run(&s.round, cove, boxes, COUNT, 60000, NULL), 0);
	CHECK_EQ(s.ended, COUNT);
	CHECK_EQ(s.frames, 2 * COUNT);
	finish(cove);
}

TEST(a_thread_runs_commands_in_many_boxes)
{
	static struct job jobs[BOXES][2];
	struct cove *cove = start();
	struct core_client *client;
	unsigned left = 0, stalled = 0;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(core_client_new(cove, ev, &client), 0);
	for (int i = 0; i < BOXES; i++)
		for (int k = 0; k < 2; k++)
			job_start(&jobs[i][k], client, ev, i, i == 1 ? &stalled : &left);
	/* Two commands of a box share its connection. */
	CHECK_EQ(core_client_count(client), BOXES);
	CHECK_EQ(ev_run(ev), 0);
	for (int i = 0; i < BOXES; i++) {
		char text[16];

		snprintf(text, sizeof(text), "box %d", i);
		for (int k = 0; k < 2; k++) {
			const struct job *j = &jobs[i][k];

			CHECK_EQ(j->done, i != 1);
			if (i == 2)
				CHECK_EQ(j->result, -ECONNRESET);
			else if (i != 1)
				CHECK(j->result == 0 && j->exit_code == 3 &&
				      strcmp(j->out, text) == 0);
		}
	}
	/* The connection that was lost is gone, and the next request makes another. */
	CHECK_EQ(core_client_count(client), BOXES - 1);
	job_start(&jobs[2][0], client, ev, 2, &left);
	CHECK_EQ(core_client_count(client), BOXES);
	core_async_exec_cancel(&jobs[2][0].a);
	core_client_free(client);
	CHECK(!jobs[2][0].done);
	CHECK(jobs[1][0].done && jobs[1][0].result == -ECANCELED);
	ev_free(ev);
	finish(cove);
}

static void on_event_give_up(struct core_async_exec *a, const struct cove_event *ev)
{
	struct job *j = container(a, struct job, a);

	if (ev->type != (enum cove_event_type)j->result)
		return;
	core_async_exec_cancel(a);
	if (--*j->left == 0)
		ev_quit(j->ev);
	free(j);
}

/* Who hears an event, the last one too, may have enough of the command. */
TEST(a_command_is_given_up_from_its_own_event)
{
	static const enum cove_event_type at[] = {COVE_EVENT_STARTED, COVE_EVENT_OUT,
						  COVE_EVENT_EXIT};
	struct cove *cove = start();
	struct core_client *client;
	unsigned left = 0;
	struct job other;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(core_client_new(cove, ev, &client), 0);
	for (size_t i = 0; i < sizeof(at) / sizeof(*at); i++) {
		struct job *j = malloc(sizeof(*j));

		CHECK(j);
		job_start(j, client, ev, 0, &left);
		j->a.on_event = on_event_give_up;
		j->result = (int)at[i];
	}
	job_start(&other, client, ev, 0, &left);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(other.done && other.exit_code == 3);
	CHECK_EQ(core_client_count(client), 1);
	core_client_free(client);
	ev_free(ev);
	finish(cove);
}

TEST(a_full_connection_gets_a_second_beside_it)
{
	static struct job jobs[KEEPER_REQUESTS_MAX + 1];
	struct cove *cove = start();
	struct core_client *client;
	unsigned left = 0;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(core_client_new(cove, ev, &client), 0);
	for (unsigned i = 0; i <= KEEPER_REQUESTS_MAX; i++)
		job_start(&jobs[i], client, ev, 0, &left);
	CHECK_EQ(core_client_count(client), 2);
	CHECK_EQ(ev_run(ev), 0);
	for (unsigned i = 0; i <= KEEPER_REQUESTS_MAX; i++)
		CHECK(jobs[i].done && jobs[i].exit_code == 3);
	core_client_free(client);
	ev_free(ev);
	finish(cove);
}

TEST(a_command_that_cannot_be_sent_leaves_nothing_behind)
{
	static char much[WIRE_WINDOW + 1];
	struct cove_command command = {
		.size = sizeof(command), .line = "cat", .input = much, .input_len = sizeof(much)};
	struct job j = {.a = {.on_event = on_event, .on_done = on_done}};
	struct cove *cove = start();
	struct core_client *client;
	struct core_conn *conn;
	size_t before;
	struct ev *ev;

	CHECK_EQ(ev_new(&ev), 0);
	CHECK_EQ(core_client_new(cove, ev, &client), 0);
	CHECK_EQ(core_client_conn(client, "b0", &conn, NULL), 0);
	before = buf_len(core_out(conn));
	CHECK_EQ(core_async_exec_start(&j.a, conn, &command, 0, NULL), -E2BIG);
	CHECK_EQ(buf_len(core_out(conn)), before);
	CHECK_EQ(conn->count, 0);
	command.line = NULL;
	CHECK_EQ(core_async_exec_start(&j.a, conn, &command, 0, NULL), -EINVAL);
	CHECK_EQ(core_client_conn(client, "nope", &conn, NULL), -ENOENT);
	core_client_free(client);
	ev_free(ev);
	finish(cove);
}

/* ---- up ---- */

struct start {
	struct core_up up;
	bool done;
	int result;
	struct err why;
	struct core_conn *conn;
};

static void on_up(void *arg, struct core_conn *conn, int r, const struct err *e)
{
	struct start *s = arg;

	CHECK(!s->done);
	s->done = true;
	s->conn = conn;
	s->result = r;
	s->why = *e;
	ev_quit(s->up.ev);
}

static void up(struct start *s, struct ev *ev, struct cove *cove, const char *name)
{
	*s = (struct start){.up.on_done = on_up, .up.arg = s};
	core_up_start(&s->up, ev, cove, name);
}

TEST(who_waits_for_one_box_holds_up_no_other)
{
	struct start held, other, missing, cancelled;
	struct cove *cove = start();
	int lock_fd;
	struct ev *ev;

	/* Nobody runs this one, and somebody has its operation lock. */
	CHECK_EQ(record_open(&cove->state, box_name(BOXES), &lock_fd, NULL), 0);
	CHECK_EQ(record_lock_operation(lock_fd, false, NULL), 0);
	setenv("COVE_LIBEXEC", "/bin", 1);
	CHECK_EQ(ev_new(&ev), 0);
	up(&held, ev, cove, box_name(BOXES));
	up(&cancelled, ev, cove, box_name(BOXES));
	up(&other, ev, cove, "b3");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(other.done && other.result == 0 && other.conn->ready && !held.done);
	core_conn_free(other.conn);
	up(&missing, ev, cove, "nope");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(missing.done && missing.result == -ENOENT && missing.why.kind == ERR_NOT_FOUND);
	CHECK(!held.done);
	core_up_cancel(&cancelled.up);
	/* It is let go: the box is ours to start, which fails because /bin has no keeper. */
	close(lock_fd);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(held.done && held.result < 0 && held.why.kind == ERR_UNSUPPORTED && !held.conn);
	CHECK(!cancelled.done);
	ev_free(ev);
	finish(cove);
}

/* ---- create ---- */

/* A keeper for core_create: this program under another name. Its box comes up, unless it is called
 * "bad": then it dies. */
__attribute__((constructor)) static void be_a_keeper(void)
{
	struct wire_hello hello = wire_hello_ours();
	char config[4096];
	struct buf out;
	ssize_t n;

	if (strcmp(program_invocation_short_name, "cove-keeper") != 0)
		return;
	n = pread(KEEPER_CONFIG_FD, config, sizeof(config) - 1, 0);
	config[n > 0 ? n : 0] = 0;
	if (n <= 0 || strstr(config, "name bad"))
		_exit(1);
	buf_init(&out, WIRE_OUT_MAX);
	hello.name = "box";
	if (wire_hello_encode(&out, 0, 0, &hello) < 0 ||
	    fd_write_full(KEEPER_CLIENT_FD, buf_data(&out), buf_len(&out)) < 0)
		_exit(1);
	while (read(KEEPER_CLIENT_FD, config, sizeof(config)) > 0)
		;
	_exit(0);
}

struct making {
	struct core_create create;
	struct core_spec spec;
	struct cove_box_options o;
	bool done;
	int result;
	struct core_conn *conn;
};

static void on_made(void *arg, struct core_conn *conn, int r, const struct err *e)
{
	struct making *m = arg;

	CHECK(!m->done);
	m->done = true;
	m->conn = conn;
	m->result = r;
	ev_quit(m->create.up.ev);
}

static void make(struct making *m, struct ev *ev, struct cove *cove, const char *name)
{
	*m = (struct making){
		.create = {.up = {.on_done = on_made, .arg = m}},
		.o = {.size = sizeof(m->o), .name = name, .image = "host", .net = "closed"}};
	CHECK_EQ(core_spec_init(&m->spec, &m->o, NULL, NULL, NULL), 0);
	core_create_start(&m->create, ev, cove, &m->spec, &m->o);
}

static void use_own_keeper(void)
{
	char self[256], path[sizeof(home) + 32];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	CHECK(n > 0);
	self[n] = 0;
	snprintf(path, sizeof(path), "%s/cove-keeper", home);
	CHECK_EQ(symlink(self, path), 0);
	snprintf(path, sizeof(path), "%s/cove-init", home);
	CHECK_EQ(symlink(self, path), 0);
	setenv("COVE_LIBEXEC", home, 1);
}

static void unmake(struct cove *cove, struct making *m)
{
	core_conn_free(m->conn);
	CHECK_EQ(cove_remove(cove, m->spec.name, true, NULL), 0);
	core_spec_done(&m->spec);
}

TEST(a_create_that_waits_holds_up_no_other)
{
	struct making held, other, bad, again, cancelled;
	struct cove *cove = start();
	int place = removal_open(cove->state.run);
	struct ev *ev;

	use_own_keeper();
	CHECK_EQ(ev_new(&ev), 0);
	/* Somebody removes a box of that name behind. */
	CHECK(removal_begin(place, "held"));
	make(&held, ev, cove, "held");
	make(&other, ev, cove, "other");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(other.done && other.result == 0 && other.conn->ready && !held.done);
	/* The name is taken from the beginning. */
	make(&again, ev, cove, "held");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(again.done && again.result == -EEXIST && !again.conn && !held.done);
	core_spec_done(&again.spec);
	/* One whose keeper dies leaves nothing. */
	make(&bad, ev, cove, "bad");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(bad.done && bad.result < 0 && !bad.conn && !held.done);
	CHECK(faccessat(cove->state.boxes_fd, "bad", F_OK, 0) < 0);
	core_spec_done(&bad.spec);
	/* Nor does one that is given up while it waits. */
	CHECK(removal_begin(place, "cancelled"));
	make(&cancelled, ev, cove, "cancelled");
	make(&again, ev, cove, "held");
	CHECK_EQ(ev_run(ev), 0);
	CHECK(faccessat(cove->state.boxes_fd, "cancelled", F_OK, 0) == 0);
	core_create_cancel(&cancelled.create);
	CHECK(faccessat(cove->state.boxes_fd, "cancelled", F_OK, 0) < 0 && !cancelled.done);
	core_spec_done(&cancelled.spec);
	core_spec_done(&again.spec);
	close(place);
	CHECK_EQ(ev_run(ev), 0);
	CHECK(held.done && held.result == 0 && held.conn->ready);
	unmake(cove, &held);
	unmake(cove, &other);
	ev_free(ev);
	finish(cove);
}

TAP_MAIN
