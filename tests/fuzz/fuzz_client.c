/*
 * The client's side of the wire: any bytes from a keeper, to a connection with requests on it.
 *
 * The first byte says how the rest is cut. Holds: nothing crashes or leaks; every request ends
 * exactly once, at the latest with the connection; frames come only to a request that is under way;
 * and how the bytes were cut changes nothing of what each request saw.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/limits.h"
#include "core/async.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUESTS = 6 };

struct seen {
	struct core_request q;
	unsigned frames, bytes, ends;
	int result;
};

static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct seen *s = container(q, struct seen, q);

	MUST(s->ends == 0 && f->id == q->id && f->type != WIRE_ERROR && q->conn->ready);
	s->frames++;
	s->bytes += f->len;
	if (f->type == WIRE_OK)
		return 1;
	if (f->type == WIRE_EOF)
		return err_set(e, ERR_LIMIT, E2BIG, "enough");
	return f->type == WIRE_PORT ? core_unexpected(q, f, e) : 0;
}

static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct seen *s = container(q, struct seen, q);

	MUST(s->ends++ == 0 && r <= 0 && !q->conn);
	MUST(r == 0 || e->kind != ERR_NONE);
	s->result = r;
}

struct stop {
	struct ev_timer timer;
	struct ev *ev;
};

static void on_quit(struct ev_timer *t)
{
	ev_quit(container(t, struct stop, timer)->ev);
}

static void spin(struct ev *ev)
{
	struct stop stop = {.timer.on_timer = on_quit, .ev = ev};

	ev_timer_set(ev, &stop.timer, 0);
	MUST(ev_run(ev) == 0);
}

/* Feeds the bytes in pieces of `cut`, then hangs up. */
static void play(const uint8_t *data, size_t size, size_t cut, struct seen seen[REQUESTS])
{
	static const uint8_t hello[] = {13, 0, 0, 0, WIRE_HELLO,       0, 0, 0, 0, 0, 0, 0, 1,
					8,  0, 0, 0, WIRE_VERSION_MIN, 0, 0, 0, 0, 0, 0, 0};
	struct core_conn *conn;
	struct ev *ev;
	int pair[2];

	MUST(ev_new(&ev) == 0);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
	MUST(core_conn_new(ev, pair[0], &conn, NULL) == 0);
	for (int i = 0; i < REQUESTS; i++) {
		seen[i] = (struct seen){.q = {.on_frame = on_frame, .on_done = on_done}};
		core_request_begin(&seen[i].q, conn);
	}
	MUST(send(pair[1], hello, sizeof(hello), 0) == (ssize_t)sizeof(hello));
	for (size_t at = 0; at < size; at += cut) {
		size_t n = size - at < cut ? size - at : cut;

		if (send(pair[1], data + at, n, MSG_NOSIGNAL) < 0)
			break; /* it was given up already */
		spin(ev);
	}
	close(pair[1]);
	for (int i = 0; i < 4; i++)
		spin(ev);
	MUST(conn->lost && conn->count == 0);
	for (int i = 0; i < REQUESTS; i++)
		MUST(seen[i].ends == 1);
	core_conn_free(conn);
	ev_free(ev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole[REQUESTS], cut[REQUESTS];

	if (size < 1 || size > 65536)
		return 0;
	play(data + 1, size - 1, 65536, whole);
	play(data + 1, size - 1, data[0] ? data[0] : 1, cut);
	for (int i = 0; i < REQUESTS; i++) {
		MUST(whole[i].frames == cut[i].frames && whole[i].bytes == cut[i].bytes);
		MUST(whole[i].result == cut[i].result);
	}
	return 0;
}
