/*
 * Walls: which there are, adding one that needs a program, and which a box gets.
 *
 * A program is good when a box behind it has run a command: the version that it prints says what it
 * is, and what that box took is noted, so that `auto` can choose without trying anything. A program
 * that fails is not kept.
 */
#include "core/walls.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "store/image.h"
#include "store/walls.h"
#include "wall/info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AUTO_START_MS = 1000, TRIALS = 3 };

/* ---- which wall a box gets ---- */

int wall_read_auto(const char *wall, uint64_t *ret_ms, struct err *e)
{
	*ret_ms = AUTO_START_MS;
	if (strcmp(wall, "auto") == 0)
		return 1;
	if (!str_starts(wall, "auto:"))
		return 0;
	return str_parse_ms(wall + strlen("auto:"), ret_ms)
		       ? 1
		       : err_set(e, ERR_INVALID, EINVAL,
				 "'%.40s' is no time: --wall auto:500ms, auto:2s",
				 wall + strlen("auto:"));
}

static bool is_ready(struct cove *cove, const struct wall_info *w, struct walls_tried *ret)
{
	char path[BOX_PATH_MAX];

	*ret = (struct walls_tried){0};
	if (walls_tried(&cove->state, w->name, ret, NULL) < 0)
		return !w->program;
	return !w->program || wall_program_find(w, cove->state.home, path, NULL) == 0;
}

static const struct wall_info *find_strongest(struct cove *cove, uint64_t within_ms)
{
	const struct wall_info *best = wall_info_find(WALL_DEFAULT), *w;
	struct walls_tried tried;

	for (size_t i = 0; (w = wall_info_at(i)) != NULL; i++)
		if (w->strength > best->strength && is_ready(cove, w, &tried) &&
		    tried.start_us <= within_ms * 1000)
			best = w;
	return best;
}

bool wall_is_weaker(const char *wall, const char *least)
{
	const struct wall_info *w = wall_info_find(wall), *l = wall_info_find(least);

	return !w || !l || w->strength < l->strength;
}

bool wall_shares_kernel(const char *wall)
{
	const struct wall_info *w = wall_info_find(wall);

	return !w || w->flags & WALL_SHARED_KERNEL;
}

static int check(const char *wall, const char *name, struct err *e)
{
	/* Never weaker for a word that is not understood. */
	if (!name[0] || !wall_is_weaker(wall, name))
		return 0;
	return err_set(
		e, ERR_DENIED, EPERM,
		"wall '%.40s' is weaker than '%.40s', which your boxes must have (`cove wall "
		"min`): make it with --wall %.40s",
		wall, name, name);
}

int wall_check(struct cove *cove, const char *wall, struct err *e)
{
	char least[WALLS_NAME_MAX];
	int r = walls_min(&cove->state, least, e);

	return r < 0 ? r : check(wall, least, e);
}

/* Of a box whose caller names none: what boxes must have at least, where that is more. */
static const struct wall_info *find_default(const char *least)
{
	const struct wall_info *w = wall_info_find(WALL_DEFAULT), *min = wall_info_find(least);

	return min && min->strength > w->strength ? min : w;
}

const char *wall_of_new(struct cove *cove)
{
	char least[WALLS_NAME_MAX];

	return walls_min(&cove->state, least, NULL) < 0 ? NULL : find_default(least)->name;
}

int wall_choose(struct cove *cove, struct core_spec *s, struct err *e)
{
	char least[WALLS_NAME_MAX];
	int r = walls_min(&cove->state, least, e);

	if (r < 0)
		return r;
	if (s->wall_open)
		s->spec.wall = find_default(least)->name;
	if (s->wall_within_ms)
		s->spec.wall = find_strongest(cove, s->wall_within_ms)->name;
	return check(s->spec.wall, least, e);
}

/* ---- the list ---- */

static void fill(struct cove *cove, const struct wall_info *w, const char *least,
		 struct cove_wall_info *ret)
{
	struct walls_tried tried;
	char path[BOX_PATH_MAX] = "";
	size_t len;

	str_copy(ret->name, sizeof(ret->name), w->name);
	ret->strength = w->strength;
	ret->shared_kernel = w->flags & WALL_SHARED_KERNEL;
	ret->is_default = w == find_default(least);
	ret->is_min = strcmp(w->name, least) == 0;
	ret->ready = is_ready(cove, w, &tried);
	ret->start_us = tried.start_us;
	str_copy(ret->version, sizeof(ret->version), tried.version);
	if (w->program && wall_program_find(w, cove->state.home, path, NULL) == 0) {
		str_copy(ret->program, sizeof(ret->program), path);
		ret->is_old = wall_program_is_old(w, path);
	}
	str_copy(ret->holds, sizeof(ret->holds), w->holds);
	wall_lacks(w, ret->lacks, sizeof(ret->lacks));
	len = strlen(ret->lacks);
	if (ret->is_old)
		snprintf(ret->lacks + len, sizeof(ret->lacks) - len, "%s%s", len ? "; " : "",
			 w->old);
	if (!ret->ready || ret->is_old)
		snprintf(ret->remedy, sizeof(ret->remedy), "cove wall add %s%s", w->name,
			 ret->is_old ? " PROGRAM" : "");
}

int cove_walls(struct cove *cove, struct cove_wall_info **ret, struct cove_error *err)
{
	struct cove_wall_info *infos = NULL;
	char least[WALLS_NAME_MAX];
	struct err e = {0};
	size_t count = 0;
	int r = walls_min(&cove->state, least, &e);

	while (wall_info_at(count))
		count++;
	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list walls");
	}
	for (size_t i = 0; infos && i < count; i++)
		fill(cove, wall_info_at(i), least, &infos[i]);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
}

/* ---- adding ---- */

static int try_once(struct cove *cove, const char *wall, uint64_t *ret_us, struct err *e)
{
	const struct cove_box_options options = {.size = sizeof(options),
						 .image = IMAGE_HOST,
						 .wall = wall,
						 .net = "closed",
						 .one_shot = true};
	const char *const argv[] = {"true", NULL};
	const struct cove_command command = {.size = sizeof(command), .argv = argv};
	struct cove_result result = {0};
	struct cove_box *box = NULL;
	struct cove_error err = {0};
	uint64_t since = clock_mono_ns();
	int r = cove_create(cove, &options, &box, &err);

	if (r == 0)
		r = cove_run(box, &command, &result, &err);
	*ret_us = (clock_mono_ns() - since) / 1000;
	if (r == 0 && result.exit_code != 0)
		r = err_set(e, ERR_INTERNAL, EIO, "`true` ended with %d in a box behind it",
			    result.exit_code);
	else if (r < 0)
		err_set(e, (enum err_kind)err.kind, err.code, "%s", err.message);
	cove_result_free(&result);
	cove_box_free(box);
	return r;
}

static int compare_us(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The middle one of a few, the first of which finds nothing in the caches. */
static int try_wall(struct cove *cove, const char *wall, uint64_t *ret_us, struct err *e)
{
	uint64_t us[TRIALS];
	int r = 0;

	for (int i = 0; i < TRIALS && r == 0; i++) {
		r = try_once(cove, wall, &us[i], e);
		if (r < 0 && i == 0) /* a wall may have another way to start, and take it now */
			r = try_once(cove, wall, &us[i], e);
	}
	if (r < 0)
		return r;
	qsort(us, TRIALS, sizeof(us[0]), compare_us);
	*ret_us = us[TRIALS / 2];
	return 0;
}

/* Its version, and what a box behind it takes. program: NULL: the one that is there. */
static int try_program(struct cove *cove, const struct wall_info *w, const char *program,
		       struct walls_tried *ret, struct err *e)
{
	char path[BOX_PATH_MAX];
	int r = program || !w->program ? 0 : wall_program_find(w, cove->state.home, path, e);

	if (r == 0 && w->program)
		r = wall_program_version(program ? program : path, ret->version,
					 sizeof(ret->version), e);
	if (r == 0) {
		cove->wall_program = program;
		r = try_wall(cove, w->name, &ret->start_us, e);
		cove->wall_program = NULL;
		if (r < 0)
			err_prefix(e, "wall '%s' does not work here", w->name);
	}
	return r;
}

/* What was there stays in use until the new one has been tried, and for good where it fails. */
static int add(struct cove *cove, const struct wall_info *w, const char *program, struct err *e)
{
	autoclose int from = -1, lock = -1;
	struct walls_tried tried = {0};
	char staged[BOX_PATH_MAX];
	int r;

	if (program) {
		from = open(program, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
		if (from < 0)
			return err_errno(e, errno, "open '%.120s'", program);
	}
	r = state_make(&cove->state, e);
	if (r == 0)
		r = lock = walls_lock(&cove->state, e);
	if (r >= 0)
		r = program ? walls_stage(&cove->state, w->name, from, staged, e) : 0;
	if (r < 0)
		return r;
	r = try_program(cove, w, program ? staged : NULL, &tried, e);
	if (r == 0 && program)
		r = walls_place(&cove->state, w->name, w->program, e);
	if (r == 0)
		r = walls_set_tried(&cove->state, w->name, &tried, e);
	else if (program)
		walls_unstage(&cove->state, w->name);
	return r;
}

static const struct wall_info *find(const char *name, struct err *e)
{
	const struct wall_info *w = name ? wall_info_find(name) : NULL;

	if (!w)
		err_set(e, ERR_NOT_FOUND, ENOENT, "there is no wall '%.64s': %s", name ? name : "",
			wall_names());
	return w;
}

int cove_wall_add(struct cove *cove, const char *name, const char *program, struct cove_error *err)
{
	struct err e = {0};
	const struct wall_info *w = find(name, &e);
	int r = w ? 0 : -ENOENT;

	if (w && program && !w->program)
		r = err_set(&e, ERR_INVALID, EINVAL, "wall '%s' needs no program", name);
	if (r == 0)
		r = add(cove, w, program, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_wall_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	const struct wall_info *w = find(name, &e);
	bool was = false;
	autoclose int lock = w ? walls_lock(&cove->state, NULL) : -1; /* -1 where nothing is kept */
	int r = w ? walls_remove(&cove->state, w->name, &was, &e) : -ENOENT;

	if (r == 0 && !was)
		r = err_set(&e, ERR_NOT_FOUND, ENOENT, "nothing was added for wall '%s'", name);
	return core_return(cove, NULL, r, &e, err);
}

int cove_wall_min(struct cove *cove, char ret[64], struct cove_error *err)
{
	struct err e = {0};

	return core_return(cove, NULL, walls_min(&cove->state, ret, &e), &e, err);
}

int cove_wall_set_min(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	int r = !name || find(name, &e) ? 0 : -ENOENT;

	if (r == 0 && name)
		r = state_make(&cove->state, &e);
	if (r == 0)
		r = walls_set_min(&cove->state, name, &e);
	return core_return(cove, NULL, r, &e, err);
}
