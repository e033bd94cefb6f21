/* Images, for callers of the library; store/image.h does the work. */
#include "base/str.h"
#include "core/core.h"
#include "store/image.h"

#include <errno.h>
#include <stdlib.h>

int cove_images(struct cove *cove, struct cove_image_info **ret, struct cove_error *err)
{
	struct cove_image_info *infos = NULL;
	struct image *images = NULL;
	size_t count = 0;
	struct err e = {0};
	int r = image_list(&cove->state, &images, &count, &e);

	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list images");
	}
	for (size_t i = 0; infos && i < count; i++) {
		str_copy(infos[i].name, sizeof(infos[i].name), images[i].name);
		str_copy(infos[i].id, sizeof(infos[i].id), images[i].id);
		str_copy(infos[i].user, sizeof(infos[i].user), images[i].user);
		infos[i].created_ms = images[i].created_ms;
		infos[i].bytes = images[i].bytes;
	}
	free(images);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
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
