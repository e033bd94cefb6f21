/*
 * Making what a build needs, step by step; see build.h.
 *
 * RUN --mount: what a bind shows is a layer of its own on top of the others, for that command
 * alone, as are the empty directories of caches and tmpfs. What the command writes to any of them
 * is not kept.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/size.h"
#include "base/str.h"
#include "core/build.h"
#include "core/build_add.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build_making {
	struct build *b;
	const struct build_item *item;
	struct build_made *stage;
	uint64_t since_ms;
};

/* ---- events ---- */

static void tell(struct build *b, const struct build_item *item, struct cove_build_event *ev)
{
	const struct df_instruction *from = b->plan.stages[item->stage].from;

	if (!b->o.on_event)
		return;
	ev->step = b->step;
	ev->steps = b->steps;
	ev->line = ev->line ? ev->line : item->step.in->line;
	ev->stage = from->args.count > 1 ? from->args.list[1] : NULL;
	if (!ev->text)
		ev->text = item->step.text;
	b->o.on_event(b->o.arg, ev);
}

static void on_output(void *arg, bool is_err, const void *data, size_t len)
{
	struct build_making *m = arg;

	tell(m->b, m->item,
	     &(struct cove_build_event){
		     .type = is_err ? COVE_BUILD_ERR : COVE_BUILD_OUT, .data = data, .len = len});
}

static void on_note(void *arg, const char *text)
{
	struct build_making *m = arg;

	tell(m->b, m->item, &(struct cove_build_event){.type = COVE_BUILD_NOTE, .text = text});
}

/* ---- how much it is ---- */

static uint64_t left(const struct build *b)
{
	uint64_t n = b->bytes < b->bytes_max ? b->bytes_max - b->bytes : 1;

	return n < LAYER_BYTES_MAX ? n : LAYER_BYTES_MAX;
}

/* A layer that is held by now; `before` it so many were. */
static int count_layer(struct build *b, size_t before, uint64_t bytes, struct err *e)
{
	char max[SIZE_TEXT];

	if (b->pins.count > before)
		b->bytes += bytes;
	if (b->bytes <= b->bytes_max)
		return 0;
	return err_set(e, ERR_LIMIT, EFBIG,
		       "the layers of this build hold more than %s: give it more with --disk",
		       size_format(max, b->bytes_max));
}

/* ---- where files come from ---- */

/* The layers of a stage or an image; NULL is the context. */
static int find_source(struct build_making *m, const char *from, struct build_words *own,
		       const struct build_words **ret, struct err *e)
{
	struct image *im = NULL;
	int stage, r;

	*ret = NULL;
	if (!from)
		return 0;
	stage = build_plan_find(&m->b->plan, from, m->item->stage);
	if (stage >= 0) {
		*ret = &m->b->stages[stage].layers;
		return 0;
	}
	r = build_image_find(m->b, m->item->step.in, from, &im, e);
	for (size_t i = 0; r == 0 && i < im->layer_count; i++)
		r = build_words_add(own, im->layers[i]);
	if (im)
		image_done(im);
	free(im);
	*ret = own;
	return r;
}

static int make_tree(struct build_making *m, const struct build_step *step, const char *from,
		     const struct build_words *layers, struct build_layer *ret, struct err *e)
{
	struct build *b = m->b;
	struct build_words own = {0};
	size_t pins = b->pins.count;
	struct build_tree t = {.step = step,
			       .layers = layers,
			       .user = step->kind == STEP_WORKDIR ? m->item->user : NULL,
			       .pins = &b->pins,
			       .bytes_max = left(b),
			       .cancel_fd = b->o.cancel_fd,
			       .context_fd = b->context_fd,
			       .ignore = &b->ignore};
	struct build_expansions x = {.bytes_max = t.bytes_max < BUILD_EXPANDED_BYTES_MAX
							  ? t.bytes_max
							  : BUILD_EXPANDED_BYTES_MAX};
	struct build_source context = {
		.root_fd = b->context_fd, .ignore = &b->ignore, .cancel_fd = b->o.cancel_fd};
	int r = find_source(m, from, &own, &t.from, e);

	if (r == 0 && step->unpack && step->sources.count > 0)
		r = build_expand_sources(b->cove, &context, step, &x, e);
	t.expanded = x.list;
	t.expanded_count = x.count;
	if (r == 0)
		r = build_tree_make(b->cove, &t, ret, e);
	if (r == 0)
		r = count_layer(b, pins, ret->bytes, e);
	build_expand_done(&x);
	build_words_done(&own);
	return r;
}

/* ---- RUN ---- */

/* An absolute path below the working directory. */
static int mount_target(const struct build_item *item, const struct build_mount *m,
			char ret[BOX_PATH_MAX], struct err *e)
{
	char all[BOX_PATH_MAX];

	if (*m->target == '/'
		    ? !str_copy(all, sizeof(all), m->target)
		    : !path_join(all, sizeof(all), item->cwd ? item->cwd : "/", m->target))
		return err_set(e, ERR_INVALID, ENAMETOOLONG, "a mount's target is too long");
	if (!path_normalize(ret, BOX_PATH_MAX, all) || strcmp(ret, "/") == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is no target for a mount",
			       m->target);
	return 0;
}

static int add_mount(struct build_making *mk, const struct build_mount *m,
		     struct build_words *layers, struct build_words *drops, struct err *e)
{
	struct build_step step = {.kind = m->kind == MOUNT_BIND ? STEP_COPY : STEP_WORKDIR,
				  .in = mk->item->step.in,
				  .mode = -1};
	struct build_layer made = {0};
	char target[BOX_PATH_MAX];
	int r = mount_target(mk->item, m, target, e);

	step.dest = target;
	if (r == 0 && m->kind == MOUNT_BIND)
		r = build_words_add(&step.sources, m->source ? m->source : ".");
	if (r == 0)
		r = make_tree(mk, &step, m->kind == MOUNT_BIND ? m->from : NULL, layers, &made, e);
	if (r == 0)
		r = build_words_add(drops, target);
	if (r == 0 && made.id[0])
		r = build_words_add(layers, made.id);
	build_words_done(&step.sources);
	return r;
}

static int make_run(struct build_making *m, struct build_layer *ret, struct err *e)
{
	const struct build_item *item = m->item;
	struct build_words layers = {0}, drops = {0};
	size_t pins;
	struct build_run run = {.step = &item->step,
				.layers = &layers,
				.drops = &drops,
				.pins = &m->b->pins,
				.user = item->user,
				.cwd = item->cwd,
				.options = &m->b->o,
				.secrets = &m->b->secrets,
				.cancel_fd = m->b->o.cancel_fd,
				.on_output = on_output,
				.on_note = on_note,
				.arg = m};
	int r = build_words_add_all(&layers, &m->stage->layers);

	for (size_t i = 0; i < item->step.mount_count && r == 0; i++)
		if (item->step.mounts[i].kind != MOUNT_SECRET)
			r = add_mount(m, &item->step.mounts[i], &layers, &drops, e);
	run.extra_count = layers.count - m->stage->layers.count;
	run.bytes_max = left(m->b);
	pins = m->b->pins.count;
	if (r == 0)
		r = build_run_make(m->b->cove, &run, ret, e);
	if (r == 0)
		r = count_layer(m->b, pins, ret->bytes, e);
	build_words_done(&layers);
	build_words_done(&drops);
	return r;
}

/* ---- one step ---- */

/* The layer of an earlier build, if it is there and was made on just these. */
static bool use_known(struct build *b, const struct build_item *item,
		      const struct build_made *stage, uint64_t *ret_bytes)
{
	autoclose int lock = -1;
	struct layer_meta meta;
	char below[65];

	if (b->o.no_cache || !item->is_known)
		return false;
	build_layers_hash(&stage->layers, below);
	if (strcmp(below, item->below) != 0)
		return false;
	if (!item->layer[0])
		return true;
	if (layers_lock(&b->cove->state, &lock, NULL) < 0 ||
	    layer_read(&b->cove->state, item->layer, &meta) < 0)
		return false;
	*ret_bytes = meta.bytes;
	return layer_pins_add(&b->cove->state, &b->pins, item->layer, NULL) == 0;
}

static int make_layer(struct build_making *m, struct build_layer *ret, struct err *e)
{
	const struct build_step *step = &m->item->step;
	int r;

	if (step->kind == STEP_RUN)
		r = make_run(m, ret, e);
	else
		r = make_tree(m, step, step->from, &m->stage->layers, ret, e);
	if (r == 0)
		build_cache_put(m->b, m->item, ret->id, &m->stage->layers);
	return r;
}

static int do_item(struct build *b, const struct build_item *item, struct err *e)
{
	struct build_made *stage = &b->stages[item->stage];
	struct build_making m = {b, item, stage, clock_mono_ms()};
	struct build_layer made = {0};
	size_t pins = b->pins.count;
	bool known = item->step.kind == STEP_NONE || use_known(b, item, stage, &made.bytes);
	int r = 0;

	b->step++;
	if (!known || !item->key[0])
		tell(b, item, &(struct cove_build_event){.type = COVE_BUILD_STEP});
	if (!known)
		r = make_layer(&m, &made, e);
	else
		r = count_layer(b, pins, made.bytes, e);
	if (known)
		str_copy(made.id, sizeof(made.id), item->layer);
	if (r < 0) {
		if (!str_starts(e->msg, "line "))
			err_prefix(e, "line %u: %.60s", item->step.in->line, item->step.text);
		return r;
	}
	b->cached += known && item->key[0];
	if (made.id[0])
		r = stage->layers.count >= IMAGE_LAYERS_MAX
			    ? err_set(e, ERR_LIMIT, E2BIG, "more than %u layers", IMAGE_LAYERS_MAX)
			    : build_words_add(&stage->layers, made.id);
	if (r == 0)
		r = build_history_add(stage, item->step.text, clock_wall_ms(), !made.id[0]);
	tell(b, item,
	     &(struct cove_build_event){.type = known && item->key[0] ? COVE_BUILD_CACHED
								      : COVE_BUILD_DONE,
					.duration_ms = clock_mono_ms() - m.since_ms,
					.has_layer = made.id[0] != 0});
	return r < 0 && e->kind == ERR_NONE ? err_errno(e, -r, "line %u", item->step.in->line) : r;
}

/* ---- all ---- */

static int begin_stage(struct build *b, size_t index, struct err *e)
{
	const struct build_stage *s = &b->plan.stages[index];
	struct build_made *m = &b->stages[index];
	struct build_item first = {.step = {.in = s->from, .text = s->from->text}, .stage = index};
	int r = 0;

	if (s->base_stage >= 0) {
		const struct build_made *from = &b->stages[s->base_stage];

		r = build_words_add_all(&m->layers, &from->layers);
		for (size_t i = 0; i < from->history_count && r == 0; i++)
			r = build_history_add(m, from->history[i].by, from->history[i].created_ms,
					      from->history[i].empty);
	}
	b->step++;
	tell(b, &first, &(struct cove_build_event){.type = COVE_BUILD_STEP});
	tell(b, &first, &(struct cove_build_event){.type = COVE_BUILD_DONE});
	return r < 0 ? err_errno(e, -r, "begin a stage") : 0;
}

int build_steps_run(struct build *b, struct err *e)
{
	int r = 0;

	b->steps = (unsigned)b->plan.steps;
	for (size_t i = 0; i < b->plan.count && r == 0; i++) {
		const struct build_made *m = &b->stages[i];

		if (!b->plan.stages[i].needed)
			continue;
		r = begin_stage(b, i, e);
		for (size_t k = 0; k < m->count && r == 0; k++) {
			if (fd_is_cancelled(b->o.cancel_fd))
				r = err_set(e, ERR_INTERRUPTED, ECANCELED, "interrupted");
			else
				r = do_item(b, &b->items[m->first + k], e);
		}
	}
	return r;
}
