/* cove grep: lines of files in a box. */
#include "base/fd.h"
#include "cli/change.h"
#include "cli/place.h"

#include <string.h>

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
	struct cli_search *s = arg;
	char sign = m->is_context ? '-' : ':';
	struct buf line;
	int r;

	if (s->c->o.json) {
		s->status = print_json(s->c, m);
		return s->status;
	}
	r = cli_search_line(s, &line, 512u << 10, m->path);
	if (r == 0)
		r = buf_printf(&line, "%c%llu%c", sign, (unsigned long long)m->line, sign);
	if (r == 0 && isatty(STDOUT_FILENO))
		r = change_put_shown(&line, m->text, strlen(m->text));
	else if (r == 0)
		r = buf_append_str(&line, m->text);
	return cli_search_line_end(s, &line, r);
}

static int run(struct cli *c)
{
	struct cli_search s;
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
		.arg = &s,
	};
	struct cove_found found;
	struct cove_error err;
	int r = cli_search_begin(&s, c);

	if (r != 0)
		return r;
	r = cove_grep(c->box, s.place.path, c->o.args[1], &o, &found, &err);
	return cli_search_end(&s, r, &found, &err);
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
