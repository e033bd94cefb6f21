/* One question to many boxes; see round.h. */
#include "core/round.h"

#include "base/fd.h"
#include "base/str.h"
#include "core/core.h"
#include "store/record.h"

#include <errno.h>
#include <stdlib.h>

/* Connections at the same time: a program's descriptors are bounded, often to 1,024. */
enum { AT_ONCE_MAX = 256 };

struct asked {
	struct core_request q;
	struct core_conn *conn; /* owned; NULL: not begun, or over */
	struct asking *all;
};

struct asking {
	struct core_round *round;
	struct cove *cove;
	struct ev *ev;
	struct asked *boxes;
	size_t count, begun, open, open_max;
	struct ev_timer timer;
	bool is_late;
};

static size_t place_of(const struct asked *a)
{
	return (size_t)(a - a->all->boxes);
}

static void end_one(struct asked *a, int r, const struct err *e)
{
	struct asking *all = a->all;

	all->open--;
	all->round->on_end(all->round, place_of(a), r, e); /* *e may be in the connection */
	core_conn_free(take_ptr(a->conn));
}

static void begin_one(struct asked *a)
{
	struct asking *all = a->all;
	const char *box = all->round->boxes[place_of(a)];
	struct err e = {0};
	int r = str_is_name(box, BOX_NAME_MAX)
			? core_conn_connect(all->ev, all->cove->state.run_fd, box, &a->conn, &e)
			: record_missing(box, &e);

	/* Without a descriptor left it waits until another has ended. */
	if (r == -EMFILE && all->open > 0) {
		all->open_max = all->open;
		all->begun--;
		return;
	}
	all->open++;
	if (r == 0) {
		core_request_begin(&a->q, a->conn);
		r = all->round->encode(all->round, core_out(a->conn), a->q.id);
		if (r < 0)
			err_errno(&e, -r, "ask box '%s'", box);
	}
	if (r == 0) {
		core_send(a->conn);
		return;
	}
	core_request_cancel(&a->q);
	end_one(a, r, &e);
}

/* As many as may be; quits the loop when there is nothing left to wait for. */
static void go_on(struct asking *all)
{
	while (!all->round->stopped && all->begun < all->count && all->open < all->open_max)
		begin_one(&all->boxes[all->begun++]);
	if (all->round->stopped || all->open == 0)
		ev_quit(all->ev);
}

static int on_frame(struct core_request *q, const struct wire_frame *f, struct err *e)
{
	struct asked *a = container(q, struct asked, q);

	return a->all->round->on_frame(a->all->round, place_of(a), q, f, e);
}

static void on_done(struct core_request *q, int r, const struct err *e)
{
	struct asked *a = container(q, struct asked, q);
	struct asking *all = a->all;

	end_one(a, r, e);
	go_on(all);
}

static void on_late(struct ev_timer *t)
{
	struct asking *all = container(t, struct asking, timer);

	all->is_late = true;
	ev_quit(all->ev);
}

/* What is under way is given up, and what was not begun, too. */
static void give_up(struct asking *all, int timeout_ms)
{
	struct err e = {0};

	for (size_t i = 0; i < all->count; i++) {
		struct asked *a = &all->boxes[i];

		if (i < all->begun && !a->conn)
			continue;
		core_request_cancel(&a->q);
		core_conn_free(take_ptr(a->conn));
		if (all->round->stopped)
			continue;
		err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "box '%s' did not answer in %d s",
			all->round->boxes[i], timeout_ms / 1000);
		all->round->on_end(all->round, i, -ETIMEDOUT, &e);
	}
}

int core_round_run(struct core_round *round, struct cove *cove, const char *const *boxes,
		   size_t count, int timeout_ms, struct err *e)
{
	struct asking all = {.round = round,
			     .cove = cove,
			     .count = count,
			     .open_max = AT_ONCE_MAX,
			     .timer.on_timer = on_late};
	autofree struct asked *asked = calloc(count + 1, sizeof(*asked));
	int r = asked ? ev_new(&all.ev) : -ENOMEM;

	if (r < 0)
		return err_errno(e, -r, "ask the boxes");
	all.boxes = asked;
	round->boxes = boxes;
	for (size_t i = 0; i < count; i++)
		asked[i] = (struct asked){.q = {.on_frame = on_frame, .on_done = on_done},
					  .all = &all};
	ev_timer_set(all.ev, &all.timer, (uint64_t)timeout_ms);
	go_on(&all);
	while (r == 0 && all.open > 0 && !round->stopped && !all.is_late)
		r = ev_run(all.ev);
	give_up(&all, timeout_ms);
	ev_timer_stop(all.ev, &all.timer);
	ev_free(all.ev);
	return r < 0 ? err_errno(e, -r, "wait for the boxes") : 0;
}
