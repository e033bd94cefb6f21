/*
 * Looking after the state directory: what takes how much, what can go, what is damaged. The work
 * that needs the catalogue or reads manifests is cove-store's (helper.h); boxes and images are
 * removed here, by the same calls as one at a time.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/log.h"
#include "base/str.h"
#include "core/core.h"
#include "core/helper.h"
#include "core/watch.h"
#include "store/image.h"
#include "store/layer.h"
#include "store/refs.h"
#include "store/workspace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPLATES_DIR "templates"

/* ---- df ---- */

static int add_usage(struct cove_usage_info **list, size_t *count, const char *what)
{
	struct cove_usage_info *grown = reallocarray(*list, *count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*list = grown;
	grown[*count] = (struct cove_usage_info){0};
	str_copy(grown[*count].what, sizeof(grown[*count].what), what);
	(*count)++;
	return 0;
}

static int read_usage(char *text, struct cove_usage_info **ret, size_t *ret_count)
{
	const char *key, *value;
	struct lines l;
	int r;

	lines_init(&l, text, strlen(text));
	while ((r = lines_next(&l, &key, &value)) > 0) {
		struct cove_usage_info *u = *ret_count ? &(*ret)[*ret_count - 1] : NULL;
		uint64_t n = 0;

		if (strcmp(key, "what") == 0) {
			r = add_usage(ret, ret_count, value);
			if (r < 0)
				return r;
			continue;
		}
		if (!u || !str_parse_u64(value, UINT64_MAX, &n))
			return -EBADMSG;
		if (strcmp(key, "count") == 0)
			u->count = n;
		else if (strcmp(key, "bytes") == 0)
			u->bytes = n;
		else if (strcmp(key, "shared") == 0)
			u->shared_bytes = n;
		else if (strcmp(key, "reclaimable") == 0)
			u->reclaimable_bytes = n;
	}
	return r;
}

int cove_system_df(struct cove *cove, struct cove_usage_info **ret, struct cove_error *err)
{
	struct cove_usage_info *list = NULL;
	autofree char *text = NULL;
	struct err e = {0};
	size_t count = 0;
	int r = helper_run(cove, &(struct helper_call){.verb = "df"}, &text, &e);

	if (r == 0) {
		r = read_usage(text, &list, &count);
		if (r < 0)
			err_errno(&e, -r, "read what cove-store answered");
	}
	if (r < 0)
		free(list);
	else
		*ret = list;
	return core_return(cove, NULL, r < 0 ? r : (int)count, &e, err);
}

/* ---- gc ---- */

struct removing {
	struct cove_prune_options o;
	struct cove_pruned done;
	struct state_list gone; /* images that a dry run would remove */
};

static void say_removed(const struct removing *p, const char *kind, const char *name,
			uint64_t bytes)
{
	if (p->o.on_removed)
		p->o.on_removed(p->o.arg, kind, name, bytes);
}

static bool on_gc_progress(void *arg, char *text, size_t len)
{
	const char *key, *value, *kind = "", *name = "";
	uint64_t bytes = 0;
	struct lines l;

	lines_init(&l, text, len);
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "kind") == 0)
			kind = value;
		else if (strcmp(key, "name") == 0)
			name = value;
		else if (strcmp(key, "bytes") == 0)
			(void)str_parse_u64(value, UINT64_MAX, &bytes);
	}
	say_removed(arg, kind, name, bytes);
	return true;
}

static int put_gc_args(const struct removing *p, bool all_of_it, struct buf *b)
{
	struct json j;

	json_init(&j, b);
	json_object_begin(&j);
	json_kv_bool(&j, "dry_run", p->o.dry_run);
	json_kv_bool(&j, "parts", all_of_it);
	json_kv_bool(&j, "cache", all_of_it && p->o.all);
	json_key(&j, "without");
	json_array_begin(&j);
	for (size_t i = 0; i < p->gone.count; i++)
		json_str(&j, p->gone.names[i]);
	json_array_end(&j);
	json_object_end(&j);
	return j.error ? j.error : buf_cstr(b) ? 0 : -ENOMEM;
}

/* all_of_it: also what interrupted transfers left; with --all what only the build cache knows. */
static int run_gc(struct cove *cove, struct removing *p, bool all_of_it, struct err *e)
{
	struct helper_call call = {.verb = "gc", .on_progress = on_gc_progress, .arg = p};
	autofree char *text = NULL;
	const char *key, *value;
	struct lines l;
	struct buf b;
	int r;

	buf_init(&b, HELPER_REQUEST_MAX / 2);
	r = put_gc_args(p, all_of_it, &b);
	call.args = buf_cstr(&b);
	r = r < 0 ? err_errno(e, -r, "prepare a gc") : helper_run(cove, &call, &text, e);
	buf_done(&b);
	if (r < 0)
		return r;
	lines_init(&l, text, strlen(text));
	while ((r = lines_next(&l, &key, &value)) > 0) {
		uint64_t n = 0;

		(void)str_parse_u64(value, UINT64_MAX, &n);
		p->done.layers += strcmp(key, "layers") == 0 ? n : 0;
		p->done.blobs += strcmp(key, "blobs") == 0 ? n : 0;
		p->done.bytes += strcmp(key, "bytes") == 0 ? n : 0;
		p->done.blobs_held |= strcmp(key, "blobs_held") == 0 && n;
	}
	return r < 0 ? err_errno(e, -r, "read what cove-store answered") : 0;
}

int cove_image_gc(struct cove *cove, const struct cove_prune_options *options,
		  struct cove_pruned *ret, struct cove_error *err)
{
	struct removing p = {0};
	struct err e = {0};
	int r = core_copy_sized(&p.o, sizeof(p.o), options, &e);

	if (r == 0)
		r = run_gc(cove, &p, false, &e);
	if (r == 0 && ret)
		*ret = p.done;
	return core_return(cove, NULL, r, &e, err);
}

/* ---- prune ---- */

static int prune_box(struct cove *cove, struct removing *p, const char *name, struct err *e)
{
	autoclose int box_fd = -1;
	int r = record_open(&cove->state, name, &box_fd, e);

	if (r < 0)
		return e->kind == ERR_NOT_FOUND ? 0 : r;
	/* One that runs, or that another process starts or removes at this moment, stays. */
	if (record_is_live(box_fd) || record_lock_operation(box_fd, false, NULL) < 0)
		return 0;
	if (record_is_live(box_fd) || core_has_moved(cove, name, box_fd))
		return 0;
	if (!p->o.dry_run) {
		r = box_destroy_locked(cove, name, box_fd, "prune", e);
		if (r < 0)
			return r;
		core_event(cove,
			   &(struct event){.kind = EVENT_CLOSE, .box = name, .cause = "removed"});
	}
	p->done.boxes++;
	say_removed(p, "box", name, 0);
	return 0;
}

static int prune_boxes(struct cove *cove, struct removing *p, struct err *e)
{
	char **names = NULL;
	size_t count = 0;
	int r = record_names(&cove->state, &names, &count, e);

	for (size_t i = 0; r == 0 && i < count; i++)
		r = prune_box(cove, p, names[i], e);
	state_names_free(names, count);
	return r;
}

/* How often the first `count` of these images stand on a layer. */
static size_t count_uses(const struct image *list, size_t count, const char *layer)
{
	size_t uses = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < list[i].layer_count; k++)
			uses += strcmp(list[i].layers[k], layer) == 0;
	return uses;
}

/* What goes with the last of these images: layers that nothing else stands on. */
static uint64_t freed_by(struct cove *cove, const struct image *list, size_t count,
			 const struct refs *refs)
{
	const struct image *last = &list[count - 1];
	struct layer_meta meta;
	uint64_t bytes = 0;

	for (size_t k = 0; k < last->layer_count; k++)
		if (count_uses(list, count, last->layers[k]) == refs_count(refs, last->layers[k]) &&
		    layer_read(&cove->state, last->layers[k], &meta) == 0)
			bytes += meta.bytes;
	return bytes;
}

/* Moves those that no box uses to the front of the list. */
static int choose_images(struct cove *cove, struct image *list, size_t *count, struct err *e)
{
	char box[BOX_NAME_MAX + 1];
	size_t chosen = 0;

	for (size_t i = 0; i < *count; i++) {
		int r = list[i].is_host
				? 1
				: record_find_user(&cove->state, list[i].name, NULL, NULL, box, e);

		if (r < 0)
			return r;
		if (r == 0) {
			struct image swapped = list[chosen];

			list[chosen++] = list[i];
			list[i] = swapped;
		}
	}
	*count = chosen;
	return 0;
}

static int prune_images(struct cove *cove, struct removing *p, struct err *e)
{
	struct image *list = NULL;
	struct refs refs = {0};
	size_t count = 0, chosen;
	int r = image_list(&cove->state, &list, &count, e);

	chosen = count;
	if (r == 0)
		r = choose_images(cove, list, &chosen, e);
	if (r == 0)
		r = refs_collect(&cove->state, &refs, e);
	for (size_t i = 0; r == 0 && i < chosen; i++) {
		uint64_t bytes = freed_by(cove, list, i + 1, &refs);

		r = p->o.dry_run ? 0 : image_remove(&cove->state, &cove->ids, list[i].name, e);
		/* A box was made of it meanwhile, or it is gone. */
		if (r < 0 && (e->kind == ERR_CONFLICT || e->kind == ERR_NOT_FOUND)) {
			r = 0;
			continue;
		}
		if (r == 0 && p->o.dry_run && state_list_add(&p->gone, list[i].name, SIZE_MAX) < 0)
			r = err_errno(e, ENOMEM, "list images");
		if (r == 0) {
			p->done.images++;
			p->done.bytes += bytes;
			say_removed(p, "image", list[i].name, bytes);
		}
	}
	refs_done(&refs);
	image_list_free(list, count);
	return r;
}

/* Empty disks made ahead of time. Whoever copies one has it open; the next is made anew. */
static int prune_templates(struct cove *cove, struct removing *p, struct err *e)
{
	autoclose int fd = cove->state.home_fd < 0
				   ? -1
				   : openat(cove->state.home_fd, TEMPLATES_DIR,
					    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	char **names = NULL;
	size_t count = 0;
	int r = fd < 0 ? 0 : state_all_names(fd, &names, &count);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct stat st;
		uint64_t bytes;

		if (fstatat(fd, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		bytes = (uint64_t)st.st_blocks * 512;
		if (!p->o.dry_run && unlinkat(fd, names[i], 0) < 0)
			continue;
		p->done.bytes += bytes;
		say_removed(p, "template", names[i], bytes);
	}
	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "list the templates") : 0;
}

static int prune_cache(struct cove *cove, struct removing *p, struct err *e)
{
	const struct helper_call call = {.verb = "cache-trim",
					 .args = "{\"unused_since_ms\":9223372036854775807}"};

	if (p->o.dry_run || cove->state.home_fd < 0)
		return 0;
	return helper_run(cove, &call, NULL, e);
}

static int prune(struct cove *cove, struct removing *p, struct err *e)
{
	int r = core_ids(cove, e);

	if (r < 0)
		return r;
	if (!p->o.dry_run) {
		core_sweep(cove);
		if (cove->state.workspaces_fd >= 0 &&
		    workspace_sweep(&cove->state, &cove->ids, e) < 0)
			log_debug("sweep the workspaces: %s", e->msg);
	}
	if (p->o.boxes)
		r = prune_boxes(cove, p, e);
	if (r == 0 && p->o.all)
		r = prune_images(cove, p, e);
	if (r == 0 && p->o.all)
		r = prune_templates(cove, p, e);
	if (r == 0 && p->o.all)
		r = prune_cache(cove, p, e);
	return r < 0 ? r : run_gc(cove, p, true, e);
}

int cove_system_prune(struct cove *cove, const struct cove_prune_options *options,
		      struct cove_pruned *ret, struct cove_error *err)
{
	struct removing p = {0};
	struct err e = {0};
	int r = core_copy_sized(&p.o, sizeof(p.o), options, &e);

	if (r == 0)
		r = prune(cove, &p, &e);
	state_names_free(p.gone.names, p.gone.count);
	if (r == 0 && ret)
		*ret = p.done;
	return core_return(cove, NULL, r, &e, err);
}

/* ---- verify ---- */

struct verifying {
	cove_on_damage *on_damage;
	void *arg;
};

static bool on_verify_progress(void *arg, char *text, size_t len)
{
	const char *key, *value, *kind = "", *name = "", *problem = "";
	const struct verifying *v = arg;
	struct lines l;

	lines_init(&l, text, len);
	while (lines_next(&l, &key, &value) > 0) {
		if (strcmp(key, "kind") == 0)
			kind = value;
		else if (strcmp(key, "name") == 0)
			name = value;
		else if (strcmp(key, "problem") == 0)
			problem = value;
	}
	if (v->on_damage)
		v->on_damage(v->arg, kind, name, problem);
	return true;
}

int cove_system_verify(struct cove *cove, bool deep, cove_on_damage *on_damage, void *arg,
		       struct cove_verified *ret, struct cove_error *err)
{
	struct verifying v = {on_damage, arg};
	const struct helper_call call = {.verb = "verify",
					 .args = deep ? "{\"deep\":true}" : NULL,
					 .on_progress = on_verify_progress,
					 .arg = &v};
	struct cove_verified done = {0};
	autofree char *text = NULL;
	const char *key, *value;
	struct err e = {0};
	struct lines l;
	int r = helper_run(cove, &call, &text, &e);

	if (r == 0) {
		lines_init(&l, text, strlen(text));
		while ((r = lines_next(&l, &key, &value)) > 0) {
			uint64_t n = 0;

			(void)str_parse_u64(value, UINT64_MAX, &n);
			done.checked += strcmp(key, "checked") == 0 ? n : 0;
			done.damaged += strcmp(key, "damaged") == 0 ? n : 0;
			done.not_compared += strcmp(key, "not_compared") == 0 ? n : 0;
		}
		if (r < 0)
			err_errno(&e, -r, "read what cove-store answered");
	}
	if (r == 0 && ret)
		*ret = done;
	return core_return(cove, NULL, r, &e, err);
}
