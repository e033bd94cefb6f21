/* Instructions and their keys; see build.h. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/sha.h"
#include "base/str.h"
#include "core/build.h"
#include "store/key.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- images ---- */

/* A key's own before those that all share; another key's are none. */
static int find_of(struct build *b, const char *clean, struct image *im, struct err *e)
{
	char own[KEY_NAME_SIZE];
	int r;

	if (!b->o.owner)
		return image_find(&b->cove->state, clean, im, e);
	r = key_name_in(b->o.owner, KEY_OF_IMAGE, clean, own, e);
	if (r == 0)
		r = image_find(&b->cove->state, own, im, e);
	if (r != -ENOENT || key_name_plain(KEY_OF_IMAGE, clean) != clean)
		return r;
	image_done(im);
	*im = (struct image){0};
	return image_find(&b->cove->state, clean, im, e);
}

int build_image_find(struct build *b, const struct df_instruction *in, const char *name,
		     struct image **ret, struct err *e)
{
	struct image *im = calloc(1, sizeof(*im));
	char clean[IMAGE_NAME_MAX + 1];
	int r = im ? image_name_clean(name, clean, e) : err_errno(e, ENOMEM, "find an image");

	if (r == 0)
		r = find_of(b, clean, im, e);
	if (r == -ENOENT && in->kind != DF_FROM)
		err_set(e, ERR_NOT_FOUND, ENOENT, "no stage and no image '%.80s'", name);
	else if (r == -ENOENT)
		err_set(e, ERR_NOT_FOUND, ENOENT,
			"there is no image '%.80s': get it with 'cove image pull %.80s'", name,
			name);
	if (r == 0 && im->is_host)
		r = err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			    "'host' is this machine's own programs, on which nothing can be built");
	if (r == 0 && im->platform && strcmp(im->platform, b->platform) != 0 &&
	    !str_starts(im->platform, b->platform))
		r = err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			    "image '%.80s' is for %.40s, not for %s", name, im->platform,
			    b->platform);
	if (r < 0) {
		err_prefix(e, "line %u", in->line);
		if (im)
			image_done(im);
		free(im);
		return r;
	}
	*ret = im;
	return 0;
}

static int copy_items(struct build_words *to, const struct image_items *from)
{
	int r = 0;

	for (size_t i = 0; i < from->count && r == 0; i++)
		r = build_words_add(to, from->at[i]);
	return r;
}

static int copy_text(char **to, const char *from)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

static int config_of(const struct image_config *c, struct build_config *ret)
{
	int r = copy_text(&ret->user, c->user);

	if (r == 0)
		r = copy_text(&ret->cwd, c->cwd);
	if (r == 0)
		r = copy_text(&ret->stop_signal, c->stop_signal);
	if (r == 0)
		r = copy_items(&ret->env, &c->env);
	if (r == 0)
		r = copy_items(&ret->entrypoint, &c->entrypoint);
	if (r == 0)
		r = copy_items(&ret->cmd, &c->cmd);
	if (r == 0)
		r = copy_items(&ret->shell, &c->shell);
	if (r == 0)
		r = copy_items(&ret->labels, &c->labels);
	if (r == 0)
		r = copy_items(&ret->ports, &c->ports);
	return r < 0 ? r : copy_items(&ret->volumes, &c->volumes);
}

int build_history_add(struct build_made *m, const char *by, uint64_t created_ms, bool empty)
{
	struct build_history *list =
		realloc(m->history, (m->history_count + 1) * sizeof(*m->history));

	if (!list)
		return -ENOMEM;
	m->history = list;
	list[m->history_count] =
		(struct build_history){.created_ms = created_ms, .empty = empty, .by = strdup(by)};
	return list[m->history_count].by ? (m->history_count++, 0) : -ENOMEM;
}

/* An image that says less of its steps than it has layers: each layer has one. */
static int add_history(struct build_made *m, const struct image *im, const char *name)
{
	size_t said = 0;
	char by[IMAGE_NAME_MAX + 8];
	int r = 0;

	for (size_t i = 0; i < im->history_count; i++)
		said += !im->history[i].empty;
	snprintf(by, sizeof(by), "FROM %s", name);
	for (; said < im->layer_count && r == 0; said++)
		r = build_history_add(m, by, im->created_ms, false);
	for (size_t i = 0; i < im->history_count && r == 0; i++)
		r = build_history_add(m, im->history[i].by ? im->history[i].by : "",
				      im->history[i].created_ms, im->history[i].empty);
	return r;
}

/* Under the lock from the look at its record on: what it stands on stays. */
static int begin_with_image(struct build *b, const struct build_stage *s, struct build_made *m,
			    struct build_config *config, struct err *e)
{
	struct image *im = NULL;
	autoclose int lock = -1;
	int r = layers_lock(&b->cove->state, &lock, e);

	if (r == 0)
		r = build_image_find(b, s->from, s->base, &im, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < im->layer_count && r == 0; i++) {
		r = build_words_add(&m->layers, im->layers[i]);
		if (r == 0)
			r = layer_pins_add(&b->cove->state, &b->pins, im->layers[i], e);
	}
	if (r == 0)
		r = add_history(m, im, s->base);
	if (r == 0)
		r = config_of(&im->config, config);
	image_done(im);
	free(im);
	return r < 0 && e->kind == ERR_NONE ? err_errno(e, -r, "begin with '%s'", s->base) : r;
}

/* Its layers are there when it has been made. */
static int begin_with_stage(const struct build_made *from, struct build_made *m,
			    struct build_config *config, struct err *e)
{
	int r = build_config_copy(config, &from->config);

	memcpy(m->key, from->key, sizeof(m->key));
	return r < 0 ? err_errno(e, -r, "begin with a stage") : 0;
}

/* ---- keys ---- */

static void add_text(struct sha *sha, const char *text)
{
	sha_add(sha, text ? text : "\1", strlen(text ? text : "\1") + 1);
}

static void add_words(struct sha *sha, const struct build_words *w)
{
	for (size_t i = 0; i < w->count; i++)
		add_text(sha, w->list[i]);
	add_text(sha, "\2");
}

/* Where something is copied from: the context's own bytes, the key of a stage, or an image's
 * layers. */
static int add_source(struct build *b, struct build_item *item, const char *from,
		      const struct build_words *words, struct sha *sha, struct err *e)
{
	char hash[65];
	struct image *im = NULL;
	int r, stage;

	if (!from) {
		r = words->count ? build_context_hash(b, words, hash, e) : 0;
		if (r == 0 && words->count)
			add_text(sha, hash);
		return r;
	}
	add_words(sha, words);
	stage = build_plan_find(&b->plan, from, item->stage);
	if (stage >= 0) {
		add_text(sha, b->stages[stage].key);
		return 0;
	}
	r = build_image_find(b, item->step.in, from, &im, e);
	for (size_t i = 0; r == 0 && i < im->layer_count; i++)
		add_text(sha, im->layers[i]);
	if (im)
		image_done(im);
	free(im);
	return r;
}

static int add_run(struct build *b, struct build_item *item, struct sha *sha, struct err *e)
{
	const struct build_step *s = &item->step;

	add_words(sha, &s->argv);
	add_text(sha, s->input);
	add_text(sha, item->user);
	add_text(sha, item->cwd);
	add_text(sha, s->no_network ? "closed" : "");
	for (size_t i = 0; i < s->env.count; i++) {
		autofree char *name = strndup(s->env.list[i], strcspn(s->env.list[i], "="));

		if (!name)
			return err_errno(e, ENOMEM, "make a key");
		if (!build_arg_is_predefined(name))
			add_text(sha, s->env.list[i]);
	}
	for (size_t i = 0; i < s->mount_count; i++) {
		const struct build_mount *m = &s->mounts[i];
		struct build_words words = {0};
		int r;

		add_text(sha, m->target);
		add_text(sha, m->id);
		add_text(sha, m->source);
		if (m->kind != MOUNT_BIND)
			continue;
		r = build_words_add(&words, m->source ? m->source : ".");
		if (r == 0)
			r = add_source(b, item, m->from, &words, sha, e);
		build_words_done(&words);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_copy(struct build *b, struct build_item *item, struct sha *sha, struct err *e)
{
	const struct build_step *s = &item->step;
	char mode[16];

	snprintf(mode, sizeof(mode), "%d", s->mode);
	add_text(sha, mode);
	add_text(sha, s->chown);
	add_text(sha, s->dest);
	add_words(sha, &s->file_names);
	add_words(sha, &s->file_texts);
	add_words(sha, &s->sources);
	return add_source(b, item, s->from, &s->sources, sha, e);
}

/* Depends on the key before it, and becomes the stage's. */
static int make_key(struct build *b, struct build_item *item, struct err *e)
{
	struct build_made *m = &b->stages[item->stage];
	uint8_t sum[SHA256_BYTES];
	struct sha sha;
	int r = 0;

	sha256_init(&sha);
	add_text(&sha, "cove build 1");
	/* What a key's commands fetched, with its secrets perhaps, is no other's. */
	if (b->o.owner)
		add_text(&sha, b->o.owner);
	add_text(&sha, m->key);
	add_text(&sha, df_kind_name(item->step.in->kind));
	if (item->step.kind == STEP_RUN) {
		r = add_run(b, item, &sha, e);
	} else if (item->step.kind == STEP_COPY) {
		r = add_copy(b, item, &sha, e);
	} else {
		add_text(&sha, item->step.dest);
		add_text(&sha, item->user);
	}
	sha_end(&sha, sum);
	sha256_hex(sum, sizeof(sum), item->key);
	memcpy(m->key, item->key, sizeof(m->key));
	if (r < 0 && !str_starts(e->msg, "line "))
		err_prefix(e, "line %u", item->step.in->line);
	return r;
}

/* ---- stages ---- */

static int resolve_instruction(struct build *b, struct build_state *state,
			       const struct df_instruction *in, struct build_item *item,
			       struct err *e)
{
	int r = build_state_next(state, in, &item->step, e);

	if (r < 0)
		return r;
	if (copy_text(&item->user, state->config.user) < 0 ||
	    copy_text(&item->cwd, state->config.cwd) < 0)
		return err_errno(e, ENOMEM, "line %u", in->line);
	return item->step.kind == STEP_NONE ? 0 : make_key(b, item, e);
}

static int resolve_stage(struct build *b, size_t index, struct err *e)
{
	const struct build_stage *s = &b->plan.stages[index];
	struct build_made *m = &b->stages[index];
	struct build_config config = {0};
	struct build_state state;
	int r = 0;

	if (s->base_stage >= 0)
		r = begin_with_stage(&b->stages[s->base_stage], m, &config, e);
	else if (strcmp(s->base, "scratch") != 0)
		r = begin_with_image(b, s, m, &config, e);
	if (r == 0 && s->base_stage < 0)
		build_layers_hash(&m->layers, m->key);
	if (r == 0)
		r = build_state_init(&state, &b->plan, index, &config, e);
	build_config_done(&config);
	if (r < 0)
		return r;
	m->first = b->item_count;
	for (size_t i = s->first; i < s->end && r == 0; i++) {
		struct build_item *item = &b->items[b->item_count++];

		item->stage = index;
		r = resolve_instruction(b, &state, &b->file.list[i], item, e);
		m->count++;
	}
	if (r == 0) {
		m->config = state.config;
		state.config = (struct build_config){0};
	}
	build_state_done(&state);
	return r;
}

int build_resolve(struct build *b, struct err *e)
{
	int r = 0;

	b->stages = calloc(b->plan.count, sizeof(*b->stages));
	b->items = calloc(b->file.count, sizeof(*b->items));
	if (!b->stages || !b->items)
		return err_errno(e, ENOMEM, "read the Dockerfile");
	for (size_t i = 0; i < b->plan.count && r == 0; i++)
		if (b->plan.stages[i].needed)
			r = resolve_stage(b, i, e);
	return r;
}
