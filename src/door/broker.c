/*
 * The proxy's side of the broker; see broker.h. Packets that the socket does not take wait in a
 * bounded list. Beyond BROKER_QUEUE_LOW of them the proxy does not listen to its box until there is
 * room again (broker_is_busy), so a box cannot fill the list; should it be full all the same the
 * broker is taken for dead, and the proxy ends: nothing passes unrecorded.
 *
 * All packets are received into one buffer that is locked and wiped after a secret, so that a value
 * is nowhere but there and in its struct secret.
 */
#include "door/broker.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/locked.h"
#include "store/audit_row.h"

#include <errno.h>
#include <fcntl.h>
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

struct broker {
	struct ev *ev;
	struct ev_io io; /* fd owned */
	int end_fd;	 /* owned: its end says to the broker that the last rows come */
	pid_t pid;
	void (*on_gone)(void *arg), (*on_room)(void *arg);
	void *arg;
	struct broker_call *calls; /* under way; embedded in their owners */
	struct packet *first, **last;
	unsigned queued;
	uint32_t next_id;
	bool gone;
	struct err trouble;
	struct ev_defer tell;
	bool waits_for_room; /* somebody waits for on_room */
	struct ev_defer room;
	uint8_t *in;   /* owned, locked: BROKER_PACKET_MAX */
	bool unlocked; /* as it says of itself */
};

/* ---- sending ---- */

static void fail(struct broker *k)
{
	if (k->gone)
		return;
	k->gone = true;
	ev_io_remove(k->ev, &k->io);
	ev_defer(k->ev, &k->tell);
}

/* Fails every call that waits; then the owner learns of it. */
static void on_tell(struct ev_defer *d)
{
	struct broker *k = container(d, struct broker, tell);

	while (k->calls) {
		struct broker_call *c = k->calls;
		struct err e;

		k->calls = c->next;
		c->id = 0;
		c->on_answer(c, err_set(&e, ERR_INTERNAL, EPIPE, "the door's broker is gone"), &e);
	}
	if (k->on_gone)
		k->on_gone(k->arg);
}

static int flush(struct broker *k, bool wait)
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
		if (k->waits_for_room && k->queued <= BROKER_QUEUE_LOW)
			ev_defer(k->ev, &k->room);
	}
	return 0;
}

static void tell_room(struct ev_defer *d)
{
	struct broker *k = container(d, struct broker, room);

	k->waits_for_room = false;
	if (k->on_room)
		k->on_room(k->arg);
}

bool broker_is_busy(struct broker *k)
{
	bool is_busy = k->queued > BROKER_QUEUE_LOW;

	k->waits_for_room = k->waits_for_room || is_busy;
	return is_busy;
}

static void send_packet(struct broker *k, enum broker_verb verb, uint32_t id, const void *p,
			size_t n)
{
	struct broker_head head = {.id = id, .verb = (uint16_t)verb};
	struct packet *packet;

	if (k->gone) {
		ev_defer(k->ev, &k->tell);
		return;
	}
	packet = k->queued < BROKER_QUEUE_MAX ? malloc(sizeof(*packet) + sizeof(head) + n) : NULL;
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

static void start_call(struct broker *k, struct broker_call *c)
{
	ASSERT(c->id == 0 && c->on_answer);
	c->id = ++k->next_id ? k->next_id : ++k->next_id;
	c->text = NULL;
	c->len = 0;
	c->seq = 0;
	c->next = k->calls;
	k->calls = c;
}

void broker_ask(struct broker *k, struct broker_call *c, enum broker_verb verb)
{
	start_call(k, c);
	send_packet(k, verb, c->id, NULL, 0);
}

void broker_ask_secret(struct broker *k, struct broker_call *c, const char *name)
{
	start_call(k, c);
	send_packet(k, BROKER_SECRET, c->id, name, strlen(name));
}

void broker_say_used(struct broker *k, const char *text, size_t len)
{
	ASSERT(len > 0 && len <= BROKER_USED_MAX);
	send_packet(k, BROKER_USED, 0, text, len);
}

void broker_record(struct broker *k, struct broker_call *c, const struct audit_row *row)
{
	struct buf text;

	if (c)
		start_call(k, c);
	buf_init(&text, AUDIT_ROW_MAX);
	/* A row that cannot be written down must not be forgotten. */
	if (audit_row_pack(&text, row) < 0 || buf_len(&text) > BROKER_PART)
		fail(k);
	else
		send_packet(k, BROKER_RECORD, c ? c->id : 0, buf_data(&text), buf_len(&text));
	buf_done(&text);
}

void broker_cancel(struct broker *k, struct broker_call *c)
{
	if (c->id == 0)
		return;
	list_remove(&k->calls, c);
	c->id = 0;
	free(c->text);
	c->text = NULL;
}

/* ---- receiving ---- */

static void hear(struct broker *k, const struct broker_head *head, const uint8_t *p, size_t n)
{
	struct broker_call **at = &k->calls, *c;
	struct err e = {0};
	char *grown;
	int r = head->r;

	if (r < 0)
		err_set(&e, (enum err_kind)head->kind, -r, "%.*s", (int)n, (const char *)p);
	/* What is wrong may pass: a disk that is full, for one. */
	if (head->verb == BROKER_RECORD)
		k->trouble = e;
	while (*at && (*at)->id != head->id)
		at = &(*at)->next;
	c = *at;
	if (!c) {
		/* A row without a waiting call could not be written: nothing more may pass. */
		if (head->verb == BROKER_RECORD && r < 0)
			fail(k);
		return;
	}
	*at = c->next;
	c->seq = head->seq;
	if (r >= 0 && head->verb == BROKER_SECRET) {
		r = secret_init(&c->secret, p, n);
	} else if (r >= 0 && head->verb != BROKER_RECORD) {
		/* One more part of a text. */
		grown = c->len + n <= DOOR_POLICY_MAX ? realloc(c->text, c->len + n + 1) : NULL;
		r = grown ? 0 : c->len + n > DOOR_POLICY_MAX ? -EFBIG : -ENOMEM;
		if (grown) {
			c->text = grown;
			memcpy(c->text + c->len, p, n);
			c->len += n;
			c->text[c->len] = 0;
		}
	}
	if (r == 0 && head->more) {
		c->next = k->calls;
		k->calls = c;
		return;
	}
	if (r < 0 && !e.msg[0])
		err_errno(&e, -r, "hear the door's broker");
	c->id = 0;
	c->on_answer(c, r, &e);
}

static void on_packet(struct ev_io *io, uint32_t events)
{
	struct broker *k = container(io, struct broker, io);
	struct broker_head head;
	ssize_t n;

	if (events & EPOLLOUT && (flush(k, false) < 0 ||
				  ev_io_set(k->ev, io, EPOLLIN | (k->first ? EPOLLOUT : 0)) < 0)) {
		fail(k);
		return;
	}
	if (!(events & ~(uint32_t)EPOLLOUT))
		return;
	n = recv(io->fd, k->in, BROKER_PACKET_MAX, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < (ssize_t)sizeof(head)) {
		fail(k);
		return;
	}
	memcpy(&head, k->in, sizeof(head));
	k->unlocked = k->unlocked || head.unlocked;
	hear(k, &head, k->in + sizeof(head), (size_t)n - sizeof(head));
	if (head.verb == BROKER_SECRET)
		explicit_bzero(k->in, (size_t)n);
}

/* ---- its life ---- */

void broker_watch(struct broker *k, void (*on_gone)(void *arg), void (*on_room)(void *arg),
		  void *arg)
{
	k->on_gone = on_gone;
	k->on_room = on_room;
	k->arg = arg;
}

const struct err *broker_trouble(const struct broker *k)
{
	return &k->trouble;
}

struct ev *broker_ev(const struct broker *k)
{
	return k->ev;
}

bool broker_memory_is_locked(const struct broker *k)
{
	return !k->unlocked;
}

/* The broker's process. It keeps nothing of the proxy's but its end of the pair and of the pipe. */
static void become_broker(int fd, int end_fd, const struct door_config *config)
{
	enum { HIGH = 16, END_FD = DOOR_CONFIG_FD + 1 };
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH),
	    end_high = fcntl(end_fd, F_DUPFD_CLOEXEC, HIGH);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_NAME, "cove-broker");
	if (high < 0 || end_high < 0 || dup3(high, DOOR_CONFIG_FD, O_CLOEXEC) < 0 ||
	    dup3(end_high, END_FD, O_CLOEXEC) < 0 || sys_close_range(END_FD + 1, ~0u, 0) < 0)
		_exit(1);
	_exit(broker_process(DOOR_CONFIG_FD, END_FD, config));
}

int broker_start(struct broker **ret, struct ev *ev, const struct door_config *config,
		 struct err *e)
{
	struct broker *k = calloc(1, sizeof(*k));
	autoclose int theirs = -1, their_end = -1;
	int pair[2], end[2], r = -ENOMEM;

	if (!k)
		return err_errno(e, ENOMEM, "start the door's broker");
	*k = (struct broker){.ev = ev,
			     .end_fd = -1,
			     .last = &k->first,
			     .io = {.fd = -1, .on_event = on_packet},
			     .tell.on_defer = on_tell,
			     .room.on_defer = tell_room,
			     .in = locked_alloc(BROKER_PACKET_MAX)};
	if (k->in)
		r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? -errno : 0;
	if (r == 0) {
		k->io.fd = pair[0];
		theirs = pair[1];
		fd_set_send_room(pair[0], 4 * BROKER_PACKET_MAX);
		fd_set_send_room(pair[1], 4 * BROKER_PACKET_MAX);
		r = pipe2(end, O_CLOEXEC) < 0 ? -errno : 0;
	}
	if (r == 0) {
		k->end_fd = end[1];
		their_end = end[0];
		k->pid = fork();
		if (k->pid == 0)
			become_broker(theirs, their_end, config);
		r = k->pid < 0 ? -errno : ev_io_add(ev, &k->io, EPOLLIN);
	}
	if (r < 0) {
		broker_free(k);
		return err_errno(e, -r, "start the door's broker");
	}
	*ret = k;
	return 0;
}

void broker_free(struct broker *k)
{
	if (!k)
		return;
	ev_io_remove(k->ev, &k->io);
	ev_defer_cancel(k->ev, &k->tell);
	/* Rows that wait are still said; then the end of the socket is the broker's own end. It
	 * does not rest any more, or a box that caused too many would have its last ones lost. */
	fd_close(&k->end_fd);
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
