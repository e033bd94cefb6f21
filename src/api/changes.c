/* What changed in a box, and bringing it back to where it came from. */
#include "api/handlers.h"

#include "core/core.h"
#include "core/view.h"
#include "store/snapshot.h"

#include <errno.h>

/* ---- names of either kind ---- */

/* "box:", "snapshot:", "image:", or the first of these that is the caller's, in this order. */
static int find_kind(struct api_call *c, struct cove *cove, const char *given, const char **ret,
		     struct err *e)
{
	struct record record;
	struct snapshot sn;
	const char *name;
	int r = api_name(c, KEY_OF_BOX, given, &name, NULL);

	if (r == 0 && record_load(&cove->state, name, &record, NULL) == 0) {
		record_done(&record);
		*ret = api_memory_printf(&c->memory, "box:%s", name);
		return 0;
	}
	r = api_name(c, KEY_OF_SNAPSHOT, given, &name, NULL);
	if (r == 0) {
		bool is_there = snapshot_find(&cove->state, name, &sn, NULL) == 0;

		snapshot_done(&sn);
		*ret = api_memory_printf(&c->memory, "snapshot:%s", name);
		if (is_there)
			return 0;
	}
	r = api_image(c, cove, given, &name, e);
	*ret = r == 0 ? api_memory_printf(&c->memory, "image:%s", name) : NULL;
	return r;
}

static int which_tree(struct api_call *c, struct cove *cove, const char *given, const char **ret,
		      struct err *e)
{
	static const struct {
		const char *prefix;
		enum key_kind kind;
	} kinds[] = {
		{"box:", KEY_OF_BOX}, {"snapshot:", KEY_OF_SNAPSHOT}, {"image:", KEY_OF_IMAGE}};
	const char *name;
	int r;

	*ret = given;
	if (!given || c->who.is_operator)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!str_starts(given, kinds[i].prefix))
			continue;
		given += strlen(kinds[i].prefix);
		r = kinds[i].kind == KEY_OF_IMAGE ? api_image(c, cove, given, &name, e)
						  : api_name(c, kinds[i].kind, given, &name, e);
		if (r < 0)
			return r;
		*ret = api_memory_printf(&c->memory, "%s%s", kinds[i].prefix, name);
		return *ret ? 0 : err_errno(e, ENOMEM, "read the request");
	}
	r = find_kind(c, cove, given, ret, e);
	return r == 0 && !*ret ? err_errno(e, ENOMEM, "read the request") : r;
}

/* ---- diff ---- */

struct api_showing {
	struct api_call *call;
	uint64_t counts[3];
};

static int on_change(void *arg, const struct cove_change *ch)
{
	struct api_showing *s = arg;

	s->counts[ch->kind]++;
	view_change_json(&s->call->json, ch);
	return s->call->json.error < 0 || !api_goes_on(s->call);
}

struct diff_in {
	const char *from, *to;
	const char *const *paths;
	bool text, workspace;
};
static const struct api_in_field diff_fields[] = {
	API_IN(diff_in, from, STR),  API_IN(diff_in, to, STR),	       API_IN(diff_in, paths, LIST),
	API_IN(diff_in, text, BOOL), API_IN(diff_in, workspace, BOOL), {NULL, 0, 0}};

static int diff(struct api_call *c, struct cove *cove, struct err *e)
{
	struct diff_in in = {0};
	const struct api_in_table tables[] = {{diff_fields, &in}, {NULL, NULL}};
	struct api_showing s = {.call = c};
	bool live = false, no_workspace = false;
	struct cove_diff_options o = {.size = sizeof(o),
				      .on_change = on_change,
				      .arg = &s,
				      .ret_live = &live,
				      .ret_no_workspace = &no_workspace};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.from)
		r = err_set(e, ERR_INVALID, EINVAL, "'from' is missing: a box, snapshot or image");
	if (r == 0)
		r = which_tree(c, cove, in.from, &o.from, e);
	if (r == 0)
		r = which_tree(c, cove, in.to, &o.to, e);
	if (r < 0)
		return r;
	o.paths = in.paths;
	o.text = in.text;
	o.workspace = in.workspace;
	c->is_exact = true;
	json_object_begin(api_json(c, 200));
	json_key(&c->json, "changes");
	json_array_begin(&c->json);
	r = cove_diff(cove, &o, &err);
	json_array_end(&c->json);
	json_kv_u64(&c->json, "added", s.counts[COVE_ADDED]);
	json_kv_u64(&c->json, "changed", s.counts[COVE_CHANGED]);
	json_kv_u64(&c->json, "removed", s.counts[COVE_REMOVED]);
	json_kv_bool(&c->json, "live", live);
	json_kv_bool(&c->json, "no_workspace", no_workspace);
	json_object_end(&c->json);
	if (c->json.error < 0 && r == 0)
		return err_set(e, ERR_LIMIT, EMSGSIZE,
			       "there is more than an answer holds: ask for some 'paths'");
	return r < 0 ? api_failed(r, &err, e) : 0;
}

/* ---- merge ---- */

struct api_merging {
	struct api_call *call;
	struct buf out;
	struct json j;
};

static int on_item(void *arg, const struct cove_merge_item *i)
{
	struct api_merging *m = arg;

	view_merge_item_json(&m->j, i);
	return m->j.error < 0 || !api_goes_on(m->call);
}

struct merge_in {
	const char *from, *to, *prefer;
	const char *const *paths;
	bool dry_run, trust_dir, keep_workspace;
};
static const struct api_in_field merge_fields[] = {API_IN(merge_in, from, STR),
						   API_IN(merge_in, to, STR),
						   API_IN(merge_in, prefer, STR),
						   API_IN(merge_in, paths, LIST),
						   API_IN(merge_in, dry_run, BOOL),
						   API_IN(merge_in, trust_dir, BOOL),
						   API_IN(merge_in, keep_workspace, BOOL),
						   {NULL, 0, 0}};

/* To a directory of this host: it is one that the key may show its boxes, now too. */
static int may_write_dir(struct api_call *c, struct cove *cove, const char *box, struct err *e)
{
	struct record record;
	int r;

	if (c->who.is_operator)
		return 0;
	r = record_load(&cove->state, box, &record, e);
	if (r < 0)
		return r;
	if (!record.spec.workspace_dir)
		r = err_set(e, ERR_INVALID, EINVAL, "give 'to', the box that it was forked from");
	else if (!key_may_mount(c->who.key, record.spec.workspace_dir))
		r = err_set(e, ERR_DENIED, EACCES,
			    "key '%s' may not write to that directory of the server's machine: "
			    "cove key create NAME --mount DIR",
			    c->who.key->name);
	record_done(&record);
	return r;
}

static int merge_answer(struct api_call *c, struct api_merging *m,
			const struct cove_merge_options *o, const struct cove_merge_result *result,
			struct err *e)
{
	struct err conflict;
	const char *text;

	json_array_end(&m->j);
	view_merge_result_json(&m->j, result);
	json_object_end(&m->j);
	text = m->j.error < 0 ? NULL : buf_cstr(&m->out);
	if (!text)
		return err_errno(e, m->j.error < 0 ? -m->j.error : ENOMEM, "write the answer");
	c->is_exact = true;
	if (result->conflicts > 0 && !result->done && !o->dry_run) {
		err_set(&conflict, ERR_CONFLICT, EEXIST,
			"%llu of the changes were made on both sides, and nothing was merged: "
			"'prefer' says \"theirs\" or \"ours\", and 'paths' choose",
			(unsigned long long)result->conflicts);
		return api_error_with(c, &conflict, text);
	}
	json_raw(api_json(c, 200), text);
	return 0;
}

static int merge(struct api_call *c, struct cove *cove, struct err *e)
{
	struct merge_in in = {0};
	const struct api_in_table tables[] = {{merge_fields, &in}, {NULL, NULL}};
	struct api_merging m = {.call = c};
	struct cove_merge_options o = {.size = sizeof(o), .on_item = on_item, .arg = &m};
	struct cove_merge_result result;
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0 && !in.from)
		r = err_set(e, ERR_INVALID, EINVAL, "'from' is missing: a box");
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.from, &o.from, e);
	if (r == 0)
		r = api_name(c, KEY_OF_BOX, in.to, &o.to, e);
	if (r == 0 && !o.to)
		r = may_write_dir(c, cove, o.from, e);
	if (r == 0 && in.trust_dir && !c->who.is_operator)
		r = api_not_trusted(e);
	if (r == 0 && in.prefer && strcmp(in.prefer, "theirs") != 0 &&
	    strcmp(in.prefer, "ours") != 0)
		r = err_set(e, ERR_INVALID, EINVAL, "'prefer' is theirs or ours");
	if (r < 0)
		return r;
	o.paths = in.paths;
	o.prefer = in.prefer;
	o.dry_run = in.dry_run;
	o.trust_dir = in.trust_dir;
	o.keep_workspace = in.keep_workspace;
	buf_init(&m.out, 32 << 20);
	json_init(&m.j, &m.out);
	json_object_begin(&m.j);
	json_key(&m.j, "changes");
	json_array_begin(&m.j);
	r = cove_merge(cove, &o, &result, &err);
	r = r < 0 ? api_failed(r, &err, e) : merge_answer(c, &m, &o, &result, e);
	buf_done(&m.out);
	return r;
}

/* clang-format off */
const struct api_route api_change_routes[] = {
	{"POST", "/v1/diff", "diff", KEY_READ, API_BODY_JSON, .work = diff, .lasts = true},
	{"POST", "/v1/merge", "merge", KEY_RUN, API_BODY_JSON, .work = merge, .lasts = true},
	{0}};
/* clang-format on */
