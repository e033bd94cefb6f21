/*
 * Searches in a box: names, and lines of files.
 *
 * The time that a search has is kept by init. Where it had to kill what searched, it says so with
 * an error; what came before that is as good as ever, so here it is a search that was truncated.
 */
#include "core/tool.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <string.h>

struct searching {
	const struct cove_glob_options *glob; /* one of them */
	const struct cove_grep_options *grep;
	uint64_t max, context_left; /* it may still send */
	struct cove_found found;
	bool has_summary;
};

static int too_many(struct err *e)
{
	return err_set(e, ERR_PROTOCOL, EPROTO, "the box found more than was asked for");
}

static int take_summary(struct searching *s, const struct wire_frame *f, struct err *e)
{
	static const char *const words[TRUNCATED_KIND_COUNT] = {
		[TRUNCATED_COUNT] = "count", [TRUNCATED_TIME] = "time", [TRUNCATED_SIZE] = "size"};
	struct wire_summary m;

	if (f->type != WIRE_SUMMARY || wire_summary_decode(f, &m) < 0)
		return core_tool_unexpected(f, e);
	s->has_summary = true;
	s->found.files = m.files;
	s->found.left_out = m.left_out;
	/* One that is newer than this Cove has no word here: that it is not all is what counts. */
	s->found.truncated = m.truncated < TRUNCATED_KIND_COUNT ? words[m.truncated] : "size";
	return 0;
}

static int on_name(void *arg, const struct wire_frame *f, struct err *e)
{
	struct searching *s = arg;
	struct cove_file_info info = {0};
	const char *path = NULL;
	struct wire_entry m;
	int r;

	if (s->has_summary || f->type != WIRE_ENTRY)
		return s->has_summary ? core_tool_unexpected(f, e) : take_summary(s, f, e);
	if (wire_entry_decode(f, &m) < 0 || !m.path ||
	    (m.target && strlen(m.target) >= BOX_PATH_MAX))
		return core_tool_unexpected(f, e);
	r = core_tool_path(m.path, &path, e);
	if (r == 0 && s->found.count >= s->max)
		r = too_many(e);
	if (r < 0)
		return r;
	s->found.count++;
	info.type = m.type == 'f' || m.type == 'd' || m.type == 'l' ? (char)m.type : 'o';
	info.name = (char *)(uintptr_t)path;
	info.target = (char *)(uintptr_t)m.target;
	info.mode = (unsigned)(m.mode & 07777);
	info.uid = (unsigned)m.uid;
	info.gid = (unsigned)m.gid;
	info.size = m.size;
	info.mtime_ns = m.mtime_ns;
	return s->glob->on_match && s->glob->on_match(s->glob->arg, &info) != 0;
}

static int on_line(void *arg, const struct wire_frame *f, struct err *e)
{
	struct searching *s = arg;
	struct cove_match match;
	struct wire_match m;
	int r;

	if (s->has_summary || f->type != WIRE_MATCH)
		return s->has_summary ? core_tool_unexpected(f, e) : take_summary(s, f, e);
	if (wire_match_decode(f, &m) < 0 || m.line == 0 ||
	    (m.text && strlen(m.text) > INIT_LINE_MAX))
		return core_tool_unexpected(f, e);
	match = (struct cove_match){
		.line = m.line,
		.column = m.column,
		.text = m.text ? m.text : "",
		.text_column = m.text_column ? m.text_column : 1,
		.is_cut = m.is_cut,
		.is_context = m.is_context,
	};
	r = core_tool_path(m.path, &match.path, e);
	if (r == 0 && (m.is_context ? s->context_left == 0 : s->found.count >= s->max))
		r = too_many(e);
	if (r < 0)
		return r;
	s->context_left -= match.is_context;
	s->found.count += !match.is_context;
	return s->grep->on_match && s->grep->on_match(s->grep->arg, &match) != 0;
}

static int run(struct searching *s, struct cove_box *box, const struct wire_file *m, int cancel_fd,
	       struct cove_found *ret, struct err *e)
{
	struct core_tool tool = {.on_frame = s->glob ? on_name : on_line, .arg = s};
	int r = core_tool_run(&tool, box, m, cancel_fd, e);

	if (r == 0 && !s->has_summary)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box did not say how the search went");
	if (r == -ETIMEDOUT && tool.begun) {
		s->found.truncated = "time";
		r = 0;
	}
	if (r >= 0 && ret)
		*ret = s->found;
	return r < 0 ? r : 0;
}

static uint64_t max_of(uint64_t asked)
{
	uint64_t max = asked ? asked : INIT_FOUND_USUAL;

	return max < INIT_FOUND_MAX ? max : INIT_FOUND_MAX;
}

static int check_pattern(const char *pattern, struct err *e)
{
	if (pattern && *pattern && strlen(pattern) <= INIT_PATTERN_MAX)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL, "a pattern has 1 to %u bytes", INIT_PATTERN_MAX);
}

int cove_glob(struct cove_box *box, const char *dir, const char *pattern,
	      const struct cove_glob_options *options, struct cove_found *ret,
	      struct cove_error *err)
{
	struct cove_glob_options o = {0};
	struct searching s = {.glob = &o};
	struct err e = {0};
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	s.max = max_of(o.max_count);
	if (r == 0)
		r = check_pattern(pattern, &e);
	if (r == 0)
		r = run(&s, box,
			&(struct wire_file){.op = FILE_GLOB,
					    .path = dir,
					    .user = o.user,
					    .pattern = pattern,
					    .any_type = o.any_type,
					    .count = s.max,
					    .time_ms = o.time_ms},
			o.cancel_fd, ret, &e);
	return core_return(box->cove, box->name, r, &e, err);
}

int cove_grep(struct cove_box *box, const char *path, const char *pattern,
	      const struct cove_grep_options *options, struct cove_found *ret,
	      struct cove_error *err)
{
	struct cove_grep_options o = {0};
	struct searching s = {.grep = &o};
	struct err e = {0};
	int r = options ? core_copy_sized(&o, sizeof(o), options, &e) : 0;

	s.max = max_of(o.max_count);
	o.context = o.context < INIT_CONTEXT_MAX ? o.context : INIT_CONTEXT_MAX;
	s.context_left = 2 * o.context * s.max;
	if (r == 0)
		r = check_pattern(pattern, &e);
	if (r == 0 && o.glob)
		r = check_pattern(o.glob, &e);
	if (r == 0)
		r = run(&s, box,
			&(struct wire_file){.op = FILE_GREP,
					    .path = path,
					    .user = o.user,
					    .pattern = pattern,
					    .glob = o.glob,
					    .regex = o.regex,
					    .ignore_case = o.ignore_case,
					    .context = o.context,
					    .count = s.max,
					    .line_bytes = o.max_line_bytes,
					    .time_ms = o.time_ms},
			o.cancel_fd, ret, &e);
	return core_return(box->cove, box->name, r, &e, err);
}
