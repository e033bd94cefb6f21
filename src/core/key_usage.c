/* What an API key has; see key_usage.h. */
#include "core/key_usage.h"

#include "base/fd.h"
#include "base/str.h"
#include "core/snapshot.h"
#include "store/image.h"
#include "store/record.h"
#include "store/spec.h"
#include "store/workspace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? KEY_EVERYTHING : sum;
}

/* ---- workspaces ---- */

static struct core_key_workspace *find(const struct core_key_workspaces *w, const char *name)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->list[i].name, name) == 0)
			return &w->list[i];
	return NULL;
}

/* ---- layers ---- */

static int add_layer(struct core_key_workspaces *w, const char *id, bool only_state)
{
	struct core_key_layer *grown = w->layers;
	size_t cap = w->layer_cap;

	if (w->layer_count == cap) {
		cap = cap ? 2 * cap : 64;
		grown = reallocarray(w->layers, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		w->layers = grown;
		w->layer_cap = cap;
	}
	str_copy(grown[w->layer_count].id, LAYER_ID_SIZE, id);
	grown[w->layer_count++].only_state = only_state;
	return 0;
}

static int add_layers(struct core_key_workspaces *w, const char *const *ids, size_t count,
		      bool only_state)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add_layer(w, ids[i], only_state);
	return r;
}

/* Of each the most that it counts for comes first. */
static int by_id(const void *a, const void *b)
{
	const struct core_key_layer *x = a, *y = b;
	int d = strcmp(x->id, y->id);

	return d ? d : x->only_state - y->only_state;
}

static int id_only(const void *a, const void *b)
{
	return strcmp(((const struct core_key_layer *)a)->id,
		      ((const struct core_key_layer *)b)->id);
}

static bool has_layer(const struct core_key_workspaces *w, const char *id)
{
	struct core_key_layer key;

	str_copy(key.id, sizeof(key.id), id);
	return w->layer_count &&
	       bsearch(&key, w->layers, w->layer_count, sizeof(key), id_only) != NULL;
}

static void sort(struct core_key_workspaces *w)
{
	if (w->layer_count)
		qsort(w->layers, w->layer_count, sizeof(*w->layers), by_id);
}

/* Of an image that all share, also of one that has been replaced since. */
static bool is_shared(const char *key_id, const char *image)
{
	return strcmp(image, IMAGE_IMPORTED) != 0 && !key_name_out(key_id, KEY_OF_IMAGE, image);
}

static int add_snapshot(const char *key_id, const struct snapshot *sn,
			struct core_key_workspaces *w)
{
	autofree struct spec *spec = calloc(1, sizeof(*spec));
	autofree char *text = NULL;
	bool only_state;
	int r;

	if (!spec)
		return -ENOMEM;
	/* Of one that cannot be read no box is made. */
	only_state = snapshot_spec(sn, spec, &text, NULL) == 0 && spec->image &&
		     is_shared(key_id, spec->image);
	r = add_layers(w, sn->layers, sn->layer_count, only_state);
	return r < 0 ? r
		     : add_layers(w, sn->workspace_layers, sn->workspace_layer_count, only_state);
}

static int add_snapshots(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
			 struct err *e)
{
	struct snapshot *list;
	size_t count;
	int r = snapshot_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++)
		if (key_name_out(key_id, KEY_OF_SNAPSHOT, list[i].name))
			r = add_snapshot(key_id, &list[i], w);
	snapshot_list_free(list, count);
	return r < 0 ? err_errno(e, -r, "look at the key's snapshots") : 0;
}

/* Its own, and what all share. */
static int add_images(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
		      struct core_key_workspaces *shared, struct err *e)
{
	struct image *list;
	size_t count;
	int r = image_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		const struct image *im = &list[i];

		if (key_name_out(key_id, KEY_OF_IMAGE, im->name))
			r = add_layers(w, im->layers, im->layer_count, false);
		else if (key_name_plain(KEY_OF_IMAGE, im->name) == im->name)
			r = add_layers(shared, im->layers, im->layer_count, false);
	}
	image_list_free(list, count);
	return r < 0 ? err_errno(e, -r, "look at the key's images") : 0;
}

static uint64_t bytes_of(struct cove *cove, const struct core_key_layer *l)
{
	struct layer_meta meta;

	/* One that is gone meanwhile takes nothing. */
	if (layer_read(&cove->state, l->id, &meta) < 0 ||
	    (l->only_state && meta.kind != LAYER_SNAPSHOT))
		return 0;
	return meta.bytes;
}

/* Beside those of its boxes and workspaces, which w has. */
static int add_layer_bytes(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
			   uint64_t *to, struct err *e)
{
	struct core_key_workspaces shared = {0};
	int r = add_snapshots(cove, key_id, w, e);

	if (r == 0)
		r = add_images(cove, key_id, w, &shared, e);
	sort(w);
	sort(&shared);
	for (size_t i = 0; i < w->layer_count && r == 0; i++)
		if ((i == 0 || strcmp(w->layers[i].id, w->layers[i - 1].id) != 0) &&
		    !has_layer(&shared, w->layers[i].id))
			*to = plus(*to, bytes_of(cove, &w->layers[i]));
	core_key_workspaces_done(&shared);
	return r;
}

/* ---- workspaces, again ---- */

static int add_stack(struct cove *cove, const char *name, struct core_key_workspaces *w)
{
	struct workspace_stack stack;
	int r = workspace_stack_read(&cove->state, name, &stack);

	/* Of a list that is damaged no box is made either. */
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	r = add_layers(w, (const char *const *)stack.layers, stack.count, false);
	workspace_stack_done(&stack);
	return r;
}

static int add_workspace(struct cove *cove, const char *name, struct core_key_workspaces *w,
			 struct err *e)
{
	struct core_key_workspace *grown;
	uint64_t bytes = 0;
	int r = workspace_bound(&cove->state, &cove->ids, name, &bytes, e);

	if (r < 0) /* one that was removed meanwhile is none */
		return r == -ENOENT ? 0 : r;
	grown = reallocarray(w->list, w->count + 1, sizeof(*grown));
	if (!grown || add_stack(cove, name, w) < 0) {
		w->list = grown ? grown : w->list;
		return err_errno(e, ENOMEM, "look at the key's workspaces");
	}
	w->list = grown;
	grown[w->count] = (struct core_key_workspace){.bytes = bytes};
	str_copy(grown[w->count++].name, sizeof(grown->name), name);
	return 0;
}

int core_key_workspaces_look(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
			     struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = core_ids(cove, e);

	if (r < 0)
		return r;
	w->is_looked_at = true;
	r = state_names(cove->state.workspaces_fd, &names, &count);
	if (r < 0)
		return err_errno(e, -r, "list the workspaces");
	for (size_t i = 0; i < count && r == 0; i++)
		if (key_name_out(key_id, KEY_OF_WORKSPACE, names[i]) && !find(w, names[i]))
			r = add_workspace(cove, names[i], w, e);
	state_names_free(names, count);
	return r;
}

uint64_t core_key_workspace_rest(const struct core_key_workspaces *w, const char *name)
{
	const struct core_key_workspace *k = find(w, name);

	return k && k->bytes > k->counted ? k->bytes - k->counted : 0;
}

void core_key_workspaces_done(struct core_key_workspaces *w)
{
	free(w->list);
	free(w->layers);
	*w = (struct core_key_workspaces){0};
}

/* ---- all of it ---- */

static int add_box(struct key_usage *to, const char *key_id, struct core_key_workspaces *w,
		   const struct spec *s)
{
	struct core_key_workspace *k = s->workspace ? find(w, s->workspace) : NULL;

	key_usage_add_box(to, s);
	if (k)
		k->counted = plus(k->counted, s->limits[LIMIT_DISK]);
	return w->is_looked_at ? add_layers(w, s->layers, s->layer_count,
					    s->image && is_shared(key_id, s->image))
			       : 0;
}

int core_key_usage(struct cove *cove, const char *key_id, bool (*is_left_out)(const struct spec *),
		   struct core_key_workspaces *w, struct key_usage *ret, char ***ret_names,
		   size_t *ret_count, struct err *e)
{
	uint64_t *disk = &ret->of[KEY_QUOTA_DISK];
	char **names;
	size_t count;
	int r = record_names(&cove->state, &names, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		struct record record;

		if (!key_name_out(key_id, KEY_OF_BOX, names[i]) ||
		    record_load(&cove->state, names[i], &record, NULL) < 0)
			continue;
		if (!is_left_out || !is_left_out(&record.spec))
			r = add_box(ret, key_id, w, &record.spec);
		record_done(&record);
	}
	if (r < 0)
		err_errno(e, -r, "look at the key's boxes");
	for (size_t i = 0; i < w->count; i++)
		*disk = plus(*disk, core_key_workspace_rest(w, w->list[i].name));
	if (r == 0 && w->is_looked_at)
		r = add_layer_bytes(cove, key_id, w, disk, e);
	if (r == 0 && ret_names) {
		*ret_names = names;
		*ret_count = count;
	} else {
		state_names_free(names, count);
	}
	return r;
}

/* ---- a snapshot more ---- */

int core_key_snapshot_begin(struct cove *cove, const char *owner, const char *name,
			    struct core_key_snapshot *k, struct err *e)
{
	int r;

	*k = (struct core_key_snapshot){0};
	if (!owner || !key_name_out(owner, KEY_OF_SNAPSHOT, name))
		return 0;
	r = key_read(&cove->state, owner, &k->key, e);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	k->is_counted = k->key.quotas[KEY_QUOTA_SNAPSHOTS] || k->key.quotas[KEY_QUOTA_DISK];
	return k->key.quotas[KEY_QUOTA_DISK] ? core_key_workspaces_look(cove, owner, &k->had, e)
					     : 0;
}

static int count_snapshots(struct cove *cove, const char *key_id, uint64_t *ret, struct err *e)
{
	struct snapshot *list;
	size_t count;
	int r = snapshot_list(&cove->state, &list, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++)
		*ret += !list[i].transient &&
			key_name_out(key_id, KEY_OF_SNAPSHOT, list[i].name) != NULL;
	snapshot_list_free(list, count);
	return 0;
}

static uint64_t bytes_beyond(struct cove *cove, const struct core_key_workspaces *had,
			     const char *const *ids, size_t count)
{
	struct core_key_layer l = {0};
	uint64_t bytes = 0;

	for (size_t i = 0; i < count; i++)
		if (!has_layer(had, ids[i]) && str_copy(l.id, sizeof(l.id), ids[i]))
			bytes = plus(bytes, bytes_of(cove, &l));
	return bytes;
}

int core_key_snapshot_check(struct cove *cove, struct core_key_snapshot *k,
			    const struct snapshot *sn, struct err *e)
{
	struct key_usage now = {0}, more = {.of[KEY_QUOTA_SNAPSHOTS] = 1};
	const char *id = k->key.id;
	int r = 0;

	if (!k->is_counted)
		return 0;
	r = count_snapshots(cove, id, &now.of[KEY_QUOTA_SNAPSHOTS], e);
	if (r == 0 && k->key.quotas[KEY_QUOTA_DISK]) {
		r = core_key_workspaces_look(cove, id, &k->had, e);
		if (r == 0)
			r = core_key_usage(cove, id, NULL, &k->had, &now, NULL, NULL, e);
		more.of[KEY_QUOTA_DISK] =
			plus(bytes_beyond(cove, &k->had, sn->layers, sn->layer_count),
			     bytes_beyond(cove, &k->had, sn->workspace_layers,
					  sn->workspace_layer_count));
	}
	return r < 0 ? r : key_quota_check(&k->key, &now, &more, e);
}

void core_key_snapshot_done(struct core_key_snapshot *k)
{
	key_done(&k->key);
	core_key_workspaces_done(&k->had);
}
