/*
 * Layers on disk: directories below layers/ that are whole from the moment they have a name; see
 * image_internal.h.
 */
#include "store/image_internal.h"

#include "base/fd.h"
#include "base/log.h"
#include "storage/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

void layers_sweep(struct state *s, const struct ids *ids)
{
	char **names;
	size_t count;

	/* No one waits for this: what cannot be deleted now is tried again by the next import. */
	if (state_leftovers(s->layers_fd, &names, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct err e = {0};

		if (tree_remove_as(ids, s->layers_fd, names[i], &e) < 0)
			log_debug("layers/%s stays: %s", names[i], e.msg);
	}
	state_names_free(names, count);
}

int layers_trash(struct state *s, const char *name)
{
	char gone[32];

	state_gone_name(gone);
	if (renameat(s->layers_fd, name, s->layers_fd, gone) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

int layers_new(struct state *s, struct layer_new *ret, struct err *e)
{
	int r = state_new_dir(s->layers_fd, ret->name, &ret->fd);

	return r < 0 ? state_error(s, -r, "make an image in", e) : 0;
}

int layers_place(struct state *s, const struct ids *ids, struct layer_new *l, const char *id,
		 struct err *e)
{
	if (renameat(s->layers_fd, l->name, s->layers_fd, id) < 0) {
		int code = errno;

		layers_drop(s, ids, l);
		if (code != EEXIST && code != ENOTEMPTY)
			return state_error(s, code, "name the layer in", e);
		return 0;
	}
	fd_close(&l->fd);
	return fsync(s->layers_fd) < 0 ? state_error(s, errno, "sync", e) : 0;
}

void layers_drop(struct state *s, const struct ids *ids, struct layer_new *l)
{
	struct err e = {0};

	if (l->fd >= 0 && tree_remove_as(ids, s->layers_fd, l->name, &e) < 0)
		log_debug("layers/%s stays: %s", l->name, e.msg);
	fd_close(&l->fd);
}

static int run_job(void *arg)
{
	struct inside_job *job = arg;

	umask(0);
	job->code = job->run(job);
	return job->code < 0 ? 1 : 0;
}

int inside_run(const struct ids *ids, struct inside_job *job, size_t size, struct err *e)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (shared == MAP_FAILED)
		return err_errno(e, errno, "start a helper process for images");
	job->code = -ECHILD; /* what stays if the child dies before it can say */
	memcpy(shared, job, size);
	r = ids_run_inside(ids, run_job, shared, e);
	memcpy(job, shared, size);
	munmap(shared, size);
	if (r < 0)
		return r;
	if (r == 0 && job->code >= 0)
		return job->code;
	if (job->err.kind == ERR_NONE)
		return err_set(e, ERR_INTERNAL, -job->code, "the helper process for images died");
	if (e)
		*e = job->err;
	return job->code;
}
