/* cove glob: names in a box that match a pattern. */
#include "base/fd.h"
#include "cli/place.h"

struct globbing {
	struct cli *c;
	struct cli_place place;
	int status;
};

static int on_match(void *arg, const struct cove_file_info *file)
{
	const char type[] = {file->type, 0};
	struct globbing *g = arg;
	struct cli_object o;
	struct json *j;
	struct buf line;
	int r;

	if (g->c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "path", file->name);
		json_kv_str(j, "type", type);
		json_kv_u64(j, "size", file->size);
		json_kv_u64(j, "mtime_ns", file->mtime_ns);
		g->status = cli_object_end(g->c, &o);
		return g->status;
	}
	buf_init(&line, 64u << 10);
	r = cli_put_path_in(&line, &g->place, file->name);
	if (r == 0)
		r = buf_append_str(&line, "\n");
	g->status = r < 0 ? EXIT_COVE : cli_out_buf(g->c, &line);
	buf_done(&line);
	return g->status;
}

static int run(struct cli *c)
{
	struct globbing g = {.c = c};
	struct cove_glob_options o = {
		.size = sizeof(o),
		.user = c->o.box.user,
		.any_type = c->o.all,
		.max_count = c->o.count,
		.time_ms = c->o.box.timeout_ms,
		.on_match = on_match,
		.arg = &g,
	};
	struct cove_found found;
	struct cove_error err;
	int r = cli_place_first(c, false, &g.place);

	if (r != 0)
		return r;
	if (cove_glob(c->box, g.place.path, c->o.args[1], &o, &found, &err) < 0)
		return cli_broken(c, &err);
	cli_note_found(&found);
	return g.status;
}

const struct verb verb_glob = {
	.name = "glob",
	.synopsis = "glob BOX:DIR PATTERN",
	.summary = "names of files that match a pattern",
	.help = "In one name * is anything, ? one character, [a-z] one of these, [!a-z] none of\n"
		"them; ** between slashes is any number of directories; {a,b} is either. A\n"
		"pattern without a slash is for names at any depth, with one for the path below\n"
		"DIR. What begins with a dot matches only where the pattern says the dot. Links\n"
		"are not followed. Names come sorted; unusual ones in quotes and escaped, with\n"
		"--json one object per line.\n"
		"\n"
		"Examples\n"
		"  cove glob dev:/workspace '*.py'\n"
		"  cove glob dev:/etc '/ssl/**/*.{crt,pem}'\n",
	.options = (const enum opt_id[]){OPT_ANY_TYPE, OPT_FIND_COUNT, OPT_FIND_TIMEOUT,
					 OPT_COPY_USER, OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.answers = true,
	.run = run,
};
