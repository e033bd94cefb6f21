/* Steps: begun once, done once, and what came of them given to who asks again; see run.h. */
#include "rails/run.h"

#include "base/str.h"
#include "rails/run_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a step is known by ---- */

/* A length before each, so that no two lists of texts are the same bytes. */
static void hash_part(struct sha *sha, const void *p, size_t n)
{
	uint64_t len = n;

	sha_add(sha, &len, sizeof(len));
	if (n)
		sha_add(sha, p, n);
}

static void hash_text(struct sha *sha, const char *text)
{
	hash_part(sha, text, text ? strlen(text) : 0);
}

static int key_of(const struct run_step_spec *spec, const struct run_payload *arguments,
		  uint8_t ret[SHA256_BYTES], struct err *e)
{
	char digest[SHA256_HEX_SIZE];
	struct sha sha;

	if (spec->depends_count > RUN_DEPENDS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "a step depends on at most %u hashes",
			       RUN_DEPENDS_MAX);
	sha256_init(&sha);
	hash_text(&sha, "cove step 1");
	hash_text(&sha, spec->kind);
	hash_text(&sha, spec->name);
	hash_text(&sha, spec->position);
	/* By their hash: so it is the same key whether they are a blob or not. */
	if (arguments->digest[0])
		str_copy(digest, sizeof(digest), arguments->digest);
	else
		sha256_hex(arguments->bytes.p ? arguments->bytes.p : "", arguments->bytes.len,
			   digest);
	hash_text(&sha, digest);
	for (size_t i = 0; i < spec->depends_count; i++)
		hash_part(&sha, spec->depends[i], SHA256_BYTES);
	sha_end(&sha, ret);
	return 0;
}

int run_step_key(const struct run_step_spec *spec, uint8_t ret[SHA256_BYTES], struct err *e)
{
	struct run_payload arguments = {.bytes = {spec->arguments.p, spec->arguments.len}};

	if (!spec->arguments.p && spec->arguments.fd > 0)
		return err_set(e, ERR_INVALID, EINVAL, "arguments from a descriptor have no key");
	return key_of(spec, &arguments, ret, e);
}

void run_operation_id(const char *id, const char *position, char ret[RUN_OPERATION_ID + 1])
{
	char hex[SHA256_HEX_SIZE];
	uint8_t sum[SHA256_BYTES];
	struct sha sha;

	sha256_init(&sha);
	hash_text(&sha, "cove operation");
	hash_text(&sha, id);
	hash_text(&sha, position);
	sha_end(&sha, sum);
	str_hex(sum, sizeof(sum), hex);
	memcpy(ret, hex, RUN_OPERATION_ID);
	ret[RUN_OPERATION_ID] = 0;
}

int run_diverged(const struct run_state *s, const struct run_step *step, const char *kind,
		 const char *name, struct err *e)
{
	bool same = strcmp(step->kind, kind) == 0 && strcmp(step->name, name) == 0;

	return err_set(e, ERR_CONFLICT, EXDEV,
		       "at %s run '%s' has the %s '%.40s', and is asked for %s '%.40s'%s",
		       step->position, s->id.id, step->kind, step->name, kind, name,
		       same ? " with other arguments" : "");
}

/* ---- begin ---- */

struct beginning {
	const char *id;
	uint64_t fence;
	const struct run_step_spec *spec;
	struct run_row row;
	struct run_begin *ret;
	struct run_place place; /* of the result that is stored */
};

static int start(struct beginning *g, struct rails_batch *b, struct run_state *s, uint32_t attempt,
		 struct err *e)
{
	g->row.attempt = attempt;
	g->row.fence = g->fence;
	g->ret->begun = RUN_BEGUN_STARTED;
	g->ret->attempt = attempt;
	return run_put(b, s, &g->row, e);
}

/* When the attempt after this one may begin. */
static uint64_t retry_at(const struct run_step *step)
{
	uint32_t times = step->attempts < 20 ? step->attempts : 20;

	return step->ended_ms + (step->backoff_ms << (times ? times - 1 : 0));
}

static int begin_again(struct beginning *g, struct rails_batch *b, struct run_state *s,
		       struct run_step *step, struct err *e)
{
	struct run_begin *ret = g->ret;

	ret->attempt = step->attempts;
	switch (step->state) {
	case RUN_STEP_STARTED:
		if (step->fence == g->fence)
			return err_set(e, ERR_CONFLICT, EINPROGRESS,
				       "step %s of run '%s' is under way", step->position, g->id);
		ret->begun = RUN_BEGUN_INTERRUPTED;
		return 0;
	case RUN_STEP_DONE:
		if ((step->flags | g->spec->flags) & RUN_STEP_UNCACHED && step->fence != g->fence &&
		    !(step->flags & RUN_STEP_SKIPPED))
			break;
		ret->begun = RUN_BEGUN_STORED;
		ret->is_skipped = step->flags & RUN_STEP_SKIPPED;
		g->place = step->last;
		return 0;
	case RUN_STEP_FAILED:
		g->place = step->last;
		ret->retry_at_ms = retry_at(step);
		ret->begun = step->flags & RUN_STEP_FINAL ? RUN_BEGUN_FAILED : RUN_BEGUN_LATER;
		if (ret->begun == RUN_BEGUN_LATER &&
		    ret->retry_at_ms <= rails_now_ms(rails_of_batch(b)))
			break;
		return 0;
	default:
		break;
	}
	g->place = (struct run_place){0};
	if (step->attempts >= RUN_ATTEMPTS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "step %s of run '%s' was tried %u times",
			       step->position, g->id, step->attempts);
	return start(g, b, s, step->attempts + 1, e);
}

static int turn_begin(void *arg, struct rails_batch *b, struct err *e)
{
	struct beginning *g = arg;
	struct run_state *s;
	struct run_step *step;
	int r = run_of_owner(b, g->id, g->fence, false, &s, e);

	if (r < 0)
		return r;
	step = run_step_find(s, g->spec->position);
	if (!step)
		return start(g, b, s, 1, e);
	if (memcmp(step->key, g->row.key.p, SHA256_BYTES) != 0)
		return run_diverged(s, step, g->spec->kind, g->spec->name, e);
	return begin_again(g, b, s, step, e);
}

/* What an earlier attempt left: its result, or why it failed. */
static int fetch(struct rails *l, const struct beginning *g, struct err *e)
{
	struct rails_name name = {.space = RAILS_RUNS};
	struct run_begin *ret = g->ret;
	struct run_row row;
	uint8_t *text;
	int r;

	if (g->place.bytes == 0)
		return 0;
	str_copy(name.id, sizeof(name.id), g->id);
	r = run_row_read(l, &name, &g->place, &row, &text, e);
	if (r < 0)
		return r;
	if (ret->begun == RUN_BEGUN_FAILED || ret->begun == RUN_BEGUN_LATER) {
		const struct rails_bytes *why = row.text.len ? &row.text : &row.reason;

		err_set(&ret->error, ERR_INTERNAL, 0, "%.*s", (int)why->len,
			why->len ? (const char *)why->p : "");
	}
	r = run_result_read(l, g->id, &row.result, &ret->result, e);
	free(text);
	return r;
}

static int check_spec(const struct run_step_spec *spec, struct err *e)
{
	int r = run_check_text("the position of a step", spec->position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("the kind of a step", spec->kind, RUN_KIND_MAX, true, e);
	if (r == 0)
		r = run_check_text("the name of a step", spec->name, RUN_NAME_MAX, true, e);
	return r;
}

int run_step_begin(struct rails *l, const char *id, uint64_t fence,
		   const struct run_step_spec *spec, struct run_begin *ret, struct err *e)
{
	struct run_begin out = {0};
	struct beginning g = {.id = id, .fence = fence, .spec = spec, .ret = &out};
	uint8_t key[SHA256_BYTES];
	struct run_kept arguments;
	int r = check_spec(spec, e);

	if (r == 0)
		r = run_keep(l, id, false, &spec->arguments, &arguments, e);
	if (r < 0)
		return r;
	r = key_of(spec, &arguments.payload, key, e);
	g.row = (struct run_row){
		.type = RUN_ROW_STEP_START,
		.position = run_bytes(spec->position),
		.kind = run_bytes(spec->kind),
		.name = run_bytes(spec->name),
		.key = {key, sizeof(key)},
		.flags = spec->flags & (RUN_STEP_IDEMPOTENT | RUN_STEP_UNCACHED),
		.retries = spec->retries,
		.backoff_ms = spec->backoff_ms,
		.depends = {spec->depends, spec->depends_count * SHA256_BYTES},
		.result = arguments.payload,
	};
	if (r == 0)
		r = rails_commit(l, run_put_room(&g.row), turn_begin, &g, e);
	run_kept_done(&arguments);
	if (r == 0)
		r = fetch(l, &g, e);
	if (r < 0)
		return r;
	run_operation_id(id, spec->position, out.operation_id);
	*ret = out;
	return 0;
}

void run_begin_done(struct run_begin *b)
{
	run_result_done(&b->result);
}

/* ---- end ---- */

struct run_ending {
	const char *id, *position;
	uint64_t fence;
	uint32_t attempt;
	struct run_row row;
};

static int turn_done(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_ending *g = arg;
	struct run_state *s;
	const struct run_step *step;
	int r = run_of_owner(b, g->id, g->fence, true, &s, e);

	if (r < 0)
		return r;
	step = run_step_find(s, g->position);
	if (!step)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "run '%s' has no step %s", g->id,
			       g->position);
	if (step->state != RUN_STEP_STARTED || step->fence != g->fence ||
	    step->attempts != g->attempt)
		return err_set(e, ERR_CONFLICT, EALREADY,
			       "attempt %u at step %s of run '%s' is not under way", g->attempt,
			       g->position, g->id);
	g->row.fence = g->fence;
	g->row.attempt = g->attempt;
	if (g->row.type == RUN_ROW_STEP_FAILED && step->attempts > step->retries)
		g->row.flags |= RUN_STEP_FINAL;
	return run_put(b, s, &g->row, e);
}

int run_step_done(struct rails *l, const char *id, uint64_t fence, const char *position,
		  uint32_t attempt, const struct run_step_end *end, struct err *e)
{
	struct run_ending g = {.id = id, .position = position, .fence = fence, .attempt = attempt};
	struct run_kept kept;
	int r = run_check_text("the position of a step", position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("an error", end->error, RUN_TEXT_MAX, false, e);
	if (r == 0)
		r = run_check_text("the box of a step", end->box, BOX_NAME_MAX, false, e);
	if (r == 0)
		r = run_check_text("the snapshot of a step", end->snapshot, BOX_NAME_MAX, false, e);
	if (r == 0)
		r = run_keep(l, id, false, &end->result, &kept, e);
	if (r < 0)
		return r;
	g.row = (struct run_row){
		.type = end->error ? RUN_ROW_STEP_FAILED : RUN_ROW_STEP_DONE,
		.position = run_bytes(position),
		.flags = end->error && end->is_final ? RUN_STEP_FINAL : 0,
		.tokens_in = end->tokens_in,
		.tokens_out = end->tokens_out,
		.cost_micros = end->cost_micros,
		.exec_id = end->exec_id,
		.box = run_bytes(end->box),
		.snapshot = run_bytes(end->snapshot),
		.text = run_bytes(end->error),
		.result = kept.payload,
	};
	r = rails_commit(l, run_put_room(&g.row), turn_done, &g, e);
	run_kept_done(&kept);
	return r;
}

/* ---- what is to be done with one of which it is not known ---- */

static int may_resolve(const struct run_ending *g, const struct run_state *s,
		       const struct run_step *step, uint64_t now_ms, struct err *e)
{
	if (!step || (step->flags & RUN_STEP_IS_WAIT))
		return err_set(e, ERR_NOT_FOUND, ENOENT, "run '%s' has no step %s", g->id,
			       g->position);
	if (step->state == RUN_STEP_STARTED && !run_step_is_interrupted(s, step, now_ms))
		return err_set(e, ERR_CONFLICT, EBUSY, "step %s of run '%s' is under way",
			       g->position, g->id);
	if (step->state != RUN_STEP_STARTED &&
	    (step->state != RUN_STEP_FAILED || g->row.how != RUN_RESOLVE_RETRY))
		return err_set(e, ERR_CONFLICT, EALREADY,
			       "what came of step %s of run '%s' is known", g->position, g->id);
	if (g->row.how == RUN_RESOLVE_RETRY && g->fence && !(step->flags & RUN_STEP_IDEMPOTENT))
		return err_set(e, ERR_DENIED, EPERM,
			       "step %s of run '%s' may have had its effect: a person says whether "
			       "it is tried again, as it is not declared idempotent",
			       g->position, g->id);
	return 0;
}

static int turn_resolve(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_ending *g = arg;
	struct run_state *s;
	int r = g->fence ? run_of_owner(b, g->id, g->fence, false, &s, e)
			 : run_in_turn(b, g->id, &s, e);

	if (r == 0)
		r = may_resolve(g, s, run_step_find(s, g->position),
				rails_now_ms(rails_of_batch(b)), e);
	return r < 0 ? r : run_put(b, s, &g->row, e);
}

int run_step_resolve(struct rails *l, const char *id, uint64_t fence, const char *position,
		     enum run_resolve how, const char *by, const char *reason,
		     const struct run_data *result, struct err *e)
{
	struct run_ending g = {.id = id, .position = position, .fence = fence};
	struct run_kept kept;
	int r = run_check_text("the position of a step", position, RUN_POSITION_MAX, true, e);

	if (r == 0)
		r = run_check_text("who resolves it", by, RUN_WHO_MAX, fence == 0, e);
	if (r == 0)
		r = run_check_text("a reason", reason, RUN_TEXT_MAX, false, e);
	if (r == 0 && (how < RUN_RESOLVE_RETRY || how > RUN_RESOLVE_FAIL))
		r = err_set(e, ERR_INVALID, EINVAL, "a step is retried, skipped or failed");
	if (r == 0)
		r = run_keep(l, id, false, result, &kept, e);
	if (r < 0)
		return r;
	g.row = (struct run_row){
		.type = RUN_ROW_STEP_RESOLVED,
		.position = run_bytes(position),
		.fence = fence,
		.how = how,
		.by = run_bytes(by),
		.reason = run_bytes(reason),
		.result = kept.payload,
	};
	r = rails_commit(l, run_put_room(&g.row), turn_resolve, &g, e);
	run_kept_done(&kept);
	return r;
}
