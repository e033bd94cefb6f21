/*
 * Snapshots, for callers of the library: taking one, listing. How many are kept: retention.c.
 *
 * Taking one: copy (commit.c); the box goes on; layers below that have become many are made one
 * (flatten.c); then under the layers' lock its layers get their names and the record is written. A
 * crash before the record leaves layers that nothing refers to, or half-made ones, which are swept;
 * a snapshot that is listed is whole.
 */
#include "core/snapshot.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/lines.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/flatten.h"
#include "core/key_usage.h"
#include "core/view.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NAME_TRIES = 8, NAME_NUMBER_MAX = 9999, BOX_PART = 40 };

/* ---- taking one ---- */

/* The number of the last that was named after the same box and second; 0: there is none. */
static int find_last(struct state *s, const char *first, unsigned *ret, struct err *e)
{
	autoclose int fd = fd_open_below(s->home_fd, "snapshots", false);
	size_t count = 0, len = strlen(first);
	char **names = NULL;
	uint64_t number;
	int r = state_names(fd, &names, &count);

	*ret = 0;
	for (size_t i = 0; i < count && r >= 0; i++) {
		const char *end = names[i] + len;

		if (strncmp(names[i], first, len) != 0)
			continue;
		if (*end == 0)
			number = 1;
		else if (*end != '-' || !str_parse_u64(end + 1, NAME_NUMBER_MAX, &number))
			continue;
		if (number > *ret)
			*ret = (unsigned)number;
	}
	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "list the snapshots") : 0;
}

/* A rule never removes the last, so that the name of one that it removed is not given again. */
static int fresh_name(struct state *s, char ret[BOX_NAME_MAX + 1], const char *box, int tries,
		      struct err *e)
{
	time_t now = time(NULL);
	struct tm tm;
	char when[16] = "", first[BOX_PART + 1 + sizeof(when)];
	unsigned last;
	int r;

	gmtime_r(&now, &tm);
	strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
	snprintf(first, sizeof(first), "%.*s-%s", BOX_PART, box, when);
	r = find_last(s, first, &last, e);
	if (r < 0)
		return r;
	last += (unsigned)tries;
	if (last == 0)
		str_copy(ret, BOX_NAME_MAX + 1, first);
	else
		snprintf(ret, BOX_NAME_MAX + 1, "%s-%u", first, last + 1);
	return 0;
}

/* The texts that a snapshot of a commit points to. */
struct snapshot_texts {
	struct buf spec;
	char id[LAYER_ID_SIZE];
	char *policy; /* owned */
	struct flatten flat, workspace_flat;
};

static int add_layer(const char **list, size_t *count, const char *id, struct err *e)
{
	if (*count >= SPEC_LAYER_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "it would stand on more than %u layers",
			       SPEC_LAYER_MAX);
	list[(*count)++] = id;
	return 0;
}

/* What it stood on, with one in the place of those that have become one, and above it its own. */
static int list_layers(const char *const *below, size_t count, const struct flatten *flat,
		       const struct commit_tree *own, const char **list, size_t *ret_count,
		       struct err *e)
{
	size_t i = 0;
	int r = 0;

	while (i < count && r == 0) {
		bool is_flat = flat->count && i == flat->first;

		r = add_layer(list, ret_count, is_flat ? flat->id : below[i], e);
		i += is_flat ? flat->count : 1;
	}
	if (r == 0 && own->is_there)
		r = add_layer(list, ret_count, own->id, e);
	return r;
}

static int fill(const struct commit *c, const struct snapshot_make *how, struct snapshot_texts *t,
		struct snapshot *sn, struct err *e)
{
	const struct spec *spec = &c->record.spec;
	int r = spec_format(spec, &t->spec);

	layer_random_id(t->id);
	if (r == 0 && spec->net && strcmp(spec->net, "file") == 0)
		r = fd_read_file(c->box_fd, NET_POLICY_FILE, DOOR_POLICY_MAX, &t->policy, NULL);
	if (r < 0)
		return err_errno(e, -r, "describe box '%s'", c->box);
	*sn = (struct snapshot){
		.id = t->id,
		.parent = spec->from,
		.box = c->box,
		.box_created_ms = spec->created_ms,
		.workspace = spec->workspace,
		.spec = buf_cstr(&t->spec),
		.policy = t->policy,
		.storage = c->storage,
		.created_ms = clock_wall_ms(),
		.bytes = c->root.meta.bytes + c->workspace.meta.bytes,
		.files = c->root.meta.files + c->workspace.meta.files,
		.left_out = c->left_out,
		.frozen_us = c->frozen_us,
		.total_us = c->total_us,
		.unfrozen = c->unfrozen,
		.inside = how->inside,
		.transient = how->transient,
	};
	return sn->spec ? 0 : err_errno(e, ENOMEM, "describe box '%s'", c->box);
}

/* Under the layers' lock. */
static int write_named(struct commit *c, const struct snapshot_make *how, struct snapshot *sn,
		       struct err *e)
{
	char token[9];
	int r = -EEXIST;

	for (int i = 0; i < NAME_TRIES && r == -EEXIST; i++) {
		rand_hex(token, 4);
		if (how->transient)
			snprintf(sn->name, sizeof(sn->name), "fork-%s", token);
		else if (how->name && !str_copy(sn->name, sizeof(sn->name), how->name))
			return state_check_name("snapshot", how->name, e);
		else if (!how->name &&
			 (r = fresh_name(&c->cove->state, sn->name, c->box, i, e)) < 0)
			return r;
		r = snapshot_write(&c->cove->state, sn, true, e);
		if (how->name)
			break;
	}
	return r;
}

static int publish(struct commit *c, const struct snapshot_make *how, char ret[BOX_NAME_MAX + 1],
		   struct err *e)
{
	autofree struct snapshot *sn = calloc(1, sizeof(*sn));
	struct snapshot_texts t = {.flat = FLATTEN_NONE, .workspace_flat = FLATTEN_NONE};
	const struct spec *spec = &c->record.spec;
	const char *const *below = (const char *const *)c->below.layers;
	struct core_key_snapshot quota = {0};
	autoclose int lock_fd = -1;
	int r;

	if (!sn)
		return err_errno(e, ENOMEM, "write a snapshot");
	buf_init(&t.spec, SPEC_BYTES_MAX);
	r = fill(c, how, &t, sn, e);
	if (r == 0) {
		flatten_make(c->cove, spec->layers, spec->layer_count, spec->created_ms, &t.flat);
		flatten_make(c->cove, below, c->below.count, spec->created_ms, &t.workspace_flat);
	}
	/* Without a name it gets one that begins with the box's. */
	if (r == 0 && !how->transient)
		r = core_key_snapshot_begin(c->cove, spec->owner, how->name ? how->name : c->box,
					    &quota, e);
	if (r == 0)
		r = layers_lock(&c->cove->state, &lock_fd, e);
	if (r == 0)
		r = commit_place(c, e);
	if (r == 0)
		r = flatten_place(c->cove, spec->layers, &t.flat, e);
	if (r == 0)
		r = flatten_place(c->cove, below, &t.workspace_flat, e);
	if (r == 0)
		r = list_layers(spec->layers, spec->layer_count, &t.flat, &c->root, sn->layers,
				&sn->layer_count, e);
	if (r == 0)
		r = list_layers(below, c->below.count, &t.workspace_flat, &c->workspace,
				sn->workspace_layers, &sn->workspace_layer_count, e);
	if (r == 0)
		r = layers_check(&c->cove->state, sn->layers, sn->layer_count, e);
	if (r == 0)
		r = layers_check(&c->cove->state, sn->workspace_layers, sn->workspace_layer_count,
				 e);
	if (r == 0)
		r = core_key_snapshot_check(c->cove, &quota, sn, e);
	if (r == 0)
		r = write_named(c, how, sn, e);
	if (r == 0)
		str_copy(ret, BOX_NAME_MAX + 1, sn->name);
	/* A record that was written and could not be synced is there, and refers to them. */
	if (r < 0)
		layers_trash_unused(&c->cove->state,
				    (const char *const[]){c->root.id, c->workspace.id, t.flat.id,
							  t.workspace_flat.id},
				    4);
	core_key_snapshot_done(&quota);
	flatten_done(c->cove, &t.flat);
	flatten_done(c->cove, &t.workspace_flat);
	buf_done(&t.spec);
	free(t.policy);
	return r;
}

int snapshot_make(struct cove *cove, const char *box, const struct snapshot_make *how,
		  struct snapshot *ret, struct err *e)
{
	char name[BOX_NAME_MAX + 1];
	struct commit c;
	int r = how->name ? state_check_name("snapshot", how->name, e) : 0;

	*ret = (struct snapshot){0};
	if (r < 0)
		return r;
	r = snapshot_find(&cove->state, how->name ? how->name : "-", ret, NULL);
	snapshot_done(ret);
	if (r == 0) /* known before anything is copied */
		return err_set(e, ERR_EXISTS, EEXIST, "there is a snapshot '%s' already",
			       how->name);
	r = commit_begin(&c, cove, box, &(struct commit_options){.no_freeze = how->no_freeze}, e);
	if (r == 0)
		r = publish(&c, how, name, e);
	commit_done(&c);
	return r < 0 ? r : snapshot_find(&cove->state, name, ret, e);
}

/* ---- as a caller sees them ---- */

static uint64_t host_dirs_of(const struct snapshot *s)
{
	autofree struct spec *spec = calloc(1, sizeof(*spec));
	autofree char *text = NULL;

	return spec && snapshot_spec(s, spec, &text, NULL) == 0 ? snapshot_host_dirs(spec) : 0;
}

bool snapshot_leaves_copy(const struct snapshot *s)
{
	autofree struct spec *spec = calloc(1, sizeof(*spec));
	autofree char *text = NULL;

	return spec && snapshot_spec(s, spec, &text, NULL) == 0 && spec->workspace_copy;
}

static void fill_info(struct cove_snapshot_info *i, const struct snapshot *s)
{
	size_t at = 0;

	*i = (struct cove_snapshot_info){
		.created_ms = s->created_ms,
		.bytes = s->bytes,
		.files = s->files,
		.layers = s->layer_count,
		.left_out = s->left_out,
		.host_dirs = host_dirs_of(s),
		.copy_left_out = snapshot_leaves_copy(s),
		.frozen_us = s->frozen_us,
		.total_us = s->total_us,
		.unfrozen = s->unfrozen,
		.inside = s->inside,
	};
	str_copy(i->name, sizeof(i->name), s->name);
	str_copy(i->id, sizeof(i->id), s->id);
	str_copy(i->box, sizeof(i->box), s->box);
	str_copy(i->workspace, sizeof(i->workspace), s->workspace ? s->workspace : "");
	str_copy(i->storage, sizeof(i->storage), s->storage);
	for (size_t k = 0; k < s->tag_count && at < sizeof(i->tags); k++)
		at += (size_t)snprintf(i->tags + at, sizeof(i->tags) - at, "%s%s", k ? "," : "",
				       s->tags[k]);
}

int cove_snapshot_create(struct cove *cove, const char *box,
			 const struct cove_snapshot_options *options,
			 struct cove_snapshot_info *ret, struct cove_error *err)
{
	struct cove_snapshot_options o = {0};
	struct snapshot sn = {0};
	struct err e = {0};
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	core_sweep_seldom(cove);
	if (r == 0 && (o.keep || o.max_age_ms))
		r = snapshot_rule_change(
			cove, box, &(struct retention){.keep = o.keep, .max_age_ms = o.max_age_ms},
			&e);
	if (r == 0)
		r = snapshot_make(cove, box,
				  &(struct snapshot_make){.name = o.name, .no_freeze = o.no_freeze},
				  &sn, &e);
	if (r == 0)
		fill_info(ret, &sn);
	snapshot_done(&sn);
	if (r == 0) {
		r = snapshot_retain(cove, box, &e);
		if (r < 0)
			err_prefix(&e, "the snapshot was taken, but older ones stay");
	}
	return core_return(cove, box, r < 0 ? r : 0, &e, err);
}

int cove_snapshots(struct cove *cove, const char *box, struct cove_snapshot_info **ret,
		   struct cove_error *err)
{
	struct cove_snapshot_info *infos = NULL;
	struct snapshot *list = NULL;
	size_t count = 0, n = 0;
	struct err e = {0};
	int r = snapshot_list(&cove->state, &list, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? 0 : err_errno(&e, ENOMEM, "list snapshots");
	}
	for (size_t i = 0; r == 0 && i < count; i++)
		if (!list[i].transient && (!box || strcmp(box, list[i].box) == 0))
			fill_info(&infos[n++], &list[i]);
	snapshot_list_free(list, count);
	if (r == 0) {
		*ret = infos;
		r = (int)n;
	}
	return core_return(cove, NULL, r, &e, err);
}

int cove_snapshot_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = snapshot_remove(&cove->state, &cove->ids, name, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_snapshot_tag(struct cove *cove, const char *name, const char *tag, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, snapshot_tag(&cove->state, name, tag, &e), &e, err);
}

/* ---- all that is known ---- */

int snapshot_spec(const struct snapshot *s, struct spec *ret, char **ret_text, struct err *e)
{
	size_t len = strlen(s->spec);
	int r;

	*ret_text = strdup(s->spec);
	if (!*ret_text)
		return err_errno(e, ENOMEM, "read snapshot '%s'", s->name);
	r = spec_parse(ret, *ret_text, len, e);
	if (r < 0)
		err_prefix(e, "snapshot '%s'", s->name);
	return r;
}

uint64_t snapshot_host_dirs(const struct spec *spec)
{
	uint64_t n = spec->workspace_dir && !spec->workspace_copy;

	for (size_t i = 0; i < spec->mount_count; i++)
		n += spec->mounts[i].src[0] == '/';
	return n;
}

void snapshot_put_missing(struct json *j, const struct spec *spec)
{
	char line[BOX_PATH_MAX + 64];

	json_key(j, "not_included");
	json_array_begin(j);
	if (spec->workspace_dir) {
		snprintf(line, sizeof(line),
			 spec->workspace_copy ? "what the box wrote to its copy of %s"
					      : "host directory %s at /workspace",
			 spec->workspace_dir);
		json_str(j, line);
	}
	for (size_t i = 0; i < spec->mount_count; i++)
		if (spec->mounts[i].src[0] == '/') {
			snprintf(line, sizeof(line), "host directory %s at %s", spec->mounts[i].src,
				 spec->mounts[i].dst);
			json_str(j, line);
		}
	json_str(j, "memory: processes, /dev/shm");
	json_array_end(j);
}

static void put_list(struct json *j, const char *key, const char *const *items, size_t count)
{
	json_key(j, key);
	json_array_begin(j);
	for (size_t i = 0; i < count; i++)
		json_str(j, items[i]);
	json_array_end(j);
}

static int describe(const struct snapshot *s, char **ret, struct err *e)
{
	autofree struct spec *spec = calloc(1, sizeof(*spec));
	autofree char *text = NULL;
	struct buf out;
	struct json j;
	int r = spec ? snapshot_spec(s, spec, &text, e) : err_errno(e, ENOMEM, "describe it");

	if (r < 0)
		return r;
	buf_init(&out, SNAPSHOT_RECORD_MAX);
	json_init(&j, &out);
	json_object_begin(&j);
	json_kv_str(&j, "name", s->name);
	json_kv_str(&j, "id", s->id);
	json_kv_str(&j, "box", s->box);
	json_kv_str(&j, "parent", s->parent);
	json_kv_str(&j, "image", spec->image);
	json_kv_str(&j, "workspace", s->workspace);
	json_kv_str(&j, "storage", s->storage);
	json_kv_u64(&j, "created_ms", s->created_ms);
	view_known_u64(&j, "bytes", s->bytes);
	view_known_u64(&j, "files", s->files);
	json_kv_u64(&j, "left_out", s->left_out);
	json_kv_u64(&j, "frozen_us", s->frozen_us);
	json_kv_u64(&j, "total_us", s->total_us);
	json_kv_bool(&j, "unfrozen", s->unfrozen);
	json_kv_bool(&j, "inside", s->inside);
	put_list(&j, "layers", s->layers, s->layer_count);
	put_list(&j, "workspace_layers", s->workspace_layers, s->workspace_layer_count);
	put_list(&j, "tags", s->tags, s->tag_count);
	snapshot_put_missing(&j, spec);
	json_object_end(&j);
	*ret = j.error ? NULL : strdup(buf_cstr(&out));
	buf_done(&out);
	return *ret ? 0 : err_errno(e, ENOMEM, "describe snapshot '%s'", s->name);
}

int cove_snapshot_inspect(struct cove *cove, const char *name, char **ret_json,
			  struct cove_error *err)
{
	struct snapshot sn;
	struct err e = {0};
	int r = snapshot_find(&cove->state, name, &sn, &e);

	if (r == 0)
		r = describe(&sn, ret_json, &e);
	snapshot_done(&sn);
	return core_return(cove, NULL, r, &e, err);
}
