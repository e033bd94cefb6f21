/* Pins; see pins.h. */
#include "store/pins.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/refs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PINS_FILE "pins"

int layer_pins_open(struct state *s, struct layer_pins *ret, struct err *e)
{
	*ret = LAYER_PINS_NONE;
	return layers_new(s, &ret->dir, e);
}

void layer_pins_close(struct state *s, const struct ids *ids, struct layer_pins *p)
{
	layers_drop(s, ids, &p->dir);
	for (size_t i = 0; i < p->count; i++)
		free(p->ids[i]);
	free(p->ids);
	*p = LAYER_PINS_NONE;
}

void layer_pins_close_unused(struct state *s, const struct ids *ids, struct layer_pins *p)
{
	struct layer_pins had = {.dir = LAYER_NEW_NONE, .ids = p->ids, .count = p->count};
	autoclose int lock_fd = -1;

	p->ids = NULL;
	p->count = 0;
	layer_pins_close(s, ids, p);
	if (had.count && layers_lock(s, &lock_fd, NULL) == 0) {
		layers_trash_unused(s, (const char *const *)had.ids, had.count);
		fd_close(&lock_fd);
		layers_sweep(s, ids);
	}
	layer_pins_close(s, ids, &had);
}

static int write_pins(const struct layer_pins *p)
{
	struct buf b;
	int r = 0;

	buf_init(&b, LAYER_PINS_MAX);
	for (size_t i = 0; i < p->count && r == 0; i++)
		r = lines_put(&b, "layer", p->ids[i]);
	if (r == 0)
		r = fd_write_file(p->dir.fd, PINS_FILE, buf_data(&b), buf_len(&b), 0600, false);
	buf_done(&b);
	return r;
}

int layer_pins_add(struct state *s, struct layer_pins *p, const char *id, struct err *e)
{
	char path[BOX_PATH_MAX];
	char **ids;
	int r = layer_root(s, id, path, sizeof(path));

	if (r < 0)
		return r;
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->ids[i], id) == 0)
			return 0;
	ids = realloc(p->ids, (p->count + 1) * sizeof(*ids));
	if (!ids)
		return err_errno(e, ENOMEM, "hold a layer");
	p->ids = ids;
	p->ids[p->count] = strdup(id);
	if (!p->ids[p->count])
		return err_errno(e, ENOMEM, "hold a layer");
	p->count++;
	r = write_pins(p);
	return r < 0 ? state_error(s, -r, "hold a layer in", e) : 0;
}

static int read_pins(struct state *s, const char *name, struct refs *refs)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	char path[280];
	size_t len;
	int r;

	snprintf(path, sizeof(path), "%s/" PINS_FILE, name);
	r = fd_read_file(s->layers_fd, path, LAYER_PINS_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT || r == -ENOTDIR ? 0 : r;
	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (layer_is_id(value) && (r = refs_add(refs, value)) < 0)
			return r;
	return r;
}

/* One whose maker is gone counts too, until it is swept: that costs nothing but disk space. */
int layer_pins_refs(struct state *s, struct refs *refs, struct err *e)
{
	int fd = s->layers_fd < 0 ? -1
				  : openat(s->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (!dir) {
		fd_close(&fd);
		return s->layers_fd < 0 ? 0 : err_errno(e, errno, "list the layers");
	}
	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (str_starts(d->d_name, ".new-"))
			r = read_pins(s, d->d_name, refs);
	if (r == 0 && errno)
		r = -errno;
	closedir(dir);
	return r < 0 ? err_errno(e, -r, "read which layers are held") : 0;
}
