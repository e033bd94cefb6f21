/* What changed in a server's boxes, and bringing it back to where it came from. */
#include "base/fd.h"
#include "base/str.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The place of a word in a list that NULL ends; the first where it is none of them. */
static unsigned word_of(const json_t *o, const char *key, const char *const *words)
{
	const char *word = remote_text(o, key);

	for (unsigned i = 0; words[i] && word; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return 0;
}

static const char *const kinds[] = {"added", "changed", "removed", NULL};

static struct cove_change_side side_of(const json_t *o)
{
	static const struct {
		const char *name;
		unsigned mode;
	} types[] = {{"file", S_IFREG},	       {"directory", S_IFDIR},
		     {"link", S_IFLNK},	       {"fifo", S_IFIFO},
		     {"socket", S_IFSOCK},     {"character device", S_IFCHR},
		     {"block device", S_IFBLK}};
	const char *type = remote_text(o, "type"), *mode = remote_text(o, "mode");
	struct cove_change_side s = {.uid = (unsigned)remote_number(o, "uid"),
				     .gid = (unsigned)remote_number(o, "gid"),
				     .size = remote_number(o, "size")};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && type; i++)
		if (strcmp(types[i].name, type) == 0)
			s.mode = types[i].mode;
	if (s.mode && mode)
		s.mode |= (unsigned)strtoul(mode, NULL, 8) & 07777;
	return s;
}

static unsigned what_of(const json_t *list)
{
	static const char *const words[] = {"type", "mode", "owner", "content", "attributes"};
	unsigned what = 0;

	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));

		for (unsigned w = 0; w < sizeof(words) / sizeof(words[0]) && word; w++)
			what |= strcmp(words[w], word) == 0 ? 1u << w : 0;
	}
	return what;
}

static int give_change(const struct cove_diff_options *options, const json_t *o)
{
	const json_t *text = json_object_get(o, "text");
	size_t len;
	autofree char *path = remote_take_bytes(o, "path", "path_base64", &len);
	struct cove_change c = {.kind = (enum cove_change_kind)word_of(o, "kind", kinds),
				.what = what_of(json_object_get(o, "what")),
				.path = path,
				.before = side_of(json_object_get(o, "before")),
				.after = side_of(json_object_get(o, "after")),
				.deep = remote_is(o, "deep")};

	if (json_is_string(text)) {
		c.text_kind = COVE_TEXT_LINES;
		c.text = json_string_value(text);
		c.text_len = json_string_length(text);
	} else if (remote_is(o, "binary") || remote_is(o, "large")) {
		c.text_kind = remote_is(o, "binary") ? COVE_TEXT_BINARY : COVE_TEXT_LARGE;
	}
	return path && options->on_change ? options->on_change(options->arg, &c) : 0;
}

int cove_diff(struct cove *cove, const struct cove_diff_options *given, struct cove_error *err)
{
	struct cove_diff_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const json_t *list;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/diff");
	q.repeats = true;
	json_kv_str(remote_object(&q), "from", o.from);
	remote_put_str(&q.json, "to", o.to);
	remote_put_list(&q.json, "paths", o.paths);
	remote_put_bool(&q.json, "text", o.text);
	remote_put_bool(&q.json, "workspace", o.workspace);
	r = remote_call(&q, &answer, &e);
	list = json_object_get(answer, "changes");
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		if (give_change(&o, json_array_get(list, i)) != 0)
			break;
	if (r == 0 && o.ret_live)
		*o.ret_live = remote_is(answer, "live");
	if (r == 0 && o.ret_no_workspace)
		*o.ret_no_workspace = remote_is(answer, "no_workspace");
	json_decref(answer);
	return remote_return(r, &e, err);
}

/* ---- merge ---- */

static int give_item(const struct cove_merge_options *options, const json_t *o)
{
	static const char *const states[] = {"taken", "conflict", "left_out", NULL};
	size_t len;
	autofree char *path = remote_take_bytes(o, "path", "path_base64", &len);
	const struct cove_merge_item item = {
		.state = (enum cove_merge_state)word_of(o, "state", states),
		.kind = (enum cove_change_kind)word_of(o, "kind", kinds),
		.path = path,
		.why = remote_text(o, "why")};

	return path && options->on_item ? options->on_item(options->arg, &item) : 0;
}

int cove_merge(struct cove *cove, const struct cove_merge_options *given,
	       struct cove_merge_result *ret, struct cove_error *err)
{
	struct cove_merge_options o;
	struct remote_request q;
	struct err e = {0};
	json_t *answer = NULL;
	const json_t *list;
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "POST", "/v1/merge");
	q.keeps_details = true;
	q.cancel_fd = o.cancel_fd;
	json_kv_str(remote_object(&q), "from", o.from);
	remote_put_str(&q.json, "to", o.to);
	remote_put_list(&q.json, "paths", o.paths);
	remote_put_str(&q.json, "prefer", o.prefer);
	remote_put_bool(&q.json, "dry_run", o.dry_run);
	remote_put_bool(&q.json, "trust_dir", o.trust_dir);
	remote_put_bool(&q.json, "keep_workspace", o.keep_workspace);
	r = remote_call(&q, &answer, &e);
	list = json_object_get(answer, "changes");
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++)
		if (give_item(&o, json_array_get(list, i)) != 0)
			break;
	*ret = (struct cove_merge_result){.taken = remote_number(answer, "taken"),
					  .conflicts = remote_number(answer, "conflicts"),
					  .left_out = remote_number(answer, "left_out"),
					  .done = remote_is(answer, "done"),
					  .finished = remote_is(answer, "finished"),
					  .restarted = remote_is(answer, "restarted")};
	json_decref(answer);
	return remote_return(r, &e, err);
}
