/* cove read: lines of a file in a box. */
#include "cli/change.h"
#include "cli/place.h"

#include <stdio.h>

static void put_json(struct json *j, const struct cli_place *place, const struct cove_lines *l)
{
	json_kv_str(j, "path", place->path);
	json_key(j, "text");
	json_strn(j, l->text, l->text_len);
	json_kv_u64(j, "first_line", l->first_line);
	json_kv_u64(j, "last_line", l->last_line);
	json_key(j, "total_lines");
	if (l->total_lines == COVE_UNKNOWN)
		json_nil(j);
	else
		json_u64(j, l->total_lines);
	json_kv_bool(j, "at_end", l->at_end);
	json_kv_bool(j, "binary", l->is_binary);
	json_kv_u64(j, "cut_lines", l->cut_lines);
	json_kv_u64(j, "size", l->file_size);
	json_kv_u64(j, "mtime_ns", l->mtime_ns);
}

static int print(struct cli *c, const struct cli_place *place, const struct cove_lines *l)
{
	struct cove_error err = {.kind = COVE_INVALID};
	struct cli_object o;

	if (c->o.json) {
		put_json(cli_object_begin(&o), place, l);
		return cli_object_end(c, &o);
	}
	if (l->cut_lines > 0)
		cli_note("%llu long lines were cut", (unsigned long long)l->cut_lines);
	if (l->is_binary && !c->o.binary) {
		snprintf(err.message, sizeof(err.message),
			 "'%.100s' does not look like text: --binary prints it all the same",
			 place->path);
		return cli_broken(c, &err);
	}
	if (!l->at_end && l->last_line > 0 && !c->o.given[OPT_LINES])
		cli_note("it goes on after line %llu (--lines)", (unsigned long long)l->last_line);
	return cli_out(c, l->text, l->text_len);
}

static int run(struct cli *c)
{
	struct cove_read_options o = {
		.size = sizeof(o),
		.user = c->o.box.user,
		.from_line = c->o.out_from,
		.count = COVE_UNLIMITED,
		.max_bytes = 16u << 20,
		.binary = c->o.binary,
	};
	struct cli_place place;
	struct cove_lines lines;
	struct cove_error err;
	int r;

	if (c->o.err_from > 0) {
		if (c->o.err_from < c->o.out_from)
			return cli_usage(c, "--lines A:B: B is before A");
		o.count = c->o.err_from - (c->o.out_from ? c->o.out_from : 1) + 1;
	}
	r = cli_place_first(c, false, &place);
	if (r != 0)
		return r;
	if (cove_read_lines(c->box, place.path, &o, &lines, &err) < 0)
		return cli_broken(c, &err);
	r = print(c, &place, &lines);
	cove_lines_done(&lines);
	return r;
}

const struct verb verb_read = {
	.name = "read",
	.synopsis = "read BOX:PATH [--lines A[:B]]",
	.summary = "print lines of a file",
	.help = "What does not look like text (a NUL or invalid UTF-8 in its first 8 KiB) is\n"
		"not printed, a line is cut at 64 KiB, and at most 16 MiB are read: `cove cp\n"
		"BOX:PATH -` gives any file whole. With --json also the number of lines, and\n"
		"size and time, for an edit that should find the same file.\n"
		"\n"
		"Examples\n"
		"  cove read dev:/workspace/main.c --lines 10:40\n"
		"  cove read dev:notes.md --json | jq .total_lines\n",
	.options =
		(const enum opt_id[]){OPT_LINES, OPT_BINARY, OPT_COPY_USER, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.answers = true,
	.run = run,
};
