/*
 * cove-save HOME RUN BOX NAME KEEP: a snapshot of a running box that the box itself asked for,
 * under a name of its own choice. Started by the saver (keeper/saver.h) with the rights of the
 * box's owner, and never by a person; NAME and KEEP are checked here again. What came of it is
 * lines on descriptor 1.
 */
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "core/core.h"
#include "core/snapshot_inside.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAID_MAX = 4096 };

static int say_error(const struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, SAID_MAX);
	r = lines_put_u64(&b, "error_kind", e->kind ? e->kind : ERR_INTERNAL);
	if (r == 0)
		r = lines_put_u64(&b, "error_code", (uint64_t)e->code);
	if (r == 0)
		r = lines_put(&b, "error", e->msg);
	if (r == 0)
		r = fd_write_full(1, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r < 0 ? 126 : 1;
}

static int say(const struct snapshot_inside *s)
{
	struct buf b;
	int r;

	buf_init(&b, SAID_MAX);
	r = lines_put(&b, "name", s->name);
	if (r == 0)
		r = lines_put_u64(&b, "frozen_us", s->frozen_us);
	if (r == 0)
		r = lines_put_u64(&b, "total_us", s->total_us);
	if (r == 0)
		r = lines_put_u64(&b, "left", s->left);
	if (r == 0)
		r = fd_write_full(1, buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r < 0 ? 126 : 0;
}

/* As store/state.c finds both: a directory that somebody named has its sockets in it, the usual
 * ones have them elsewhere. */
static int set_places(const char *home, const char *run)
{
	char inside[PATH_MAX], data[PATH_MAX], runtime[PATH_MAX];

	if (snprintf(inside, sizeof(inside), "%s/run", home) >= (int)sizeof(inside))
		return -ENAMETOOLONG;
	if (strcmp(inside, run) == 0)
		return setenv("COVE_HOME", home, 1) < 0 ? -errno : 0;
	if (!str_copy(data, sizeof(data), home) || !str_copy(runtime, sizeof(runtime), run) ||
	    !strrchr(data, '/') || !strrchr(runtime, '/'))
		return -EINVAL;
	*strrchr(data, '/') = *strrchr(runtime, '/') = 0;
	return unsetenv("COVE_HOME") < 0 || setenv("XDG_DATA_HOME", data, 1) < 0 ||
			       setenv("XDG_RUNTIME_DIR", runtime, 1) < 0
		       ? -errno
		       : 0;
}

static int save(char **argv, struct snapshot_inside *ret, struct err *e)
{
	const struct cove_options o = {.size = sizeof(o)};
	struct cove_error public = {0};
	struct cove *cove = NULL;
	uint64_t keep;
	int r;

	if (!str_parse_u64(argv[5], CTL_SNAPSHOTS_MAX, &keep) || keep == 0)
		return err_set(e, ERR_INVALID, EINVAL, "no number of snapshots");
	r = set_places(argv[1], argv[2]);
	if (r < 0)
		return err_errno(e, -r, "find the state directory");
	if (cove_new(&cove, &o, &public) < 0)
		return err_set(e, (enum err_kind) public.kind, public.code, "%s", public.message);
	if (strcmp(cove->state.home, argv[1]) != 0 || strcmp(cove->state.run, argv[2]) != 0)
		r = err_set(e, ERR_INTERNAL, 0, "the state directory is another one");
	else
		r = snapshot_inside_make(cove, argv[3], argv[4], keep, ret, e);
	cove_free(cove);
	return r;
}

int main(int argc, char **argv)
{
	struct snapshot_inside made;
	struct err e = {0};

	fd_fill_low();
	if (argc != 6) {
		err_set(&e, ERR_INVALID, EINVAL, "cove-save is started by a box's keeper");
		return say_error(&e);
	}
	return save(argv, &made, &e) < 0 ? say_error(&e) : say(&made);
}
