/* cove glob: names in a box that match a pattern. */
#include "base/fd.h"
#include "cli/place.h"

static int on_match(void *arg, const struct cove_file_info *file)
{
	const char type[] = {file->type, 0};
	struct cli_search *s = arg;
	struct cli_object o;
	struct json *j;
	struct buf line;

	if (s->c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "path", file->name);
		json_kv_str(j, "type", type);
		json_kv_u64(j, "size", file->size);
		json_kv_u64(j, "mtime_ns", file->mtime_ns);
		s->status = cli_object_end(s->c, &o);
		return s->status;
	}
	return cli_search_line_end(s, &line, cli_search_line(s, &line, 64u << 10, file->name));
}

static int run(struct cli *c)
{
	struct cli_search s;
	struct cove_glob_options o = {
		.size = sizeof(o),
		.user = c->o.box.user,
		.any_type = c->o.all,
		.max_count = c->o.count,
		.time_ms = c->o.box.timeout_ms,
		.on_match = on_match,
		.arg = &s,
	};
	struct cove_found found;
	struct cove_error err;
	int r = cli_search_begin(&s, c);

	if (r != 0)
		return r;
	r = cove_glob(c->box, s.place.path, c->o.args[1], &o, &found, &err);
	return cli_search_end(&s, r, &found, &err);
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
