/*
 * The keeper's protocol core: any frames from init and from two clients, in any order.
 *
 * The input is a list of steps. One byte says who speaks (init, a client) and how: a frame whose
 * fields follow, raw bytes, a client that leaves and comes back, or the box's time that is over so
 * that it falls asleep. Holds: nothing crashes or
 * leaks; every byte init was allowed to print is counted, and the log files hold exactly the first
 * of them, up to the cap; a broken init ends the box and a broken client only itself.
 */
#include "fuzz.h"

#include "base/fd.h"
#include "base/limits.h"
#include "keeper/ctl.h"
#include "keeper/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { CLIENTS = 2, EXEC_KEPT = 300, BOX_KEPT = 1000, STEPS_MAX = 400 };

struct world {
	struct ev *ev;
	struct keeper k;
	int box_fd, init_fd, client_fd[CLIENTS];
	unsigned ends, pauses;
	bool frozen;
	struct keeper_ctl ctl;
};

static const struct spec spec = {.name = "fuzz", .image = "base", .wall = "native"};

static struct world *world_of(struct keeper *k)
{
	return container(k, struct world, k);
}

static void on_up(struct keeper *k)
{
}

static void on_lost(struct keeper *k, int error)
{
}

static void on_end(struct keeper *k, const struct keeper_end *end)
{
	MUST(end->cause && end->cause[0]);
	world_of(k)->ends++;
}

/* Every third time the host cannot. */
static int on_freeze(struct keeper *k, bool on, struct err *e)
{
	struct world *w = world_of(k);

	MUST(on != w->frozen && !(on && k->ending));
	if (++w->pauses % 3 == 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "not now");
	w->frozen = on;
	return 0;
}

static void on_stats(struct keeper *k, struct wire_stats *m)
{
	m->mem_bytes = UINT64_MAX;
}

/* Nothing is begun in a box that is paused. */
static void on_exec(struct keeper *k)
{
	MUST(!k->paused);
	MUST(world_of(k)->frozen == keeper_is_frozen(k));
}

/* For the whole program. A child that syncs the journal is dear under a sanitizer, so most inputs
 * have none: the keeper then syncs in place. */
static bool no_child;

pid_t fork(void)
{
	if (!no_child)
		return _Fork();
	errno = EAGAIN;
	return -1;
}

/* One directory for all runs of this process, empty between them and removed at its end. */
static char temporary_path[] = "/tmp/cove-fuzz-XXXXXX";

static void remove_temporary(void)
{
	rmdir(temporary_path);
}

static int temporary_dir(void)
{
	static int fd = -1;

	if (fd >= 0)
		return fd;
	MUST(mkdtemp(temporary_path));
	atexit(remove_temporary);
	fd = open(temporary_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(fd >= 0);
	return fd;
}

static void turn(struct world *w);

static int make_pair(int *ret_theirs)
{
	int pair[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
	*ret_theirs = pair[1];
	return pair[0];
}

static void client_in(struct world *w, int i)
{
	int theirs;

	w->client_fd[i] = make_pair(&theirs);
	MUST(keeper_add_client(&w->k, theirs, i == 0) == 0);
}

static void begin(struct world *w)
{
	struct wire_hello hello = {.lowest = WIRE_VERSION_MIN};
	struct buf b;
	int theirs;

	*w = (struct world){.box_fd = temporary_dir()};
	MUST(ev_new(&w->ev) == 0);
	w->k = (struct keeper){
		.ev = w->ev, .name = "fuzz", .on_up = on_up, .on_lost = on_lost, .on_end = on_end};
	w->k.on_freeze = on_freeze;
	w->k.on_stats = on_stats;
	w->k.on_exec = on_exec;
	w->ctl = (struct keeper_ctl){.spec = &spec,
				     .may = {.verbs = 1u << WIRE_CTL_INFO | 1u << WIRE_CTL_BUDGET |
						      1u << WIRE_CTL_SNAPSHOT,
					     .snapshots = 1},
				     .saver_fd = -1};
	w->k.ctl = &w->ctl;
	keeper_init(&w->k, w->box_fd);
	w->k.logs.exec_bytes_max = EXEC_KEPT;
	w->k.logs.bytes_max = BOX_KEPT;
	w->init_fd = make_pair(&theirs);
	MUST(keeper_connect(&w->k, theirs, theirs) == 0);
	buf_init(&b, 256);
	MUST(wire_hello_encode(&b, 0, 0, &hello) == 0);
	MUST(send(w->init_fd, buf_data(&b), buf_len(&b), MSG_NOSIGNAL) > 0);
	buf_done(&b);
	turn(w);
	MUST(w->k.up);
	for (int i = 0; i < CLIENTS; i++)
		client_in(w, i);
}

struct quit {
	struct ev_timer timer;
	struct ev *ev;
};

static void on_quit(struct ev_timer *t)
{
	ev_quit(((struct quit *)t)->ev);
}

/* Lets the core do what it can, and drops what it says. */
static void turn(struct world *w)
{
	static char sink[65536];
	struct quit q = {.timer = {.on_timer = on_quit}, .ev = w->ev};

	for (int i = 0; i < 2; i++) {
		ev_timer_set(w->ev, &q.timer, 0);
		MUST(ev_run(w->ev) == 0);
		ev_timer_stop(w->ev, &q.timer);
	}
	while (recv(w->init_fd, sink, sizeof(sink), 0) > 0)
		;
	for (int i = 0; i < CLIENTS; i++)
		while (w->client_fd[i] > 0 && recv(w->client_fd[i], sink, sizeof(sink), 0) > 0)
			;
}

/* What is on disk is what the table says. */
static void check_logs(struct world *w)
{
	uint64_t all = 0;

	for (size_t i = 0; i < w->k.exec_count; i++) {
		const struct keeper_exec *x = w->k.execs[i];

		MUST(x->out[0].kept + x->out[1].kept <= EXEC_KEPT);
		for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
			const struct keeper_output *o = &x->out[s];
			struct stat st = {0};
			char name[40];

			MUST(o->cut ? o->kept < o->bytes : o->kept == o->bytes);
			MUST(!x->run || o->bytes <= x->run->granted[s]);
			snprintf(name, sizeof(name), "logs/%u.%s", x->rec.exec_id,
				 s ? "err" : "out");
			MUST(fstatat(w->box_fd, name, &st, 0) == 0 || o->kept == 0);
			MUST((uint64_t)st.st_size == o->kept);
			all += o->kept;
		}
	}
	MUST(all == w->k.logs.bytes);
	MUST(all <= BOX_KEPT);
}

static void end(struct world *w)
{
	unsigned before = w->ends;

	check_logs(w);
	MUST(!w->k.stale || w->ends > 0);
	MUST(keeper_is_frozen(&w->k) == w->frozen);
	keeper_disconnect(&w->k);
	keeper_execs_interrupt(&w->k);
	keeper_relays_end(&w->k, PARTY_INIT, &(struct err){.kind = ERR_INTERRUPTED});
	keeper_subscriptions_end(&w->k);
	keeper_answer_stops(&w->k, NULL);
	turn(w);
	for (size_t i = 0; i < RELAY_KIND_COUNT; i++)
		MUST(w->k.relays.count[i] == 0);
	MUST(w->k.open_execs == 0 && w->ends == before);
	for (size_t i = 0; i < w->k.exec_count; i++)
		keeper_outputs_remove(&w->k.logs, w->k.execs[i]->rec.exec_id, w->k.execs[i]->out);
	MUST(w->k.logs.bytes == 0 && w->k.logs.open == 0);
	keeper_done(&w->k);
	ev_free(w->ev);
	close(w->init_fd);
	for (int i = 0; i < CLIENTS; i++)
		fd_close(&w->client_fd[i]);
	unlinkat(w->box_fd, "logs/execs", 0);
	unlinkat(w->box_fd, "logs/events.jsonl", 0);
	unlinkat(w->box_fd, "logs", AT_REMOVEDIR);
}

/* A frame whose length is always right, so that mutations reach what is behind the decoder. */
static void say_frame(int fd, struct input *in, bool init)
{
	uint8_t type = input_byte(in), stream = input_byte(in), low = input_byte(in);
	size_t n = input_byte(in);
	uint32_t id = low;
	struct buf b;

	n |= (size_t)input_byte(in) << 8;
	if (n > in->n)
		n = in->n;
	if (init && (low & 0x80))
		id = KEEPER_REQUEST_BIT | (low & 0x7f);
	buf_init(&b, WIRE_DATA_MAX + WIRE_HEADER);
	if (wire_encode(&b, (enum wire_type)(type % WIRE_TYPE_COUNT), stream % 4, id, in->p, n) ==
	    0)
		send(fd, buf_data(&b), buf_len(&b), MSG_NOSIGNAL);
	buf_done(&b);
	in->p += n;
	in->n -= n;
}

static void say_raw(int fd, struct input *in)
{
	size_t n = input_byte(in);

	if (n > in->n)
		n = in->n;
	if (n > 0)
		send(fd, in->p, n, MSG_NOSIGNAL);
	in->p += n;
	in->n -= n;
}

static void step(struct world *w, struct input *in)
{
	uint8_t what = input_byte(in);
	int who = what % (CLIENTS + 1), *fd = who == 0 ? &w->init_fd : &w->client_fd[who - 1];

	switch (what >> 6) {
	case 0:
		say_raw(*fd, in);
		break;
	case 1:
		if (who > 0) {
			fd_close(fd);
			turn(w);
			client_in(w, who - 1);
		} else if (w->k.linked) {
			(void)keeper_sleep(&w->k, "idle", &(struct err){0});
			MUST(!w->k.asleep || (w->k.paused && w->frozen));
		}
		break;
	default:
		say_frame(*fd, in, who == 0);
	}
	/* Sometimes several things are said before the core looks. */
	if (!(what & 0x20))
		turn(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {.p = p, .n = n};
	struct world w;
	unsigned sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += p[i];
	no_child = sum % 8 != 0;
	begin(&w);
	for (int i = 0; i < STEPS_MAX && in.n > 0; i++)
		step(&w, &in);
	turn(&w);
	end(&w);
	return 0;
}
