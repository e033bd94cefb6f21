/*
 * Reading a Dockerfile; see dockerfile.h.
 *
 * How it works
 *
 * Physical lines become one logical line: a line that ends with the escape character goes on in the
 * next, comment lines in between are left out, and so are empty ones. Its first word is looked up
 * in a table which says what form the rest has and which flags may stand before it. Heredocs take
 * the physical lines that follow, byte for byte, up to the one that is their name.
 */
#include "build/dockerfile.h"

#include "base/buf.h"
#include "base/limits_build.h"
#include "base/str.h"
#include "build/parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
	const char *p, *end;
	unsigned line; /* of what was read last */
};

/* One physical line without its end. */
static bool next_line(struct reader *r, const char **ret, size_t *ret_len)
{
	const char *newline;

	if (r->p == r->end)
		return false;
	newline = memchr(r->p, '\n', (size_t)(r->end - r->p));
	*ret = r->p;
	*ret_len = (size_t)((newline ? newline : r->end) - r->p);
	r->p = newline ? newline + 1 : r->end;
	r->line++;
	if (*ret_len > 0 && (*ret)[*ret_len - 1] == '\r')
		--*ret_len;
	return true;
}

static int fail_at(struct err *e, unsigned line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int fail_at(struct err *e, unsigned line, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_set(e, ERR_INVALID, EINVAL, "line %u: %s", line, text);
}

int df_fail(struct err *e, const struct df_instruction *i, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail_at(e, i->line, "%s", text);
}

static int fail_of(struct err *e, unsigned line, int r)
{
	if (r == -E2BIG || r == -ENOBUFS)
		return err_set(e, ERR_LIMIT, E2BIG, "line %u: the instruction is too long", line);
	return err_errno(e, -r, "line %u", line);
}

/* ---- the instructions ---- */

enum form { WORDS, LIST, COMMAND, JSON_ONLY, TEXT, PAIRS, ARGS };

struct df_row {
	const char *name;
	enum form form;
	const char *flags[6];
	const char *no_flags; /* with a space before each: Docker has them, we do not */
	bool heredocs;
};

/* clang-format off */
static const struct df_row rows[DF_KIND_COUNT] = {
	[DF_ADD] = {"ADD", LIST, {"chown", "chmod", "link"},
		    " checksum exclude keep-git-dir unpack", true},
	[DF_ARG] = {"ARG", ARGS, {0}, "", false},
	[DF_CMD] = {"CMD", COMMAND, {0}, "", false},
	[DF_COPY] = {"COPY", LIST, {"from", "chown", "chmod", "link"}, " exclude parents", true},
	[DF_ENTRYPOINT] = {"ENTRYPOINT", COMMAND, {0}, "", false},
	[DF_ENV] = {"ENV", PAIRS, {0}, "", false},
	[DF_EXPOSE] = {"EXPOSE", WORDS, {0}, "", false},
	[DF_FROM] = {"FROM", WORDS, {"platform"}, "", false},
	[DF_LABEL] = {"LABEL", PAIRS, {0}, "", false},
	[DF_MAINTAINER] = {"MAINTAINER", TEXT, {0}, "", false},
	[DF_RUN] = {"RUN", COMMAND, {"mount", "network"}, " device security", true},
	[DF_SHELL] = {"SHELL", JSON_ONLY, {0}, "", false},
	[DF_STOPSIGNAL] = {"STOPSIGNAL", TEXT, {0}, "", false},
	[DF_USER] = {"USER", TEXT, {0}, "", false},
	[DF_VOLUME] = {"VOLUME", LIST, {0}, "", false},
	[DF_WORKDIR] = {"WORKDIR", TEXT, {0}, "", false},
};
/* clang-format on */

const char *df_kind_name(enum df_kind kind)
{
	return rows[kind].name;
}

static const struct {
	const char *name, *remedy;
} not_supported[] = {
	{"ONBUILD", "write the instruction into the Dockerfile that builds on this image"},
};

static int find_kind(const char *name, unsigned line, enum df_kind *ret, struct err *e)
{
	const char *names[DF_KIND_COUNT + 1] = {0}, *meant;

	for (unsigned i = 0; i < DF_KIND_COUNT; i++) {
		names[i] = rows[i].name;
		if (strcasecmp(name, rows[i].name) == 0) {
			*ret = i;
			return 0;
		}
	}
	for (size_t i = 0; i < sizeof(not_supported) / sizeof(not_supported[0]); i++)
		if (strcasecmp(name, not_supported[i].name) == 0)
			return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
				       "line %u: %s is not supported; %s", line,
				       not_supported[i].name, not_supported[i].remedy);
	meant = str_closest(name, names);
	return fail_at(e, line, "'%.40s' is no instruction of a Dockerfile%s%s%s", name,
		       meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

static int check_flag(const struct df_instruction *in, const char *flag, struct err *e)
{
	const struct df_row *row = &rows[in->kind];
	size_t n = strcspn(flag, "=");
	char name[40];

	if (n > 0 && n < sizeof(name) - 2) {
		for (size_t i = 0; row->flags[i]; i++)
			if (strlen(row->flags[i]) == n && strncmp(row->flags[i], flag, n) == 0)
				return 0;
		name[0] = ' ';
		memcpy(name + 1, flag, n);
		name[n + 1] = 0;
		if (strstr(row->no_flags, name))
			return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
				       "line %u: --%s of %s is not supported; leave it out, or do "
				       "its work in a RUN",
				       in->line, name + 1, row->name);
	}
	return df_fail(e, in, "%s has no flag '--%.60s'", row->name, flag);
}

const char *df_flag(const struct df_instruction *i, const char *name)
{
	size_t n = strlen(name);

	for (size_t k = 0; k < i->flags.count; k++) {
		const char *flag = i->flags.list[k];

		if (strncmp(flag, name, n) == 0 && (flag[n] == '=' || !flag[n]))
			return flag[n] ? flag + n + 1 : "";
	}
	return NULL;
}

/* Leaves *p behind the flags. */
static int take_flags(struct df_instruction *in, const char **p, struct err *e)
{
	const char *rest = *p;

	for (;;) {
		struct buf word;
		int r;

		rest += strspn(rest, DF_SPACES);
		*p = rest;
		if (rest[0] != '-' || rest[1] != '-')
			return 0;
		buf_init(&word, DOCKERFILE_MAX);
		rest = df_flag_word(rest + 2, &word, &r);
		if (r == 0 && buf_len(&word) == 0) {
			buf_done(&word);
			*p = rest + strspn(rest, DF_SPACES);
			return 0; /* "--" */
		}
		if (r == 0)
			r = buf_cstr(&word) ? check_flag(in, buf_cstr(&word), e) : -ENOMEM;
		if (r == 0)
			r = build_words_add(&in->flags, buf_cstr(&word));
		buf_done(&word);
		if (r < 0)
			return e && e->kind ? r : fail_of(e, in->line, r);
	}
}

/* ---- forms ---- */

static int take_pairs(struct df_instruction *in, char escape, const char *rest, struct err *e)
{
	struct build_words words = {0};
	int r = df_split_words(rest, escape, &words);

	/* The old form: a name, and all that follows. */
	if (r == 0 && words.count > 0 && !strchr(words.list[0], '=')) {
		size_t n = strcspn(rest, DF_SPACES);
		const char *value = rest + n + strspn(rest + n, DF_SPACES);

		if (!*value)
			r = df_fail(e, in, "%s needs a name and a value: %s NAME=VALUE",
				    rows[in->kind].name, rows[in->kind].name);
		if (r == 0)
			r = build_words_addn(&in->args, rest, n);
		if (r == 0)
			r = build_words_add(&in->args, value);
		build_words_done(&words);
		return r;
	}
	for (size_t i = 0; i < words.count && r == 0; i++) {
		const char *equals = strchr(words.list[i], '=');

		if (!equals || equals == words.list[i])
			r = df_fail(e, in, "'%.60s' is not of the form NAME=VALUE", words.list[i]);
		if (r == 0)
			r = build_words_addn(&in->args, words.list[i],
					     (size_t)(equals - words.list[i]));
		if (r == 0)
			r = build_words_add(&in->args, equals + 1);
	}
	build_words_done(&words);
	return r;
}

static int take_args(struct df_instruction *in, char escape, const char *rest, struct err *e)
{
	int r = df_split_words(rest, escape, &in->args);

	for (size_t i = 0; i < in->args.count && r == 0; i++)
		if (in->args.list[i][0] == '=')
			r = df_fail(e, in, "'%.60s' is not of the form NAME or NAME=VALUE",
				    in->args.list[i]);
	return r;
}

static int take_json(struct df_instruction *in, const char *rest, struct err *e)
{
	int r = rest[0] == '[' ? df_json_words(rest, &in->args) : -EINVAL;

	if (r == -EBADMSG)
		return df_fail(e, in, "a JSON array here holds strings only");
	in->is_json = r == 0;
	return r == -EINVAL ? 0 : r;
}

static int take_rest(struct df_instruction *in, char escape, const char *rest, struct err *e)
{
	enum form form = rows[in->kind].form;
	int r = 0;

	if (form == PAIRS)
		return take_pairs(in, escape, rest, e);
	if (form == ARGS)
		return take_args(in, escape, rest, e);
	if (form == LIST || form == COMMAND || form == JSON_ONLY)
		r = take_json(in, rest, e);
	if (r < 0 || in->is_json)
		return r;
	if (form == JSON_ONLY)
		return df_fail(e, in, "%s needs the JSON form: [\"/bin/bash\", \"-c\"]",
			       rows[in->kind].name);
	if (form == WORDS || form == LIST)
		return df_split_spaces(rest, &in->args);
	return *rest ? build_words_add(&in->args, rest) : 0;
}

/* ---- what each needs ---- */

static bool is_stage_name(const char *s)
{
	return s[0] >= 'a' && s[0] <= 'z' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(s);
}

static int check_from(struct df_instruction *in, struct err *e)
{
	struct build_words *a = &in->args;
	char *name;

	if (a->count != 1 && (a->count != 3 || strcasecmp(a->list[1], "as") != 0))
		return df_fail(e, in, "FROM is written 'FROM IMAGE' or 'FROM IMAGE AS NAME'");
	if (a->count == 1)
		return 0;
	name = a->list[2];
	for (char *c = name; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c - 'A' + 'a');
	if (!is_stage_name(name) || strcmp(name, "scratch") == 0)
		return df_fail(e, in,
			       "'%.60s' is no name for a stage: a letter, then letters, digits, "
			       "'-', '_' and '.'",
			       name);
	free(a->list[1]);
	a->list[1] = name;
	a->list[2] = NULL;
	a->count = 2;
	return 0;
}

static int check_count(struct df_instruction *in, struct err *e)
{
	size_t least = in->kind == DF_COPY || in->kind == DF_ADD ? 2 : 1;
	const char *name = rows[in->kind].name;

	/* CMD [] and ENTRYPOINT [] take away what the image says. */
	if (in->is_json && (in->kind == DF_CMD || in->kind == DF_ENTRYPOINT))
		return 0;
	if (in->args.count >= least)
		return 0;
	if (least == 2)
		return df_fail(e, in, "%s needs a source and a destination", name);
	return df_fail(e, in, "%s needs an argument", name);
}

/* ---- heredocs ---- */

static int take_heredoc(struct reader *r, const struct df_mark *mark, struct df_heredoc *h,
			unsigned line, struct err *e)
{
	struct buf text;
	const char *p;
	size_t n;
	int code = 0;

	buf_init(&text, DOCKERFILE_MAX);
	for (;;) {
		const char *start = r->p;

		if (!next_line(r, &p, &n)) {
			code = fail_at(e, line,
				       "the heredoc '%.60s' is not ended by a line '%.60s'",
				       mark->name, mark->name);
			break;
		}
		while (mark->chomp && n > 0 && *p == '\t') {
			p++;
			n--;
		}
		if (strlen(mark->name) == n && memcmp(p, mark->name, n) == 0)
			break;
		/* With its end as it was written. */
		n += (size_t)(r->p - start) - (size_t)(p + n - start);
		code = buf_append(&text, p, n);
		if (code < 0)
			break;
	}
	if (code == 0) {
		h->name = strdup(mark->name);
		h->text = buf_cstr(&text) ? strdup(buf_cstr(&text)) : NULL;
		h->expand = mark->expand;
		code = h->name && h->text ? 0 : -ENOMEM;
	}
	buf_done(&text);
	return code;
}

static int take_heredocs(struct reader *r, struct df_instruction *in, const char *rest,
			 struct err *e)
{
	struct df_mark marks[DOCKERFILE_HEREDOCS_MAX];
	int count, code = 0;

	if (!rows[in->kind].heredocs || in->is_json || !strstr(rest, "<<"))
		return 0;
	count = df_find_marks(rest, marks);
	if (count == -E2BIG)
		return df_fail(e, in, "at most %u heredocs may stand in one instruction",
			       DOCKERFILE_HEREDOCS_MAX);
	if (count == -EINVAL)
		return df_fail(e, in, "a quote is not closed");
	if (count <= 0)
		return count;
	in->heredocs = calloc((size_t)count, sizeof(*in->heredocs));
	if (!in->heredocs)
		code = -ENOMEM;
	for (int i = 0; i < count && code == 0; i++) {
		in->heredoc_count++;
		code = take_heredoc(r, &marks[i], &in->heredocs[i], in->line, e);
	}
	df_marks_done(marks, (size_t)count);
	return code;
}

/* ---- lines ---- */

/* A line that goes on: its length without the escape character; otherwise -1. */
static ssize_t continued(const char *p, size_t n, char escape)
{
	while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
		n--;
	if (n == 0 || p[n - 1] != escape || (n > 1 && p[n - 2] == escape))
		return -1;
	return (ssize_t)(n - 1);
}

static size_t leading_spaces(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && strchr(DF_SPACES, p[i]))
		i++;
	return i;
}

/* 1 and a logical line in text; 0 at the end. */
static int next_logical(struct reader *r, char escape, struct buf *text, unsigned *ret_line)
{
	bool more = false;
	const char *p;
	size_t n;
	int code;

	buf_clear(text);
	while (next_line(r, &p, &n)) {
		size_t blank = leading_spaces(p, n);
		ssize_t cut;

		if (blank == n || p[blank] == '#')
			continue;
		if (!more) {
			*ret_line = r->line;
			p += blank;
			n -= blank;
		}
		cut = continued(p, n, escape);
		more = cut >= 0;
		code = buf_append(text, p, more ? (size_t)cut : n);
		if (code < 0)
			return code;
		if (!more)
			break;
	}
	while (buf_len(text) > 0 && strchr(DF_SPACES, buf_data(text)[buf_len(text) - 1]))
		text->len--;
	return buf_len(text) > 0;
}

/* The first lines, as long as each is a directive: # escape=` */
static int take_directives(struct reader *r, char *escape, struct err *e)
{
	unsigned seen = 0;

	for (;;) {
		struct reader ahead = *r;
		char name[16], value[256];
		const char *p;
		size_t n;
		unsigned bit;

		if (!next_line(&ahead, &p, &n) || !df_directive(p, n, name, value))
			return 0;
		bit = strcmp(name, "escape") == 0   ? 1
		      : strcmp(name, "syntax") == 0 ? 2
		      : strcmp(name, "check") == 0  ? 4
						    : 0;
		if (!bit)
			return 0;
		if (seen & bit)
			return fail_at(e, ahead.line, "'# %s=' stands here a second time", name);
		seen |= bit;
		if (bit == 1 && (strlen(value) != 1 || (*value != '\\' && *value != '`')))
			return fail_at(e, ahead.line, "# escape= is a backslash or a backtick");
		if (bit == 1)
			*escape = value[0];
		*r = ahead;
	}
}

/* ---- the file ---- */

static void instruction_done(struct df_instruction *in)
{
	free(in->text);
	build_words_done(&in->flags);
	build_words_done(&in->args);
	for (size_t i = 0; i < in->heredoc_count; i++) {
		free(in->heredocs[i].name);
		free(in->heredocs[i].text);
	}
	free(in->heredocs);
}

static int take_instruction(struct reader *r, char escape, const char *text,
			    struct df_instruction *in, struct err *e)
{
	size_t n = strcspn(text, DF_SPACES);
	const char *rest = text + n + strspn(text + n, DF_SPACES);
	char name[48];
	int code;

	str_copy(name, sizeof(name), text);
	if (n < sizeof(name))
		name[n] = 0;
	code = find_kind(name, in->line, &in->kind, e);
	if (code < 0)
		return code;
	in->text = strdup(text);
	if (!in->text)
		return fail_of(e, in->line, -ENOMEM);
	code = take_flags(in, &rest, e);
	if (code == 0)
		code = take_rest(in, escape, rest, e);
	if (code == 0)
		code = take_heredocs(r, in, rest, e);
	if (code == 0)
		code = check_count(in, e);
	if (code == 0 && in->kind == DF_FROM)
		code = check_from(in, e);
	return code < 0 && e && e->kind == ERR_NONE ? fail_of(e, in->line, code) : code;
}

/* It says how a service is watched, and changes no image: nothing of it is read. */
static bool is_ignored(const char *text)
{
	size_t n = strcspn(text, DF_SPACES);

	return n == strlen("HEALTHCHECK") && strncasecmp(text, "HEALTHCHECK", n) == 0;
}

static int add_instruction(struct dockerfile *d, struct df_instruction **ret)
{
	struct df_instruction *list;

	if (d->count >= DOCKERFILE_STEPS_MAX)
		return -E2BIG;
	if ((d->count & (d->count - 1)) == 0) {
		list = realloc(d->list, (d->count ? 2 * d->count : 1) * sizeof(*list));
		if (!list)
			return -ENOMEM;
		d->list = list;
	}
	*ret = &d->list[d->count++];
	**ret = (struct df_instruction){0};
	return 0;
}

static int take_all(struct dockerfile *d, struct reader *r, struct err *e)
{
	bool has_from = false;
	struct buf text;
	unsigned line = 0;
	int code;

	buf_init(&text, DOCKERFILE_MAX);
	while ((code = next_logical(r, d->escape, &text, &line)) > 0) {
		struct df_instruction *in;

		if (has_from && buf_cstr(&text) && is_ignored(buf_cstr(&text))) {
			if (d->ignored_count < DOCKERFILE_IGNORED_MAX)
				d->ignored[d->ignored_count++] = line;
			continue;
		}
		code = buf_cstr(&text) ? add_instruction(d, &in) : -ENOMEM;
		if (code < 0)
			break;
		in->line = line;
		code = take_instruction(r, d->escape, buf_cstr(&text), in, e);
		if (code == 0 && !has_from && in->kind != DF_FROM && in->kind != DF_ARG)
			code = df_fail(e, in, "the first instruction must be FROM (or ARG)");
		if (code < 0)
			break;
		has_from = has_from || in->kind == DF_FROM;
	}
	buf_done(&text);
	if (code == 0 && !has_from)
		return fail_at(e, r->line ? r->line : 1, "there is no FROM");
	return code < 0 && e && e->kind == ERR_NONE ? fail_of(e, line, code) : code;
}

int dockerfile_parse(struct dockerfile *ret, const char *text, size_t len, struct err *e)
{
	struct err local = {0};
	struct reader r = {text, text + len, 0};
	int code;

	*ret = (struct dockerfile){.escape = '\\'};
	if (!e)
		e = &local;
	e->kind = ERR_NONE;
	if (len > DOCKERFILE_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the Dockerfile is larger than %u bytes",
			       DOCKERFILE_MAX);
	if (memchr(text, 0, len))
		return err_set(e, ERR_INVALID, EINVAL, "line 1: the file is no text");
	if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		r.p += 3;
	code = take_directives(&r, &ret->escape, e);
	if (code == 0)
		code = take_all(ret, &r, e);
	if (code < 0)
		dockerfile_done(ret);
	return code;
}

void dockerfile_done(struct dockerfile *d)
{
	for (size_t i = 0; i < d->count; i++)
		instruction_done(&d->list[i]);
	free(d->list);
	*d = (struct dockerfile){.escape = d->escape};
}
