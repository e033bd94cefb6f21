/* Waits for people, for times and for signals; see run.h. */
#include "rails/run.h"

#include "base/str.h"
#include "rails/run_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct run_waiting {
	const char *id;
	uint64_t fence;
	const char *position, *kind, *name;
	struct run_row row;
	struct run_begin *ret;
	struct run_place place; /* of the answer */
};

static void wait_key(const char *kind, const char *position, const char *name, const char *text,
		     const char *schema, uint8_t ret[SHA256_BYTES])
{
	const char *parts[] = {"cove wait 1", kind, position, name, text, schema};
	struct sha sha;

	sha256_init(&sha);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		sha_add(&sha, parts[i] ? parts[i] : "", parts[i] ? strlen(parts[i]) + 1 : 1);
	sha_end(&sha, ret);
}

static void say_stored(struct run_waiting *g, const struct run_step *step)
{
	g->ret->begun = RUN_BEGUN_STORED;
	g->ret->outcome = step->outcome;
	g->place = step->last;
}

/* Its time is over: that is written once, by whoever sees it first. */
static int time_out(struct run_waiting *g, struct rails_batch *b, struct run_state *s,
		    struct run_step *step, struct err *e)
{
	bool is_sleep = strcmp(step->kind, "sleep") == 0;
	struct run_row row = {.type = RUN_ROW_WAIT_ANSWERED,
			      .position = run_bytes(g->position),
			      .how = is_sleep ? RUN_SLEPT : RUN_TIMED_OUT};
	int r = run_put(b, s, &row, e);

	if (r == 0)
		say_stored(g, step);
	return r;
}

static int turn_wait(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_waiting *g = arg;
	struct run_state *s;
	struct run_step *step;
	int r = run_of_owner(b, g->id, g->fence, false, &s, e);

	if (r < 0)
		return r;
	step = run_step_find(s, g->position);
	g->ret->begun = RUN_BEGUN_WAITING;
	if (!step) {
		g->row.fence = g->fence;
		return run_put(b, s, &g->row, e);
	}
	if (memcmp(step->key, g->row.key.p, SHA256_BYTES) != 0)
		return run_diverged(s, step, g->kind, g->name, e);
	if (step->state == RUN_STEP_DONE)
		say_stored(g, step);
	else if (step->until_ms && step->until_ms <= rails_now_ms(rails_of_batch(b)))
		return time_out(g, b, s, step, e);
	return 0;
}

static void copy_bytes(char *ret, size_t size, struct rails_bytes from)
{
	size_t n = from.len < size ? from.len : size - 1;

	if (n)
		memcpy(ret, from.p, n);
	ret[n] = 0;
}

static int fetch_answer(struct rails *l, struct run_waiting *g, struct err *e)
{
	struct rails_name name = {.space = RAILS_RUNS};
	struct run_row row;
	uint8_t *text;
	int r;

	if (g->place.bytes == 0)
		return 0;
	str_copy(name.id, sizeof(name.id), g->id);
	r = run_row_read(l, &name, &g->place, &row, &text, e);
	if (r < 0)
		return r;
	copy_bytes(g->ret->by, sizeof(g->ret->by), row.by);
	copy_bytes(g->ret->reason, sizeof(g->ret->reason), row.reason);
	r = run_result_read(l, g->id, &row.result, &g->ret->result, e);
	free(text);
	return r;
}

static int begin(struct rails *l, struct run_waiting *g, rails_on_turn *on_turn,
		 struct run_begin *ret, struct err *e)
{
	struct run_begin *out = calloc(1, sizeof(*out));
	int r;

	if (!out)
		return err_errno(e, ENOMEM, "wait");
	g->ret = out;
	/* The row of an answer that ran out of time is smaller. */
	r = rails_commit(l, run_put_room(&g->row), on_turn, g, e);
	if (r == 0)
		r = fetch_answer(l, g, e);
	run_operation_id(g->id, g->position, out->operation_id);
	if (r == 0)
		*ret = *out;
	free(out);
	return r;
}

int run_wait_begin(struct rails *l, const char *id, uint64_t fence,
		   const struct run_wait_spec *spec, struct run_begin *ret, struct err *e)
{
	struct run_waiting g = {.id = id,
				.fence = fence,
				.position = spec->position,
				.kind = spec->is_sleep ? "sleep" : "wait",
				.name = spec->name};
	uint8_t key[SHA256_BYTES];
	int r = run_check_text("the position of a wait", spec->position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("the name of a wait", spec->name, RUN_NAME_MAX, true, e);
	if (r == 0)
		r = run_check_text("a question", spec->question, RUN_TEXT_MAX, false, e);
	if (r == 0)
		r = run_check_text("a schema", spec->schema, RUN_ENTRY_MAX, false, e);
	if (r == 0)
		r = run_check_text("the metadata of a wait", spec->metadata, RUN_ENTRY_MAX, false,
				   e);
	if (r == 0)
		r = run_check_text("who may answer", spec->who, RUN_TEXT_MAX, false, e);
	if (r == 0 && spec->is_sleep && !spec->until_ms)
		r = err_set(e, ERR_INVALID, EINVAL, "a sleep has an end");
	if (r < 0)
		return r;
	wait_key(g.kind, spec->position, spec->name, spec->question, spec->schema, key);
	g.row = (struct run_row){.type = RUN_ROW_WAIT_OPENED,
				 .position = run_bytes(spec->position),
				 .kind = run_bytes(g.kind),
				 .name = run_bytes(spec->name),
				 .key = {key, sizeof(key)},
				 .text = run_bytes(spec->question),
				 .schema = run_bytes(spec->schema),
				 .metadata = run_bytes(spec->metadata),
				 .who = run_bytes(spec->who),
				 .until_ms = spec->until_ms};
	return begin(l, &g, turn_wait, ret, e);
}

/* ---- answers ---- */

struct answering {
	const char *id, *position;
	const struct run_answer *answer;
	struct run_row row;
	struct run_place opened;
};

static int no_such_wait(const char *id, const char *position, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "run '%s' has no wait %.64s", id, position);
}

static int is_open(const struct answering *g, const struct run_state *s,
		   const struct run_step *step, uint64_t now_ms, struct err *e)
{
	if (!step || !(step->flags & RUN_STEP_IS_WAIT) || strcmp(step->kind, "wait") != 0)
		return no_such_wait(g->id, g->position, e);
	if (step->state != RUN_STEP_WAITING || s->said != RUN_RUNNING)
		return err_set(e, ERR_CONFLICT, EALREADY, "wait %s of run '%s' is over",
			       g->position, g->id);
	if (step->until_ms && step->until_ms <= now_ms)
		return err_set(e, ERR_CONFLICT, EALREADY, "the time of wait %s of run '%s' is over",
			       g->position, g->id);
	if (s->owner[0] && strcmp(s->owner, g->answer->by) == 0)
		return err_set(e, ERR_DENIED, EPERM, "'%s' made run '%s': another has to answer it",
			       s->owner, g->id);
	return 0;
}

static int turn_answer(void *arg, struct rails_batch *b, struct err *e)
{
	struct answering *g = arg;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);

	if (r == 0)
		r = is_open(g, s, run_step_find(s, g->position), rails_now_ms(rails_of_batch(b)),
			    e);
	return r < 0 ? r : run_put(b, s, &g->row, e);
}

/* Is the name one of those between commas? */
static bool is_named(struct rails_bytes who, const char *by)
{
	const char *at = who.p, *end = at + who.len;
	size_t len = strlen(by);

	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end;

		while (at < stop && *at == ' ')
			at++;
		while (stop > at && stop[-1] == ' ')
			stop--;
		if ((size_t)(stop - at) == len && memcmp(at, by, len) == 0)
			return true;
		at = comma ? comma + 1 : end;
	}
	return false;
}

/* Who may answer stands in the row that opened it, which does not change. */
static int check_who(struct rails *l, const struct answering *g, struct err *e)
{
	struct run_state s;
	const struct run_step *step;
	struct run_row row;
	uint8_t *text = NULL;
	int r = run_load(l, g->id, &s, e);

	if (r < 0)
		return r;
	step = run_step_find(&s, g->position);
	if (!step || !(step->flags & RUN_STEP_IS_WAIT))
		r = no_such_wait(g->id, g->position, e);
	else
		r = run_row_read(l, &s.id, &step->first, &row, &text, e);
	if (r == 0 && row.who.len && !is_named(row.who, g->answer->by))
		r = err_set(e, ERR_DENIED, EPERM, "'%s' may not answer wait %s of run '%s'",
			    g->answer->by, g->position, g->id);
	free(text);
	run_state_done(&s);
	return r;
}

int run_wait_answer(struct rails *l, const char *id, const char *position,
		    const struct run_answer *answer, struct err *e)
{
	struct answering g = {.id = id, .position = position, .answer = answer};
	struct run_kept kept;
	int r = run_check_text("the position of a wait", position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("who answers", answer->by, RUN_WHO_MAX, true, e);
	if (r == 0)
		r = run_check_text("where it comes from", answer->from, RUN_WHO_MAX, false, e);
	if (r == 0)
		r = run_check_text("a reason", answer->reason, RUN_TEXT_MAX, false, e);
	if (r == 0 && (answer->outcome < RUN_ANSWERED || answer->outcome > RUN_DENIED))
		r = err_set(e, ERR_INVALID, EINVAL, "a wait is answered, approved or denied");
	if (r == 0)
		r = check_who(l, &g, e);
	if (r == 0)
		r = run_keep(l, id, false, &answer->value, &kept, e);
	if (r < 0)
		return r;
	g.row = (struct run_row){.type = RUN_ROW_WAIT_ANSWERED,
				 .position = run_bytes(position),
				 .how = answer->outcome,
				 .by = run_bytes(answer->by),
				 .from = run_bytes(answer->from),
				 .reason = run_bytes(answer->reason),
				 .result = kept.payload};
	r = rails_commit(l, run_put_room(&g.row), turn_answer, &g, e);
	run_kept_done(&kept);
	return r;
}

/* ---- signals ---- */

struct signalling {
	const char *id;
	struct run_row row;
};

static int turn_signal(void *arg, struct rails_batch *b, struct err *e)
{
	struct signalling *g = arg;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);

	if (r == 0 && s->said != RUN_RUNNING)
		r = err_set(e, ERR_CONFLICT, EALREADY, "run '%s' is over: %s", g->id,
			    run_status_name(s->said));
	return r < 0 ? r : run_put(b, s, &g->row, e);
}

int run_signal(struct rails *l, const char *id, const char *name, const char *by,
	       const struct run_data *value, struct err *e)
{
	struct signalling g = {.id = id};
	struct run_kept kept;
	int r = run_check_text("the name of a signal", name, RUN_NAME_MAX, true, e);

	if (r == 0)
		r = run_check_text("who sends it", by, RUN_WHO_MAX, false, e);
	if (r == 0)
		r = run_keep(l, id, false, value, &kept, e);
	if (r < 0)
		return r;
	g.row = (struct run_row){.type = RUN_ROW_SIGNAL,
				 .name = run_bytes(name),
				 .by = run_bytes(by),
				 .result = kept.payload};
	r = rails_commit(l, run_put_room(&g.row), turn_signal, &g, e);
	run_kept_done(&kept);
	return r;
}

static const struct run_signal *next_signal(const struct run_state *s, const char *name)
{
	for (uint32_t i = 0; i < s->signal_count; i++)
		if (!s->signals[i].is_taken && strcmp(s->signals[i].name, name) == 0)
			return &s->signals[i];
	return NULL;
}

static int turn_take(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_waiting *g = arg;
	struct run_state *s;
	const struct run_signal *signal;
	const struct run_step *step;
	int r = run_of_owner(b, g->id, g->fence, false, &s, e);

	if (r < 0)
		return r;
	step = run_step_find(s, g->position);
	if (step && memcmp(step->key, g->row.key.p, SHA256_BYTES) != 0)
		return run_diverged(s, step, g->kind, g->name, e);
	if (!step) {
		signal = next_signal(s, g->name);
		g->ret->begun = RUN_BEGUN_WAITING;
		if (!signal)
			return 0;
		g->row.about = signal->row;
		g->row.fence = g->fence;
		r = run_put(b, s, &g->row, e);
		if (r < 0)
			return r;
		step = run_step_find(s, g->position);
	}
	say_stored(g, step);
	return 0;
}

int run_signal_take(struct rails *l, const char *id, uint64_t fence, const char *position,
		    const char *name, struct run_begin *ret, struct err *e)
{
	struct run_waiting g = {
		.id = id, .fence = fence, .position = position, .kind = "signal", .name = name};
	uint8_t key[SHA256_BYTES];
	int r = run_check_text("the position of a signal", position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("the name of a signal", name, RUN_NAME_MAX, true, e);
	if (r < 0)
		return r;
	wait_key(g.kind, position, name, NULL, NULL, key);
	g.row = (struct run_row){.type = RUN_ROW_SIGNAL_TAKEN,
				 .position = run_bytes(position),
				 .kind = run_bytes(g.kind),
				 .name = run_bytes(name),
				 .key = {key, sizeof(key)}};
	return begin(l, &g, turn_take, ret, e);
}
