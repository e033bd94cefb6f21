/*
 * The front's side of the clerk; see clerk.h. Packets that the socket does not take wait in a
 * bounded list. Beyond CLERK_QUEUE_LOW of them the front does not listen to its box until there is
 * room again (clerk_is_busy), so a box cannot fill the list; should it be full all the same the
 * clerk is taken for dead, and the front ends: nothing passes unrecorded.
 *
 * All packets are received into one buffer that is locked and wiped after a secret, so that a value
 * is nowhere but there and in its struct secret.
 */
#include "door/clerk.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/locked.h"
#include "door/clerk_wire.h"
#include "store/audit_row.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

struct packet {
	struct packet *next;
	size_t len;
	uint8_t data[];
};

struct clerk {
	struct ev *ev;
	struct ev_io io; /* fd owned */
	pid_t pid;
	void (*on_gone)(void *arg);
	void *arg;
	struct clerk_call *calls; /* under way; embedded in their owners */
	struct packet *first, **last;
	unsigned queued;
	uint32_t next_id;
	bool gone;
	struct err trouble;
	struct ev_defer tell;
	void (*on_room)(void *arg);
	void *room_arg;
	bool told_busy; /* somebody waits for on_room */
	struct ev_defer room;
	uint8_t *in;   /* owned, locked: CLERK_PACKET_MAX */
	bool unlocked; /* as it says of itself */
};

/* ---- sending ---- */

static void fail(struct clerk *k)
{
	if (k->gone)
		return;
	k->gone = true;
	ev_io_remove(k->ev, &k->io);
	ev_defer(k->ev, &k->tell);
}

/* Who waits is told that nobody answers; then the owner. */
static void on_tell(struct ev_defer *d)
{
	struct clerk *k = container(d, struct clerk, tell);

	while (k->calls) {
		struct clerk_call *c = k->calls;
		struct err e;

		k->calls = c->next;
		c->id = 0;
		c->on_answer(c, err_set(&e, ERR_INTERNAL, EPIPE, "the door's clerk is gone"), &e);
	}
	if (k->on_gone)
		k->on_gone(k->arg);
}

static int flush(struct clerk *k, bool wait)
{
	while (k->first) {
		struct packet *p = k->first;
		ssize_t n =
			send(k->io.fd, p->data, p->len, MSG_NOSIGNAL | (wait ? 0 : MSG_DONTWAIT));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		k->first = p->next;
		if (!k->first)
			k->last = &k->first;
		k->queued--;
		free(p);
		if (k->told_busy && k->queued <= CLERK_QUEUE_LOW)
			ev_defer(k->ev, &k->room);
	}
	return 0;
}

static void on_room(struct ev_defer *d)
{
	struct clerk *k = container(d, struct clerk, room);

	k->told_busy = false;
	if (k->on_room)
		k->on_room(k->room_arg);
}

bool clerk_is_busy(struct clerk *k)
{
	bool is_busy = k->queued > CLERK_QUEUE_LOW;

	k->told_busy = k->told_busy || is_busy;
	return is_busy;
}

void clerk_on_room(struct clerk *k, void (*fn)(void *arg), void *arg)
{
	k->on_room = fn;
	k->room_arg = arg;
}

static void send_packet(struct clerk *k, enum clerk_verb verb, uint32_t id, const void *p, size_t n)
{
	struct clerk_head head = {.id = id, .verb = (uint16_t)verb};
	struct packet *packet;

	if (k->gone) {
		ev_defer(k->ev, &k->tell);
		return;
	}
	packet = k->queued < CLERK_QUEUE_MAX ? malloc(sizeof(*packet) + sizeof(head) + n) : NULL;
	if (!packet) {
		fail(k);
		return;
	}
	packet->next = NULL;
	packet->len = sizeof(head) + n;
	memcpy(packet->data, &head, sizeof(head));
	if (n > 0)
		memcpy(packet->data + sizeof(head), p, n);
	*k->last = packet;
	k->last = &packet->next;
	k->queued++;
	if (flush(k, false) < 0 ||
	    ev_io_set(k->ev, &k->io, EPOLLIN | (k->first ? EPOLLOUT : 0)) < 0)
		fail(k);
}

static void start_call(struct clerk *k, struct clerk_call *c)
{
	ASSERT(c->id == 0 && c->on_answer);
	c->id = ++k->next_id ? k->next_id : ++k->next_id;
	c->text = NULL;
	c->len = 0;
	c->seq = 0;
	c->next = k->calls;
	k->calls = c;
}

void clerk_ask_policy(struct clerk *k, struct clerk_call *c)
{
	start_call(k, c);
	send_packet(k, CLERK_POLICY, c->id, NULL, 0);
}

void clerk_ask_grants(struct clerk *k, struct clerk_call *c)
{
	start_call(k, c);
	send_packet(k, CLERK_GRANTS, c->id, NULL, 0);
}

void clerk_ask_secret(struct clerk *k, struct clerk_call *c, const char *name)
{
	start_call(k, c);
	send_packet(k, CLERK_SECRET, c->id, name, strlen(name));
}

void clerk_ask_used(struct clerk *k, struct clerk_call *c)
{
	start_call(k, c);
	send_packet(k, CLERK_USED, c->id, NULL, 0);
}

void clerk_say_used(struct clerk *k, const char *text, size_t len)
{
	ASSERT(len > 0 && len <= CLERK_USED_MAX);
	send_packet(k, CLERK_USED, 0, text, len);
}

void clerk_record(struct clerk *k, struct clerk_call *c, const struct audit_row *row)
{
	struct buf text;

	if (c)
		start_call(k, c);
	buf_init(&text, AUDIT_ROW_MAX);
	/* A row that cannot be written down must not be forgotten. */
	if (audit_row_pack(&text, row) < 0 || buf_len(&text) > CLERK_PART)
		fail(k);
	else
		send_packet(k, CLERK_RECORD, c ? c->id : 0, buf_data(&text), buf_len(&text));
	buf_done(&text);
}

void clerk_cancel(struct clerk *k, struct clerk_call *c)
{
	struct clerk_call **at = &k->calls;

	if (c->id == 0)
		return;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->id = 0;
	free(c->text);
	c->text = NULL;
}

/* ---- receiving ---- */

static struct clerk_call *take_call(struct clerk *k, uint32_t id)
{
	for (struct clerk_call **at = &k->calls; *at; at = &(*at)->next)
		if ((*at)->id == id) {
			struct clerk_call *c = *at;

			*at = c->next;
			return c;
		}
	return NULL;
}

/* One more part of a text. */
static int add_part(struct clerk_call *c, const uint8_t *p, size_t n)
{
	char *grown;

	if (c->len + n > DOOR_POLICY_MAX)
		return -EFBIG;
	grown = realloc(c->text, c->len + n + 1);
	if (!grown)
		return -ENOMEM;
	if (n > 0)
		memcpy(grown + c->len, p, n);
	c->text = grown;
	c->len += n;
	c->text[c->len] = 0;
	return 0;
}

/* What is wrong may pass: a disk that is full, for one. */
static void note_record(struct clerk *k, const struct clerk_head *head, const uint8_t *p, size_t n)
{
	if (head->verb != CLERK_RECORD)
		return;
	if (head->r < 0)
		err_set(&k->trouble, (enum err_kind)head->kind, -head->r, "%.*s", (int)n,
			(const char *)p);
	else
		k->trouble = (struct err){0};
}

static void hear(struct clerk *k, const struct clerk_head *head, const uint8_t *p, size_t n)
{
	struct clerk_call *c = head->id ? take_call(k, head->id) : NULL;
	struct err e = {0};
	int r = head->r;

	note_record(k, head, p, n);
	if (!c) {
		/* A row that nobody waits for could not be written: nothing more may pass. */
		if (head->verb == CLERK_RECORD && r < 0)
			fail(k);
		return;
	}
	c->seq = head->seq;
	if (r < 0)
		r = err_set(&e, (enum err_kind)head->kind, -r, "%.*s", (int)n, (const char *)p);
	else if (head->verb == CLERK_SECRET)
		r = secret_init(&c->secret, p, n);
	else if (head->verb != CLERK_RECORD)
		r = add_part(c, p, n);
	if (r == 0 && head->more) {
		c->next = k->calls;
		k->calls = c;
		return;
	}
	if (r < 0 && !e.msg[0])
		err_errno(&e, -r, "hear the door's clerk");
	c->id = 0;
	c->on_answer(c, r, &e);
}

static void on_packet(struct ev_io *io, uint32_t events)
{
	struct clerk *k = container(io, struct clerk, io);
	struct clerk_head head;
	ssize_t n;

	if (events & EPOLLOUT && (flush(k, false) < 0 ||
				  ev_io_set(k->ev, io, EPOLLIN | (k->first ? EPOLLOUT : 0)) < 0)) {
		fail(k);
		return;
	}
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	n = recv(io->fd, k->in, CLERK_PACKET_MAX, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(head)) {
		fail(k);
		return;
	}
	memcpy(&head, k->in, sizeof(head));
	k->unlocked = k->unlocked || head.unlocked;
	hear(k, &head, k->in + sizeof(head), (size_t)n - sizeof(head));
	if (head.verb == CLERK_SECRET)
		explicit_bzero(k->in, (size_t)n);
}

/* ---- its life ---- */

void clerk_on_gone(struct clerk *k, void (*on_gone)(void *arg), void *arg)
{
	k->on_gone = on_gone;
	k->arg = arg;
}

const struct err *clerk_trouble(const struct clerk *k)
{
	return &k->trouble;
}

struct ev *clerk_ev(const struct clerk *k)
{
	return k->ev;
}

bool clerk_memory_is_locked(const struct clerk *k)
{
	return !k->unlocked;
}

/* The clerk's process. It keeps nothing of the front's but its end of the pair. */
static void become_clerk(int fd, const struct door_config *config)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "cove-clerk");
	if (fd != DOOR_CONFIG_FD && dup2(fd, DOOR_CONFIG_FD) < 0)
		_exit(1);
	if (sys_close_range(DOOR_CONFIG_FD + 1, ~0u, 0) < 0)
		_exit(1);
	_exit(clerk_process(DOOR_CONFIG_FD, config));
}

int clerk_start(struct clerk **ret, struct ev *ev, const struct door_config *config, struct err *e)
{
	struct clerk *k = calloc(1, sizeof(*k));
	int pair[2];

	if (!k)
		return err_errno(e, ENOMEM, "start the door's clerk");
	k->ev = ev;
	k->last = &k->first;
	k->io = (struct ev_io){.fd = -1, .on_event = on_packet};
	k->tell.on_defer = on_tell;
	k->room.on_defer = on_room;
	k->in = locked_alloc(CLERK_PACKET_MAX);
	if (!k->in || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		err_errno(e, k->in ? errno : ENOMEM, "start the door's clerk");
		clerk_free(k);
		return -e->code;
	}
	fd_set_send_room(pair[0], 4 * CLERK_PACKET_MAX);
	fd_set_send_room(pair[1], 4 * CLERK_PACKET_MAX);
	k->pid = fork();
	if (k->pid == 0)
		become_clerk(pair[1], config);
	close(pair[1]);
	k->io.fd = pair[0];
	if (k->pid < 0 || ev_io_add(ev, &k->io, EPOLLIN) < 0) {
		err_errno(e, errno, "start the door's clerk");
		clerk_free(k);
		return -e->code;
	}
	*ret = k;
	return 0;
}

void clerk_free(struct clerk *k)
{
	if (!k)
		return;
	ev_io_remove(k->ev, &k->io);
	ev_defer_cancel(k->ev, &k->tell);
	/* Rows that wait are still said; then the end of the socket is the clerk's own end. */
	if (!k->gone && k->io.fd >= 0)
		(void)flush(k, true);
	ev_defer_cancel(k->ev, &k->room);
	fd_close(&k->io.fd);
	if (k->pid > 0)
		while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
			;
	while (k->first) {
		struct packet *p = k->first;

		k->first = p->next;
		free(p);
	}
	locked_free(k->in);
	free(k);
}
