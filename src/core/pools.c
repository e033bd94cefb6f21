/* Warm pools as a caller sees them; warm.c fills them. */
#include "base/str.h"
#include "core/life.h"
#include "store/warm.h"

#include <errno.h>
#include <stdlib.h>

static int clean_image(const char *given, struct warm_pool *p, struct err *e)
{
	return image_name_clean(given ? given : IMAGE_DEFAULT, p->image, e);
}

static int set_owner(const char *given, struct warm_pool *p, struct err *e)
{
	return !given || str_copy(p->owner, sizeof(p->owner), given)
		       ? 0
		       : err_set(e, ERR_INVALID, EINVAL, "'%.40s' is not the id of a key", given);
}

/* What would never be full is refused now. */
static int check(struct cove *cove, const struct warm_pool *p, struct err *e)
{
	struct image image = {0};
	int r = p->disk_bytes ? limit_check(LIMIT_DISK, p->disk_bytes, e) : 0;

	if (r == 0)
		r = life_find_image(cove, p->owner[0] ? p->owner : NULL, p->image, &image, e);
	image_done(&image);
	return r;
}

int cove_pool_set(struct cove *cove, const struct cove_pool_options *options,
		  struct cove_error *err)
{
	struct cove_pool_options o;
	struct warm_pool p = {0};
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), options, &e);

	p.size = o.count;
	p.disk_bytes = o.disk_bytes;
	if (r == 0)
		r = clean_image(o.image, &p, &e);
	if (r == 0)
		r = set_owner(o.owner, &p, &e);
	if (r == 0)
		r = check(cove, &p, &e);
	if (r == 0)
		r = warm_pool_set(&cove->state, &p, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_pools(struct cove *cove, struct cove_pool_info **ret, struct cove_error *err)
{
	struct cove_pool_info *infos = NULL;
	struct warm_pool *list = NULL;
	size_t count = 0;
	struct err e = {0};
	int r = warm_pool_list(&cove->state, &list, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list the pools");
	}
	for (size_t i = 0; infos && i < count; i++) {
		struct cove_pool_info *to = &infos[i];

		str_copy(to->image, sizeof(to->image), list[i].image);
		str_copy(to->owner, sizeof(to->owner), list[i].owner);
		str_copy(to->why, sizeof(to->why), list[i].why);
		to->size = list[i].size;
		to->ready = list[i].ready;
		to->disk_bytes = list[i].disk_bytes;
		to->created_ms = list[i].created_ms;
		to->filled = list[i].is_filled;
	}
	free(list);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
}

int cove_pool_remove(struct cove *cove, const char *image, const char *owner,
		     struct cove_error *err)
{
	struct warm_pool p = {0};
	struct err e = {0};
	int r = clean_image(image, &p, &e);

	if (r == 0)
		r = set_owner(owner, &p, &e);
	if (r == 0)
		r = warm_pool_remove(&cove->state, p.owner, p.image, &e);
	return core_return(cove, NULL, r, &e, err);
}
