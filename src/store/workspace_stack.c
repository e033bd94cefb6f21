/* Workspaces above layers; see workspace_stack.h. */
#include "store/workspace_stack.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/layer.h"
#include "store/refs.h"
#include "store/workspace_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_FILE_MAX = 64 << 10, NAME_SIZE = BOX_NAME_MAX + 8 };

static void file_name(const char *name, char ret[NAME_SIZE])
{
	snprintf(ret, NAME_SIZE, "%.*s" WORKSPACE_STACK_END, (int)BOX_NAME_MAX, name);
}

void workspace_stack_done(struct workspace_stack *w)
{
	state_names_free(w->layers, w->count);
	*w = (struct workspace_stack){0};
}

static int take_layer(struct workspace_stack *w, const char *id)
{
	if (w->count >= SPEC_LAYER_MAX || !layer_is_id(id))
		return -EBADMSG;
	w->layers[w->count] = strdup(id);
	return w->layers[w->count] ? (w->count++, 0) : -ENOMEM;
}

static int take_lines(struct workspace_stack *w, char *text, size_t len)
{
	const char *key, *value;
	struct lines lines;
	int r;

	w->layers = calloc(SPEC_LAYER_MAX, sizeof(*w->layers));
	if (!w->layers)
		return -ENOMEM;
	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		if (strcmp(key, "layer") == 0)
			r = take_layer(w, value);
		else if (strcmp(key, "token") == 0)
			r = str_copy(w->token, sizeof(w->token), value) ? 0 : -EBADMSG;
		else
			r = -EBADMSG;
		if (r < 0)
			return r;
	}
	return r;
}

int workspace_stack_read(const struct state *s, const char *name, struct workspace_stack *ret)
{
	autofree char *text = NULL;
	char file[NAME_SIZE];
	size_t len;
	int r;

	*ret = (struct workspace_stack){0};
	if (s->workspaces_fd < 0)
		return -ENOENT;
	file_name(name, file);
	r = fd_read_file(s->workspaces_fd, file, STACK_FILE_MAX, &text, &len);
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) <= 0)
		return -EBADMSG;
	r = take_lines(ret, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	if (r < 0)
		workspace_stack_done(ret);
	return r;
}

int workspace_stack_hold(const struct state *s, const char *name, int *ret_fd, struct err *e)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char file[NAME_SIZE];
	autoclose int fd = -1;

	file_name(name, file);
	fd = openat(s->workspaces_fd, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(e, errno, "open the layers of workspace '%s'", name);
	/* Not handed on to children, who may live a little longer. */
	if (fcntl(fd, F_SETLK, &lock) < 0)
		return errno == EACCES || errno == EAGAIN
			       ? err_set(e, ERR_CONFLICT, EBUSY,
					 "workspace '%s' stands on a snapshot's layers, and "
					 "another box runs with it: stop that first, or give each "
					 "its own (cove fork)",
					 name)
			       : err_errno(e, errno, "hold workspace '%s'", name);
	*ret_fd = take_fd(fd);
	return 0;
}

static int write_stack(struct state *s, const char *name, const struct workspace_stack *w,
		       struct err *e)
{
	char file[NAME_SIZE];
	struct buf b;
	int r;

	file_name(name, file);
	buf_init(&b, STACK_FILE_MAX);
	r = lines_begin_sum(&b);
	if (r == 0 && w->token[0])
		r = lines_put(&b, "token", w->token);
	for (size_t i = 0; i < w->count && r == 0; i++)
		r = lines_put(&b, "layer", w->layers[i]);
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(s->workspaces_fd, file, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r < 0 ? state_error(s, -r, "write the workspace's list in", e) : 0;
}

int workspace_stack_make(struct state *s, const char *name, const struct ids *ids,
			 const struct workspace_stack *of, uint64_t bytes, struct err *e)
{
	autoclose int lock_fd = -1;
	int r = workspace_lock(s, name, &lock_fd, e);

	if (r < 0)
		return r;
	if (!workspace_is_missing(s, name))
		return err_set(e, ERR_EXISTS, EEXIST,
			       "there is a workspace '%s' already: 'cove workspace rm %s', or "
			       "another name",
			       name, name);
	r = write_stack(s, name, of, e);
	if (r == 0)
		r = workspace_make(s, name, ids, bytes, e);
	if (r < 0 && workspace_is_missing(s, name))
		(void)workspace_drop_lone(s, name, NULL);
	return r;
}

static bool is_that(void *arg, const char *box)
{
	return strcmp(arg, box) == 0;
}

int workspace_stack_undo(struct state *s, const struct ids *ids, const char *name,
			 const char *token, const char *box, struct err *e)
{
	struct workspace_stack have;
	autoclose int lock_fd = -1;
	bool is_its;
	int r = s->workspaces_fd < 0 ? -ENOENT : workspace_lock(s, name, &lock_fd, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	is_its = workspace_stack_read(s, name, &have) == 0 && strcmp(have.token, token) == 0;
	workspace_stack_done(&have);
	if (!is_its)
		return 0;
	r = workspace_check_users(s, name, is_that, (void *)(uintptr_t)box, e);
	if (r == 0)
		r = workspace_hide(s, name, e);
	fd_close(&lock_fd);
	/* Of one without a directory the sweep takes the list. */
	return r == 0 || r == -ENOENT ? workspace_sweep(s, ids, e) : r;
}

int workspace_stack_replace(struct state *s, const char *name, const struct ids *ids,
			    const struct workspace_stack *with, uint64_t bytes, struct err *e)
{
	struct workspace_stack have;
	autoclose int lock_fd = -1;
	bool is_listed;
	int r = workspace_lock(s, name, &lock_fd, e);

	if (r < 0)
		return r;
	r = workspace_stack_read(s, name, &have);
	is_listed = r == 0 && strcmp(have.token, with->token) == 0;
	workspace_stack_done(&have);
	if (is_listed && !workspace_is_missing(s, name))
		return 0;
	if (!is_listed) {
		r = workspace_hide(s, name, e);
		if (r == 0 || r == -ENOENT)
			r = write_stack(s, name, with, e);
		if (r < 0)
			return r;
	}
	return workspace_make(s, name, ids, bytes, e);
}

static int open_tree(struct state *s, const char *name, const struct ids *ids,
		     struct workspace_tree *ret, struct err *e)
{
	struct storage_place place = workspace_place(s, name);
	const struct storage_ops *ops = storage_detect(&place);
	int dir_fd, r = workspace_stack_read(s, name, &ret->stack);
	/* A list may be empty: then what is written lies above nothing, as in one without. */
	bool is_stacked = ret->stack.count > 0;

	if (r < 0 && r != -ENOENT)
		return err_set(e, ERR_DAMAGED, -r, "the layers of workspace '%s' cannot be read",
			       name);
	ret->has_list = r == 0;
	if (ops != &storage_plain) {
		r = ops->open(&place, ids, &(struct storage_size){0}, &ret->volume, e);
		if (r < 0)
			return r;
		ret->fd = openat(ret->volume.stat_fd, is_stacked ? "upper" : ".",
				 O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	} else {
		dir_fd = openat(s->workspaces_fd, name,
				O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		ret->fd = dir_fd;
		if (dir_fd >= 0 && is_stacked) {
			ret->fd = openat(dir_fd, "upper",
					 O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
			r = errno;
			close(dir_fd);
			errno = r;
		}
	}
	if (ret->fd < 0 && errno != ENOENT)
		return err_errno(e, errno, "open workspace '%s'", name);
	return 0;
}

int workspace_tree_open(struct state *s, const char *name, const struct ids *ids,
			struct workspace_tree *ret, struct err *e)
{
	autoclose int lock_fd = -1;
	int r = workspace_lock(s, name, &lock_fd, e);

	*ret = (struct workspace_tree){.fd = -1, .volume = VOLUME_NONE};
	if (r < 0 || workspace_is_missing(s, name))
		return r;
	r = open_tree(s, name, ids, ret, e);
	if (r < 0) {
		workspace_stack_done(&ret->stack);
		volume_done(&ret->volume);
	}
	return r;
}

int workspace_refs(struct state *s, struct refs *refs, struct err *e)
{
	size_t end = strlen(WORKSPACE_STACK_END), count = 0;
	char **names = NULL;
	int r = s->workspaces_fd < 0 ? 0 : state_all_names(s->workspaces_fd, &names, &count);

	for (size_t i = 0; i < count && r == 0; i++) {
		size_t len = strlen(names[i]);
		struct workspace_stack w;

		if (len <= end || strcmp(names[i] + len - end, WORKSPACE_STACK_END) != 0)
			continue;
		names[i][len - end] = 0;
		r = workspace_stack_read(s, names[i], &w);
		for (size_t k = 0; k < w.count && r == 0; k++)
			r = refs_add(refs, w.layers[k]);
		workspace_stack_done(&w);
		if (r == -ENOENT) /* it is gone meanwhile */
			r = 0;
	}
	state_names_free(names, count);
	return r < 0 ? err_errno(e, -r, "read the workspaces in '%.140s'", s->home) : 0;
}
