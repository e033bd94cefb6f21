/* The files of store/stage.c; see stage_journal.h. */
#include "store/stage_journal.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int format_op(const struct stage_op *op, struct buf *b)
{
	autofree char *value = NULL;

	if (asprintf(&value, "%d %o %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %s", (int)op->kind,
		     op->mode, op->number, op->was.ino, op->was.ctime_ns, op->was.mtime_ns,
		     op->path) < 0)
		return -ENOMEM;
	return lines_put(b, "op", value);
}

static int format_box(const struct stage_seen *box, struct buf *b)
{
	char value[64];

	if (!box->ino)
		return 0;
	snprintf(value, sizeof(value), "%" PRIu64 " %" PRIu64, box->ino, box->ctime_ns);
	return lines_put(b, "box", value);
}

static bool parse_box(const char *value, struct stage_seen *ret)
{
	char *end;

	ret->ino = strtoull(value, &end, 10);
	ret->ctime_ns = strtoull(end, &end, 10);
	return *end == 0;
}

static bool parse_op(const char *value, struct stage_op *ret)
{
	char *end;

	*ret = (struct stage_op){0};
	ret->kind = (enum stage_kind)strtoul(value, &end, 10);
	ret->mode = (unsigned)strtoul(end, &end, 8);
	ret->number = (unsigned)strtoul(end, &end, 10);
	ret->was.ino = strtoull(end, &end, 10);
	ret->was.ctime_ns = strtoull(end, &end, 10);
	ret->was.mtime_ns = strtoull(end, &end, 10);
	if (*end != ' ' || ret->kind >= STAGE_KIND_COUNT || ret->mode > 0777 ||
	    !path_is_safe_relative(end + 1))
		return false;
	ret->path = strdup(end + 1);
	return ret->path != NULL;
}

int stage_ops_write(int box_fd, const char *file, const char *stage, const char *state,
		    const struct stage_op *ops, size_t count)
{
	struct buf b;
	int r;

	buf_init(&b, STAGE_JOURNAL_MAX);
	r = lines_begin_sum(&b);
	if (r == 0 && stage)
		r = lines_put(&b, "stage", stage);
	if (r == 0 && state)
		r = lines_put(&b, "state", state);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = format_op(&ops[i], &b);
		if (r == 0)
			r = format_box(&ops[i].box, &b);
	}
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(box_fd, file, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r;
}

int stage_ops_grow(struct stage_op **list, size_t count, size_t *cap)
{
	struct stage_op *grown;
	size_t want = *cap ? *cap * 2 : 64;

	if (count < *cap)
		return 0;
	if (count >= STAGE_OPS_MAX)
		return -E2BIG;
	grown = realloc(*list, want * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*list = grown;
	*cap = want;
	return 0;
}

void stage_ops_free(struct stage_op *ops, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(ops[i].path);
	free(ops);
}

static bool is_stage_name(const char *name)
{
	return str_starts(name, STAGE_NAME) && !strchr(name, '/');
}

static int take_line(struct stage_journal *j, const char *key, const char *value)
{
	int r;

	if (strcmp(key, "stage") == 0)
		return is_stage_name(value) && str_copy(j->stage, sizeof(j->stage), value)
			       ? 0
			       : -EBADMSG;
	if (strcmp(key, "state") == 0) {
		j->apply = strcmp(value, "apply") == 0;
		return 0;
	}
	if (strcmp(key, "box") == 0)
		return j->count && parse_box(value, &j->ops[j->count - 1].box) ? 0 : -EBADMSG;
	if (strcmp(key, "op") != 0)
		return -EBADMSG;
	r = stage_ops_grow(&j->ops, j->count, &j->cap);
	if (r < 0)
		return r;
	return parse_op(value, &j->ops[j->count]) ? (j->count++, 0) : -EBADMSG;
}

int stage_ops_read(int box_fd, const char *file, struct stage_journal *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r = fd_read_plain(box_fd, file, STAGE_JOURNAL_MAX, &text, &len);

	*ret = (struct stage_journal){0};
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) != 1)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		r = take_line(ret, key, value);
		if (r < 0)
			break;
	}
	if (r < 0) {
		stage_ops_free(ret->ops, ret->count);
		*ret = (struct stage_journal){0};
	}
	return r < 0 ? r : 1;
}
