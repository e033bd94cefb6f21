/* What an API key has; see key_usage.h. */
#include "core/key_usage.h"

#include "base/str.h"
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

static bool has_layer(const struct core_key_workspaces *w, const char *id)
{
	for (size_t i = 0; i < w->layer_count; i++)
		if (strcmp(w->layers[i], id) == 0)
			return true;
	return false;
}

static int add_layers(struct cove *cove, const char *name, struct core_key_workspaces *w)
{
	struct workspace_stack stack;
	int r = workspace_stack_read(&cove->state, name, &stack);

	/* Of a list that is damaged no box is made either. */
	if (r < 0)
		return r == -ENOMEM ? r : 0;
	for (size_t i = 0; i < stack.count && r == 0; i++) {
		struct layer_meta meta;
		char(*grown)[LAYER_ID_SIZE];

		if (has_layer(w, stack.layers[i]) ||
		    layer_read(&cove->state, stack.layers[i], &meta) < 0)
			continue;
		grown = reallocarray(w->layers, w->layer_count + 1, sizeof(*grown));
		if (!grown) {
			r = -ENOMEM;
			break;
		}
		w->layers = grown;
		str_copy(w->layers[w->layer_count++], LAYER_ID_SIZE, stack.layers[i]);
		w->layer_bytes = plus(w->layer_bytes, meta.bytes);
	}
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
	if (!grown || add_layers(cove, name, w) < 0) {
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

static void add_box(struct key_usage *to, struct core_key_workspaces *w, const struct spec *s)
{
	struct core_key_workspace *k = s->workspace ? find(w, s->workspace) : NULL;

	key_usage_add_box(to, s);
	if (k)
		k->counted = plus(k->counted, s->limits[LIMIT_DISK]);
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
	for (size_t i = 0; i < count; i++) {
		struct record record;

		if (!key_name_out(key_id, KEY_OF_BOX, names[i]) ||
		    record_load(&cove->state, names[i], &record, NULL) < 0)
			continue;
		if (!is_left_out || !is_left_out(&record.spec))
			add_box(ret, w, &record.spec);
		record_done(&record);
	}
	for (size_t i = 0; i < w->count; i++)
		*disk = plus(*disk, core_key_workspace_rest(w, w->list[i].name));
	*disk = plus(*disk, w->layer_bytes);
	if (ret_names) {
		*ret_names = names;
		*ret_count = count;
	} else {
		state_names_free(names, count);
	}
	return 0;
}
