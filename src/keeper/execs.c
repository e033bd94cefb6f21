/* The table of commands; see exec.h. */
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "keeper/exec.h"
#include "wire/denials.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

/* What runs in a box, and what ended there and still holds a stream, is never forgotten here. */
_Static_assert(KEEPER_EXECS_MAX >= INIT_EXECS_MAX + 2 * INIT_LATE_MAX,
	       "a place for each of init's");

/* The first place whose id is not less. */
static size_t place_of(const struct keeper *k, uint64_t id)
{
	size_t low = 0, high = k->exec_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (k->execs[mid]->rec.exec_id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct keeper_exec *keeper_exec_find(struct keeper *k, uint64_t id)
{
	size_t at = place_of(k, id);

	return at < k->exec_count && k->execs[at]->rec.exec_id == id ? k->execs[at] : NULL;
}

struct keeper_exec *keeper_exec_add(struct keeper *k, const struct exec_record *rec)
{
	struct keeper_exec *x;

	if (k->exec_count == k->exec_cap) {
		size_t cap = k->exec_cap ? k->exec_cap * 2 : 8;
		struct keeper_exec **grown = realloc(k->execs, cap * sizeof(*grown));

		if (!grown)
			return NULL;
		k->execs = grown;
		k->exec_cap = cap;
	}
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->k = k;
	x->rec = *rec;
	buf_init(&x->denied, DENIALS_BYTES_MAX);
	keeper_outputs_init(x->out);
	k->execs[k->exec_count++] = x;
	return x;
}

static void run_free(struct keeper_exec *x)
{
	if (!x->run)
		return;
	x->k->running_execs -= x->run->state != RUN_EXITED;
	ev_timer_stop(x->k->ev, &x->run->backstop);
	keeper_input_done(&x->run->input);
	buf_done(&x->run->unsynced);
	free(x->run);
	x->run = NULL;
	x->k->open_execs--;
}

/* The files stay. */
static void table_remove(struct keeper_exec *x)
{
	struct keeper *k = x->k;
	size_t at = place_of(k, x->rec.exec_id);

	memmove(k->execs + at, k->execs + at + 1, (k->exec_count - at - 1) * sizeof(*k->execs));
	k->exec_count--;
	run_free(x);
	keeper_outputs_close(&k->logs, x->out);
	free(x->cwd);
	buf_done(&x->denied);
	free(x);
}

void keeper_execs_free(struct keeper *k)
{
	keeper_sync_done(k);
	while (k->exec_count > 0)
		table_remove(k->execs[k->exec_count - 1]);
	free(k->execs);
	k->execs = NULL;
	k->exec_cap = 0;
}

/* ---- journal and events ---- */

int keeper_exec_journal(struct keeper_exec *x, unsigned lines)
{
	struct keeper *k = x->k;
	int r;

	if (k->quiet)
		return 0;
	r = keeper_logs_dir(&k->logs);
	if (r >= 0)
		r = journal_add(&k->journal, r, lines, &x->rec);
	if (r >= 0 && journal_is_large(&k->journal))
		r = keeper_journal_rewrite(k);
	if (r < 0)
		keeper_note(k, "the list of commands could not be written: %s", strerror(-r));
	return r < 0 ? r : 0;
}

/* Before init hears of it; with a token it waits for a sync. After a failure the token is the
 * caller's to free. */
static int journal_begun(struct keeper_exec *x, struct err *e)
{
	struct keeper *k = x->k;
	bool token = x->rec.token[0];
	/* First, so that a list that is written anew with this one counts as one with tokens. */
	int r = token ? tokens_add(&k->tokens, token_key(x->rec.token)) : 0;

	if (r == 0)
		r = keeper_exec_journal(x, JOURNAL_START | (token ? JOURNAL_TOKEN : 0u));
	if (!token)
		return 0;
	if (r == 0 && !k->quiet && k->journal.fd >= 0)
		x->run->sync = SYNC_WAITS;
	return r < 0 ? err_errno(e, -r, "remember the token of a command") : 0;
}

/* Nothing ran: whoever asks again may start it. */
static void free_token(struct keeper_exec *x)
{
	if (!x->rec.token[0])
		return;
	tokens_remove(&x->k->tokens, token_key(x->rec.token));
	x->rec.token[0] = 0;
	x->rec.arguments = 0;
	keeper_exec_journal(x, JOURNAL_TOKEN);
}

static void event(struct keeper_exec *x, enum event_kind kind)
{
	struct keeper *k = x->k;
	const struct exec_record *r = &x->rec;
	struct event ev = {.kind = kind, .at_ms = clock_wall_ms(), .box = k->name, .exec = r};

	if (!k->quiet && kind == EVENT_RESULT && r->shell[0] && r->cwd)
		ev.cwd_changed = keeper_events_shell_moved(&k->events, r->shell, r->cwd);
	keeper_event(k, &ev);
}

/* ---- making room ---- */

static struct keeper_exec *oldest_closed(struct keeper *k, bool with_log)
{
	for (size_t i = 0; i < k->exec_count; i++) {
		struct keeper_exec *x = k->execs[i];

		if (!x->run && !x->followers && (!with_log || x->out[0].kept + x->out[1].kept > 0))
			return x;
	}
	return NULL;
}

static void forget(struct keeper_exec *x)
{
	struct keeper *k = x->k;

	keeper_outputs_remove(&k->logs, x->rec.exec_id, x->out);
	keeper_exec_journal(x, JOURNAL_DROP);
	table_remove(x);
}

/* ---- a client asks ---- */

static int check_ask(struct keeper *k, const struct wire_exec *m, struct err *e)
{
	if (m->argv.count == 0 && !m->line)
		return err_set(e, ERR_INVALID, EINVAL, "there is no command to run");
	if (m->shell && !m->line)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a shell takes a line, not a list of arguments");
	if (m->shell && !str_is_shell_name(m->shell)) /* it is a word in the journal */
		return err_set(e, ERR_INVALID, EINVAL, SHELL_NAME_RULE, SHELL_NAME_MAX);
	if (k->running_execs >= INIT_EXECS_MAX)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "%u commands are running in box '%s', the most it can have: wait "
			       "for some, or end some (cove ps, cove kill)",
			       k->running_execs, k->name);
	while (k->exec_count >= KEEPER_EXECS_MAX) {
		struct keeper_exec *old = oldest_closed(k, false);

		if (!old)
			return err_set(e, ERR_LIMIT, EAGAIN, "%zu commands of box '%s' are in use",
				       k->exec_count, k->name);
		forget(old);
	}
	if (k->next_exec >= INT32_MAX)
		return err_set(e, ERR_LIMIT, EOVERFLOW, "box '%s' has run out of command numbers",
			       k->name);
	return 0;
}

static void on_backstop(struct ev_timer *t)
{
	struct keeper_run *run = container(t, struct keeper_run, backstop);
	struct keeper *k = run->exec->k;

	keeper_note(k, "command %u did not end after its timeout", run->exec->rec.exec_id);
	k->on_end(k, &(struct keeper_end){.cause = "init unresponsive"});
}

static struct keeper_exec *exec_new(struct keeper *k, const struct wire_exec *m)
{
	struct exec_record rec = {.exec_id = k->next_exec,
				  .background = m->background != 0,
				  .started_ms = clock_wall_ms()};
	struct keeper_run *run = calloc(1, sizeof(*run));
	struct keeper_exec *x;

	keeper_command_text(m, rec.command, sizeof(rec.command));
	if (m->shell)
		str_copy(rec.shell, sizeof(rec.shell), m->shell);
	if (k->io_unknown)
		rec.io_read_bytes = rec.io_write_bytes = WIRE_UNKNOWN;
	x = run ? keeper_exec_add(k, &rec) : NULL;
	if (!x) {
		free(run);
		return NULL;
	}
	k->next_exec++;
	k->open_execs++;
	k->running_execs++;
	x->run = run;
	run->exec = x;
	buf_init(&run->unsynced, WIRE_OUT_MAX);
	run->backstop.on_timer = on_backstop;
	run->given_ms = run->timeout_ms = m->timeout_ms;
	if (m->timeout_ms > 0 && m->timeout_ms < UINT64_MAX / 4)
		run->timeout_ms += m->grace_ms < UINT64_MAX / 4 ? m->grace_ms : UINT64_MAX / 4;
	keeper_input_init(&run->input, m->has_stdin != 0);
	for (unsigned s = 0; s < OUTPUT_COUNT; s++)
		run->granted[s] = WIRE_WINDOW;
	/* A terminal has one stream only; a line has its files for both, whatever it uses. */
	x->out[OUTPUT_ERR].eof = m->pty || (m->merge && !m->shell);
	return x;
}

static struct buf *queue_of(struct keeper_exec *x)
{
	return x->run->sync == SYNC_NONE ? &x->k->init.out : &x->run->unsynced;
}

void keeper_exec_send(struct keeper_exec *x, enum wire_type type, uint8_t stream, const void *p,
		      size_t n)
{
	if (x->k->linked)
		keeper_sent_init(x->k,
				 wire_encode(queue_of(x), type, stream, x->rec.exec_id, p, n));
}

void keeper_exec_ask(struct keeper_client *c, uint32_t id, const struct wire_exec *m)
{
	struct wire_exec asked = *m;
	struct keeper_follow *f = NULL;
	struct err e;
	struct keeper_exec *x;

	if (keeper_token_check(c->k, m, &x, &e) < 0 || (!x && check_ask(c->k, m, &e) < 0)) {
		keeper_client_fail(c, id, &e);
		return;
	}
	if (x) {
		keeper_exec_repeat(c, id, x, m);
		return;
	}
	if (asked.timeout_ms == 0)
		asked.timeout_ms = c->k->timeout_ms;
	else if (asked.timeout_ms == WIRE_NO_TIMEOUT)
		asked.timeout_ms = 0;
	x = exec_new(c->k, &asked);
	if (x)
		f = keeper_follow_new(c, id, x, m->inline_max);
	if (!f) {
		if (x)
			table_remove(x);
		keeper_client_fail_with(c, id, ERR_FULL, "no memory");
		return;
	}
	if (m->token) {
		str_copy(x->rec.token, sizeof(x->rec.token), m->token);
		x->rec.arguments = token_arguments(m);
	}
	if (journal_begun(x, &e) < 0) {
		keeper_follow_free(f);
		free_token(x);
		forget(x);
		keeper_client_fail(c, id, &e);
		return;
	}
	f->starter = f->stays = true;
	f->mute = m->background != 0;
	f->paces_init = !f->mute;
	x->run->input.feeder = f;
	if (c->k->on_exec)
		c->k->on_exec(c->k);
	/* init needs none of what is between the client and us. */
	asked.background = asked.inline_max = 0;
	asked.token = NULL;
	keeper_sent_init(c->k, wire_exec_encode(queue_of(x), x->rec.exec_id, 0, &asked));
	keeper_exec_wait(x, &c->gate);
	keeper_sync_begin(c->k);
}

int keeper_exec_run_own(struct keeper *k, const struct wire_exec *m, uint32_t *ret_id,
			struct err *e)
{
	struct wire_exec asked = *m;
	struct keeper_exec *x;
	int r = check_ask(k, m, e);

	if (r < 0)
		return r;
	x = exec_new(k, m);
	if (!x)
		return err_errno(e, ENOMEM, "run a command of the box's own");
	(void)keeper_exec_journal(x, JOURNAL_START); /* which notes what fails */
	if (k->on_exec)
		k->on_exec(k);
	asked.background = 0;
	keeper_sent_init(k, wire_exec_encode(queue_of(x), x->rec.exec_id, 0, &asked));
	*ret_id = x->rec.exec_id;
	return 0;
}

int keeper_exec_signal(struct keeper *k, uint32_t exec_id, const struct wire_signal *m,
		       struct err *e)
{
	struct keeper_exec *x = keeper_exec_find(k, exec_id);
	struct wire_signal passed = *m;

	if (!x)
		return err_set(e, ERR_NOT_FOUND, ESRCH, "box '%s' has no command %u", k->name,
			       exec_id);
	if (!x->run)
		return err_set(e, ERR_CONFLICT, ESRCH, "command %u has ended", exec_id);
	if (m->signal > 64)
		return err_set(e, ERR_INVALID, EINVAL, "there is no signal %llu",
			       (unsigned long long)m->signal);
	passed.exec_id = 0;
	if (k->linked)
		keeper_sent_init(k, wire_signal_encode(queue_of(x), exec_id, 0, &passed));
	return 0;
}

void keeper_execs_pause(struct keeper *k, bool on)
{
	uint64_t now = ev_now(k->ev);

	for (size_t i = 0; i < k->exec_count; i++) {
		struct keeper_run *run = k->execs[i]->run;

		if (!run)
			continue;
		if (on && run->backstop.armed) {
			run->backstop_left_ms =
				run->backstop.at_ms > now ? run->backstop.at_ms - now : 1;
			ev_timer_stop(k->ev, &run->backstop);
		} else if (!on && run->backstop_left_ms > 0) {
			ev_timer_set(k->ev, &run->backstop, run->backstop_left_ms);
			run->backstop_left_ms = 0;
		}
	}
}

void keeper_execs_tell_end(struct keeper *k, int sig)
{
	struct wire_signal m = {.signal = (uint64_t)sig};

	for (size_t i = 0; i < k->exec_count; i++) {
		struct keeper_run *run = k->execs[i]->run;

		if (run && keeper_exec_signal(k, k->execs[i]->rec.exec_id, &m, NULL) == 0)
			run->told_to_end = true;
	}
}

/* ---- init says ---- */

/* With clients that hold, no more than the slowest of them allows; never more than a window. A
 * frame is worth sending for half a window, or when init has nothing left. */
void keeper_exec_grant(struct keeper_exec *x)
{
	struct keeper_run *run = x->run;

	for (unsigned s = 0; run && s < OUTPUT_COUNT; s++) {
		uint64_t bytes = x->out[s].bytes, upto = bytes + WIRE_WINDOW;

		for (const struct keeper_follow *f = x->followers; f; f = f->next_of_exec) {
			uint64_t allowed = keeper_follow_allows(f, s);

			if (allowed < upto)
				upto = allowed;
		}
		if (x->out[s].eof || upto <= run->granted[s])
			continue;
		if (upto - run->granted[s] < WIRE_WINDOW / 2 && run->granted[s] > bytes)
			continue;
		keeper_credit_init(x->k, x->rec.exec_id, (uint8_t)(s + 1), upto - run->granted[s]);
		run->granted[s] = upto;
	}
}

/* Its time runs from here on, and the client that asked for it gets its id. In the background that
 * completes the answer, unless stdin is still to come. */
static void tell_starter(struct keeper_exec *x)
{
	const struct wire_started started = {.exec_id = x->rec.exec_id, .pid = x->rec.pid};
	const struct wire_queued queued = {.exec_id = x->rec.exec_id};
	struct keeper_run *run = x->run;
	struct keeper_follow *next;

	if (run->timeout_ms > 0 && run->timeout_ms < UINT64_MAX / 2 && !run->backstop.armed &&
	    run->backstop_left_ms == 0) {
		/* Time does not pass for a box that is frozen. */
		if (keeper_is_frozen(x->k))
			run->backstop_left_ms = run->timeout_ms + KEEPER_BACKSTOP_MS;
		else
			ev_timer_set(x->k->ev, &run->backstop,
				     run->timeout_ms + KEEPER_BACKSTOP_MS);
	}
	for (struct keeper_follow *w = x->followers; w; w = next) {
		struct buf *out = &w->client->link.out;

		next = w->next_of_exec;
		if (!w->starter)
			continue;
		if (!w->client->closing)
			keeper_client_sent(w->client,
					   run->state == RUN_QUEUED
						   ? wire_queued_encode(out, w->id, 0, &queued)
						   : wire_started_encode(out, w->id, 0, &started));
		if (w->mute && (!run->input.open || run->input.end_waiting))
			keeper_follow_free(w);
	}
}

/* From here on its time counts. */
static void begin(struct keeper_exec *x)
{
	x->rec.started_ms = clock_wall_ms();
	x->run->began_ms = ev_now(x->k->ev);
}

uint64_t keeper_exec_duration(const struct keeper_exec *x)
{
	return x->run && x->run->began_ms ? ev_now(x->k->ev) - x->run->began_ms : 0;
}

static void on_queued(struct keeper_exec *x, const struct wire_frame *f)
{
	if (x->run->state != RUN_ASKED || !x->rec.shell[0]) {
		keeper_broken(x->k, "QUEUED out of turn");
		return;
	}
	x->run->state = RUN_QUEUED;
	x->rec.state = EXEC_QUEUED;
	begin(x);
	tell_starter(x);
}

static void on_started(struct keeper_exec *x, const struct wire_frame *f)
{
	struct wire_started m;

	if (x->run->state >= RUN_STARTED || wire_started_decode(f, &m) < 0) {
		keeper_broken(x->k, "STARTED out of turn");
		return;
	}
	x->run->state = RUN_STARTED;
	x->rec.state = EXEC_RUNNING;
	x->rec.pid = m.pid;
	begin(x);
	event(x, EVENT_COMMAND);
	tell_starter(x);
}

static void on_data(struct keeper_exec *x, const struct wire_frame *f)
{
	struct keeper *k = x->k;
	unsigned s = f->stream - 1u;
	struct keeper_follow *next;
	struct keeper_exec *old;
	uint64_t at;

	if (f->stream == WIRE_STDIN || x->run->state < RUN_STARTED || x->out[s].eof ||
	    f->len > x->run->granted[s] - x->out[s].bytes) {
		keeper_broken(k, "DATA that it may not send");
		return;
	}
	at = x->out[s].bytes;
	if (k->quiet && keeper_follow_gets(x->followers, s, at, f->len)) {
		x->out[s].bytes += f->len;
		x->out[s].cut = true;
	} else {
		/* Log space for these bytes, at the cost of the oldest commands. */
		while (!x->out[s].cut && k->logs.bytes + f->len > k->logs.bytes_max &&
		       (old = oldest_closed(k, true)))
			forget(old);
		keeper_output_append(&k->logs, x->rec.exec_id, x->out, s, f->payload, f->len);
	}
	for (struct keeper_follow *w = x->followers; w; w = next) {
		next = w->next_of_exec;
		keeper_follow_live(w, s, at, f->payload, f->len);
		keeper_follow_serve(w);
	}
	keeper_exec_grant(x);
}

/* Into its record. True if there is more than the record had. */
static bool count_output(struct keeper_exec *x)
{
	bool more = false;

	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		more = more || x->rec.bytes[s] != x->out[s].bytes;
		x->rec.bytes[s] = x->out[s].bytes;
		x->rec.truncated = x->rec.truncated || (x->out[s].cut && !x->k->quiet);
	}
	return more;
}

/* Exited, and both streams have ended: what is left is the record. */
static void close_if_over(struct keeper_exec *x)
{
	if (!x->run || x->run->state != RUN_EXITED || !x->out[0].eof || !x->out[1].eof)
		return;
	if (count_output(x))
		keeper_exec_journal(x, JOURNAL_LATE);
	run_free(x);
	if (!x->followers)
		keeper_outputs_close(&x->k->logs, x->out);
}

static void on_eof(struct keeper_exec *x, const struct wire_frame *f)
{
	if (f->stream == WIRE_STDIN || x->run->state < RUN_STARTED) {
		keeper_broken(x->k, "EOF out of turn");
		return;
	}
	x->out[f->stream - 1u].eof = true;
	close_if_over(x);
}

/* The end of a command whose record is filled in. */
static void finish(struct keeper_exec *x)
{
	struct keeper *k = x->k;
	struct keeper_follow *next;

	x->rec.limit_value = keeper_exec_limit(x);
	x->run->state = RUN_EXITED;
	k->running_execs--;
	ev_timer_stop(x->k->ev, &x->run->backstop);
	x->run->backstop_left_ms = 0;
	count_output(x);
	keeper_exec_journal(x, JOURNAL_BEGIN | JOURNAL_END);
	if (x->rec.timed_out)
		event(x, EVENT_TIMEOUT);
	event(x, EVENT_RESULT);
	keeper_input_done(&x->run->input);
	for (struct keeper_follow *f = x->followers; f; f = next) {
		next = f->next_of_exec;
		keeper_follow_ended(f);
	}
	keeper_exec_grant(x);
	close_if_over(x);
	k->active_ms = ev_now(k->ev);
	if (k->on_idle && k->running_execs == 0)
		k->on_idle(k);
}

/* What init says of the end, over what we know; what we know better stays ours. */
static void on_exec_exit(struct keeper_exec *x, const struct wire_frame *f)
{
	struct exec_record *r = &x->rec, m = *r;
	uint64_t duration_ms = keeper_exec_duration(x);

	if (x->run->state == RUN_ASKED || x->run->state == RUN_EXITED ||
	    wire_exit_merge(f, &m) < 0 || m.exit_code > 255 || m.signal > 64 ||
	    m.shell_state > SHELL_RESTARTED) {
		keeper_broken(x->k, "EXIT out of turn");
		return;
	}
	m.exec_id = r->exec_id;
	m.state = EXEC_DONE;
	m.truncated = r->truncated;
	m.denied = r->denied;
	m.denied_more = r->denied_more;
	if (m.duration_ms > duration_ms) /* less: a line may have waited for its shell */
		m.duration_ms = duration_ms;
	if (x->k->io_unknown)
		m.io_read_bytes = m.io_write_bytes = WIRE_UNKNOWN;
	if (x->k->ran_out && (m.signal || m.exit_code) && x->k->ran_out(x->k)) {
		m.oom_killed = true;
		if (!m.timed_out)
			str_copy(m.cause, sizeof(m.cause), "oom");
	}
	/* Where a quota bounds the disk a box cannot see that it is full. */
	if (x->k->disk_full && m.has_exit && m.exit_code && strcmp(m.cause, "exit") == 0 &&
	    x->k->disk_full(x->k))
		str_copy(m.cause, sizeof(m.cause), "disk");
	str_copy(m.cause, sizeof(m.cause), keeper_exec_cause(x, &m));
	x->cwd = m.cwd && strlen(m.cwd) < BOX_PATH_MAX + 16 ? strdup(m.cwd) : NULL;
	m.cwd = x->cwd;
	if (x->run->state == RUN_QUEUED) { /* nothing of it ran */
		x->out[OUTPUT_OUT].eof = x->out[OUTPUT_ERR].eof = true;
		event(x, EVENT_COMMAND);
	}
	*r = m;
	x->k->oom_execs += r->oom_killed;
	x->k->pids_execs += strcmp(r->cause, "pids") == 0;
	if (x->k->on_used)
		x->k->on_used(x->k, r);
	finish(x);
}

/* There will be no EXIT: clients that wait for one get an ERROR that says why. */
static void fail_followers(struct keeper_exec *x, const struct err *e)
{
	while (x->followers) {
		keeper_client_fail(x->followers->client, x->followers->id, e);
		keeper_follow_free(x->followers);
	}
}

void keeper_exec_synced(struct keeper_exec *x, int r)
{
	struct keeper_run *run = x->run;
	struct err e;

	if (r < 0) {
		err_errno(&e, -r, "remember the token of a command");
		fail_followers(x, &e);
		free_token(x);
		forget(x);
		return;
	}
	run->sync = SYNC_NONE;
	if (x->k->linked)
		keeper_sent_init(x->k, buf_append(&x->k->init.out, buf_data(&run->unsynced),
						  buf_len(&run->unsynced)));
	buf_done(&run->unsynced);
}

/* It has an id, so it has a beginning and an end in the journal, whatever became of it. */
static void end_without_exit(struct keeper_exec *x, enum exec_state state, const char *cause)
{
	if (x->run->state == RUN_ASKED)
		begin(x);
	if (x->run->state < RUN_STARTED)
		event(x, EVENT_COMMAND);
	x->out[OUTPUT_OUT].eof = x->out[OUTPUT_ERR].eof = true;
	x->rec.state = state;
	x->rec.duration_ms = keeper_exec_duration(x);
	str_copy(x->rec.cause, sizeof(x->rec.cause), cause);
	finish(x);
}

static void on_error(struct keeper_exec *x, const struct wire_frame *f)
{
	struct wire_error m;
	struct err e;

	if (x->run->state == RUN_EXITED || wire_error_decode(f, &m) < 0) {
		keeper_broken(x->k, "ERROR out of turn");
		return;
	}
	keeper_error_from_box(&m, &e);
	fail_followers(x, &e);
	if (x->run->state < RUN_STARTED) {
		free_token(x);
		x->rec.has_exit = true;
		x->rec.exit_code = err_exec_exit(e.kind, e.code);
	}
	/* One that began and could not go on is a line whose shell could not be made again. */
	end_without_exit(x, EXEC_DONE, x->run->state < RUN_STARTED ? "failed to start" : "failed");
}

static void on_credit(struct keeper_exec *x, const struct wire_frame *f)
{
	struct wire_credit m;

	if (f->stream != WIRE_STDIN || wire_credit_decode(f, &m) < 0)
		keeper_broken(x->k, "a malformed CREDIT");
	else
		keeper_input_credit(x, m.bytes);
}

void keeper_exec_frame(struct keeper *k, const struct wire_frame *f)
{
	static void (*const handlers[WIRE_TYPE_COUNT])(struct keeper_exec * x,
						       const struct wire_frame *f) = {
		[WIRE_STARTED] = on_started, [WIRE_DATA] = on_data,   [WIRE_EOF] = on_eof,
		[WIRE_EXIT] = on_exec_exit,  [WIRE_ERROR] = on_error, [WIRE_CREDIT] = on_credit,
		[WIRE_QUEUED] = on_queued,
	};
	struct keeper_exec *x = keeper_exec_find(k, f->id);

	if (!wire_type_is_known(f->type) || !handlers[f->type])
		keeper_broken(k, "a frame that no command has");
	else if (!x || !x->run || x->run->sync != SYNC_NONE)
		keeper_broken(k, "a frame of an unknown command");
	else
		handlers[f->type](x, f);
}

/* ---- the end of the box ---- */

static void interrupt(struct keeper_exec *x)
{
	struct err e;

	if (x->run->state == RUN_EXITED) {
		x->out[OUTPUT_OUT].eof = x->out[OUTPUT_ERR].eof = true;
		close_if_over(x);
		return;
	}
	if (x->run->state < RUN_STARTED) {
		err_set(&e, ERR_INTERRUPTED, ECANCELED,
			"box '%s' ended before it said whether the command began", x->k->name);
		fail_followers(x, &e);
	}
	/* When a box's time is over its processes are killed: how it ended is known then. */
	if (x->k->end_cause && x->run->state == RUN_STARTED) {
		x->rec.signal = SIGKILL;
		x->rec.oom_killed = strcmp(x->k->end_cause, "oom") == 0;
		end_without_exit(x, EXEC_DONE, x->k->end_cause);
		return;
	}
	end_without_exit(x, EXEC_INTERRUPTED, x->k->end_cause ? x->k->end_cause : "interrupted");
}

void keeper_execs_interrupt(struct keeper *k)
{
	for (size_t i = k->exec_count; i-- > 0;)
		if (k->execs[i]->run)
			interrupt(k->execs[i]);
	keeper_sync_done(k);
}
