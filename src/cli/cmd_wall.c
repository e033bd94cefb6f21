/* cove wall: what can stand between a box and the host, and getting it. */
#include "base/fd.h"
#include "cli/builder.h"
#include "cli/list.h"
#include "cli/watch.h"
#include "core/spawn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUILDER "make-runsc"

static void row(struct table *t, const void *item)
{
	const struct cove_wall_info *w = item;

	table_cellf(t, "%s%s", w->name, w->is_default ? " (default)" : "");
	table_cell(t, w->ready	      ? (w->is_old ? "ready, old" : "ready")
		      : w->program[0] ? "installed"
				      : "to add");
	table_cell(t, w->version);
	if (w->start_us)
		table_cellf(t, "%.1f ms", (double)w->start_us / 1000);
	else
		table_cell(t, "");
	table_cell(t, w->holds);
	table_cell(t, w->lacks);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	return cove_walls(c->cove, ret, err);
}

static const struct list_form form = {
	.titles = {"WALL", "STATE", "VERSION", "START", "HOLDS", "LACKS"},
	.right = 1u << 3,
	.size = sizeof(struct cove_wall_info),
	.get = get,
	.row = row,
	.fields = view_wall_fields,
};

/* One wall as the list has it. 0 or the exit status. */
static int find(struct cli *c, const char *name, struct cove_wall_info *ret)
{
	struct cove_wall_info *walls = NULL;
	struct cove_error err;
	int count = cove_walls(c->cove, &walls, &err);

	if (count < 0)
		return cli_fail(c, &err);
	for (int i = 0; i < count; i++)
		if (strcmp(walls[i].name, name) == 0) {
			*ret = walls[i];
			free(walls);
			return 0;
		}
	free(walls);
	return cli_error(c, COVE_NOT_FOUND, "there is no wall '%.64s'; `cove wall ls` lists them",
			 name);
}

static int add_program(struct cli *c, const char *wall, const char *program)
{
	struct cove_wall_info added;
	struct cove_error err;
	struct watch w;
	int r;

	watch_start_words(&w, "trying", wall, c->o.json);
	r = cove_wall_add(c->cove, wall, program, &err);
	watch_stop(&w);
	if (r < 0)
		return cli_fail(c, &err);
	r = find(c, wall, &added);
	if (r == 0 && !c->o.json)
		cli_note("wall '%s' is ready: a box starts in %.1f ms%s%s", wall,
			 (double)added.start_us / 1000, added.version[0] ? "; version " : "",
			 added.version);
	if (r == 0 && added.is_old)
		cli_note("its program is old; boxes lack %s. `cove wall add %s PROGRAM` takes a "
			 "newer one",
			 added.lacks, wall);
	return r ? r : cli_done(c, wall, "added", c->events);
}

/* Into a directory of its own, which is gone at the end whatever happens. installed: there is an
 * old one, which is taken where none can be built. */
static int build(struct cli *c, const char *wall, bool installed)
{
	char path[512], dir[] = "/var/tmp/cove-wall-XXXXXX", file[sizeof(dir) + 16];
	const char *const args[] = {file, NULL};
	struct err e = {0};
	int code = -1, r;
	pid_t pid;

	if (spawn_find_program(BUILDER, path, sizeof(path), &e) < 0)
		return cli_error(c, (enum cove_error_kind)e.kind, "%s", e.msg);
	if (!mkdtemp(dir))
		return cli_error(c, COVE_FULL, "make a directory in /var/tmp: %s", strerror(errno));
	snprintf(file, sizeof(file), "%s/program", dir);
	r = builder_start(path, args, STDERR_FILENO, &pid);
	if (r == 0)
		code = builder_wait(pid);
	if (r < 0)
		r = cli_error(c, COVE_INTERNAL, "start '%.120s': %s", path, strerror(-r));
	else if (builder_ended_by())
		r = EXIT_SIGNAL + builder_ended_by();
	else if (installed && (code == BUILDER_UNREACHABLE || code == BUILDER_NO_PROGRAM))
		r = add_program(c, wall, NULL);
	else if (code == BUILDER_UNREACHABLE)
		r = cli_error(c, COVE_UNSUPPORTED,
			      "the source of wall '%s' cannot be fetched (see above); an "
			      "installed program is taken: cove wall add %s PROGRAM",
			      wall, wall);
	else if (code == BUILDER_NO_PROGRAM)
		r = cli_error(c, COVE_UNSUPPORTED, "wall '%s' cannot be built here (see above)",
			      wall);
	else if (code != 0)
		r = cli_error(c, COVE_INTERNAL, "building wall '%s' failed (see above)", wall);
	else
		r = add_program(c, wall, file);
	unlink(file);
	rmdir(dir);
	return r;
}

static int add(struct cli *c)
{
	const char *wall = c->o.args[1], *program = c->o.args[2];
	struct cove_wall_info w;
	int r = find(c, wall, &w);

	if (r)
		return r;
	/* One that is installed, or was added before, is tried; what needs none, too. */
	if (program || w.ready || (w.program[0] && !w.is_old))
		return add_program(c, wall, program);
	return build(c, wall, w.program[0] != 0);
}

static int remove_one(struct cli *c, const char *wall, struct cove_error *err)
{
	return cove_wall_remove(c->cove, wall, err);
}

static int show_min(struct cli *c)
{
	struct cove_error err;
	char name[64];
	struct json j;
	struct buf b;
	int r;

	if (cove_wall_min(c->cove, name, &err) < 0)
		return cli_fail(c, &err);
	if (!name[0] && !c->o.json)
		cli_note("boxes may have any wall");
	buf_init(&b, 1024);
	if (c->o.json) {
		json_init(&j, &b);
		json_object_begin(&j);
		json_key(&j, "min");
		name[0] ? json_str(&j, name) : json_nil(&j);
		json_object_end(&j);
	} else {
		(void)buf_printf(&b, "%s", name);
	}
	if (name[0] || c->o.json)
		(void)buf_printf(&b, "\n");
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int min(struct cli *c)
{
	const char *name = c->o.args[1];
	struct cove_wall_info w;
	struct cove_error err;

	if (c->o.arg_count == 1)
		return show_min(c);
	if (cove_wall_set_min(c->cove, strcmp(name, "any") == 0 ? NULL : name, &err) < 0)
		return cli_fail(c, &err);
	if (strcmp(name, "any") != 0 && find(c, name, &w) == 0 && !w.ready)
		cli_note("wall '%s' was not added yet: `cove wall add %s`", name, name);
	return cli_done(c, name, "set", c->events);
}

const struct verb verb_wall = {
	.name = "wall",
	.synopsis = "wall ls | add NAME [PROGRAM] | rm NAME... | min [NAME|any]",
	.summary = "what stands between boxes and the host",
	.help = "ls      the walls, which of them can be used, and what they hold and lack\n"
		"add     make one usable: with PROGRAM, which is copied, or the one that is\n"
		"        installed; where that is none or an old one it is built from its source\n"
		"        (with Go). A box is started behind it to see that it works, and what\n"
		"        that took is noted\n"
		"rm      remove what was added\n"
		"min     the weakest wall that your boxes may have, and what they have without\n"
		"        --wall; 'any' lifts it. Boxes behind a weaker one are neither made nor\n"
		"        started, but go on if they run\n"
		"\n"
		"A box gets one with --wall NAME. --wall auto takes the strongest that was added\n"
		"and started a box within a second; --wall auto:200ms within that time.\n"
		"\n"
		"Examples\n"
		"  cove wall add gvisor\n"
		"  cove run --wall gvisor -- uname -r\n"
		"  cove wall min gvisor\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.subs = (const struct verb[]){{.name = "ls", .synopsis = "wall ls", .list = &form},
				      {.name = "add",
				       .synopsis = "wall add NAME [PROGRAM]",
				       .here = true,
				       .args = {1, 2},
				       .run = add},
				      {.name = "rm",
				       .synopsis = "wall rm NAME...",
				       .args = {1, -1},
				       .each = remove_one,
				       .result = "removed"},
				      {.name = "min",
				       .synopsis = "wall min [NAME|any]",
				       .args = {0, 1},
				       .run = min},
				      {0}},
};
