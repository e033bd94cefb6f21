/* What a rollback is about to do; see rollback.h. */
#include "store/rollback.h"

#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/layer.h"
#include "store/record.h"
#include "store/refs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

enum { ROLLBACK_MAX = 128 << 10 };

static bool take_text(const char **at, const char *value)
{
	bool is_first = !*at;

	*at = value;
	return is_first;
}

static bool take_layer(const char **list, size_t *count, const char *id)
{
	if (*count >= SPEC_LAYER_MAX || !layer_is_id(id))
		return false;
	list[(*count)++] = id;
	return true;
}

static bool take_line(struct rollback *r, const char *key, const char *value)
{
	if (strcmp(key, "token") == 0)
		return take_text(&r->token, value);
	if (strcmp(key, "from") == 0)
		return layer_is_id(value) && take_text(&r->from, value);
	if (strcmp(key, "workspace") == 0)
		return str_is_name(value, BOX_NAME_MAX) && take_text(&r->workspace, value);
	if (strcmp(key, "layer") == 0)
		return take_layer(r->layers, &r->layer_count, value);
	if (strcmp(key, "workspace_layer") == 0)
		return take_layer(r->workspace_layers, &r->workspace_layer_count, value);
	return strcmp(key, "renew") == 0 && (r->renew = true);
}

void rollback_done(struct rollback *r)
{
	free(r->text);
	*r = (struct rollback){0};
}

int rollback_read(int box_fd, struct rollback *ret, struct err *e)
{
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r;

	*ret = (struct rollback){0};
	r = fd_read_file(box_fd, ROLLBACK_FILE, ROLLBACK_MAX, &ret->text, &len);
	if (r == -ENOENT)
		return 0;
	if (r == 0 && lines_check_sum(ret->text, len) <= 0)
		r = -EBADMSG;
	if (r == 0) {
		lines_init(&lines, ret->text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
		while ((r = lines_next(&lines, &key, &value)) > 0 && take_line(ret, key, value))
			;
	}
	if (r == 0 && ret->token)
		return 1;
	rollback_done(ret);
	return err_set(e, ERR_DAMAGED, r < 0 ? -r : EBADMSG,
		       "a rollback of the box had begun, and its file '" ROLLBACK_FILE
		       "' is damaged: remove the box, or fork the snapshot");
}

int rollback_write(int box_fd, const struct rollback *rb, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, ROLLBACK_MAX);
	r = lines_begin_sum(&b);
	if (r == 0)
		r = lines_put(&b, "token", rb->token);
	if (r == 0 && rb->from)
		r = lines_put(&b, "from", rb->from);
	if (r == 0 && rb->workspace)
		r = lines_put(&b, "workspace", rb->workspace);
	if (r == 0 && rb->renew)
		r = lines_put(&b, "renew", "1");
	for (size_t i = 0; i < rb->layer_count && r == 0; i++)
		r = lines_put(&b, "layer", rb->layers[i]);
	for (size_t i = 0; i < rb->workspace_layer_count && r == 0; i++)
		r = lines_put(&b, "workspace_layer", rb->workspace_layers[i]);
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(box_fd, ROLLBACK_FILE, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r < 0 ? err_errno(e, -r, "write what the box is to become") : 0;
}

bool rollback_is_there(int box_fd)
{
	return faccessat(box_fd, ROLLBACK_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

int rollback_end(int box_fd, struct err *e)
{
	if ((unlinkat(box_fd, ROLLBACK_FILE, 0) < 0 && errno != ENOENT) || fsync(box_fd) < 0)
		return err_errno(e, errno, "finish the rollback");
	return 0;
}

static int add_refs(struct refs *refs, const char *const *ids, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = refs_add(refs, ids[i]);
	return r;
}

static int add_box_refs(struct state *s, const char *box, struct refs *refs, struct err *e)
{
	autoclose int box_fd = -1;
	struct rollback rb;
	int r = record_open(s, box, &box_fd, e);

	if (r == 0)
		r = rollback_read(box_fd, &rb, e);
	if (r <= 0)
		return r;
	r = add_refs(refs, rb.layers, rb.layer_count);
	if (r == 0)
		r = add_refs(refs, rb.workspace_layers, rb.workspace_layer_count);
	rollback_done(&rb);
	return r < 0 ? err_errno(e, -r, "list what box '%s' is to become", box) : 0;
}

/* What cannot be looked at now is an error: its layers would look unused. */
int rollback_refs(struct state *s, struct refs *refs, struct err *e)
{
	char **names;
	size_t count;
	int r = record_names(s, &names, &count, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = add_box_refs(s, names[i], refs, e);
		if (r == -ENOENT) /* it is gone meanwhile */
			r = 0;
	}
	state_names_free(names, count);
	return r;
}
