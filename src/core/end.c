/*
 * Ending and deleting boxes, whatever state they are in.
 *
 * The keeper of a running box is asked to stop it. One whose keeper does not answer in time is
 * ended by killing that keeper: init then loses its wire and the kernel ends the box. The keeper is
 * the process at the other end of the box's socket, or the one that the lock's text names if it
 * really has that file open; a pidfd makes sure that the process we looked at is the one we kill.
 *
 * Deleting: with the operation lock held (so none starts it meanwhile) its socket and cgroup go,
 * its directory is renamed out of sight, and then the tree is deleted. A crash in between leaves
 * trash that the next sweep deletes. A lock that somebody does not let go of holds up nothing for
 * long: delete always works.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "cgroup/cgroup.h"
#include "core/life.h"
#include "core/watch.h"
#include "storage/storage.h"
#include "store/layer.h"
#include "store/net.h"
#include "store/restart.h"
#include "store/stage.h"
#include "store/workspace_stack.h"
#include "wire/msg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { END_TRIES = 8, GRACE_MAX_MS = 600000 };

void box_cgroup_name(struct cove *cove, const char *name, char *ret, size_t size)
{
	snprintf(ret, size, "%s-%s", cove->state.tag, name);
}

void box_clear_runtime(struct cove *cove, const char *name)
{
	char group[96], socket[BOX_NAME_MAX + 16];
	struct err e = {0};

	/* Only what a keeper makes there: a directory with anything else in it is not ours. */
	snprintf(socket, sizeof(socket), "%s/keeper.sock", name);
	unlinkat(cove->state.run_fd, socket, 0);
	unlinkat(cove->state.run_fd, name, AT_REMOVEDIR);
	box_cgroup_name(cove, name, group, sizeof(group));
	if (cgroup_remove(group, &e) < 0)
		log_debug("clear cgroup of %s: %s", name, e.msg);
}

static bool wait_dead(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	uint64_t end = clock_mono_ms() + (uint64_t)timeout_ms;
	int r;

	do {
		uint64_t now = clock_mono_ms();

		r = poll(&p, 1, now >= end ? 0 : (int)(end - now));
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

static int kill_keeper(int pidfd, const char *name, struct err *e)
{
	int r = sys_pidfd_send_signal(pidfd, SIGKILL);

	if (r < 0 && r != -ESRCH)
		return err_errno(e, -r, "kill the keeper of box '%s'", name);
	if (!wait_dead(pidfd, KILL_WAIT_MS))
		return err_set(e, ERR_TIMEOUT, ETIMEDOUT, "the keeper of box '%s' does not die",
			       name);
	return 0;
}

static bool has_open(pid_t pid, const struct stat *lock)
{
	char path[32];
	struct dirent *d;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir && !found && (d = readdir(dir))) {
		struct stat st;

		found = fstatat(dirfd(dir), d->d_name, &st, 0) == 0 && st.st_ino == lock->st_ino &&
			st.st_dev == lock->st_dev;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* The process that the lock's text names, if it is the one which holds the lock. */
static int recorded_pidfd(struct cove *cove, const char *name, int box_fd)
{
	autoclose int pidfd = -1, lock_fd = record_open_lock(box_fd);
	struct record record;
	struct stat lock;
	pid_t pid;

	if (record_load(&cove->state, name, &record, NULL) < 0)
		return -ESRCH;
	pid = record.keeper_pid;
	record_done(&record);
	if (pid <= 0 || fstat(lock_fd, &lock) < 0)
		return -ESRCH;
	pidfd = sys_pidfd_open(pid);
	if (pidfd < 0 || !has_open(pid, &lock))
		return -ESRCH;
	return take_fd(pidfd);
}

/* Through the keeper; by force if it does not answer. A keeper that answers with an error has ended
 * the box and could not finish (a full disk, say): that is the caller's to know. -EAGAIN where
 * there is none to talk to. */
static int end_by_socket(struct cove *cove, const char *name, const struct wire_stop *how,
			 bool *ret_forced, struct err *e)
{
	uint64_t grace_ms = how->grace_ms < GRACE_MAX_MS ? how->grace_ms : GRACE_MAX_MS;
	autoclose int pidfd = -1;
	struct core_conn *c = NULL;
	struct core_call call;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int r = core_conn_connect(NULL, cove->state.run_fd, name, &c, e);

	if (r < 0)
		return -EAGAIN;
	/* The process that listens on the box's socket. */
	if (getsockopt(core_conn_fd(c), SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.pid > 0)
		pidfd = sys_pidfd_open(cred.pid);
	core_call_begin(&call, c);
	r = core_call_finish(&call, wire_stop_encode(core_out(c), call.q.id, 0, how),
			     (int)grace_ms + STOP_WAIT_MS, e);
	if (pidfd >= 0 && (r == -ETIMEDOUT || !wait_dead(pidfd, STOP_WAIT_MS))) {
		*ret_forced = true;
		r = kill_keeper(pidfd, name, e);
	} else if (pidfd >= 0 && (r == -ECONNRESET || how->remove)) {
		r = 0; /* it is gone; what it could not delete is deleted next */
	}
	core_conn_free(c);
	return r == -ECONNRESET ? -EAGAIN : r;
}

/* The lock is held and there is no socket: it is coming up, going down, or stuck. */
static int end_by_record(struct cove *cove, const char *name, int box_fd, bool *ret_forced,
			 struct err *e)
{
	autoclose int pidfd = -1;
	struct core_conn *c = NULL;
	int r = core_wait_socket(cove, name, box_fd, KILL_WAIT_MS, &c);

	core_conn_free(c);
	if (r == 0 || r == -EAGAIN)
		return 0;
	pidfd = recorded_pidfd(cove, name, box_fd);
	if (pidfd < 0)
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "box '%s' is locked by a process that is not its keeper; try again",
			       name);
	*ret_forced = true;
	return kill_keeper(pidfd, name, e);
}

/* Until the lock is free. 1 if it ran, 0 if it did not. */
static int end_running(struct cove *cove, const char *name, int box_fd, const struct wire_stop *how,
		       struct err *e)
{
	bool forced = false;
	int ran = 0, r;

	for (int i = 0; record_is_live(box_fd); i++) {
		if (i == END_TRIES)
			return err_set(e, ERR_CONFLICT, EBUSY,
				       "box '%s' is started again and again", name);
		ran = 1;
		r = end_by_socket(cove, name, how, &forced, e);
		if (r == -EAGAIN)
			r = end_by_record(cove, name, box_fd, &forced, e);
		if (r < 0)
			return r;
	}
	if (forced && !how->remove) {
		r = record_write_end(box_fd, "keeper killed", how->by ? how->by : "", true, e);
		if (r < 0)
			return r;
		box_clear_runtime(cove, name);
	}
	return ran;
}

/* One that would be started again by itself stays stopped from now on. Whoever starts it has the
 * operation lock, so that is waited for, and then the box may run. */
static int hold_restart(struct cove *cove, const char *name, int box_fd,
			const struct wire_stop *how, struct err *e)
{
	struct record record;
	bool may_restart;
	int r = record_load(&cove->state, name, &record, NULL);

	if (r < 0)
		return 0;
	may_restart = record.spec.restart != RESTART_NO;
	record_done(&record);
	r = may_restart ? core_wait_lock(cove, name, box_fd, STOP_WAIT_MS, e) : -ENOENT;
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (record_is_live(box_fd))
		return end_running(cove, name, box_fd, how, e);
	r = record_load(&cove->state, name, &record, NULL);
	if (r < 0)
		return 0;
	r = restart_hold(box_fd, &record);
	record_done(&record);
	return r < 0 ? err_errno(e, -r, "write that box '%s' is to stay stopped", name) : 0;
}

static int halt(struct cove *cove, const char *name, const struct wire_stop *how, struct err *e)
{
	autoclose int box_fd = -1;
	int r = box_open_dir(cove, name, &box_fd, e);

	if (r == 0)
		r = end_running(cove, name, box_fd, how, e);
	if (r == 0)
		r = record_mend_run(box_fd, how->by, e);
	return r == 0 && !how->rollback ? hold_restart(cove, name, box_fd, how, e) : r;
}

int box_halt(struct cove *cove, const char *name, const char *by, uint64_t grace_ms, struct err *e)
{
	return halt(cove, name, &(struct wire_stop){.by = by, .grace_ms = grace_ms}, e);
}

int box_halt_to_roll_back(struct cove *cove, const char *name, struct err *e)
{
	return halt(cove, name, &(struct wire_stop){.by = "cove rollback", .rollback = 1}, e);
}

int box_halt_to_merge(struct cove *cove, const char *name, struct err *e)
{
	return halt(cove, name, &(struct wire_stop){.by = "cove merge", .rollback = 2}, e);
}

int life_trash(struct cove *cove, const char *name, int box_fd, bool durable, struct err *e)
{
	char trash[64] = "";
	int r = core_ids(cove, e);

	if (r < 0 || (box_fd >= 0 && core_has_moved(cove, name, box_fd)))
		return r;
	box_clear_runtime(cove, name);
	r = record_trash(&cove->state, name, durable, trash, e);
	if (r < 0 || !trash[0])
		return r;
	return storage_delete(cove->state.home_fd, cove->state.boxes_fd, trash, &cove->ids, e);
}

/* Of this box and no other that had its name. */
static void workspace_token(const struct spec *spec, char ret[WORKSPACE_TOKEN])
{
	snprintf(ret, WORKSPACE_TOKEN, "fork-%llu", (unsigned long long)spec->created_ms);
}

int life_make_workspace(struct cove *cove, const struct core_spec *s, struct err *e)
{
	struct workspace_stack of = {.layers = (char **)(uintptr_t)s->workspace_layers,
				     .count = s->workspace_layer_count};

	workspace_token(&s->spec, of.token);
	return workspace_stack_make(&cove->state, s->spec.workspace, &cove->ids, &of,
				    s->spec.limits[LIMIT_DISK], e);
}

void life_drop_workspace(struct cove *cove, const struct spec *spec)
{
	char token[WORKSPACE_TOKEN];
	struct err e = {0};

	if (!spec->from || !spec->workspace)
		return;
	workspace_token(spec, token);
	if (core_ids(cove, &e) < 0 ||
	    workspace_stack_undo(&cove->state, &cove->ids, spec->workspace, token, spec->name, &e) <
		    0)
		log_debug("workspace %s stays: %s", spec->workspace, e.msg);
}

/* The layers that only this box stood on: those of a fork, or of a box that was rolled back. What
 * stays is found by `cove image gc`. */
static void drop_layers(struct cove *cove, const struct record *r)
{
	autoclose int lock_fd = -1;

	if (core_ids(cove, NULL) < 0 || layers_lock(&cove->state, &lock_fd, NULL) < 0)
		return;
	layers_trash_unused(&cove->state, r->spec.layers, r->spec.layer_count);
	fd_close(&lock_fd);
	layers_sweep(&cove->state, &cove->ids);
}

/* What an interrupted merge left in a directory of the host: only the box's journal names it. */
static void drop_stage(struct cove *cove, const char *name, int box_fd)
{
	char stage[STAGE_NAME_SIZE] = "", text[300];
	struct record record;
	struct err e = {0};
	int r;

	if (record_load(&cove->state, name, &record, NULL) < 0)
		return;
	r = record.spec.workspace_dir ? stage_drop(box_fd, record.spec.workspace_dir, stage, &e)
				      : 0;
	if (r != 0) {
		snprintf(text, sizeof(text),
			 "a merge was interrupted and '%s' stays in '%.150s'%s%.80s", stage,
			 record.spec.workspace_dir, r < 0 ? ": " : "", e.msg);
		core_event(cove, &(struct event){.kind = EVENT_FAIL, .box = name, .cause = text});
	}
	record_done(&record);
}

int box_destroy_locked(struct cove *cove, const char *name, int box_fd, const char *by,
		       struct err *e)
{
	struct wire_stop how = {.by = by, .remove = 1};
	bool is_of_snapshot = false;
	char **authorities = NULL;
	struct record record;
	size_t count = 0;
	int r = 0;

	if (box_fd >= 0 && record_load(&cove->state, name, &record, NULL) == 0) {
		is_of_snapshot = record.spec.from;
		if (!is_of_snapshot)
			record_done(&record);
	}
	/* Its authorities, found while the name is this box's for sure. One that cannot be listed
	 * is for its launcher or a sweep. */
	if (box_fd >= 0 && net_ca_names(&cove->state, name, &authorities, &count) == 0 &&
	    core_has_moved(cove, name, box_fd)) {
		state_names_free(take_ptr(authorities), count);
		count = 0;
	}
	if (box_fd >= 0) {
		drop_stage(cove, name, box_fd);
		r = end_running(cove, name, box_fd, &how, e);
	}
	/* Of a fork whose maker was killed before it ran. */
	if (r == 0 && is_of_snapshot && record.state == BOX_CREATED &&
	    !core_has_moved(cove, name, box_fd))
		life_drop_workspace(cove, &record.spec);
	if (r >= 0) {
		r = life_trash(cove, name, box_fd, true, e);
		/* Its launcher does the same, if it lives; but later. */
		for (size_t i = 0; i < count; i++)
			net_ca_drop(cove->state.home, authorities[i]);
	}
	state_names_free(authorities, count);
	if (is_of_snapshot && r >= 0)
		drop_layers(cove, &record);
	if (is_of_snapshot)
		record_done(&record);
	return r;
}

int box_destroy(struct cove *cove, const char *name, const char *by, struct err *e)
{
	autoclose int box_fd =
		openat(cove->state.boxes_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* A lock that is not to be had holds up nothing. */
	if (box_fd >= 0 && core_wait_lock(cove, name, box_fd, STOP_WAIT_MS, e) == -ENOENT)
		return 0;
	return box_destroy_locked(cove, name, box_fd, by, e);
}
