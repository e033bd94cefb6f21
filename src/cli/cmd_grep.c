/* cove grep: lines of files in a box. */
#include "base/fd.h"
#include "cli/change.h"
#include "cli/place.h"

#include <string.h>

struct grepping {
	struct cli *c;
	struct cli_place place;
	int status;
};

static int print_json(struct cli *c, const struct cove_match *m)
{
	struct cli_object o;
	struct json *j = cli_object_begin(&o);

	json_kv_str(j, "path", m->path);
	json_kv_u64(j, "line", m->line);
	json_kv_u64(j, "column", m->column);
	json_kv_str(j, "text", m->text);
	json_kv_u64(j, "text_column", m->text_column);
	json_kv_bool(j, "cut", m->is_cut);
	json_kv_bool(j, "context", m->is_context);
	return cli_object_end(c, &o);
}

static int on_match(void *arg, const struct cove_match *m)
{
	struct grepping *g = arg;
	char sign = m->is_context ? '-' : ':';
	struct buf line;
	int r;

	if (g->c->o.json) {
		g->status = print_json(g->c, m);
		return g->status;
	}
	buf_init(&line, 512u << 10);
	r = cli_put_path_in(&line, &g->place, m->path);
	if (r == 0)
		r = buf_printf(&line, "%c%llu%c", sign, (unsigned long long)m->line, sign);
	if (r == 0 && isatty(STDOUT_FILENO))
		r = change_put_shown(&line, m->text, strlen(m->text));
	else if (r == 0)
		r = buf_append_str(&line, m->text);
	if (r == 0)
		r = buf_append_str(&line, "\n");
	g->status = r < 0 ? EXIT_COVE : cli_out_buf(g->c, &line);
	buf_done(&line);
	return g->status;
}

static int run(struct cli *c)
{
	struct grepping g = {.c = c};
	struct cove_grep_options o = {
		.size = sizeof(o),
		.user = c->o.box.user,
		.regex = c->o.regex,
		.ignore_case = c->o.ignore_case,
		.glob = c->o.glob,
		.context = c->o.context,
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
	if (cove_grep(c->box, g.place.path, c->o.args[1], &o, &found, &err) < 0)
		return cli_broken(c, &err);
	cli_note_found(&found);
	return g.status;
}

const struct verb verb_grep = {
	.name = "grep",
	.synopsis = "grep BOX:PATH TEXT [-E] [-g PATTERN]",
	.summary = "lines of files that hold a text",
	.help = "PATH is a file, or a directory with all below it. TEXT is the text itself, with\n"
		"-E a regular expression. Binary files are left out, links not followed, and of\n"
		"a line 2,000 bytes are shown. The search is a process in the box; --timeout\n"
		"ends it, whatever the expression. The status is 0 whether or not there are any.\n"
		"\n"
		"Examples\n"
		"  cove grep dev:/workspace 'def main' -g '*.py'\n"
		"  cove grep dev:/var/log -E 'error|warn' -i -C 2 --max 50\n",
	.options = (const enum opt_id[]){OPT_REGEX, OPT_IGNORE_CASE, OPT_GLOB, OPT_CONTEXT,
					 OPT_FIND_COUNT, OPT_FIND_TIMEOUT, OPT_COPY_USER,
					 OPTS_COMMON, OPT_END},
	.args = {2, 2},
	.answers = true,
	.run = run,
};
