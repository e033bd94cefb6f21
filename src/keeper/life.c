/* The life of one box; see life.h. */
#include "keeper/life.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "keeper/exec.h"
#include "storage/tree.h"
#include "store/record.h"
#include "store/removal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

static const bool may_enter[LIFE_STATE_COUNT][LIFE_STATE_COUNT] = {
	[LIFE_STARTING] = {[LIFE_UP] = true, [LIFE_GONE] = true},
	[LIFE_UP] = {[LIFE_ENDING] = true, [LIFE_GONE] = true}, /* gone: the loop itself failed */
	[LIFE_ENDING] = {[LIFE_GONE] = true},
};

/* The one writer. */
static void life_enter(struct keeper_life *l, enum keeper_life_state next)
{
	ASSERT(may_enter[l->state][next]);
	l->state = next;
	ev_timer_stop(l->ev, &l->timer);
}

static struct keeper_life *life_of(struct keeper *k)
{
	return container(k, struct keeper_life, k);
}

/* ---- gone ---- */

/* Takes the box's directory out of sight. */
static int trash_box(struct keeper_life *l, struct err *e)
{
	if (l->trash[0])
		return 0;
	return record_trash(&l->st, l->config.spec.name, !l->config.spec.one_shot, l->trash, e);
}

static int delete_box(struct keeper_life *l, struct err *e)
{
	int r = trash_box(l, e);

	if (r < 0 || !l->trash[0])
		return r;
	/* Before it is unmounted: then nothing of it is written to disk on the way out. */
	r = volume_drop(&l->volume, &l->ids, e);
	return r < 0 ? r : tree_remove_as(&l->ids, l->st.boxes_fd, l->trash, e);
}

static void become_gone(struct keeper_life *l)
{
	struct event ev = {
		.kind = EVENT_CLOSE,
		.box = l->config.spec.name,
		.cause = l->cause,
		.by = l->by[0] ? l->by : NULL,
		.cpu_us = cgroup_cpu_us(&l->cgroup),
	};
	struct err e;
	int r;

	life_enter(l, LIFE_GONE);
	keeper_meter_stop(l);
	keeper_network_done(l);
	keeper_ctl_done(&l->ctl);
	keeper_disconnect(&l->k);
	keeper_execs_interrupt(&l->k);
	err_set(&e, ERR_INTERRUPTED, ECONNRESET, "box '%s' ended before this was done", l->k.name);
	keeper_relays_end(&l->k, PARTY_INIT, &e);
	/* Nothing of a one-shot box runs any more and its name is free: its caller goes on, and the
	 * rest is removed behind. A named workspace is let go of first, the caller may want it
	 * next. */
	if (l->k.held_fd >= 0 && l->trash[0] && removal_begin(l->removal_fd, l->config.spec.name)) {
		volume_done(&l->workspace);
		fd_close(&l->workspace_fd);
		fd_close(&l->k.held_fd);
	}
	keeper_life_release(l);
	if (l->remove) {
		r = delete_box(l, &e);
	} else {
		ev.at_ms = clock_wall_ms();
		keeper_event(&l->k, &ev);
		r = record_write_end(l->box_fd, l->cause, l->by, true, &e);
	}
	keeper_subscriptions_end(&l->k);
	keeper_answer_stops(&l->k, r < 0 ? &e : NULL);
	keeper_flush(&l->k, KEEPER_FLUSH_MS);
	ev_quit(l->ev);
}

/* ---- ending ---- */

static void on_door_over(struct keeper *k);

/* Once init is dead, its last bytes are read and its door has written its last audit rows, in a
 * turn of its own: callers up the stack may be walking what is freed then. */
static void end_if_over(struct keeper_life *l)
{
	if (l->state != LIFE_ENDING || !keeper_network_end(l, on_door_over) || l->has_child)
		return;
	/* The last bytes of a box that is deleted have no reader. */
	if (l->k.linked && !l->k.stale && !l->remove)
		ev_timer_set(l->ev, &l->timer, KEEPER_FLUSH_MS);
	else
		ev_defer(l->ev, &l->finish);
}

static void on_door_over(struct keeper *k)
{
	end_if_over(life_of(k));
}

static void on_finish(struct ev_defer *d)
{
	struct keeper_life *l = container(d, struct keeper_life, finish);

	if (l->state == LIFE_ENDING)
		become_gone(l);
}

static void kill_box(struct keeper_life *l)
{
	ev_timer_stop(l->ev, &l->timer);
	if (l->has_child)
		l->wall->kill(&l->box);
	keeper_listener_done(&l->listener); /* whoever comes from now on waits for the end */
	if (l->has_child) {
		l->killed = true;
		keeper_meter_thaw(l); /* in a v1 freezer a process dies when it is let go */
		(void)keeper_network_end(l, on_door_over);
		/* While the kernel ends the processes, on another core, what they leave goes
		 * already: none of them runs again. What cannot go yet is found again, and a
		 * failure reported, when all have ended. As an ordinary user deleting takes a
		 * process in the box's map, so there it is done once. The box's place among
		 * removals is taken before its name is free: who takes the name next waits for
		 * its groups. */
		if (l->remove && removal_begin(l->removal_fd, l->config.spec.name) &&
		    trash_box(l, NULL) == 0 && l->ids.kind == IDS_RANGE)
			delete_box(l, NULL);
		ev_timer_set(l->ev, &l->timer, KEEPER_KILL_MS);
	}
	end_if_over(l);
}

static void begin_end(struct keeper_life *l, const struct keeper_end *end)
{
	life_enter(l, LIFE_ENDING);
	l->k.ending = true;
	keeper_meter_stop(l);
	l->remove = l->remove || end->remove;
	/* What it ends has the same cause; after a failure of init's nothing is known of it. */
	if (end->is_ordered)
		l->k.end_cause = l->cause;
	str_copy(l->cause, sizeof(l->cause), end->cause);
	str_copy(l->by, sizeof(l->by), end->by ? end->by : "");
	if (end->grace_ms == 0 || !l->has_child || l->k.running_execs == 0) {
		kill_box(l);
		return;
	}
	keeper_meter_thaw(l);
	ev_timer_set(l->ev, &l->timer, end->grace_ms);
	keeper_execs_tell_end(&l->k, SIGTERM);
}

/* The loop ends and keeper_life_run undoes what was made. */
static void fail_start(struct keeper_life *l, const struct err *e)
{
	l->failure = *e;
	ev_quit(l->ev);
}

void keeper_life_end(struct keeper_life *l, const struct keeper_end *end)
{
	struct err e;

	switch (l->state) {
	case LIFE_STARTING:
		err_set(&e, ERR_PROTOCOL, EPROTO, "the box did not come up: %s", end->cause);
		fail_start(l, &e);
		break;
	case LIFE_UP:
		begin_end(l, end);
		break;
	case LIFE_ENDING:
		/* Somebody who asks without grace does not wait for the grace of another. */
		l->remove = l->remove || end->remove;
		if (end->grace_ms == 0)
			kill_box(l);
		break;
	case LIFE_GONE:
	case LIFE_STATE_COUNT:
		break;
	}
}

/* ---- what the core says ---- */

static void on_end(struct keeper *k, const struct keeper_end *end)
{
	keeper_life_end(life_of(k), end);
}

static void on_first_gone(struct keeper *k)
{
	struct keeper_life *l = life_of(k);

	if (l->config.spec.one_shot)
		keeper_life_end(l, &(struct keeper_end){.cause = "client gone"});
	else if (l->config.visit)
		keeper_life_end(l, &(struct keeper_end){
					   .cause = "stopped", .by = "visit", .is_ordered = true});
}

static void on_room(struct keeper *k)
{
	struct keeper_life *l = life_of(k);

	if (l->state == LIFE_UP)
		keeper_listener_resume(&l->listener);
}

static void on_idle(struct keeper *k)
{
	struct keeper_life *l = life_of(k);

	if (l->state == LIFE_ENDING && l->has_child)
		kill_box(l);
}

/* End of file: init has ended, or closed its link, which it never does. Its death is waited for, so
 * that the record can say how it died. */
static void on_lost(struct keeper *k, int error)
{
	struct keeper_life *l = life_of(k);

	if (l->state == LIFE_ENDING) {
		end_if_over(l);
	} else if (l->state != LIFE_GONE && l->has_child) {
		keeper_listener_done(&l->listener);
		ev_timer_set(l->ev, &l->timer, KEEPER_FLUSH_MS);
	}
}

/* What the box itself runs at its start. Where that cannot be, the box is there all the same. */
static void run_on_start(struct keeper_life *l)
{
	const struct wire_exec m = {.line = l->config.spec.on_start, .background = 1};
	struct event ev = {.kind = EVENT_FAIL, .box = l->config.spec.name};
	struct err e;
	int r;

	if (!m.line || l->config.visit)
		return;
	r = keeper_exec_run_own(&l->k, &m, &l->k.own_exec, &e);
	if (r == 0)
		r = record_set_on_start(l->lock_fd, l->k.own_exec, &e);
	if (r == 0)
		return;
	keeper_note(&l->k, "on-start: %s", e.msg);
	ev.at_ms = clock_wall_ms();
	ev.cause = e.msg;
	keeper_event(&l->k, &ev);
}

static void on_up(struct keeper *k)
{
	struct keeper_life *l = life_of(k);
	const struct spec *s = &l->config.spec;
	struct event ev = {
		.kind = EVENT_OPEN,
		.at_ms = clock_wall_ms(),
		.box = s->name,
		.image = s->image,
		.workspace = s->workspace ? s->workspace : s->workspace_dir,
	};
	int r;

	life_enter(l, LIFE_UP);
	if (keeper_life_renews(l))
		fd_close(&(int){openat(l->box_fd, BOX_RENEWED_FILE,
				       O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)});
	k->started_ms = ev.at_ms;
	keeper_event(&l->k, &ev);
	keeper_meter_start(l);
	run_on_start(l);
	r = l->config.visit ? 0 : keeper_listener_open(&l->listener);
	if (r == 0)
		r = keeper_add_client(k, take_fd(l->client_fd), true);
	if (r < 0)
		keeper_life_end(l, &(struct keeper_end){.cause = "no memory for a client"});
}

/* ---- what the system says ---- */

static void on_timer(struct ev_timer *t)
{
	struct keeper_life *l = container(t, struct keeper_life, timer);
	struct err e;

	switch (l->state) {
	case LIFE_STARTING:
		if (l->k.linked)
			err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "cove-init did not answer within %u s",
				KEEPER_START_MS / 1000);
		else
			err_set(&e, ERR_PROTOCOL, EPROTO, "cove-init closed its link");
		fail_start(l, &e);
		break;
	case LIFE_UP:
		keeper_life_end(l, &(struct keeper_end){.cause = "init broke the protocol"});
		break;
	case LIFE_ENDING:
		/* A process that waits in the kernel cannot be killed. The box is not gone until it
		 * is: who waits for that gets an error, and it is tried again. */
		if (l->has_child && l->killed) {
			err_set(&e, ERR_TIMEOUT, ETIMEDOUT,
				"the processes of box '%s' do not end: one waits in the kernel, "
				"for a disk or a mount; it goes on ending",
				l->k.name);
			keeper_answer_stops(&l->k, &e);
		}
		if (l->has_child)
			kill_box(l);
		else
			become_gone(l);
		break;
	case LIFE_GONE:
	case LIFE_STATE_COUNT:
		break;
	}
}

static void describe_status(char *ret, size_t size, const char *what, int status)
{
	if (WIFSIGNALED(status))
		snprintf(ret, size, "%s (signal %d)", what, WTERMSIG(status));
	else
		snprintf(ret, size, "%s (status %d)", what, WEXITSTATUS(status));
}

/* Where commands are in no groups of their own, too much memory takes the whole box, or one of its
 * processes: whose it was is not known, but that a command ended right then. */
bool keeper_life_ran_out(struct keeper *k)
{
	struct keeper_life *l = life_of(k);
	struct cgroup_stats now = {0};
	bool lost;

	l->wall->measure(&l->box, false, &now);
	lost = now.oom_kills > l->oom_kills;
	l->oom_kills = now.oom_kills;
	return lost;
}

bool keeper_life_disk_full(struct keeper *k)
{
	struct keeper_life *l = life_of(k);

	return volume_is_full(&l->volume) || volume_is_full(&l->workspace);
}

static void on_init_exit(struct ev_child *c, int status)
{
	struct keeper_life *l = container(c, struct keeper_life, child);
	char cause[64];
	struct err e;

	l->has_child = false;
	switch (l->state) {
	case LIFE_STARTING:
		describe_status(cause, sizeof(cause), "cove-init ended before it was ready",
				status);
		err_set(&e, ERR_INTERNAL, 0, "%s", cause);
		fail_start(l, &e);
		break;
	case LIFE_UP:
		describe_status(cause, sizeof(cause), "init died", status);
		if (l->k.ran_out && l->k.ran_out(&l->k))
			keeper_life_end(l,
					&(struct keeper_end){.cause = "oom", .is_ordered = true});
		else
			keeper_life_end(l, &(struct keeper_end){.cause = cause});
		break;
	case LIFE_ENDING:
		ev_timer_stop(l->ev, &l->timer);
		end_if_over(l);
		break;
	case LIFE_GONE:
	case LIFE_STATE_COUNT:
		break;
	}
}

static void on_signal(struct ev_signals *s, int sig)
{
	struct keeper_life *l = container(s, struct keeper_life, signals);

	keeper_life_end(
		l, &(struct keeper_end){.cause = "stopped", .by = "signal", .is_ordered = true});
}

/* ---- the whole ---- */

/* Nothing half-made stays: first everything goes, then the client gets the answer. */
static int undo_start(struct keeper_life *l)
{
	struct event ev = {
		.kind = EVENT_FAIL,
		.at_ms = clock_wall_ms(),
		.box = l->config.spec.name,
		.cause = l->failure.msg,
	};
	struct wire_error m = {
		.kind = l->failure.kind, .code = (uint64_t)l->failure.code, .msg = l->failure.msg};
	struct buf out;
	struct err e;
	int r = 0;

	life_enter(l, LIFE_GONE);
	keeper_network_done(l);
	keeper_ctl_done(&l->ctl);
	keeper_disconnect(&l->k);
	if (l->has_child) {
		l->wall->kill(&l->box);
		waitpid(l->box.pid, NULL, __WALL);
		ev_child_remove(l->ev, &l->child);
	}
	if (l->made && l->config.premade) {
		keeper_life_release(l); /* the directory is its maker's */
	} else if (l->made) {
		keeper_life_release(l);
		keeper_event(&l->k, &ev);
		r = l->config.spec.one_shot
			    ? delete_box(l, &e)
			    : record_write_end(l->box_fd, "start failed", "", false, &e);
	}
	if (r < 0)
		log_debug("undo: %s", e.msg);
	/* The only answer that a client gets then. */
	buf_init(&out, 4096);
	if (l->client_fd >= 0 && wire_error_encode(&out, 0, 0, &m) == 0)
		send(l->client_fd, buf_data(&out), buf_len(&out), MSG_NOSIGNAL);
	buf_done(&out);
	return 1;
}

static int life_prepare(struct keeper_life *l)
{
	sigset_t set;
	int r;

	keeper_init(&l->k, -1);
	r = ev_new(&l->ev);
	if (r < 0)
		return r;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	l->signals.on_signal = on_signal;
	l->child.on_exit = on_init_exit;
	l->timer.on_timer = on_timer;
	l->finish.on_defer = on_finish;
	l->k.ev = l->ev;
	l->k.name = l->config.spec.name;
	l->k.timeout_ms = l->config.spec.timeout_ms;
	l->k.quiet = l->config.spec.one_shot;
	l->k.ends_with_first = l->config.spec.one_shot || l->config.visit;
	l->k.on_up = on_up;
	l->k.on_lost = on_lost;
	l->k.on_end = on_end;
	l->k.on_first_gone = on_first_gone;
	l->k.on_room = on_room;
	l->k.on_idle = on_idle;
	keeper_meter_init(l);
	l->removal_fd = removal_open(l->config.run); /* without it its caller waits */
	return ev_signals_add(l->ev, &l->signals, &set);
}

int keeper_life_run(struct keeper_config *config, int client_fd)
{
	struct keeper_life l = {
		.config = *config,
		.box_fd = -1,
		.lock_fd = -1,
		.range_fd = -1,
		.client_fd = client_fd,
		.removal_fd = -1,
		.workspace_fd = -1,
		.remove = config->spec.one_shot,
		.volume = VOLUME_NONE,
		.workspace = VOLUME_NONE,
		.proc_files = PROC_FILES_NONE,
		.host = WALL_HOST_NONE,
		.box = WALL_BOX_NONE,
		.st = {.home_fd = -1,
		       .boxes_fd = -1,
		       .images_fd = -1,
		       .layers_fd = -1,
		       .workspaces_fd = -1,
		       .run_fd = -1},
	};
	int r = life_prepare(&l), status = 0;

	if (r < 0) {
		err_errno(&l.failure, -r, "start the keeper");
	} else if (keeper_life_start(&l, &l.failure) == 0) {
		ev_timer_set(l.ev, &l.timer, KEEPER_START_MS);
		r = ev_run(l.ev);
	}
	if (l.state != LIFE_GONE)
		status = undo_start(&l);
	keeper_limits_leave_own_group(&l);
	/* The process ends next, and its descriptors with it. The disk goes before its place among
	 * removals does: then nothing of the box is left. */
	keeper_done(&l.k);
	volume_done(&l.volume);
	ev_free(l.ev);
	keeper_config_done(&l.config);
	keeper_config_done(&l.made_as);
	return status;
}
