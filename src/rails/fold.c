/* What a run is, made of its rows; see fold.h. */
#include "rails/fold.h"

#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const status_names[RUN_STATUSES] = {
	NULL, "running", "waiting", "completed", "failed", "cancelled", "interrupted",
};

const char *run_status_name(enum run_status status)
{
	return status > 0 && status < RUN_STATUSES ? status_names[status] : NULL;
}

enum run_status run_status_find(const char *name)
{
	for (unsigned i = 1; i < RUN_STATUSES; i++)
		if (strcmp(name, status_names[i]) == 0)
			return (enum run_status)i;
	return (enum run_status)0;
}

const char *run_outcome_name(enum run_outcome outcome)
{
	static const char *const names[] = {NULL,     "answered", "approved",
					    "denied", "timeout",  "slept"};

	return outcome <= RUN_SLEPT ? names[outcome] : NULL;
}

void run_state_init(struct run_state *s, const char *id)
{
	*s = (struct run_state){.said = RUN_RUNNING};
	s->id.space = id[0] == RUN_ID_OF_VALUES ? RAILS_VALUES : RAILS_RUNS;
	str_copy(s->id.id, sizeof(s->id.id), id);
}

void run_state_done(struct run_state *s)
{
	free(s->steps);
	free(s->heads);
	free(s->signals);
	s->steps = NULL;
	s->heads = NULL;
	s->signals = NULL;
}

/* False where it does not fit, or has a NUL in it. */
static bool copy_text(char *ret, size_t size, struct rails_bytes b)
{
	if (b.len >= size || (b.len && memchr(b.p, 0, b.len)))
		return false;
	if (b.len)
		memcpy(ret, b.p, b.len);
	ret[b.len] = 0;
	return true;
}

#define COPY_TEXT(to, from) copy_text((to), sizeof(to), (from))

/* ---- steps by position ---- */

static uint32_t hash_of(const char *position)
{
	uint32_t h = 2166136261u;

	for (; *position; position++)
		h = (h ^ (uint8_t)*position) * 16777619u;
	return h ^ h >> 15;
}

struct run_step *run_step_find(const struct run_state *s, const char *position)
{
	uint32_t i = s->head_count ? s->heads[hash_of(position) % s->head_count] : 0;

	while (i && strcmp(s->steps[i - 1].position, position) != 0)
		i = s->steps[i - 1].next;
	return i ? &s->steps[i - 1] : NULL;
}

static void link_step(struct run_state *s, uint32_t index)
{
	uint32_t *head = &s->heads[hash_of(s->steps[index].position) % s->head_count];

	s->steps[index].next = *head;
	*head = index + 1;
}

static int grow_steps(struct run_state *s)
{
	uint32_t cap = s->step_cap ? 2 * s->step_cap : 8;
	struct run_step *steps = realloc(s->steps, cap * sizeof(*steps));
	uint32_t *heads;

	if (!steps)
		return -ENOMEM;
	s->steps = steps;
	heads = calloc(cap, sizeof(*heads));
	if (!heads)
		return -ENOMEM;
	free(s->heads);
	s->heads = heads;
	s->head_count = s->step_cap = cap;
	for (uint32_t i = 0; i < s->step_count; i++)
		link_step(s, i);
	return 0;
}

/* ---- one function for each type of row ---- */

static void extend_lease(struct run_state *s, const struct run_row *row)
{
	if (s->is_held && row->time_ms + s->lease_ms > s->lease_until_ms)
		s->lease_until_ms = row->time_ms + s->lease_ms;
}

static bool is_owners(const struct run_state *s, const struct run_row *row)
{
	return row->fence != 0 && row->fence == s->fence;
}

static int fold_created(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_state n = *s;

	if (s->id.space != RAILS_RUNS || row->id.len != RAILS_ID ||
	    memcmp(row->id.p, s->id.id, RAILS_ID) != 0 || !COPY_TEXT(n.name, row->name) ||
	    !COPY_TEXT(n.owner, row->owner) || !COPY_TEXT(n.parent, row->parent))
		return -EBADMSG;
	if (row->request.len == sizeof(n.request))
		memcpy(n.request, row->request.p, sizeof(n.request));
	n.created_ms = row->time_ms;
	n.created = *at;
	*s = n;
	return 0;
}

static int fold_lease(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	char holder[sizeof(s->holder)];

	if (row->fence < s->fence || row->ms == 0 || row->ms > RUN_LEASE_MS_MAX ||
	    !COPY_TEXT(holder, row->holder))
		return -EBADMSG;
	/* Renewed, by the one who has it. */
	if (row->fence == s->fence && (!s->is_held || strcmp(holder, s->holder) != 0))
		return -EBADMSG;
	memcpy(s->holder, holder, sizeof(holder));
	s->fence = row->fence;
	s->lease_ms = row->ms;
	s->lease_until_ms = row->time_ms + row->ms;
	s->is_held = true;
	return 0;
}

static int fold_released(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	if (!is_owners(s, row))
		return -EBADMSG;
	s->is_held = false;
	return 0;
}

static bool first_row_of(struct run_step *step, const struct run_row *row,
			 const struct run_place *at)
{
	if (!COPY_TEXT(step->position, row->position) || !step->position[0] ||
	    !COPY_TEXT(step->kind, row->kind) || !COPY_TEXT(step->name, row->name) ||
	    row->key.len != SHA256_BYTES)
		return false;
	memcpy(step->key, row->key.p, SHA256_BYTES);
	step->first = *at;
	step->first_row = row->number;
	step->begun_ms = row->time_ms;
	step->fence = row->fence;
	step->retries = row->retries > RUN_ATTEMPTS_MAX ? RUN_ATTEMPTS_MAX : (uint32_t)row->retries;
	step->backoff_ms = row->backoff_ms;
	return true;
}

static int add_step(struct run_state *s, const struct run_step *step)
{
	int r;

	if (s->step_count == RUN_STEPS_MAX)
		return -E2BIG;
	if (s->step_count == s->step_cap) {
		r = grow_steps(s);
		if (r < 0)
			return r;
	}
	s->steps[s->step_count] = *step;
	link_step(s, s->step_count++);
	return 0;
}

static int fold_start(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step step = {.state = RUN_STEP_STARTED, .attempts = 1}, *old;
	int r;

	if (!is_owners(s, row) || !first_row_of(&step, row, at))
		return -EBADMSG;
	step.flags = (uint32_t)row->flags & (RUN_STEP_IDEMPOTENT | RUN_STEP_UNCACHED);
	old = run_step_find(s, step.position);
	if (row->attempt != (old ? old->attempts + 1 : 1u) || row->attempt > RUN_ATTEMPTS_MAX)
		return -EBADMSG;
	if (!old) {
		r = add_step(s, &step);
		if (r == 0)
			s->started++;
		return r;
	}
	if (memcmp(old->key, step.key, SHA256_BYTES) != 0 || (old->flags & RUN_STEP_IS_WAIT) ||
	    old->state == RUN_STEP_STARTED || old->state == RUN_STEP_WAITING ||
	    (old->state == RUN_STEP_DONE && !(old->flags & RUN_STEP_UNCACHED)) ||
	    (old->state == RUN_STEP_FAILED && (old->flags & RUN_STEP_FINAL)))
		return -EBADMSG;
	if (old->state == RUN_STEP_DONE)
		s->totals.steps_done--;
	if (old->state == RUN_STEP_FAILED)
		s->totals.steps_failed--;
	old->state = RUN_STEP_STARTED;
	old->flags = step.flags;
	old->fence = row->fence;
	old->attempts++;
	s->started++;
	return 0;
}

/* The step that a row is about, or NULL. */
static struct run_step *step_of(const struct run_state *s, const struct run_row *row)
{
	char position[RUN_POSITION_MAX + 1];

	return COPY_TEXT(position, row->position) ? run_step_find(s, position) : NULL;
}

static void end_step(struct run_state *s, struct run_step *step, const struct run_row *row,
		     const struct run_place *at)
{
	step->ended_ms = row->time_ms;
	step->last = *at;
	step->tokens_in = row->tokens_in;
	step->tokens_out = row->tokens_out;
	step->cost_micros = row->cost_micros;
	step->exec_id = row->exec_id;
	s->totals.tokens_in += row->tokens_in;
	s->totals.tokens_out += row->tokens_out;
	s->totals.cost_micros += row->cost_micros;
	s->started--;
}

static int fold_done(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step *step = step_of(s, row);

	if (!step || step->state != RUN_STEP_STARTED || step->fence != row->fence ||
	    !is_owners(s, row) || step->attempts != row->attempt)
		return -EBADMSG;
	end_step(s, step, row, at);
	step->state = RUN_STEP_DONE;
	s->totals.steps_done++;
	return 0;
}

static int fold_failed(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step *step = step_of(s, row);

	if (!step || step->state != RUN_STEP_STARTED || step->fence != row->fence ||
	    !is_owners(s, row) || step->attempts != row->attempt)
		return -EBADMSG;
	end_step(s, step, row, at);
	step->state = RUN_STEP_FAILED;
	step->flags |= (uint32_t)row->flags & RUN_STEP_FINAL;
	s->totals.steps_failed++;
	return 0;
}

enum { RESOLVED_RETRY = 1, RESOLVED_SKIP, RESOLVED_FAIL };

static int fold_resolved(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step *step = step_of(s, row);
	bool is_started = step && step->state == RUN_STEP_STARTED;

	if (!step || (step->flags & RUN_STEP_IS_WAIT) || row->how < RESOLVED_RETRY ||
	    row->how > RESOLVED_FAIL || (!is_started && step->state != RUN_STEP_FAILED))
		return -EBADMSG;
	if (is_started)
		s->started--;
	else
		s->totals.steps_failed--;
	step->flags &= ~(uint32_t)RUN_STEP_FINAL;
	step->last = row->how == RESOLVED_RETRY ? step->last : *at;
	step->ended_ms = row->time_ms;
	if (row->how == RESOLVED_RETRY) {
		step->state = RUN_STEP_READY;
	} else if (row->how == RESOLVED_SKIP) {
		step->state = RUN_STEP_DONE;
		step->flags |= RUN_STEP_SKIPPED;
		s->totals.steps_done++;
	} else {
		step->state = RUN_STEP_FAILED;
		step->flags |= RUN_STEP_FINAL;
		s->totals.steps_failed++;
	}
	return 0;
}

static int fold_opened(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step step = {
		.state = RUN_STEP_WAITING, .flags = RUN_STEP_IS_WAIT, .until_ms = row->until_ms};
	int r;

	if (!is_owners(s, row) || !first_row_of(&step, row, at) || run_step_find(s, step.position))
		return -EBADMSG;
	r = add_step(s, &step);
	if (r == 0)
		s->totals.waits_open++;
	return r;
}

static int fold_answered(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step *step = step_of(s, row);

	if (!step || step->state != RUN_STEP_WAITING || row->how < RUN_ANSWERED ||
	    row->how > RUN_SLEPT)
		return -EBADMSG;
	step->state = RUN_STEP_DONE;
	step->outcome = (enum run_outcome)row->how;
	step->ended_ms = row->time_ms;
	step->last = *at;
	s->totals.waits_open--;
	return 0;
}

static int fold_signal(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_signal signal = {.row = row->number, .place = *at};

	if (!COPY_TEXT(signal.name, row->name) || !signal.name[0])
		return -EBADMSG;
	if (s->signal_count == RUN_SIGNALS_MAX)
		return -E2BIG;
	if (s->signal_count == s->signal_cap) {
		uint32_t cap = s->signal_cap ? 2 * s->signal_cap : 8;
		struct run_signal *grown = realloc(s->signals, cap * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		s->signals = grown;
		s->signal_cap = cap;
	}
	s->signals[s->signal_count++] = signal;
	return 0;
}

static int fold_taken(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step step = {.state = RUN_STEP_DONE,
				.flags = RUN_STEP_IS_WAIT,
				.outcome = RUN_ANSWERED,
				.ended_ms = row->time_ms,
				.signal = row->about};
	struct run_signal *signal = NULL;
	int r;

	for (uint32_t i = 0; i < s->signal_count && !signal; i++)
		if (s->signals[i].row == row->about)
			signal = &s->signals[i];
	if (!is_owners(s, row) || !signal || signal->is_taken || !first_row_of(&step, row, at) ||
	    strcmp(step.name, signal->name) != 0 || run_step_find(s, step.position))
		return -EBADMSG;
	step.last = signal->place;
	r = add_step(s, &step);
	if (r == 0)
		signal->is_taken = true;
	return r;
}

static int fold_log(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	return is_owners(s, row) ? 0 : -EBADMSG;
}

/* Of a run that goes on, what failed is tried again. */
static void reopen_steps(struct run_state *s)
{
	for (uint32_t i = 0; i < s->step_count; i++) {
		struct run_step *step = &s->steps[i];

		if (step->state != RUN_STEP_FAILED)
			continue;
		step->state = RUN_STEP_READY;
		step->flags &= ~(uint32_t)RUN_STEP_FINAL;
		s->totals.steps_failed--;
	}
}

static int fold_status(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	bool is_over = s->said != RUN_RUNNING;

	switch (row->how) {
	case RUN_COMPLETED:
	case RUN_FAILED:
		if (is_over || !is_owners(s, row))
			return -EBADMSG;
		break;
	case RUN_CANCELLED:
		if (is_over)
			return -EBADMSG;
		break;
	case RUN_RUNNING:
		if (s->said != RUN_FAILED && s->said != RUN_CANCELLED)
			return -EBADMSG;
		reopen_steps(s);
		break;
	default:
		return -EBADMSG;
	}
	s->said = (enum run_status)row->how;
	s->end = *at;
	s->ended_ms = s->said == RUN_RUNNING ? 0 : row->time_ms;
	/* Who cancels leaves the owner what it may still say; who reopens, an owner who is lost. */
	s->is_held = s->said == RUN_RUNNING || (s->said == RUN_CANCELLED && s->is_held);
	if (s->said == RUN_RUNNING)
		s->lease_until_ms = 0;
	return 0;
}

/* A name of a scope is kept as a step that is done, its version as the attempts. */
static int fold_value(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	struct run_step step = {.state = RUN_STEP_DONE, .attempts = 1, .last = *at}, *old;
	int r;

	if (s->id.space != RAILS_VALUES || !COPY_TEXT(step.name, row->name) || !step.name[0])
		return -EBADMSG;
	run_value_position(step.name, step.position);
	old = run_step_find(s, step.position);
	if (row->version != (old ? old->attempts + 1ull : 1u) || row->version >= UINT32_MAX)
		return -EBADMSG;
	if (!old) {
		r = s->step_count == RUN_VALUES_MAX ? -E2BIG : add_step(s, &step);
		if (r == 0)
			s->created_ms = s->created_ms ? s->created_ms : row->time_ms;
		return r;
	}
	old->attempts++;
	old->last = *at;
	return 0;
}

void run_value_position(const char *name, char ret[RUN_POSITION_MAX + 1])
{
	sha256_hex(name, strlen(name), ret);
}

/* ---- the table ---- */

enum {
	WHILE_NEW = 1, /* the first row */
	WHILE_RUNNING = 2,
	WHILE_CANCELLED = 4, /* what was under way may still be said */
	WHILE_OVER = 8	     /* completed, failed */
};

static const struct {
	int (*fold)(struct run_state *s, const struct run_row *row, const struct run_place *at);
	unsigned in;
	bool is_owners; /* it prolongs the lease */
} FOLDS[RUN_ROW_TYPES] = {
	[RUN_ROW_CREATED] = {fold_created, WHILE_NEW, false},
	[RUN_ROW_LEASE] = {fold_lease, WHILE_RUNNING, false},
	[RUN_ROW_RELEASED] = {fold_released, WHILE_RUNNING | WHILE_CANCELLED, false},
	[RUN_ROW_STEP_START] = {fold_start, WHILE_RUNNING, true},
	[RUN_ROW_STEP_DONE] = {fold_done, WHILE_RUNNING | WHILE_CANCELLED, true},
	[RUN_ROW_STEP_FAILED] = {fold_failed, WHILE_RUNNING | WHILE_CANCELLED, true},
	[RUN_ROW_STEP_RESOLVED] = {fold_resolved, WHILE_RUNNING | WHILE_OVER, false},
	[RUN_ROW_WAIT_OPENED] = {fold_opened, WHILE_RUNNING, true},
	[RUN_ROW_WAIT_ANSWERED] = {fold_answered, WHILE_RUNNING, false},
	[RUN_ROW_SIGNAL] = {fold_signal, WHILE_RUNNING, false},
	[RUN_ROW_SIGNAL_TAKEN] = {fold_taken, WHILE_RUNNING, true},
	[RUN_ROW_LOG] = {fold_log, WHILE_RUNNING | WHILE_CANCELLED, true},
	[RUN_ROW_VALUE] = {fold_value, WHILE_NEW | WHILE_RUNNING, false},
	[RUN_ROW_STATUS] = {fold_status, WHILE_RUNNING | WHILE_CANCELLED | WHILE_OVER, false},
};

static unsigned while_of(const struct run_state *s)
{
	if (s->rows == 0)
		return WHILE_NEW;
	if (s->said == RUN_RUNNING)
		return WHILE_RUNNING;
	return s->said == RUN_CANCELLED ? WHILE_CANCELLED : WHILE_OVER;
}

int run_fold(struct run_state *s, const struct run_row *row, const struct run_place *at)
{
	int r;

	if (row->type >= RUN_ROW_TYPES || !FOLDS[row->type].fold ||
	    (s->id.space == RAILS_VALUES) != (row->type == RUN_ROW_VALUE) ||
	    !(FOLDS[row->type].in & while_of(s)) || row->number != s->rows + 1 ||
	    at->offset != s->bytes)
		return -EBADMSG;
	r = FOLDS[row->type].fold(s, row, at);
	if (r < 0)
		return r;
	if (FOLDS[row->type].is_owners)
		extend_lease(s, row);
	s->rows++;
	s->bytes += at->bytes;
	s->last_ms = row->time_ms;
	return 0;
}

int64_t run_fold_bytes(struct run_state *s, const uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		struct run_row row;
		int bytes = run_row_decode(&row, p + at, n - at), r;

		if (bytes <= 0)
			return bytes < 0 ? bytes : (int64_t)at;
		r = run_fold(s, &row, &(struct run_place){s->bytes, (uint32_t)bytes});
		if (r < 0)
			return r;
		at += (size_t)bytes;
	}
	return (int64_t)at;
}

/* ---- what follows from it at a time ---- */

bool run_is_held_at(const struct run_state *s, uint64_t now_ms)
{
	return s->is_held && now_ms < s->lease_until_ms;
}

bool run_step_is_interrupted(const struct run_state *s, const struct run_step *step,
			     uint64_t now_ms)
{
	return step->state == RUN_STEP_STARTED &&
	       (step->fence != s->fence || !run_is_held_at(s, now_ms));
}

enum run_status run_status_at(const struct run_state *s, uint64_t now_ms)
{
	if (s->said != RUN_RUNNING)
		return s->said;
	/* Left on purpose, or with nothing to do but wait. */
	if (!s->is_held || (s->totals.waits_open > 0 && s->started == 0))
		return RUN_WAITING;
	return run_is_held_at(s, now_ms) ? RUN_RUNNING : RUN_INTERRUPTED;
}

uint64_t run_next_time(const struct run_state *s)
{
	uint64_t next = 0;

	if (s->said != RUN_RUNNING || s->totals.waits_open == 0)
		return 0;
	for (uint32_t i = 0; i < s->step_count; i++) {
		const struct run_step *step = &s->steps[i];

		if (step->state == RUN_STEP_WAITING && step->until_ms &&
		    (!next || step->until_ms < next))
			next = step->until_ms;
	}
	return next;
}
