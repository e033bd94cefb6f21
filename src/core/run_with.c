/*
 * Files that go with a command: in before it starts, out after it ended.
 *
 * All that can be known to fail is known before anything is copied, so that no command works for an
 * hour towards a directory that is not there. Then inputs are all or nothing, since a command must
 * not work on half of what it was given; and outputs each for itself, since what a command left is
 * worth the more the worse it ended.
 *
 * Two of a kind with one place are refused. Places on the host are compared as what they are, those
 * in the box as text: only the box could resolve them, and it is the box's word.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"
#include "core/carry.h"
#include "core/plain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The caller's wishes, and what is under way. */
struct carry {
	struct cove_box *box;
	struct cove_files files;
	struct cove_copy how; /* the caller's */
	struct cove_transfer *item;
	uint64_t bytes, files_done; /* of those before it */
	uint64_t skipped;
	char why[80]; /* the first of those was */
	bool given_up;
};

/* A caller may know a longer struct than we do. */
static struct cove_transfer *item_at(struct cove_transfer *first, size_t i)
{
	return (struct cove_transfer *)((char *)first + i * first->size);
}

static struct cove_transfer *input_at(const struct carry *c, size_t i)
{
	return item_at(c->files.inputs, i);
}

static struct cove_transfer *output_at(const struct carry *c, size_t i)
{
	return item_at(c->files.outputs, i);
}

static bool on_progress(void *arg, uint64_t bytes, uint64_t files)
{
	struct carry *c = arg;

	c->item->bytes = bytes;
	c->item->files = files;
	c->given_up = c->how.progress &&
		      !c->how.progress(c->how.arg, c->bytes + bytes, c->files_done + files);
	return !c->given_up;
}

static void on_skipped(void *arg, const char *path, const char *why)
{
	struct carry *c = arg;

	if (c->skipped++ == 0)
		str_copy(c->why, sizeof(c->why), why);
	if (c->how.on_skipped)
		c->how.on_skipped(c->how.arg, path, why);
}

/* What an input has not is the end of it; of an output all comes that can. */
static struct cove_copy begin_item(struct carry *c, struct cove_transfer *item, bool skips)
{
	if (c->item) {
		c->bytes += c->item->bytes;
		c->files_done += c->item->files;
	}
	c->item = item;
	c->skipped = 0;
	return (struct cove_copy){.size = sizeof(struct cove_copy),
				  .user = c->how.user,
				  .progress = on_progress,
				  .on_skipped = skips ? on_skipped : NULL,
				  .arg = c};
}

/* A path in the box, from where the caller's begin. */
static int in_box(const struct carry *c, const char *path, char ret[BOX_PATH_MAX], struct err *e)
{
	bool is_home = path[0] == '~' && (!path[1] || path[1] == '/');

	if (c->files.cwd && path[0] != '/' && !is_home
		    ? path_join(ret, BOX_PATH_MAX, c->files.cwd, path)
		    : str_copy(ret, BOX_PATH_MAX, path))
		return 0;
	return err_set(e, ERR_INVALID, ENAMETOOLONG, "'%.150s' is too long a path", path);
}

/* "a//./b/" -> "a/b"; ".." is the box's to resolve. */
static void tidy(char *path)
{
	char *start = path + (*path == '/'), *to = start;

	for (const char *p = start; *p;) {
		size_t n;

		p += strspn(p, "/");
		n = strcspn(p, "/");
		if (n > 0 && !(n == 1 && *p == '.')) {
			if (to > start)
				*to++ = '/';
			memmove(to, p, n);
			to += n;
		}
		p += n;
	}
	*to = 0;
}

typedef char box_path[BOX_PATH_MAX];

static bool is_same(const box_path *a, const box_path *b)
{
	box_path x, y;

	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	tidy(x);
	tidy(y);
	return strcmp(x, y) == 0;
}

static int twice(const char *what, struct err *e)
{
	return err_set(e, ERR_INVALID, EEXIST, "two of the files would be '%.150s'", what);
}

/* ---- before anything is copied ---- */

static int check_items(struct cove_transfer *items, size_t count, const char *what, struct err *e)
{
	if (count > TRANSFERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "at most %u %s go with a command",
			       TRANSFERS_MAX, what);
	if (count > 0 && (items->size < sizeof(*items) || items->size > 65536))
		return err_set(e, ERR_INVALID, EINVAL,
			       "a struct given to Cove has no size: set .size = "
			       "sizeof(struct cove_transfer)");
	for (size_t i = 0; i < count; i++) {
		struct cove_transfer *t = item_at(items, i);

		t->bytes = t->files = t->left_out = 0;
		t->error = (struct cove_error){.kind = COVE_INTERRUPTED, .code = ECANCELED};
		str_copy(t->error.message, sizeof(t->error.message), "it was not tried");
	}
	return 0;
}

static int check_input(struct carry *c, size_t i, struct err *e)
{
	const struct cove_transfer *t = input_at(c, i);
	autoclose int fd = -1;

	if (!t->to || !*t->to)
		return err_set(e, ERR_INVALID, EINVAL, "an input has no place in the box");
	for (size_t k = 0; k < i && !t->from; k++)
		if (!input_at(c, k)->from && input_at(c, k)->fd == t->fd)
			return err_set(e, ERR_INVALID, EINVAL, "two inputs have one source");
	if (!t->from)
		return fcntl(t->fd, F_GETFD) < 0 ? err_errno(e, errno, "read an input") : 0;
	return put_open(c->box, t->from, &fd, e);
}

static bool is_same_place(const struct get_place *a, const struct get_place *b)
{
	return a->dev == b->dev && a->ino == b->ino && strcmp(a->name, b->name) == 0;
}

static int check_output(struct carry *c, size_t i, struct get_place *places, struct err *e)
{
	const struct cove_transfer *t = output_at(c, i);
	int r = 0;

	if (!t->from || !*t->from)
		return err_set(e, ERR_INVALID, EINVAL, "an output has no path");
	if (t->to)
		r = get_find_place(t->to, t->from, &places[i], e);
	else if (fcntl(t->fd, F_GETFD) < 0)
		r = err_errno(e, errno, "write an output");
	for (size_t k = 0; k < i && r == 0; k++) {
		const struct cove_transfer *other = output_at(c, k);

		if (!t->to != !other->to)
			continue;
		if (t->to ? is_same_place(&places[i], &places[k]) : t->fd == other->fd)
			r = twice(!t->to ? "-" : places[i].name[0] ? places[i].name : t->to, e);
	}
	return r;
}

static int check(struct carry *c, struct err *e)
{
	const struct cove_files *f = &c->files;
	autofree struct get_place *places = NULL;
	int r = check_items(f->inputs, f->input_count, "inputs", e);

	if (r == 0)
		r = check_items(f->outputs, f->output_count, "outputs", e);
	places = calloc(f->output_count + 1, sizeof(*places));
	if (r == 0 && !places)
		r = err_errno(e, ENOMEM, "look at a command's files");
	for (size_t i = 0; r == 0 && i < f->output_count; i++)
		r = check_output(c, i, places, e);
	for (size_t i = 0; r == 0 && i < f->input_count; i++)
		r = check_input(c, i, e);
	return r;
}

/* ---- in ---- */

/* Where each input goes. */
static int find_targets(struct carry *c, box_path *targets, struct err *e)
{
	for (size_t i = 0; i < c->files.input_count; i++) {
		struct cove_transfer *t = input_at(c, i);
		struct cove_copy how = begin_item(c, t, false);
		box_path path;
		int r = in_box(c, t->to, path, e);

		if (r == 0 && t->from)
			r = put_target(c->box, t->from, path, &how, true, targets[i], e);
		else if (r == 0)
			memcpy(targets[i], path, sizeof(path));
		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (is_same(&targets[k], &targets[i]))
				return twice(targets[i], e);
	}
	return 0;
}

static int put_item(struct carry *c, struct cove_transfer *t, const char *target, struct err *e)
{
	struct cove_copy how = begin_item(c, t, false);
	int r = t->from ? put_at(c->box, t->from, target, &how, e)
			: put_stream(c->box, t->fd, target, 0644, &how, e);

	core_error_fill(r, e, &t->error);
	if (r > 0)
		t->left_out = (uint64_t)r;
	return r < 0 ? r : 0;
}

static int put_all(struct carry *c, struct err *e)
{
	autofree box_path *targets = calloc(c->files.input_count + 1, sizeof(*targets));
	int r = targets ? check(c, e) : err_errno(e, ENOMEM, "put a command's files");

	if (r == 0)
		r = find_targets(c, targets, e);
	for (size_t i = 0; r == 0 && i < c->files.input_count; i++)
		r = put_item(c, input_at(c, i), targets[i], e);
	return r;
}

/* ---- out ---- */

static int get_item(struct carry *c, struct cove_transfer *t)
{
	struct cove_copy how = begin_item(c, t, true);
	struct err e = {0};
	box_path path;
	int r = in_box(c, t->from, path, &e);

	if (r < 0)
		return core_error_fill(r, &e, &t->error);
	if (t->to)
		r = cove_get(c->box, path, t->to, &how, &t->error);
	else
		r = cove_get_fd(c->box, path, t->fd, &how, &t->error);
	if (r < 0)
		return r;
	t->left_out = (uint64_t)r;
	if (c->skipped == 0)
		return 0;
	t->left_out += c->skipped;
	r = err_set(&e, ERR_DENIED, EACCES,
		    "%llu of '%.80s' could not be read (%s); the rest was copied",
		    (unsigned long long)c->skipped, t->from, c->why);
	return core_error_fill(r, &e, &t->error);
}

/* ---- the calls ---- */

static int begin(struct carry *c, struct cove_box *box, const struct cove_files *files,
		 struct err *e)
{
	int r;

	*c = (struct carry){.box = box};
	r = core_copy_sized(&c->files, sizeof(c->files), files, e);
	if (r == 0 && c->files.how)
		r = core_copy_sized(&c->how, sizeof(c->how), c->files.how, e);
	return r;
}

int cove_put_files(struct cove_box *box, const struct cove_files *files, struct cove_error *err)
{
	struct carry c;
	struct err e = {0};
	int r = begin(&c, box, files, &e);

	if (r == 0)
		r = put_all(&c, &e);
	return carry_return(box, r, &e, err);
}

int cove_get_files(struct cove_box *box, const struct cove_files *files, struct cove_error *err)
{
	struct carry c;
	struct err e = {0};
	int failed = 0, r = begin(&c, box, files, &e);

	if (r == 0)
		r = check_items(c.files.outputs, c.files.output_count, "outputs", &e);
	for (size_t i = 0; r == 0 && i < c.files.output_count; i++)
		failed += c.given_up || get_item(&c, output_at(&c, i)) < 0;
	return carry_return(box, r < 0 ? r : failed, &e, err);
}

/* The command's own where the files say nothing of it. */
static int run_with(struct cove_box *box, const struct cove_command *command,
		    struct cove_files *files, struct cove_copy *how, struct err *e)
{
	struct cove_command cmd;
	int r = core_copy_sized(&cmd, sizeof(cmd), command, e);

	if (r == 0 && files->how)
		r = core_copy_sized(how, sizeof(*how), files->how, e);
	if (r == 0 && cmd.background && files->output_count > 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "a background command ends later than this call: get its outputs then");
	how->size = sizeof(*how);
	how->user = how->user ? how->user : cmd.user;
	files->cwd = files->cwd ? files->cwd : cmd.cwd;
	files->how = how;
	return r;
}

int cove_run_with(struct cove_box *box, const struct cove_command *command,
		  const struct cove_files *files, struct cove_result *ret, struct cove_error *err)
{
	struct cove_copy how = {0};
	struct cove_files f;
	struct err e = {0};
	int r = core_copy_sized(&f, sizeof(f), files, &e);

	if (r == 0)
		r = run_with(box, command, &f, &how, &e);
	if (r < 0)
		return carry_return(box, r, &e, err);
	f.size = sizeof(f);
	r = cove_put_files(box, &f, err);
	if (r == 0)
		r = cove_run(box, command, ret, err);
	if (r < 0)
		return r;
	ret->files = files;
	if (f.output_count > 0)
		r = cove_get_files(box, &f, err);
	return r < 0 ? r : 0;
}
