/* cove diff: what changed in a box, or between two of boxes, snapshots and images. */
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/change.h"
#include "cli/cli.h"
#include "cli/watch.h"
#include "core/view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct showing {
	struct cli *c;
	struct watch watch;
	struct buf out;
	struct json j;
	uint64_t counts[3], plus, minus;
	bool escape; /* a terminal reads it */
	int status;  /* of the first write that failed */
};

/* What waits is printed; not 0: it cannot be. */
static int flush(struct showing *s, size_t more_than)
{
	if (buf_len(&s->out) <= more_than)
		return s->status;
	watch_stop(&s->watch);
	if (s->status == 0)
		s->status = cli_out_buf(s->c, &s->out);
	buf_clear(&s->out);
	return s->status;
}

/* ---- as lines ---- */

static int put_header(struct showing *s, const struct cove_change *ch)
{
	int r = buf_append_str(&s->out, "--- ");

	if (r == 0)
		r = ch->kind == COVE_ADDED ? buf_append_str(&s->out, "/dev/null")
					   : change_put_path(&s->out, "a", ch->path);
	if (r == 0)
		r = buf_append_str(&s->out, "\n+++ ");
	if (r == 0)
		r = ch->kind == COVE_REMOVED ? buf_append_str(&s->out, "/dev/null")
					     : change_put_path(&s->out, "b", ch->path);
	return r < 0 ? r : buf_append_str(&s->out, "\n");
}

static int put_text(struct showing *s, const struct cove_change *ch)
{
	const char *at = ch->text, *end = ch->text + ch->text_len;
	int r = put_header(s, ch);

	if (!s->escape)
		return r < 0 ? r : buf_append(&s->out, ch->text, ch->text_len);
	while (at < end && r == 0) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t n = stop ? (size_t)(stop - at) : (size_t)(end - at);

		r = change_put_shown(&s->out, at, n);
		if (r == 0)
			r = buf_append_str(&s->out, "\n");
		at += n + 1;
	}
	return r;
}

static int put_stat(struct showing *s, const struct cove_change *ch, const struct change_lines *n)
{
	char before[SIZE_TEXT], after[SIZE_TEXT];

	if (ch->text_kind == COVE_TEXT_LINES)
		return buf_printf(&s->out, "  +%llu -%llu", (unsigned long long)n->plus,
				  (unsigned long long)n->minus);
	if (ch->text_kind == COVE_TEXT_NONE)
		return 0;
	return buf_printf(&s->out, "  %s %s -> %s",
			  ch->text_kind == COVE_TEXT_BINARY ? "binary" : "large",
			  size_format(before, ch->before.size), size_format(after, ch->after.size));
}

static int put_lines(struct showing *s, const struct cove_change *ch)
{
	struct change_lines n = change_count_lines(ch);
	bool stat = s->c->o.stat, text = s->c->o.text;
	int r = buf_printf(&s->out, "%c ", change_letter(ch));

	s->plus += n.plus;
	s->minus += n.minus;
	if (r == 0)
		r = change_put_path(&s->out, "", ch->path);
	if (r == 0 && ch->deep)
		r = buf_append_str(&s->out, "  (what is below has too long a path to be compared)");
	if (r == 0 && stat)
		r = put_stat(s, ch, &n);
	if (r == 0 && text && ch->text_kind == COVE_TEXT_BINARY)
		r = buf_append_str(&s->out, "  (binary)");
	if (r == 0 && text && ch->text_kind == COVE_TEXT_LARGE)
		r = buf_append_str(&s->out, "  (too large to be shown)");
	if (r == 0)
		r = buf_append_str(&s->out, "\n");
	if (r == 0 && text && ch->text_kind == COVE_TEXT_LINES && ch->text_len > 0)
		r = put_text(s, ch);
	return r;
}

/* ---- both ---- */

static int on_change(void *arg, const struct cove_change *ch)
{
	enum { PRINT_BYTES = 64 << 10 };
	struct showing *s = arg;
	int r = 0;

	s->counts[ch->kind]++;
	if (s->c->o.json) {
		view_change_json(&s->j, ch);
		r = s->j.error;
	} else {
		r = put_lines(s, ch);
	}
	if (r < 0) {
		cli_note("a line is too long to print");
		s->status = EXIT_COVE;
		return 1;
	}
	return flush(s, PRINT_BYTES);
}

static void finish(struct showing *s, bool ok)
{
	unsigned long long n[3] = {s->counts[0], s->counts[1], s->counts[2]};

	if (s->c->o.json && ok) {
		json_array_end(&s->j);
		json_kv_u64(&s->j, "added", n[COVE_ADDED]);
		json_kv_u64(&s->j, "changed", n[COVE_CHANGED]);
		json_kv_u64(&s->j, "removed", n[COVE_REMOVED]);
		json_object_end(&s->j);
		(void)buf_append_str(&s->out, "\n");
	} else if (s->c->o.stat && ok) {
		(void)buf_printf(&s->out,
				 "%llu added, %llu changed, %llu removed; lines: +%llu -%llu\n",
				 n[COVE_ADDED], n[COVE_CHANGED], n[COVE_REMOVED],
				 (unsigned long long)s->plus, (unsigned long long)s->minus);
	}
	(void)flush(s, 0);
	watch_stop(&s->watch);
}

static int run(struct cli *c)
{
	struct showing s = {.c = c, .escape = isatty(STDOUT_FILENO)};
	size_t names = 0;
	struct cove_diff_options o = {
		.size = sizeof(o),
		.text = c->o.text || c->o.stat,
		.workspace = c->o.workspace_only,
		.on_change = on_change,
		.arg = &s,
	};
	struct cove_error err;
	bool live = false, no_workspace = false;
	int r;

	o.ret_live = &live;
	o.ret_no_workspace = &no_workspace;
	/* A path begins with a slash, and no name does. */
	while (names < c->o.arg_count && c->o.args[names][0] != '/')
		names++;
	if (names == 0 || names > 2)
		return cli_usage(c, "one name, or two, and then paths; usage: cove %s",
				 c->verb->synopsis);
	o.from = c->o.args[0];
	o.to = names == 2 ? c->o.args[1] : NULL;
	o.paths = c->o.args + names;
	buf_init(&s.out, CHANGE_TEXT_MAX);
	json_init(&s.j, &s.out);
	if (c->o.json) {
		json_object_begin(&s.j);
		json_key(&s.j, "changes");
		json_array_begin(&s.j);
	}
	watch_start_words(&s.watch, "comparing", o.from, c->o.json);
	r = cove_diff(c->cove, &o, &err);
	if (r < 0 && c->o.json)
		buf_clear(&s.out);
	finish(&s, r == 0);
	buf_done(&s.out);
	if (s.status)
		return s.status;
	if (live && r == 0)
		cli_note("the box runs and cannot be frozen here: what it wrote meanwhile may be "
			 "missing");
	if (no_workspace && r == 0)
		cli_note("not compared: its named workspace; `cove diff SNAPSHOT %s` does", o.from);
	return r < 0 ? cli_fail(c, &err) : 0;
}

const struct verb verb_diff = {
	.name = "diff",
	.synopsis = "diff A [B] [/PATH...]",
	.summary = "what changed in a box, or from A to B",
	.help = "Of one name, a box: what is different from what it started from. Of two: what\n"
		"is different in the second. A name is a box's, else a snapshot's, else an\n"
		"image's; box:NAME, snapshot:NAME and image:NAME say which. Lines are `A path`\n"
		"(added), `M path` (changed) and `D path` (removed). Times do not count, and\n"
		"what was only touched is no change. With paths, only these and what is below.\n"
		"\n"
		"What is at /workspace is compared where it is a copy of a directory of yours\n"
		"(--workspace DIR --copy) or a named workspace; of a named one and a single box\n"
		"only where it stands on a snapshot, as a fork's does. --workspace shows only\n"
		"that. A running box is frozen while it is read.\n"
		"\n"
		"--text is for reading, and for patch(1) where no terminal reads it.\n"
		"\n"
		"Examples\n"
		"  cove diff my-box\n"
		"  cove diff my-box --text /etc /workspace/src\n"
		"  cove diff --stat image:base my-box\n",
	.options =
		(const enum opt_id[]){OPT_STAT, OPT_TEXT, OPT_WORKSPACE_ONLY, OPTS_COMMON, OPT_END},
	.args = {1, -1},
	.answers = true,
	.run = run,
};
