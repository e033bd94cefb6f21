/*
 * cove cp: files and directories into a box and out of it.
 *
 * BOX:PATH is a place in a box; anything else is a place here. A host name with a colon in it is
 * written ./a:b. `-` is stdin or stdout, for one file, or for a
 * directory as a tar.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/copying.h"
#include "cli/place.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* stdout may be where the file went. */
static int say_copied(struct cli *c, const struct cli_place *from, const struct cli_place *to,
		      const struct copying *p, int left_out)
{
	char amount[SIZE_TEXT], count[40] = "";
	struct cli_object o;
	struct json *j;

	if (left_out > 0)
		cli_note("%d %s left out of '%.80s': neither file, directory nor link", left_out,
			 left_out == 1 ? "entry was" : "entries were", from->path);
	if (c->o.verbose && p->bytes + p->files > 0) {
		snprintf(count, sizeof(count), "%llu %s, ", (unsigned long long)p->files,
			 p->files == 1 ? "file" : "files");
		fprintf(stderr, "[cove] %s: copied %s%s\n", to->box[0] ? to->box : from->box, count,
			size_format(amount, p->bytes));
	} else if (c->o.verbose) {
		fprintf(stderr, "[cove] %s: copied\n", to->box[0] ? to->box : from->box);
	}
	if (!c->o.json || to->is_stream)
		return 0;
	j = cli_object_begin(&o);
	json_kv_str(j, "from", from->text);
	json_kv_str(j, "to", c->o.args[c->o.arg_count - 1]);
	json_kv_i64(j, "left_out", left_out);
	return cli_object_end(c, &o);
}

static int copy(struct cli *c, struct cove_box *box, const struct cli_place *from,
		const struct cli_place *to)
{
	bool streams = from->is_stream || to->is_stream;
	struct copying p = {0};
	struct cove_copy how = copying_how(&p, c->o.box.user);
	struct cove_error err;
	int r;

	/* A stream ends with us, as a signal has it, and leaves nothing here. */
	if (streams)
		how.progress = NULL;
	else
		copying_start(&p, !c->o.quiet);
	if (from->is_stream)
		r = cove_put_fd(box, STDIN_FILENO, to->path, 0644, &how, &err);
	else if (to->is_stream)
		r = cove_get_fd(box, from->path, STDOUT_FILENO, &how, &err);
	else
		r = (to->box[0] ? cove_put : cove_get)(box, from->path, to->path, &how, &err);
	copying_end(&p);
	if (r < 0 && p.signal) {
		cli_note("the copy was interrupted; nothing half-written was left");
		return 128 + p.signal;
	}
	if (r < 0)
		return cli_broken(c, &err);
	if (p.skipped > 0)
		return cli_error(c, COVE_DENIED,
				 "%u %s below '%.80s' could not be read (%s); the rest was copied",
				 p.skipped, p.skipped == 1 ? "entry" : "entries", from->path,
				 p.why);
	return say_copied(c, from, to, &p, r);
}

/* Several sources need a directory to go into. */
static int check_directory(struct cli *c, struct cove_box *box, const struct cli_place *to)
{
	struct cove_file_info info = {0};
	struct cove_error err;
	struct stat st;
	bool is_dir;

	if (to->box[0])
		is_dir = cove_stat(box, to->path, &info, &err) >= 0 && info.type == 'd';
	else
		is_dir = stat(to->path, &st) == 0 && S_ISDIR(st.st_mode);
	if (!is_dir)
		return cli_error(c, COVE_INVALID,
				 "'%.80s' is not a directory, and there are several sources",
				 to->path);
	return 0;
}

static int run(struct cli *c)
{
	size_t sources = c->o.arg_count - 1;
	struct cli_place to = cli_place_of(c->o.args[sources]);
	struct cove_box *box = NULL;
	int r = 0;

	for (size_t i = 0; i < sources; i++) {
		struct cli_place from = cli_place_of(c->o.args[i]);

		if (!from.box[0] && !to.box[0])
			return cli_usage(
				c, "neither side is in a box: write BOX:PATH for one of them");
		if (from.box[0] && to.box[0])
			return cli_usage(c, "both sides are in boxes; copy through here: "
					    "`cove cp A:FILE - | cove cp - B:FILE`");
		if ((from.is_stream || to.is_stream) && sources > 1)
			return cli_usage(c, "'-' is for one file");
	}
	if (to.box[0])
		r = cli_place_open(c, to.box, &box);
	if (r == 0 && sources > 1)
		r = check_directory(c, box, &to);
	for (size_t i = 0; r == 0 && i < sources; i++) {
		struct cli_place from = cli_place_of(c->o.args[i]);

		if (from.box[0])
			r = cli_place_open(c, from.box, &box);
		if (r == 0)
			r = copy(c, box, &from, &to);
	}
	cove_box_free(box);
	return r;
}

const struct verb verb_cp = {
	.name = "cp",
	.synopsis = "cp SRC... BOX:DST | BOX:SRC... DST",
	.summary = "copy files and directories in and out",
	.help = "Directories are copied whole; what goes onto an existing directory goes\n"
		"inside it, as with cp -r. A relative path in the box starts at its directory\n"
		"(/workspace, or the home), and ~ is the home. `-` is stdin or stdout, for one\n"
		"file; a directory comes as a tar, and one that is there takes a tar. Files\n"
		"arrive as the box's user (-u USER: another), and come out as you; modes, times,\n"
		"holes and hard links are kept; links are copied as links and never followed out\n"
		"of the box. A tar with names that lead out of its directory is refused. A\n"
		"stopped box is up for the copy alone and runs none of its commands. What may\n"
		"not be read is named and left out, and the status is 125 then; what is neither\n"
		"file, directory nor link is left out and counted.\n"
		"\n"
		"Examples\n"
		"  cove cp ./src dev:/workspace\n"
		"  cove cp dev:/workspace/out.csv .\n"
		"  cove cp -u root ./site.conf dev:/etc/nginx/conf.d\n"
		"  cove cp dev:/etc/os-release - | head -2\n"
		"  cove cp dev:/workspace - | gzip > workspace.tar.gz\n"
		"  gzip -dc workspace.tar.gz | cove cp - dev:/tmp    # makes /tmp/workspace\n"
		"  echo hello | cove cp - dev:/tmp/hello.txt\n",
	.options = (const enum opt_id[]){OPT_COPY_USER, OPTS_COMMON, OPT_END},
	.args = {2, -1},
	.run = run,
};
