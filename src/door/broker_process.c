/*
 * The broker's process; see broker.h. One loop: packets of the proxy, commands that provide a
 * secret, and a timer that syncs the audit log.
 *
 * A sync may take long: a disk that is busy, or the list of audit logs, which is locked for all
 * boxes. So a child does it (secrets are empty in a child, see base/locked.h) and rows are written
 * and answered meanwhile; one sync at a time, and none while a new segment begins.
 *
 * A box that causes more than AUDIT_RATE bytes of rows per second, after a burst, waits: nothing is
 * received for a while, so the proxy's list fills and the proxy does not listen to its box. When
 * the proxy begins to end the box has one more burst: the list of a proxy that has to wait would be
 * lost with it, since a door that takes long to end is killed.
 *
 * The proxy may have been taken over, so what it asks is checked here: a secret is read only if the
 * policy on disk names it. Policies are parsed again when their file has changed.
 */
#include "base/caps.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/list.h"
#include "base/locked.h"
#include "base/str.h"
#include "door/broker_wire.h"
#include "door/config.h"
#include "door/fold.h"
#include "door/kept.h"
#include "door/policy.h"
#include "door/presets.h"
#include "door/used.h"
#include "ev/ev.h"
#include "store/audit.h"
#include "store/audit_row.h"
#include "store/key.h"
#include "store/net.h"
#include "store/secret.h"
#include "store/state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { SYNC_MS = 500 };

struct process {
	struct ev *ev;
	const struct door_config *config;
	struct ev_io io, end; /* end: see broker_wire.h */
	struct state st;
	int box_fd; /* owned */
	struct audit_writer record;
	struct used used;
	int used_error; /* 0, or why it could not be read */
	struct ev_timer sync, fold, rest;
	bool is_ending; /* the proxy has ended: nothing rests any more */
	struct ev_child syncer;
	bool is_syncing, syncs_rows; /* syncs_rows: not only what was used */
	struct folds folds;
	struct row_rate rate;
	struct command *commands; /* owned */
	struct kept_secrets kept;
	struct ev_timer keep;	 /* until the first of them is over */
	struct policy *policy;	 /* for the names of secrets; NULL: none could be read */
	struct stat policy_stat; /* of the file it was read from */
	bool policy_known;
	int exit_status;
	uint8_t *in; /* BROKER_PACKET_MAX */
};

/* A command that provides a secret. Who asks while it runs waits for it as well, so that a box with
 * many requests at once does not start as many processes. */
struct command {
	struct process *p;
	struct command *next;
	uint32_t *ids; /* owned: who waits */
	size_t id_count;
	char *line; /* owned */
	char name[SECRET_NAME_MAX + 1];
	uint64_t cache_ms;
	struct secret_stamp stamp;
	struct ev_child child;
	struct ev_io out; /* fd owned */
	struct ev_timer timer;
	uint8_t *value; /* owned, locked, DOOR_SECRET_MAX + 1 */
	size_t len;
	int status;
	bool ended, closed, late;
};

/* ---- answering ---- */

/* Blocks where the proxy does not read; without a proxy this process ends. */
static void answer(struct process *p, const struct broker_head *head, const void *data, size_t n)
{
	struct broker_head full = *head;
	struct iovec parts[2] = {{&full, sizeof(full)}, {(void *)(uintptr_t)data, n}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = n > 0 ? 2 : 1};

	full.unlocked = !locked_always();
	while (sendmsg(p->io.fd, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR) {
			ev_quit(p->ev);
			return;
		}
}

static void refuse(struct process *p, uint32_t id, enum broker_verb verb, const struct err *e)
{
	struct broker_head head = {
		.id = id, .verb = (uint16_t)verb, .r = e->code ? -e->code : -EIO, .kind = e->kind};

	answer(p, &head, e->msg, strlen(e->msg));
}

static void answer_text(struct process *p, uint32_t id, enum broker_verb verb, const char *text,
			size_t len)
{
	size_t at = 0;

	do {
		size_t n = len - at < BROKER_PART ? len - at : BROKER_PART;
		struct broker_head head = {.id = id, .verb = (uint16_t)verb, .more = at + n < len};

		answer(p, &head, text + at, n);
		at += n;
	} while (at < len);
}

/* ---- policy and grants ---- */

/* Owned text, of the box's own file or, where it has none, of what is built in. */
static int read_policy(struct process *p, char **ret, size_t *ret_len, struct err *e)
{
	int r = fd_read_file(p->box_fd, NET_POLICY_FILE, DOOR_POLICY_MAX, ret, ret_len);

	if (r == 0)
		return 0;
	if (r != -ENOENT)
		return err_errno(e, -r, "read the policy of box '%s'", p->config->box);
	if (strcmp(p->config->policy, "file") == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "the policy of box '%s' is missing",
			       p->config->box);
	r = preset_text(p->config->policy, ret, e);
	*ret_len = r == 0 ? strlen(*ret) : 0;
	return r;
}

/* The policy, or the grants. */
static void say_file(struct process *p, uint32_t id, enum broker_verb verb)
{
	autofree char *text = NULL;
	struct err e;
	size_t len = 0;
	int r;

	if (verb == BROKER_POLICY) {
		r = read_policy(p, &text, &len, &e);
	} else {
		r = fd_read_file(p->box_fd, NET_GRANTS_FILE, DOOR_POLICY_MAX, &text, &len);
		r = r == -ENOENT ? 0 : r;
		if (r < 0)
			err_errno(&e, -r, "read the grants of box '%s'", p->config->box);
	}
	if (r < 0)
		refuse(p, id, verb, &e);
	else
		answer_text(p, id, verb, text ? text : "", len);
}

/* The policy that holds now. */
static const struct policy *current_policy(struct process *p, struct err *e)
{
	autofree char *text = NULL;
	const struct stat *was = &p->policy_stat;
	struct stat st = {0};
	size_t len;

	if (fstatat(p->box_fd, NET_POLICY_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		st = (struct stat){0};
	if (p->policy_known && st.st_ino == was->st_ino && st.st_size == was->st_size &&
	    st.st_mtim.tv_sec == was->st_mtim.tv_sec && st.st_mtim.tv_nsec == was->st_mtim.tv_nsec)
		return p->policy;
	policy_free(p->policy);
	p->policy = NULL;
	p->policy_known = false;
	if (read_policy(p, &text, &len, e) < 0 ||
	    policy_parse(&p->policy, "policy", text, len, e) < 0)
		return NULL;
	p->policy_stat = st;
	p->policy_known = true;
	return p->policy;
}

/* ---- secrets ---- */

static void command_free(struct command *c)
{
	list_remove(&c->p->commands, c);
	ev_timer_stop(c->p->ev, &c->timer);
	ev_io_remove(c->p->ev, &c->out);
	fd_close(&c->out.fd);
	if (!c->ended) {
		kill(-c->child.pid, SIGKILL);
		ev_child_remove(c->p->ev, &c->child);
	}
	locked_free(c->value);
	free(c->line);
	free(c->ids);
	free(c);
}

static void set_keep_timer(struct process *p)
{
	uint64_t next = kept_next_end(&p->kept), now = ev_now(p->ev);

	if (next)
		ev_timer_set(p->ev, &p->keep, next > now ? next - now : 0);
}

static void on_keep(struct ev_timer *t)
{
	struct process *p = container(t, struct process, keep);

	kept_sweep(&p->kept, ev_now(p->ev), clock_wall_ms());
	set_keep_timer(p);
}

/* Without memory it is run again the next time. */
static void keep_value(struct command *c, size_t n)
{
	struct process *p = c->p;

	if (c->cache_ms && kept_put(&p->kept,
				    &(struct kept_value){.name = c->name,
							 .stamp = c->stamp,
							 .data = c->value,
							 .len = n,
							 .for_ms = c->cache_ms},
				    ev_now(p->ev), clock_wall_ms()) == 0)
		set_keep_timer(p);
}

/* It ended and its output is all there, or its time is over. */
static void command_done(struct command *c)
{
	struct err e;
	size_t n = c->len;

	if (c->late)
		err_set(&e, ERR_TIMEOUT, ETIMEDOUT,
			"the command of secret '%s' took longer than %u s", c->name,
			BROKER_COMMAND_MS / 1000);
	else if (c->status != 0)
		err_set(&e, ERR_CONFLICT, EIO, "the command of secret '%s' failed (status %d)",
			c->name, WIFEXITED(c->status) ? WEXITSTATUS(c->status) : 128);
	else if (n > DOOR_SECRET_MAX || n == 0 || (n == 1 && c->value[0] == '\n'))
		err_set(&e, ERR_CONFLICT, EIO, "the command of secret '%s' printed %s", c->name,
			n > DOOR_SECRET_MAX ? "too much" : "nothing");
	else {
		n -= c->value[n - 1] == '\n';
		for (size_t i = 0; i < c->id_count; i++)
			answer(c->p, &(struct broker_head){.id = c->ids[i], .verb = BROKER_SECRET},
			       c->value, n);
		keep_value(c, n);
		command_free(c);
		return;
	}
	for (size_t i = 0; i < c->id_count; i++)
		refuse(c->p, c->ids[i], BROKER_SECRET, &e);
	command_free(c);
}

/* True if there may be more at once. */
static bool read_output(struct command *c)
{
	ssize_t n = read(c->out.fd, c->value + c->len, DOOR_SECRET_MAX + 1 - c->len);

	if (n > 0)
		c->len += (size_t)n;
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		c->closed = true;
	return n > 0 && c->len <= DOOR_SECRET_MAX;
}

static void on_output(struct ev_io *io, uint32_t events)
{
	struct command *c = container(io, struct command, out);

	if (read_output(c) || (!c->closed && c->len <= DOOR_SECRET_MAX))
		return;
	ev_io_remove(c->p->ev, io);
	if (c->ended || c->len > DOOR_SECRET_MAX)
		command_done(c);
}

static void on_child(struct ev_child *child, int wait_status)
{
	struct command *c = container(child, struct command, child);

	c->ended = true;
	c->status = wait_status;
	/* What it started in the background may hold its output: that is not waited for. */
	while (!c->closed && read_output(c))
		;
	command_done(c);
}

static void on_late(struct ev_timer *t)
{
	struct command *c = container(t, struct command, timer);

	c->late = true;
	command_done(c);
}

static int start_command(struct command *c)
{
	int out[2], null;

	c->value = locked_alloc(DOOR_SECRET_MAX + 1);
	if (!c->value)
		return -ENOMEM;
	if (pipe2(out, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	c->child.pid = fork();
	if (c->child.pid == 0) {
		/* Its line is not what was read: that is empty here. */
		fd_set_nonblock(out[1], false);
		null = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (setpgid(0, 0) < 0 || null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 ||
		    dup2(null, 2) < 0 || sys_close_range(3, ~0u, 0) < 0)
			_exit(126);
		signal(SIGPIPE, SIG_DFL);
		execl("/bin/sh", "sh", "-c", c->line, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	c->out.fd = out[0];
	if (c->child.pid < 0)
		return -errno;
	c->ended = false;
	(void)setpgid(c->child.pid, c->child.pid); /* whoever of us is first */
	return ev_child_add(c->p->ev, &c->child, c->child.pid, -1);
}

/* One that runs already, or a new one that does not run yet. */
static struct command *command_find(struct process *p, const char *name, const char *line)
{
	struct command *c = p->commands;

	while (c && (strcmp(c->name, name) != 0 || strcmp(c->line, line) != 0))
		c = c->next;
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	*c = (struct command){.p = p,
			      .next = p->commands,
			      .line = strdup(line),
			      .ended = true, /* until it was started */
			      .child.on_exit = on_child,
			      .out = {.fd = -1, .on_event = on_output},
			      .timer.on_timer = on_late};
	if (!c->line) {
		free(c);
		return NULL;
	}
	snprintf(c->name, sizeof(c->name), "%s", name);
	p->commands = c;
	return c;
}

static void provide_by_command(struct process *p, uint32_t id, const char *name,
			       const struct secret_text *t)
{
	struct command *c = command_find(p, name, t->data);
	bool runs = c && c->value;
	uint32_t *ids = c ? reallocarray(c->ids, c->id_count + 1, sizeof(*ids)) : NULL;
	int r = ids ? 0 : -ENOMEM;
	struct err e;

	if (ids) {
		c->ids = ids;
		c->ids[c->id_count++] = id;
	}
	if (r == 0 && runs)
		return;
	if (r == 0) {
		c->cache_ms = t->cache_ms;
		c->stamp = t->stamp;
		r = start_command(c);
	}
	if (r == 0)
		r = ev_io_add(p->ev, &c->out, EPOLLIN);
	if (r == 0) {
		ev_timer_set(p->ev, &c->timer, BROKER_COMMAND_MS);
		return;
	}
	err_errno(&e, -r, "run the command of secret '%s'", name);
	refuse(p, id, BROKER_SECRET, &e);
	if (c && !runs)
		command_free(c);
}

static void provide_from_file(struct process *p, uint32_t id, const char *name, const char *path)
{
	autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	uint8_t *value = locked_alloc(DOOR_SECRET_MAX + 1);
	struct err e;
	ssize_t n = fd < 0 || !value ? -errno : fd_read_full(fd, value, DOOR_SECRET_MAX + 1);

	if (n > 0 && n <= (ssize_t)DOOR_SECRET_MAX) {
		n -= n > 1 && value[n - 1] == '\n';
		answer(p, &(struct broker_head){.id = id, .verb = BROKER_SECRET}, value, (size_t)n);
	} else {
		if (n < 0)
			err_errno(&e, (int)-n, "read the file '%.100s' of secret '%s'", path, name);
		else
			err_set(&e, ERR_CONFLICT, EIO, "the file '%.100s' of secret '%s' is %s",
				path, name, n == 0 ? "empty" : "too large");
		refuse(p, id, BROKER_SECRET, &e);
	}
	locked_free(value);
}

/* A secret that the box's policy names. The box of an API key has those in the key's namespace, and
 * the operator's never. */
static int find_secret(struct process *p, const char *name, char ret[KEY_NAME_SIZE],
		       struct secret_text *ret_text, struct err *e)
{
	const char *owner = p->config->owner;
	int r = owner ? key_name_in(owner, KEY_OF_SECRET, name, ret, e) : 0;

	if (!owner)
		str_copy(ret, KEY_NAME_SIZE, name);
	return r < 0 ? r : secret_read(&p->st, ret, ret_text, e);
}

static void say_secret(struct process *p, uint32_t id, const char *name)
{
	struct err e;
	const struct policy *policy = current_policy(p, &e);
	char full[KEY_NAME_SIZE];
	const struct kept_value *kept;
	struct secret_text t = {0};
	const char *named;
	const struct rule *rule;
	bool is_named = false;
	int r = -EACCES;

	for (size_t i = 0; policy && !is_named && policy_secret(policy, i, &named, &rule); i++)
		is_named = strcmp(named, name) == 0;
	if (policy && !is_named)
		err_set(&e, ERR_DENIED, EACCES, "the policy of box '%s' names no secret '%s'",
			p->config->box, name);
	if (is_named)
		r = find_secret(p, name, full, &t, &e);
	if (r < 0) {
		kept_drop(&p->kept, name);
		refuse(p, id, BROKER_SECRET, &e);
		return;
	}
	kept = kept_find(&p->kept, name, &t.stamp, ev_now(p->ev), clock_wall_ms());
	if (t.source == SECRET_VALUE)
		answer(p, &(struct broker_head){.id = id, .verb = BROKER_SECRET}, t.data, t.len);
	else if (t.source == SECRET_FILE)
		provide_from_file(p, id, name, t.data);
	else if (kept)
		answer(p, &(struct broker_head){.id = id, .verb = BROKER_SECRET}, kept->data,
		       kept->len);
	else
		provide_by_command(p, id, name, &t);
	locked_free(t.data);
}

/* ---- the audit log ---- */

static void on_rest(struct ev_timer *t)
{
	struct process *p = container(t, struct process, rest);

	if (ev_io_set(p->ev, &p->io, EPOLLIN) < 0)
		ev_quit(p->ev);
}

/* What comes from here on is what the proxy had said already: its list, which is bounded. */
static void on_end(struct ev_io *io, uint32_t events)
{
	struct process *p = container(io, struct process, end);

	ev_io_remove(p->ev, io);
	p->is_ending = true;
	if (p->rest.armed) {
		ev_timer_stop(p->ev, &p->rest);
		on_rest(&p->rest);
	}
}

/* The child has ended: it failed, or what was written before it began is durable. A failed sync
 * is not tried again: the log may have a hole, so the door ends. */
static void on_synced(struct ev_child *c, int wait_status)
{
	struct process *p = container(c, struct process, syncer);

	p->is_syncing = false;
	if (wait_status != 0) {
		p->used.is_changed = true; /* it may not have come to that */
		p->exit_status = 1;
		ev_quit(p->ev);
		return;
	}
	p->record.is_listed = p->record.is_listed || p->syncs_rows;
	if ((p->record.dirty || p->used.is_changed) && !p->sync.armed)
		ev_timer_set(p->ev, &p->sync, SYNC_MS);
}

static void await_sync(struct process *p)
{
	pid_t pid = p->syncer.pid;
	int status = 0;

	if (!p->is_syncing)
		return;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	ev_child_remove(p->ev, &p->syncer);
	on_synced(&p->syncer, status);
}

/* A box that was removed has no more budgets to keep. */
static int sync_now(struct process *p)
{
	int r = audit_sync(&p->record, NULL), used = used_save(&p->used, p->box_fd);

	return r < 0 ? r : used == -ENOENT ? 0 : used;
}

static void on_sync(struct ev_timer *t)
{
	struct process *p = container(t, struct process, sync);
	pid_t pid;

	if (p->is_syncing) /* on_synced sets the timer again */
		return;
	pid = fork();
	if (pid == 0) {
		close(p->io.fd); /* the proxy takes its end for ours */
		_exit(sync_now(p) < 0);
	}
	if (pid > 0 && ev_child_add(p->ev, &p->syncer, pid, -1) == 0) {
		p->is_syncing = true;
		p->syncs_rows = p->record.dirty;
		p->record.dirty = p->used.is_changed = false;
		return;
	}
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	if (sync_now(p) < 0) {
		p->exit_status = 1;
		ev_quit(p->ev);
	}
}

static int write_row(struct process *p, struct audit_row *row, struct err *e)
{
	uint64_t before = p->record.bytes, now, rest_ms;
	int r;

	if (before >= p->record.segment_bytes_max)
		await_sync(p);
	row->time_ms = clock_wall_ms();
	r = audit_append(&p->record, row, e);
	if (r < 0)
		return r;
	if (!p->sync.armed)
		ev_timer_set(p->ev, &p->sync, SYNC_MS);
	/* Whoever is beyond the rate rests. The end of the proxy is heard all the same. */
	now = p->record.bytes;
	rest_ms = row_rate_pay(&p->rate, now > before ? now - before : 0, ev_now(p->ev));
	if (rest_ms && !p->is_ending && !p->rest.armed && ev_io_set(p->ev, &p->io, 0) == 0)
		ev_timer_set(p->ev, &p->rest, rest_ms);
	return 0;
}

static void record_row(struct process *p, uint32_t id, char *text)
{
	struct broker_head head = {.id = id, .verb = BROKER_RECORD};
	struct audit_row row;
	struct err e;
	int r;

	if (audit_row_unpack(&row, text) < 0) {
		err_set(&e, ERR_PROTOCOL, EBADMSG, "a malformed audit row");
		refuse(p, id, BROKER_RECORD, &e);
		return;
	}
	r = folds_take(&p->folds, &row, ev_now(p->ev));
	if (r == 0)
		r = write_row(p, &row, &e);
	else if (r < 0)
		err_errno(&e, -r, "count audit rows");
	if (r < 0) {
		refuse(p, id, BROKER_RECORD, &e);
		return;
	}
	if (!p->fold.armed)
		ev_timer_set(p->ev, &p->fold, FOLD_MS);
	head.seq = row.seq;
	if (id)
		answer(p, &head, NULL, 0);
}

/* Rows that were counted: no call waits for them. */
static int write_folded(void *arg, struct audit_row *row)
{
	struct process *p = arg;
	struct err e;
	int r = write_row(p, row, &e);

	if (r < 0)
		refuse(p, 0, BROKER_RECORD, &e);
	return 0;
}

static void on_fold(struct ev_timer *t)
{
	struct process *p = container(t, struct process, fold);
	uint64_t now = ev_now(p->ev), next;

	(void)folds_due(&p->folds, now, &next); /* write_folded says what cannot be written */
	if (next)
		ev_timer_set(p->ev, &p->fold, next > now ? next - now : 1);
}

/* ---- budgets ---- */

/* Without what was used before nothing is let through: it might all be used up. */
static void say_used(struct process *p, uint32_t id)
{
	struct buf text;
	struct err e;
	int r;

	buf_init(&text, USED_TEXT_MAX);
	r = p->used_error < 0 ? p->used_error : used_write(&p->used, &text);
	if (r < 0) {
		err_errno(&e, -r, "read what box '%s' has used of its budgets", p->config->box);
		refuse(p, id, BROKER_USED, &e);
	} else {
		answer_text(p, id, BROKER_USED, (const char *)buf_data(&text), buf_len(&text));
	}
	buf_done(&text);
}

/* ---- its life ---- */

static void on_packet(struct ev_io *io, uint32_t events)
{
	struct process *p = container(io, struct process, io);
	struct broker_head head;
	ssize_t n = recv(io->fd, p->in, BROKER_PACKET_MAX, MSG_DONTWAIT);
	char *payload = (char *)p->in + sizeof(head);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(head)) {
		ev_quit(p->ev);
		return;
	}
	memcpy(&head, p->in, sizeof(head));
	p->in[n] = 0;
	if (head.verb == BROKER_POLICY || head.verb == BROKER_GRANTS)
		say_file(p, head.id, head.verb);
	else if (head.verb == BROKER_SECRET)
		say_secret(p, head.id, payload);
	else if (head.verb == BROKER_RECORD)
		record_row(p, head.id, payload);
	else if (head.verb == BROKER_USED && head.id)
		say_used(p, head.id);
	else if (head.verb != BROKER_USED)
		ev_quit(p->ev);
	else if (p->used_error < 0)
		return; /* what could not be read is not written over */
	else if (used_add(&p->used, payload, (size_t)n - sizeof(head)) < 0)
		ev_quit(p->ev);
	else if (p->used.is_changed && !p->sync.armed)
		ev_timer_set(p->ev, &p->sync, SYNC_MS);
}

int broker_process(int fd, int end_fd, const struct door_config *config)
{
	struct process p = {.config = config,
			    .io = {.fd = fd, .on_event = on_packet},
			    .end = {.fd = end_fd, .on_event = on_end},
			    .box_fd = -1,
			    .record = {.fd = -1, .dir_fd = -1, .logs_fd = -1},
			    .sync.on_timer = on_sync,
			    .keep.on_timer = on_keep,
			    .syncer.on_exit = on_synced,
			    .fold.on_timer = on_fold,
			    .rest.on_timer = on_rest};
	struct err e = {0};
	int r = -ENOMEM;

	/* No core dumps, no tracing: as the proxy, which forked it. Of root's powers it keeps that
	 * of reading the file that a secret comes from. A command that provides one is root's own
	 * again. */
	if (caps_keep(CAP_BIT(CAP_DAC_READ_SEARCH), 0, NULL) < 0)
		return 1;
	signal(SIGPIPE, SIG_IGN);
	p.in = calloc(1, BROKER_PACKET_MAX + 1);
	if (p.in)
		r = ev_new(&p.ev);
	if (r == 0)
		r = state_open(&p.st, config->home, false, &e);
	if (r == 0) {
		p.box_fd = openat(p.st.boxes_fd, config->box,
				  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (p.box_fd < 0)
			r = err_errno(&e, errno, "open the directory of box '%s'", config->box);
	}
	if (r == 0) {
		p.used_error = used_load(&p.used, p.box_fd);
		r = audit_open(&p.record, &p.st, config->box, config->created_ms, &e);
	}
	/* The first question gets the reason; the proxy then ends. */
	if (r < 0) {
		refuse(&p, 0, BROKER_RECORD, &e);
		return 1;
	}
	p.folds.write = write_folded;
	p.folds.arg = &p;
	row_rate_init(&p.rate, ev_now(p.ev));
	if (p.record.dirty) /* what a crash has left was put right */
		ev_timer_set(p.ev, &p.sync, SYNC_MS);
	if (ev_io_add(p.ev, &p.io, EPOLLIN) == 0 && ev_io_add(p.ev, &p.end, EPOLLIN) == 0)
		(void)ev_run(p.ev);
	await_sync(&p);
	if (folds_done(&p.folds) < 0 || sync_now(&p) < 0)
		p.exit_status = 1;
	used_done(&p.used);
	while (p.commands)
		command_free(p.commands);
	kept_done(&p.kept);
	audit_close(&p.record);
	policy_free(p.policy);
	state_close(&p.st);
	fd_close(&p.box_fd);
	ev_free(p.ev);
	free(p.in);
	return p.exit_status;
}
