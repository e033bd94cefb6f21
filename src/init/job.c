/* The life of a job; see job.h. */
#include "init/job.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "init/pty.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

enum {
	LAZY_MS = 2,
	/* What the dead held comes back a little after them, and nothing says when. */
	MEMORY_ROUNDS = 125,
	MEMORY_MS = 2,
};

#define TIMEOUT_MS_MAX (1ull << 40)

/* What may follow a state. */
static const unsigned next_states[] = {
	[JOB_ASKED] = 1u << JOB_QUEUED | 1u << JOB_STARTING | 1u << JOB_RUNNING,
	[JOB_QUEUED] = 1u << JOB_STARTING | 1u << JOB_RUNNING | 1u << JOB_ENDED,
	[JOB_STARTING] = 1u << JOB_RUNNING | 1u << JOB_STOPPING | 1u << JOB_ENDED,
	[JOB_RUNNING] = 1u << JOB_STARTING | 1u << JOB_STOPPING | 1u << JOB_ENDED,
	[JOB_STOPPING] = 1u << JOB_RUNNING | 1u << JOB_ENDED,
	[JOB_ENDED] = 1u << JOB_LATE,
	[JOB_LATE] = 0,
};

static void set_state(struct init_job *j, enum job_state state)
{
	ASSERT(next_states[j->state] & 1u << state);
	if (j->state <= JOB_QUEUED)
		j->started_ms = ev_now(j->in->ev);
	j->state = state;
}

/* --- the table --- */

static struct init_job **bucket_of(struct init_job_table *t, uint32_t id)
{
	return &t->buckets[id % JOB_BUCKETS];
}

struct init_job *init_job_find(const struct init *in, uint32_t id)
{
	struct init_job *j = *bucket_of(in->jobs, id);

	while (j && j->id != id)
		j = j->bucket_next;
	return j;
}

unsigned init_job_count(const struct init *in, int kind)
{
	return in->jobs->count[kind] - in->jobs->late[kind];
}

static void job_free(struct init_job *j)
{
	struct init_job_table *t = j->in->jobs;
	struct init_job **at = bucket_of(t, j->id);

	while (*at != j)
		at = &(*at)->bucket_next;
	*at = j->bucket_next;
	*(j->older ? &j->older->newer : &t->oldest) = j->newer;
	*(j->newer ? &j->newer->older : &t->newest) = j->older;
	t->count[j->kind->number]--;
	t->late[j->kind->number] -= j->late;
	ev_timer_stop(j->in->ev, &j->timer);
	ev_timer_stop(j->in->ev, &j->flush);
	in_stream_done(&j->input);
	free(j->cwd);
	j->kind->free(j);
}

/* A stream that was never started is ended, too. */
static bool is_silent(const struct init_job *j)
{
	for (int i = 0; i < 2; i++)
		if (j->out[i] && j->out[i]->ev && !j->out[i]->ended)
			return false;
	return true;
}

/* EXIT was sent: nothing is left of it, or streams that a child holds. */
static void free_if_over(struct init_job *j)
{
	struct init_job_table *t = j->in->jobs;
	int kind = j->kind->number;

	if (j->state != JOB_LATE || j->tidying || j->busy)
		return;
	if (is_silent(j)) {
		job_free(j);
		return;
	}
	if (j->late)
		return;
	j->late = true;
	if (++t->late[kind] <= j->in->late_max)
		return;
	for (j = t->oldest; !j->late || j->kind->number != kind; j = j->newer)
		continue;
	for (int i = 0; i < 2; i++)
		if (j->out[i])
			out_stream_end(j->out[i]);
	wire_link_flush(&j->in->link);
	job_free(j);
}

void init_job_release(struct init_job *j)
{
	j->busy = false;
	free_if_over(j);
}

static void on_tidy(struct ev_defer *d)
{
	struct init_job_table *t = container(d, struct init_job_table, tidy);
	struct init_job *j;

	while ((j = t->untidy)) {
		t->untidy = j->untidy_next;
		j->tidying = false;
		if (j->kind->tidy)
			j->kind->tidy(j);
		free_if_over(j);
	}
}

int init_job_table_new(struct init_job_table **ret)
{
	struct init_job_table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->tidy.on_defer = on_tidy;
	*ret = t;
	return 0;
}

/* --- its time --- */

static void say_queued(struct init_job *j)
{
	struct wire_queued m = {.exec_id = j->id};

	j->waited = true;
	if (wire_queued_encode(&j->in->link.out, j->id, 0, &m) < 0)
		init_broken(j->in, "no room for an answer");
}

/* Drains as far as credit and the link allow, then sends EXIT. Called again when they allow
 * more. */
static void drain(struct init_job *j)
{
	struct init_job_table *t = j->in->jobs;
	struct exec_record *m = &j->result;

	j->draining = false;
	for (int i = 0; i < 2; i++)
		if (j->out[i] && out_stream_drain(j->out[i]))
			j->draining = true;
	if (j->draining)
		return;
	if (j->pty)
		out_stream_end(j->out[0]); /* a terminal does not linger */
	if (!j->begun && !j->waited)
		say_queued(j); /* an end without a start is that of a job that waited */
	m->exec_id = j->id;
	m->stdout_bytes = j->out[0] ? j->out[0]->bytes : 0;
	m->stderr_bytes = j->out[1] ? j->out[1]->bytes : 0;
	m->cwd = j->cwd;
	if (wire_exit_encode(&j->in->link.out, j->id, 0, m) < 0)
		init_broken(j->in, "no room for an exit");
	wire_link_flush(&j->in->link);
	reaper_sweep(j->in);
	set_state(j, JOB_LATE);
	j->tidying = true;
	j->untidy_next = t->untidy;
	t->untidy = j;
	ev_defer(j->in->ev, &t->tidy);
}

/* Until then the next command would be killed for what the dead still hold. */
static void answer(struct init_job *j)
{
	if (j->memory_rounds > 0 && usage_is_short_of_memory(&j->in->groups)) {
		j->memory_rounds--;
		ev_timer_set(j->in->ev, &j->timer, MEMORY_MS);
		return;
	}
	drain(j);
	if (j->kind->on_ended)
		j->kind->on_ended(j);
}

static uint64_t bounded(uint64_t ms)
{
	return ms < TIMEOUT_MS_MAX ? ms : TIMEOUT_MS_MAX;
}

/* Its time is up, then its grace. */
static void on_timer(struct ev_timer *t)
{
	struct init_job *j = container(t, struct init_job, timer);
	bool asks;

	if (j->state >= JOB_ENDED) {
		answer(j);
		return;
	}
	/* One that waits has nothing yet that could heed it. */
	asks = !j->result.timed_out && j->grace_ms > 0 && j->state > JOB_QUEUED;
	j->result.timed_out = 1;
	if (asks)
		ev_timer_set(j->in->ev, &j->timer, bounded(j->grace_ms));
	j->kind->stop(j, asks ? SIGTERM : SIGKILL, !asks);
}

static void on_flush(struct ev_timer *t)
{
	wire_link_flush(&container(t, struct init_job, flush)->in->link);
}

/* What follows soon will be written with it. */
static void flush_lazily(struct init_job *j)
{
	if (j->state >= JOB_ENDED)
		wire_link_flush(&j->in->link);
	else if (!j->flush.armed)
		ev_timer_set(j->in->ev, &j->flush, LAZY_MS);
}

void init_job_add(struct init_job *j)
{
	struct init_job_table *t = j->in->jobs;
	struct init_job **bucket = bucket_of(t, j->id);

	ASSERT(j->state == JOB_ASKED);
	j->timer.on_timer = on_timer;
	j->flush.on_timer = on_flush;
	in_stream_start(&j->input, &j->in->link, -1, j->id, j->pty);
	j->input.held = true;
	j->bucket_next = *bucket;
	*bucket = j;
	j->older = t->newest;
	*(t->newest ? &t->newest->newer : &t->oldest) = j;
	t->newest = j;
	t->count[j->kind->number]++;
	if (j->id > t->last_id)
		t->last_id = j->id;
}

/* It runs since the job was first more than asked for, whatever it waits for. */
static void set_timeout(struct init_job *j)
{
	if (j->timeout_ms > 0 && !j->timer.armed)
		ev_timer_set(j->in->ev, &j->timer, bounded(j->timeout_ms));
}

void init_job_queue(struct init_job *j)
{
	set_state(j, JOB_QUEUED);
	set_timeout(j);
	say_queued(j);
	wire_link_flush(&j->in->link);
}

void init_job_start(struct init_job *j)
{
	set_state(j, JOB_STARTING);
	set_timeout(j);
}

void init_job_run(struct init_job *j, pid_t pid)
{
	struct wire_started m = {.exec_id = j->id, .pid = (uint64_t)pid};

	/* One that was to be stopped while it started is being stopped already. */
	if (j->state != JOB_STOPPING)
		set_state(j, JOB_RUNNING);
	set_timeout(j);
	if (j->begun)
		return;
	j->begun = true;
	if (!j->has_input && !j->pty)
		in_stream_adopt(&j->input, -1); /* what comes for it is dropped */
	if (wire_started_encode(&j->in->link.out, j->id, 0, &m) < 0)
		init_broken(j->in, "no room for an answer");
	flush_lazily(j);
}

void init_job_stop(struct init_job *j)
{
	if (j->state != JOB_STOPPING)
		set_state(j, JOB_STOPPING);
}

void init_job_resume(struct init_job *j)
{
	set_state(j, JOB_RUNNING);
	j->result.timed_out = 0;
}

void init_job_end(struct init_job *j, const char *cause)
{
	j->result.duration_ms = ev_now(j->in->ev) - j->started_ms;
	str_copy(j->result.cause, sizeof(j->result.cause), cause);
	usage_put(&j->used, &j->result);
	set_state(j, JOB_ENDED);
	ev_timer_stop(j->in->ev, &j->timer);
	ev_timer_stop(j->in->ev, &j->flush);
	in_stream_done(&j->input);
	j->memory_rounds = j->used.oom_kills > 0 ? MEMORY_ROUNDS : 0;
	answer(j);
}

void init_job_refuse(struct init_job *j, const struct err *e)
{
	ASSERT(!j->begun);
	init_fail_err(j->in, j->id, e);
	job_free(j);
}

void init_job_on_stream(struct out_stream *s)
{
	struct init_job *j = s->job;

	if (!j)
		return;
	flush_lazily(j);
	if (j->draining)
		drain(j);
	else
		free_if_over(j);
}

/* --- frames --- */

bool init_job_frame(struct init *in, const struct wire_frame *f)
{
	struct init_job *j = init_job_find(in, f->id);
	struct wire_credit credit;
	struct wire_signal sig;
	struct wire_resize size;
	struct out_stream *out;
	int r = 0;

	if (!j)
		return false;
	switch (f->type) {
	case WIRE_DATA:
		if (j->state < JOB_LATE)
			in_stream_data(&j->input, f->payload, f->len);
		break;
	case WIRE_EOF:
		if (j->state < JOB_LATE)
			in_stream_eof(&j->input);
		break;
	case WIRE_CREDIT:
		r = f->stream == WIRE_STDIN ? -EBADMSG : wire_credit_decode(f, &credit);
		out = j->out[f->stream == WIRE_STDERR];
		if (r == 0 && out)
			out_stream_credit(out, credit.bytes);
		if (r == 0 && j->draining)
			drain(j);
		break;
	case WIRE_SIGNAL:
		r = wire_signal_decode(f, &sig);
		if (r == 0 && (sig.tree || (sig.signal > 0 && sig.signal <= (uint64_t)SIGRTMAX)))
			j->kind->stop(j, sig.tree ? SIGKILL : (int)sig.signal,
				      sig.tree || sig.signal == SIGKILL);
		break;
	case WIRE_RESIZE:
		r = wire_resize_decode(f, &size);
		if (r == 0 && j->pty && (!j->out[0] || !j->out[0]->ended))
			pty_resize(j->pty_fd, size.rows, size.cols);
		break;
	default: /* CANCEL: the job goes on */
		break;
	}
	if (r < 0)
		init_broken(in, "a frame for a command that cannot be read");
	return true;
}
