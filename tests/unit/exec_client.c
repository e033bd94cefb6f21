/* A keeper for tests of commands; see exec_client.h. */
#include "exec_client.h"

#include "tap.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { ARGS_MAX = 32, WAIT_MS = 60000, OUT_MAX = 128 << 20 };

static void open_link(struct client *c, bool pipes, int *ret_in, int *ret_out)
{
	int a[2], b[2];

	if (!pipes) {
		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, a), 0);
		c->rfd = a[0];
		c->wfd = fcntl(a[0], F_DUPFD_CLOEXEC, 3);
		*ret_in = *ret_out = a[1];
		return;
	}
	CHECK_EQ(pipe2(a, O_CLOEXEC), 0);
	CHECK_EQ(pipe2(b, O_CLOEXEC), 0);
	c->rfd = a[0];
	*ret_out = a[1];
	*ret_in = b[0];
	c->wfd = b[1];
}

struct client *client_start(bool pipes, const char *const args[])
{
	return client_start_with(&(struct inherited){.count = 0}, pipes, args);
}

struct client *client_start_in(int group_fd, bool pipes, const char *const args[])
{
	return client_start_with(&(struct inherited){.fd = {group_fd}, .count = group_fd >= 0},
				 pipes, args);
}

struct client *client_start_with(const struct inherited *inherited, bool pipes,
				 const char *const args[])
{
	struct client *c = calloc(1, sizeof(*c));
	int in = -1, out = -1;

	open_link(c, pipes, &in, &out);
	wire_decoder_init(&c->decoder);
	buf_init(&c->out, WIRE_OUT_MAX);
	c->pid = init_spawn(in, out, inherited, args);
	fd_set_nonblock(c->wfd, true);
	while (!c->notes[0])
		CHECK(client_pump(c, true));
	return c;
}

int client_stop(struct client *c)
{
	int status;

	fd_close(&c->rfd);
	fd_close(&c->wfd);
	CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	wire_decoder_done(&c->decoder);
	buf_done(&c->out);
	for (uint32_t i = 0; i < c->count; i++) {
		for (int s = 0; s < WIRE_STREAM_COUNT; s++)
			buf_done(&c->runs[i]->out[s]);
		free(c->runs[i]);
	}
	free(c);
	return status;
}

/* Never blocks without reading: init may be waiting for us at the same time. Reading may want to
 * send credit; that then only queues, behind the frame that is half written. */
void client_flush(struct client *c)
{
	if (c->sending)
		return;
	c->sending = true;
	while (buf_len(&c->out) > 0 && !c->closed) {
		struct pollfd w[2] = {{.fd = c->wfd, .events = POLLOUT},
				      {.fd = c->rfd, .events = POLLIN}};
		ssize_t r = write(c->wfd, buf_data(&c->out), buf_len(&c->out));

		if (r > 0) {
			buf_consume(&c->out, (size_t)r);
			continue;
		}
		c->closed = errno == EPIPE || errno == ECONNRESET;
		CHECK(c->closed || errno == EAGAIN);
		CHECK(c->closed || poll(w, 2, WAIT_MS) > 0);
		if (w[1].revents)
			client_pump(c, false);
	}
	c->sending = false;
}

void client_send(struct client *c, const void *p, size_t n)
{
	CHECK_EQ(buf_append(&c->out, p, n), 0);
	client_flush(c);
}

static struct run *run_find(struct client *c, uint32_t id)
{
	CHECK(id > 0 && id <= c->count);
	return c->runs[id - 1];
}

static void take_exit(struct run *r, const struct wire_frame *f)
{
	CHECK_EQ(wire_exit_decode(f, &r->exit), 0);
	CHECK(!r->over);
	CHECK_EQ(r->exit.exec_id, r->id);
	str_copy(r->cause, sizeof(r->cause), r->exit.cause);
	str_copy(r->cwd, sizeof(r->cwd), r->exit.cwd ? r->exit.cwd : "");
	r->out_at_exit[WIRE_STDOUT] = buf_len(&r->out[WIRE_STDOUT]);
	r->out_at_exit[WIRE_STDERR] = buf_len(&r->out[WIRE_STDERR]);
	r->over = true;
}

static void take_error(struct run *r, const struct wire_frame *f)
{
	struct wire_error m;

	CHECK_EQ(wire_error_decode(f, &m), 0);
	r->code = (int)m.code;
	str_copy(r->msg, sizeof(r->msg), m.msg);
	r->over = true;
}

static void take_data(struct client *c, struct run *r, const struct wire_frame *f)
{
	uint64_t n;

	CHECK(!r->eof[f->stream]);
	CHECK_EQ(buf_append(&r->out[f->stream], f->payload, f->len), 0);
	n = r->hold_credit ? 0 : wire_flow_took(&r->flow[f->stream], f->len);
	if (n > 0)
		run_credit(c, r, f->stream, n);
}

static void take_hello(struct client *c, const struct wire_frame *f)
{
	struct wire_hello m;

	CHECK_EQ(wire_hello_decode(f, &m), 0);
	CHECK_EQ(m.lowest, WIRE_VERSION_MIN);
	str_copy(c->notes, sizeof(c->notes), m.notes ? m.notes : "none");
}

static void take_frame(struct client *c, const struct wire_frame *f)
{
	struct run *r = f->type == WIRE_HELLO ? NULL : run_find(c, f->id);
	struct wire_credit credit;
	struct wire_started started;

	switch (f->type) {
	case WIRE_HELLO:
		take_hello(c, f);
		break;
	case WIRE_QUEUED:
		CHECK(!r->queued && !r->started);
		r->queued = true;
		break;
	case WIRE_STARTED:
		CHECK_EQ(wire_started_decode(f, &started), 0);
		r->started = true;
		r->pid = (pid_t)started.pid;
		break;
	case WIRE_DATA:
		take_data(c, r, f);
		break;
	case WIRE_EOF:
		CHECK(!r->eof[f->stream]);
		r->eof[f->stream] = true;
		break;
	case WIRE_CREDIT:
		CHECK_EQ(wire_credit_decode(f, &credit), 0);
		CHECK_EQ(f->stream, WIRE_STDIN);
		CHECK_EQ(wire_flow_credit(&r->flow[WIRE_STDIN], credit.bytes), 0);
		break;
	case WIRE_EXIT:
		take_exit(r, f);
		break;
	case WIRE_ERROR:
		take_error(r, f);
		break;
	default:
		FAIL("a frame init has no reason to send");
	}
}

/* A frame's payload lives until the decoder's next call, and handling one may read more (see
 * client_send): so it is copied. */
bool client_pump(struct client *c, bool wait)
{
	struct pollfd p = {.fd = c->rfd, .events = POLLIN};
	struct wire_frame f;
	size_t room;
	uint8_t *at;
	ssize_t n;
	int r;

	if (c->closed)
		return false;
	CHECK(poll(&p, 1, wait ? WAIT_MS : 0) > 0 || !wait);
	if (!p.revents)
		return true;
	at = wire_decoder_space(&c->decoder, &room);
	CHECK(at != NULL);
	n = read(c->rfd, at, room);
	if (n <= 0) {
		c->closed = true;
		return false;
	}
	wire_decoder_fill(&c->decoder, (size_t)n);
	while ((r = wire_decoder_next(&c->decoder, &f)) > 0) {
		struct wire_frame copy = f;
		uint8_t *payload = malloc(f.len + 1u);

		memcpy(payload, f.payload, f.len);
		copy.payload = payload;
		take_frame(c, &copy);
		free(payload);
	}
	CHECK_EQ(r, 0);
	return true;
}

struct run *run_start(struct client *c, const struct wire_exec *m)
{
	struct run *r = calloc(1, sizeof(*r));

	CHECK(c->count < CLIENT_RUNS_MAX);
	c->runs[c->count++] = r;
	r->id = c->count;
	for (int s = 0; s < WIRE_STREAM_COUNT; s++) {
		wire_flow_init(&r->flow[s]);
		buf_init(&r->out[s], OUT_MAX);
	}
	CHECK_EQ(wire_exec_encode(&c->out, r->id, 0, m), 0);
	client_flush(c);
	return r;
}

struct run *run_line(struct client *c, const char *line)
{
	return run_start(c, &(struct wire_exec){.line = line});
}

void run_wait(struct client *c, struct run *r)
{
	while (!r->over)
		CHECK(client_pump(c, true));
}

void run_wait_started(struct client *c, struct run *r)
{
	while (!r->started && !r->over)
		CHECK(client_pump(c, true));
}

void run_wait_queued(struct client *c, struct run *r)
{
	while (!r->queued && !r->over)
		CHECK(client_pump(c, true));
}

void run_wait_eof(struct client *c, struct run *r)
{
	while (!r->eof[WIRE_STDOUT] || !r->eof[WIRE_STDERR])
		CHECK(client_pump(c, true));
}

void run_wait_text(struct client *c, struct run *r, const char *text)
{
	while (!strstr(run_out(r), text)) {
		CHECK(!r->eof[WIRE_STDOUT]);
		CHECK(client_pump(c, true));
	}
}

const char *run_out(struct run *r)
{
	return buf_cstr(&r->out[WIRE_STDOUT]);
}

const char *run_err(struct run *r)
{
	return buf_cstr(&r->out[WIRE_STDERR]);
}

void run_send(struct client *c, struct run *r, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		uint64_t left = r->flow[WIRE_STDIN].left;
		size_t now = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;

		if (left == 0) {
			CHECK(client_pump(c, true));
			continue;
		}
		if (now > left)
			now = (size_t)left;
		CHECK_EQ(wire_encode(&c->out, WIRE_DATA, WIRE_STDIN, r->id, at, now), 0);
		r->flow[WIRE_STDIN].left -= now;
		client_flush(c);
		at += now;
		n -= now;
	}
}

void run_send_eof(struct client *c, struct run *r)
{
	CHECK_EQ(wire_encode(&c->out, WIRE_EOF, WIRE_STDIN, r->id, NULL, 0), 0);
	client_flush(c);
}

void run_signal(struct client *c, struct run *r, int sig, bool tree)
{
	struct wire_signal m = {.signal = (uint64_t)sig, .tree = tree};

	CHECK_EQ(wire_signal_encode(&c->out, r->id, 0, &m), 0);
	client_flush(c);
}

void run_credit(struct client *c, struct run *r, uint8_t stream, uint64_t bytes)
{
	struct wire_credit m = {.bytes = bytes};

	CHECK_EQ(wire_credit_encode(&c->out, r->id, stream, &m), 0);
	client_flush(c);
}

struct run *run_finished(struct client *c, const char *line)
{
	struct run *r = run_line(c, line);

	run_wait(c, r);
	return r;
}

void run_check_exit(const struct run *r, int code)
{
	CHECK(r->started);
	CHECK_EQ(r->code, 0);
	CHECK(r->exit.has_exit);
	CHECK_EQ(r->exit.exit_code, code);
	CHECK_EQ(r->exit.signal, 0);
	CHECK_STR(r->cause, "exit");
}

bool is_alive(pid_t pid)
{
	char path[32], text[256];
	const char *end;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? 0 : fd_read_full(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	end = strrchr(text, ')');
	return end && end[1] == ' ' && end[2] != 'Z' && end[2] != 'X';
}

void wait_until_dead(pid_t pid)
{
	uint64_t until = clock_mono_ms() + 20000;

	while (is_alive(pid)) {
		CHECK(clock_mono_ms() < until);
		poll(NULL, 0, 5);
	}
}

int group_make(char *ret_path, size_t size)
{
	static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[64];

	for (size_t i = 0; i < 2; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/cgroup.procs", mounts[i]);
		snprintf(ret_path, size, "%s/cove-init-test-%d", mounts[i], (int)getpid());
		if (access(path, F_OK) < 0 || mkdir(ret_path, 0755) < 0)
			continue;
		fd = open(ret_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK_EQ(mkdirat(fd, "init", 0755), 0);
		return fd;
	}
	SKIP("no cgroup v2 that may be written to");
	return -1;
}

/* Groups of what was left running go as soon as that is dead. */
static void remove_below(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	CHECK(d != NULL);
	while ((e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	closedir(d);
}

void group_remove(int fd, const char *path)
{
	uint64_t until = clock_mono_ms() + 20000;

	close(fd);
	remove_below(path);
	while (rmdir(path) < 0) {
		CHECK(clock_mono_ms() < until);
		poll(NULL, 0, 5);
		remove_below(path);
	}
}
