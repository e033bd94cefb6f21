/* A keeper for tests of file operations; see file_client.h. */
#include "file_client.h"

#include "init_spawn.h"

#include "base/fd.h"
#include "base/limits.h"

#include <sys/socket.h>

enum { WAIT_MS = 60000 };

struct client client_start(const char *const args[])
{
	struct client c = {.fd = -1};
	struct wire_frame f;
	int pair[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	wire_decoder_init(&c.decoder);
	buf_init(&c.out, WIRE_OUT_MAX);
	c.pid = init_spawn(pair[1], pair[1], &(struct inherited){.count = 0}, args);
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
	buf_done(&c->out);
	CHECK_EQ(waitpid(c->pid, &status, 0), c->pid);
	CHECK(WIFEXITED(status));
}

static void flush(struct client *c)
{
	CHECK_EQ(fd_write_full(c->fd, buf_data(&c->out), buf_len(&c->out)), 0);
	buf_clear(&c->out);
}

void client_send(struct client *c, enum wire_type type, uint8_t stream, uint32_t id, const void *p,
		 size_t n)
{
	CHECK_EQ(wire_encode(&c->out, type, stream, id, p, n), 0);
	flush(c);
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

	CHECK_EQ(wire_file_encode(&c->out, id, 0, m), 0);
	flush(c);
	return id;
}

void client_entry(struct client *c, uint32_t id, const struct wire_entry *m)
{
	CHECK_EQ(wire_entry_encode(&c->out, id, 0, m), 0);
	flush(c);
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

	CHECK_EQ(buf_append(&r->data, f->payload, f->len), 0);
	m.bytes = wire_flow_took(flow, f->len);
	if (m.bytes == 0)
		return;
	CHECK_EQ(wire_credit_encode(&c->out, f->id, f->stream, &m), 0);
	flush(c);
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
