/* cove edit: a text in a file of a box, replaced. */
#include "cli/place.h"

static int run(struct cli *c)
{
	const struct cove_edit edit = {
		.old_text = c->o.args[1], .new_text = c->o.args[2], .all = c->o.all};
	struct cove_edit_options o = {
		.size = sizeof(o), .user = c->o.box.user, .edits = &edit, .count = 1};
	struct cove_edited edited;
	struct cli_place place;
	struct cli_object object;
	struct cove_error err;
	struct json *j;
	int r = cli_place_first(c, false, &place);

	if (r != 0)
		return r;
	if (cove_edit(c->box, place.path, &o, &edited, &err) < 0)
		return cli_broken(c, &err);
	if (!c->o.json)
		return 0;
	j = cli_object_begin(&object);
	json_kv_str(j, "path", place.path);
	json_kv_u64(j, "occurrences", edited.occurrences);
	json_kv_u64(j, "first_line", edited.first_line);
	json_kv_u64(j, "size", edited.file_size);
	json_kv_u64(j, "mtime_ns", edited.mtime_ns);
	json_kv_str(j, "sha256", edited.sha256);
	return cli_object_end(c, &object);
}

const struct verb verb_edit = {
	.name = "edit",
	.synopsis = "edit BOX:PATH OLD NEW [--all]",
	.summary = "replace a text in a file",
	.help = "OLD is the text itself, not a pattern, and may have lines; it must be there\n"
		"just once unless --all is given. The file is replaced in one step and keeps its\n"
		"mode, and its owner where the user may give it; ends of lines stay CRLF or LF\n"
		"as they are. `--` before OLD lets it begin with a dash.\n"
		"\n"
		"Examples\n"
		"  cove edit dev:/workspace/app.py 'port = 80' 'port = 8080'\n"
		"  cove edit dev:README.md colour color --all\n",
	.options = (const enum opt_id[]){OPT_EDIT_ALL, OPT_COPY_USER, OPTS_COMMON, OPT_END},
	.args = {3, 3},
	.answers = true,
	.run = run,
};
