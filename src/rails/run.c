/* The life of runs: made, had, ended, removed; see run.h. */
#include "rails/run.h"

#include "base/rand.h"
#include "base/str.h"
#include "rails/run_parts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

struct creation {
	const struct run_create_options *o;
	struct run_row row, lease;
	struct run_handle h;
};

/* One with a key has its name from the key: so there is one, and nothing else to look it up in. The
 * others sort by when they were made; the first digit keeps the two apart. */
static void run_name(const struct run_create_options *o, uint64_t now_ms, char ret[RAILS_ID + 1])
{
	char hex[SHA256_HEX_SIZE], more[11];
	uint8_t sum[SHA256_BYTES];
	struct sha sha;

	if (!o->key) {
		rand_hex(more, 5);
		snprintf(ret, RAILS_ID + 1, "%c%010" PRIx64 "%.9s", RUN_ID_OF_TIME,
			 now_ms & 0xffffffffffu, more);
		return;
	}
	sha256_init(&sha);
	sha_add(&sha, "cove run", 9);
	sha_add(&sha, o->scope ? o->scope : "", o->scope ? strlen(o->scope) + 1 : 1);
	sha_add(&sha, o->key, strlen(o->key));
	sha_end(&sha, sum);
	str_hex(sum, sizeof(sum), hex);
	snprintf(ret, RAILS_ID + 1, "%c%.19s", RUN_ID_OF_KEY, hex);
}

static int put_lease(struct rails_batch *b, struct run_state *s, struct run_row *lease,
		     struct err *e)
{
	lease->type = RUN_ROW_LEASE;
	lease->fence = s->fence + 1;
	return run_put(b, s, lease, e);
}

/* The run of that key is there. */
static int create_again(struct creation *c, struct rails_batch *b, struct run_state *s,
			struct err *e)
{
	uint64_t now = rails_now_ms(rails_of_batch(b));
	int r = 0;

	if (memcmp(s->request, c->o->request, sizeof(s->request)) != 0)
		return err_set(e, ERR_CONFLICT, EEXIST,
			       "run '%s' has this key, and was made by another request", s->id.id);
	c->h.status = run_status_at(s, now);
	if (s->said == RUN_RUNNING && !run_is_held_at(s, now)) {
		r = put_lease(b, s, &c->lease, e);
		c->h.fence = s->fence;
	}
	return r;
}

static int turn_create(void *arg, struct rails_batch *b, struct err *e)
{
	struct creation *c = arg;
	struct run_state *s;
	int r = run_in_turn(b, c->h.id, &s, e);

	if (r == 0 && !c->o->key)
		return err_set(e, ERR_CONFLICT, EEXIST, "run '%s' is there already", c->h.id);
	if (r == 0)
		return create_again(c, b, s, e);
	if (r != -ENOENT)
		return r;
	r = run_in_turn_new(b, c->h.id, &s, e);
	if (r < 0)
		return r;
	r = run_put(b, s, &c->row, e);
	if (r < 0) {
		run_forget(b, c->h.id);
		return r;
	}
	/* It cannot be refused: the first one of a new run. */
	ASSERT(put_lease(b, s, &c->lease, e) == 0);
	c->h.fence = s->fence;
	c->h.is_new = true;
	c->h.status = RUN_RUNNING;
	return 0;
}

static int check_create(const struct run_create_options *o, struct err *e)
{
	int r = run_check_text("the name of a run", o->name, RUN_NAME_MAX, false, e);

	if (r == 0)
		r = run_check_text("the owner of a run", o->owner, RUN_WHO_MAX, false, e);
	if (r == 0)
		r = run_check_text("the holder of a run", o->holder, RUN_WHO_MAX, true, e);
	if (r == 0)
		r = run_check_text("the entry of a run", o->entry, RUN_ENTRY_MAX, false, e);
	if (r == 0)
		r = run_check_text("the metadata of a run", o->metadata, RUN_ENTRY_MAX, false, e);
	if (r == 0)
		r = run_check_text("the parent of a run", o->parent, RAILS_ID, false, e);
	if (r == 0 && (o->lease_ms == 0 || o->lease_ms > RUN_LEASE_MS_MAX))
		r = err_set(e, ERR_INVALID, EINVAL, "a lease lasts 1 to %u ms", RUN_LEASE_MS_MAX);
	return r;
}

int run_create(struct rails *l, const struct run_create_options *o, struct run_handle *ret,
	       struct err *e)
{
	struct creation c = {.o = o};
	struct run_kept input;
	int r = check_create(o, e);

	run_name(o, rails_now_ms(l), c.h.id);
	if (r == 0)
		r = run_keep(l, c.h.id, true, &o->input, &input, e);
	if (r < 0)
		return r;
	c.row = (struct run_row){.type = RUN_ROW_CREATED,
				 .id = run_bytes(c.h.id),
				 .name = run_bytes(o->name),
				 .owner = run_bytes(o->owner),
				 .parent = run_bytes(o->parent),
				 .entry = run_bytes(o->entry),
				 .metadata = run_bytes(o->metadata),
				 .request = {o->request, sizeof(o->request)},
				 .result = input.payload};
	c.lease = (struct run_row){.ms = o->lease_ms, .holder = run_bytes(o->holder)};
	r = rails_commit(l, run_put_room(&c.row) + run_put_room(&c.lease), turn_create, &c, e);
	run_kept_done(&input);
	if (r == 0)
		*ret = c.h;
	return r;
}

/* ---- having ---- */

struct leasing {
	const char *id, *holder;
	bool force;
	struct run_row row;
	uint64_t fence;
};

static int turn_lease(void *arg, struct rails_batch *b, struct err *e)
{
	struct leasing *g = arg;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);

	if (r < 0)
		return r;
	if (s->said != RUN_RUNNING)
		return err_set(e, ERR_CONFLICT, EALREADY, "run '%s' is over: %s", g->id,
			       run_status_name(s->said));
	if (!g->force && run_is_held_at(s, rails_now_ms(rails_of_batch(b))) &&
	    strcmp(s->holder, g->holder) != 0)
		return err_set(e, ERR_CONFLICT, EBUSY, "run '%s' is had by '%s'", g->id, s->holder);
	r = put_lease(b, s, &g->row, e);
	g->fence = s->fence;
	return r;
}

int run_lease(struct rails *l, const char *id, const char *holder, uint64_t lease_ms, bool force,
	      uint64_t *ret_fence, struct err *e)
{
	struct leasing g = {.id = id, .holder = holder, .force = force};
	int r = run_check_text("the holder of a run", holder, RUN_WHO_MAX, true, e);

	if (r == 0 && (lease_ms == 0 || lease_ms > RUN_LEASE_MS_MAX))
		r = err_set(e, ERR_INVALID, EINVAL, "a lease lasts 1 to %u ms", RUN_LEASE_MS_MAX);
	if (r < 0)
		return r;
	g.row = (struct run_row){.ms = lease_ms, .holder = run_bytes(holder)};
	r = rails_commit(l, run_put_room(&g.row), turn_lease, &g, e);
	if (r == 0)
		*ret_fence = g.fence;
	return r;
}

/* One row of the owner's, or of somebody's. */
struct saying {
	const char *id;
	uint64_t fence;
	bool over_too;
	struct run_row row;
};

static int turn_say(void *arg, struct rails_batch *b, struct err *e)
{
	struct saying *g = arg;
	struct run_state *s;
	int r = run_of_owner(b, g->id, g->fence, g->over_too, &s, e);

	if (r < 0)
		return r;
	/* What ended has no owner any more. */
	if (g->row.type == RUN_ROW_RELEASED && !s->is_held)
		return 0;
	g->row.fence = g->fence;
	return run_put(b, s, &g->row, e);
}

static int say(struct rails *l, struct saying *g, struct err *e)
{
	return rails_commit(l, run_put_room(&g->row), turn_say, g, e);
}

static int turn_renew(void *arg, struct rails_batch *b, struct err *e)
{
	struct saying *g = arg;
	struct run_state *s;
	char holder[RUN_WHO_MAX + 1];
	int r = run_of_owner(b, g->id, g->fence, false, &s, e);

	if (r < 0)
		return r;
	memcpy(holder, s->holder, sizeof(holder));
	g->row = (struct run_row){.type = RUN_ROW_LEASE,
				  .fence = g->fence,
				  .ms = s->lease_ms,
				  .holder = run_bytes(holder)};
	return run_put(b, s, &g->row, e);
}

int run_renew(struct rails *l, const char *id, uint64_t fence, struct err *e)
{
	struct saying g = {.id = id, .fence = fence};

	return rails_commit(l, run_put_room(&g.row) + RUN_WHO_MAX, turn_renew, &g, e);
}

int run_release(struct rails *l, const char *id, uint64_t fence, struct err *e)
{
	struct saying g = {
		.id = id, .fence = fence, .over_too = true, .row = {.type = RUN_ROW_RELEASED}};

	return say(l, &g, e);
}

int run_log(struct rails *l, const char *id, uint64_t fence, unsigned level, const char *text,
	    const char *fields, struct err *e)
{
	struct saying g = {.id = id,
			   .fence = fence,
			   .over_too = true,
			   .row = {.type = RUN_ROW_LOG,
				   .how = level,
				   .text = run_bytes(text),
				   .metadata = run_bytes(fields)}};
	int r = run_check_text("a line of the log", text, RUN_TEXT_MAX, true, e);

	if (r == 0)
		r = run_check_text("the fields of a line", fields, RUN_ENTRY_MAX, false, e);
	return r < 0 ? r : say(l, &g, e);
}

/* ---- ending ---- */

int run_end(struct rails *l, const char *id, uint64_t fence, enum run_status status,
	    const struct run_data *result, const char *text, const char *origin, struct err *e)
{
	struct saying g = {.id = id, .fence = fence};
	struct run_kept kept;
	int r = run_check_text("an error", text, RUN_TEXT_MAX, false, e);

	if (r == 0)
		r = run_check_text("an origin", origin, RUN_POSITION_MAX, false, e);
	if (r == 0 && status != RUN_COMPLETED && status != RUN_FAILED)
		r = err_set(e, ERR_INVALID, EINVAL, "a run ends completed or failed");
	if (r == 0)
		r = run_keep(l, id, false, result, &kept, e);
	if (r < 0)
		return r;
	g.row = (struct run_row){.type = RUN_ROW_STATUS,
				 .how = status,
				 .text = run_bytes(text),
				 .origin = run_bytes(origin),
				 .result = kept.payload};
	r = say(l, &g, e);
	run_kept_done(&kept);
	return r;
}

static int turn_cancel(void *arg, struct rails_batch *b, struct err *e)
{
	struct saying *g = arg;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);

	if (r < 0 || s->said == RUN_CANCELLED)
		return r;
	if (s->said != RUN_RUNNING)
		return err_set(e, ERR_CONFLICT, EALREADY, "run '%s' is over: %s", g->id,
			       run_status_name(s->said));
	return run_put(b, s, &g->row, e);
}

static int turn_reopen(void *arg, struct rails_batch *b, struct err *e)
{
	struct saying *g = arg;
	struct run_state *s;
	int r = run_in_turn(b, g->id, &s, e);

	if (r < 0 || s->said == RUN_RUNNING)
		return r;
	if (s->said == RUN_COMPLETED)
		return err_set(e, ERR_CONFLICT, EALREADY, "run '%s' is completed", g->id);
	return run_put(b, s, &g->row, e);
}

/* What somebody says who is not its owner. */
static int say_status(struct rails *l, const char *id, enum run_status status, const char *by,
		      const char *reason, rails_on_turn *on_turn, struct err *e)
{
	struct saying g = {.id = id,
			   .row = {.type = RUN_ROW_STATUS,
				   .how = status,
				   .by = run_bytes(by),
				   .reason = run_bytes(reason)}};
	int r = run_check_text("who says so", by, RUN_WHO_MAX, false, e);

	if (r == 0)
		r = run_check_text("a reason", reason, RUN_TEXT_MAX, false, e);
	return r < 0 ? r : rails_commit(l, run_put_room(&g.row), on_turn, &g, e);
}

int run_cancel(struct rails *l, const char *id, const char *by, const char *reason, struct err *e)
{
	return say_status(l, id, RUN_CANCELLED, by, reason, turn_cancel, e);
}

int run_reopen(struct rails *l, const char *id, const char *by, struct err *e)
{
	return say_status(l, id, RUN_RUNNING, by, NULL, turn_reopen, e);
}

static int turn_remove(void *arg, struct rails_batch *b, struct err *e)
{
	struct saying *g = arg;
	struct run_state *s;
	struct rails_name name;
	int r = run_in_turn(b, g->id, &s, e);

	/* One that is damaged can go, too. */
	if (r < 0 && r != -EBADMSG)
		return r == -ENOENT ? 0 : r;
	if (r == 0 && s->said == RUN_RUNNING && run_is_held_at(s, rails_now_ms(rails_of_batch(b))))
		return err_set(e, ERR_CONFLICT, EBUSY, "run '%s' is had by '%s': cancel it first",
			       g->id, s->holder);
	name = (struct rails_name){.space = RAILS_RUNS};
	str_copy(name.id, sizeof(name.id), g->id);
	rails_add_removal(b, &name);
	run_forget(b, g->id);
	return 0;
}

int run_remove(struct rails *l, const char *id, struct err *e)
{
	struct saying g = {.id = id};
	int r = run_check_id(id, e);

	return r < 0 ? (r == -ENOENT ? 0 : r) : rails_commit(l, RAILS_ROW_COST, turn_remove, &g, e);
}
