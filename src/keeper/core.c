/* The core and its link to init; see keeper.h. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "keeper/ctl.h"
#include "keeper/door.h"
#include "keeper/exec.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void keeper_note(struct keeper *k, const char *fmt, ...)
{
	const char *have;
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	have = buf_cstr(&k->notes);
	/* A full list says enough. */
	if (!line[0] || (have && strstr(have, line)) ||
	    buf_len(&k->notes) + strlen(line) + 2 > KEEPER_NOTES_MAX)
		return;
	buf_printf(&k->notes, "%s\n", line);
}

void keeper_safe_text(char *dst, size_t size, const char *text)
{
	struct buf b;
	const char *safe = NULL;

	buf_init(&b, 5 * size);
	if (str_escape(&b, text, strnlen(text, size)) == 0)
		safe = buf_cstr(&b);
	str_copy(dst, size, safe ? safe : "");
	buf_done(&b);
}

void keeper_error_from_box(const struct wire_error *m, struct err *ret)
{
	bool known = m->kind > ERR_NONE && m->kind < ERR_KIND_COUNT;

	ret->kind = known ? (enum err_kind)m->kind : ERR_INTERNAL;
	ret->code = m->code < 4096 ? (int)m->code : EIO;
	keeper_safe_text(ret->msg, sizeof(ret->msg), m->msg ? m->msg : "no reason was given");
}

void keeper_broken(struct keeper *k, const char *what)
{
	if (k->stale)
		return;
	k->stale = true;
	keeper_note(k, "init broke the protocol: %s", what);
	k->on_end(k, &(struct keeper_end){.cause = "init broke the protocol"});
}

/* ---- to init ---- */

void keeper_sent_init(struct keeper *k, int r)
{
	if (r == 0)
		wire_link_flush(&k->init);
	else
		k->on_end(k, &(struct keeper_end){.cause = "init unresponsive"});
}

void keeper_send_init(struct keeper *k, enum wire_type type, uint8_t stream, uint32_t id,
		      const void *p, size_t n)
{
	if (k->linked)
		keeper_sent_init(k, wire_encode(&k->init.out, type, stream, id, p, n));
}

void keeper_credit_init(struct keeper *k, uint32_t id, uint8_t stream, uint64_t bytes)
{
	struct wire_credit m = {.bytes = bytes};

	if (k->linked)
		keeper_sent_init(k, wire_credit_encode(&k->init.out, id, stream, &m));
}

/* ---- the box's own log ---- */

void keeper_event(struct keeper *k, const struct event *event)
{
	struct buf row;
	int r;

	if (k->quiet && !keeper_has_subscribers(k))
		return;
	buf_init(&row, EVENTS_LINE_MAX);
	r = k->quiet ? 0 : keeper_logs_dir(&k->logs);
	if (r >= 0)
		r = keeper_events_add(&k->events, k->quiet ? -1 : r, event, &row);
	if (r < 0)
		keeper_note(k, "the events could not be written: %s", strerror(-r));
	else if (buf_cstr(&row))
		keeper_subscriptions_row(k, buf_cstr(&row));
	buf_done(&row);
}

/* ---- from init ---- */

/* Was something said already about what stands before the line's colon? */
static bool is_noted(struct keeper *k, const char *line)
{
	const char *at = buf_cstr(&k->notes);
	size_t n = strcspn(line, ":");

	while (line[n] && at && *at) {
		if (strncmp(at, line, n + 1) == 0)
			return true;
		at = strchrnul(at, '\n');
		at += *at == '\n';
	}
	return false;
}

static void take_notes(struct keeper *k, const char *notes)
{
	while (notes && *notes) {
		const char *end = strchrnul(notes, '\n');
		char raw[200], line[200];

		snprintf(raw, sizeof(raw), "%.*s", (int)(end - notes < 199 ? end - notes : 199),
			 notes);
		keeper_safe_text(line, sizeof(line), raw);
		if (!is_noted(k, line))
			keeper_note(k, "%s", line);
		notes = *end ? end + 1 : end;
	}
}

/* Ours goes out with the first request. A second one is of a box that was restored. */
static void on_hello(struct keeper *k, const struct wire_frame *f)
{
	struct wire_hello m, ours = wire_hello_ours();
	struct err e;

	if (f->type != WIRE_HELLO || wire_hello_decode(f, &m) < 0) {
		keeper_broken(k, "no HELLO");
		return;
	}
	if (wire_hello_agree(&m, "init", "start the box with one Cove", &k->init_peer, &e) < 0) {
		keeper_broken(k, e.msg);
		return;
	}
	take_notes(k, m.notes);
	k->init_revision = m.revision;
	if (k->up)
		return;
	if (wire_hello_encode(&k->init.out, 0, 0, &ours) < 0) {
		keeper_broken(k, "no memory for HELLO");
		return;
	}
	k->up = true;
	k->on_up(k);
}

static void on_init_frame(struct wire_link *l, const struct wire_frame *f)
{
	struct keeper *k = container(l, struct keeper, init);

	if (k->stale)
		return;
	/* A newer init's; how many they are is bounded by the time it takes to send them. */
	if (!wire_type_is_known(f->type) && k->unknown_frames++ == 0)
		keeper_note(k, "init sends frames that this Cove does not know (type %u)",
			    (unsigned)f->type);
	if (!wire_type_is_known(f->type))
		return;
	if (!k->up || f->type == WIRE_HELLO)
		on_hello(k, f);
	else if (f->type == WIRE_CTL)
		keeper_ctl_frame(k, f);
	else if (f->id & (KEEPER_REQUEST_BIT | WIRE_NET_BIT))
		keeper_relay_from_init(k, f);
	else
		keeper_exec_frame(k, f);
}

static void on_init_close(struct wire_link *l, int error)
{
	struct keeper *k = container(l, struct keeper, init);

	keeper_disconnect(k);
	if (error == -EBADMSG)
		keeper_broken(k, "a broken frame");
	else
		k->on_lost(k, error);
}

static void on_init_drained(struct wire_link *l)
{
	struct keeper *k = container(l, struct keeper, init);

	for (struct keeper_client *c = k->clients; c; c = c->next)
		keeper_gate_resume_link(&c->gate);
	if (k->door)
		keeper_door_init_drained(k->door);
}

int keeper_connect(struct keeper *k, int rfd, int wfd)
{
	int r;

	k->init.on_frame = on_init_frame;
	k->init.on_close = on_init_close;
	k->init.on_drained = on_init_drained;
	r = wire_link_init(&k->init, k->ev, rfd, wfd);
	if (r < 0)
		wire_link_done(&k->init);
	k->linked = r == 0;
	return r;
}

void keeper_disconnect(struct keeper *k)
{
	if (!k->linked)
		return;
	k->linked = false;
	wire_link_done(&k->init);
}

/* ---- the whole ---- */

void keeper_init(struct keeper *k, int box_fd)
{
	buf_init(&k->notes, KEEPER_NOTES_MAX + 1);
	buf_init(&k->pinned, 16 * BOX_PATH_MAX);
	keeper_logs_init(&k->logs, box_fd);
	journal_init(&k->journal);
	keeper_events_init(&k->events);
	k->next_exec = 1;
	k->held_fd = -1;
}

int keeper_load(struct keeper *k, struct err *e)
{
	return k->quiet ? 0 : keeper_execs_load(k, e);
}

void keeper_done(struct keeper *k)
{
	keeper_disconnect(k);
	keeper_clients_free(k);
	keeper_execs_free(k);
	keeper_logs_done(&k->logs);
	journal_done(&k->journal);
	tokens_done(&k->tokens);
	keeper_events_done(&k->events);
	buf_done(&k->notes);
	buf_done(&k->pinned);
	fd_close(&k->held_fd);
}
