/* Images, for callers of the library; store/image.h does the work. */
#include "base/str.h"
#include "core/core.h"
#include "store/image.h"

#include <errno.h>
#include <stdlib.h>

static int list(struct cove *cove, struct cove_image_info **ret, struct err *e)
{
	struct cove_image_info *infos;
	struct image *images = NULL;
	size_t count = 0;
	int r = image_list(&cove->state, &images, &count, e);

	if (r < 0)
		return r;
	infos = calloc(count + 1, sizeof(*infos));
	for (size_t i = 0; infos && i < count; i++) {
		str_copy(infos[i].name, sizeof(infos[i].name), images[i].name);
		str_copy(infos[i].id, sizeof(infos[i].id), images[i].id);
		str_copy(infos[i].user, sizeof(infos[i].user), images[i].user);
		infos[i].created_ms = images[i].created_ms;
		infos[i].bytes = images[i].bytes;
	}
	free(images);
	if (!infos)
		return err_errno(e, ENOMEM, "list images");
	*ret = infos;
	return (int)count;
}

int cove_images(struct cove *cove, struct cove_image_info **ret, struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, list(cove, ret, &e), &e, err);
}

int cove_image_import(struct cove *cove, const char *name, const char *user, int tar_fd,
		      struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = image_import(&cove->state, &cove->ids, name, user, tar_fd, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_image_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = image_remove(&cove->state, &cove->ids, name, &e);
	return core_return(cove, NULL, r, &e, err);
}
