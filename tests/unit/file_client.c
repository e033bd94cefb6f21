/* A keeper for tests of file operations; see file_client.h. */
#include "file_client.h"

#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"

#include <sys/socket.h>

enum { ARGS_MAX = 16, WAIT_MS = 60000 };

static void become_init(const char *program, int sock, char *const args[])
{
	char *argv[ARGS_MAX] = {(char[]){"cove-init"}};

	for (int i = 0; args[i] && i < ARGS_MAX - 2; i++)
		argv[i + 1] = args[i];
	dup2(sock, 0);
	dup2(sock, 1);
	execv(program, argv);
	_exit(127);
}

struct client client_start(char *const args[])
{
	const char *program = getenv("COVE_INIT");
	struct client c = {.fd = -1};
	struct wire_frame f;
	int pair[2];

	if (!program)
		SKIP("COVE_INIT is not set");
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	wire_decoder_init(&c.decoder);
	c.pid = fork();
	CHECK(c.pid >= 0);
	if (c.pid == 0)
		become_init(program, pair[1], args);
	close(pair[1]);
	c.fd = pair[0];
	client_next(&c, &f);
	CHECK_EQ(f.type, WIRE_HELLO);
	return c;
}

void client_stop(struct client *c)
{
	int status;

	fd_close(&c->fd);
	wire_decoder_done(&c->decoder);
	CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	CHECK(WIFEXITED(status));
}

static void send_buf(struct client *c, struct buf *b)
{
	CHECK_EQ(fd_write_full(c->fd, buf_data(b), buf_len(b)), 0);
	buf_done(b);
}

void client_send(struct client *c, enum wire_type type, uint8_t stream, uint32_t id, const void *p,
		 size_t n)
{
	struct buf b;

	buf_init(&b, WIRE_OUT_MAX);
	CHECK_EQ(wire_encode(&b, type, stream, id, p, n), 0);
	send_buf(c, &b);
}

void client_next(struct client *c, struct wire_frame *ret)
{
	int r;

	while ((r = wire_decoder_next(&c->decoder, ret)) == 0) {
		struct pollfd p = {.fd = c->fd, .events = POLLIN};
		size_t room;
		uint8_t *at = wire_decoder_space(&c->decoder, &room);
		ssize_t n;

		CHECK(at != NULL);
		CHECK_EQ(poll(&p, 1, WAIT_MS), 1);
		n = read(c->fd, at, room);
		CHECK(n > 0);
		wire_decoder_fill(&c->decoder, (size_t)n);
	}
	CHECK_EQ(r, 1);
}

uint32_t client_begin(struct client *c, const struct wire_file *m)
{
	uint32_t id = ++c->last_id;
	struct buf b;

	buf_init(&b, WIRE_OUT_MAX);
	CHECK_EQ(wire_file_encode(&b, id, 0, m), 0);
	send_buf(c, &b);
	return id;
}

void client_entry(struct client *c, uint32_t id, const struct wire_entry *m)
{
	struct buf b;

	buf_init(&b, WIRE_OUT_MAX);
	CHECK_EQ(wire_entry_encode(&b, id, 0, m), 0);
	send_buf(c, &b);
}

void client_put_file(struct client *c, uint32_t id, const char *path, mode_t mode, const void *p,
		     size_t n)
{
	struct wire_flow flow;
	const char *at = p;

	wire_flow_init(&flow);
	client_entry(c, id,
		     &(struct wire_entry){.type = 'f', .path = path, .mode = mode, .size = n});
	while (n > 0) {
		size_t now = n > WIRE_DATA_MAX ? WIRE_DATA_MAX : n;

		while (flow.left < now) {
			struct wire_credit m;
			struct wire_frame f;

			client_next(c, &f);
			CHECK_EQ(f.type, WIRE_CREDIT);
			CHECK_EQ(wire_credit_decode(&f, &m), 0);
			CHECK_EQ(wire_flow_credit(&flow, m.bytes), 0);
		}
		client_send(c, WIRE_DATA, WIRE_STDIN, id, at, now);
		flow.left -= now;
		at += now;
		n -= now;
	}
	client_send(c, WIRE_EOF, WIRE_STDIN, id, NULL, 0);
}

static void take_entry(struct client_result *r, const struct wire_frame *f)
{
	struct wire_entry m;

	CHECK_EQ(wire_entry_decode(f, &m), 0);
	r->entries++;
	CHECK_EQ(buf_printf(&r->log_buf, "%c %s %llo %llu%s%s\n", (int)m.type, m.path ? m.path : "",
			    (unsigned long long)m.mode, (unsigned long long)m.size,
			    m.target ? " -> " : "", m.target ? m.target : ""),
		 0);
}

static void take_data(struct client *c, struct client_result *r, struct wire_flow *flow,
		      const struct wire_frame *f)
{
	struct wire_credit m;
	struct buf b;

	CHECK_EQ(buf_append(&r->data, f->payload, f->len), 0);
	m.bytes = wire_flow_took(flow, f->len);
	if (m.bytes == 0)
		return;
	buf_init(&b, WIRE_OUT_MAX);
	CHECK_EQ(wire_credit_encode(&b, f->id, f->stream, &m), 0);
	send_buf(c, &b);
}

/* True when the operation has been answered. */
static bool take_frame(struct client *c, struct client_result *r, struct wire_flow *flow,
		       const struct wire_frame *f)
{
	struct wire_error m;

	switch (f->type) {
	case WIRE_ENTRY:
		take_entry(r, f);
		return false;
	case WIRE_DATA:
		take_data(c, r, flow, f);
		return false;
	case WIRE_ERROR:
		CHECK_EQ(wire_error_decode(f, &m), 0);
		r->code = (int)m.code;
		snprintf(r->msg, sizeof(r->msg), "%s", m.msg ? m.msg : "");
		CHECK(r->code != 0 && m.msg);
		return true;
	case WIRE_OK:
		return true;
	default:
		CHECK(f->type == WIRE_EOF || f->type == WIRE_CREDIT);
		return false;
	}
}

struct client_result client_finish(struct client *c, uint32_t id)
{
	struct client_result r = {0};
	struct wire_flow flow;
	struct wire_frame f;

	wire_flow_init(&flow);
	buf_init(&r.data, 256u << 20);
	buf_init(&r.log_buf, 16u << 20);
	do {
		client_next(c, &f);
	} while (f.id != id || !take_frame(c, &r, &flow, &f));
	r.log = buf_cstr(&r.log_buf);
	return r;
}

struct client_result client_file(struct client *c, const struct wire_file *m)
{
	return client_finish(c, client_begin(c, m));
}

void client_result_done(struct client_result *r)
{
	buf_done(&r->data);
	buf_done(&r->log_buf);
	r->log = NULL;
}
