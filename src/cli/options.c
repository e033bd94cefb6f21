/*
 * Table-driven options; see options.h.
 *
 * How it works: one row per option says how it is spelled, what kind of value it takes and where in
 * struct options the value goes. The parser finds the row, takes the value, and hands both to the
 * setter of that kind. Nothing here knows a verb.
 */
#include "cli/options.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum opt_kind {
	KIND_FLAG,
	KIND_TEXT,
	KIND_ANY, /* a text that may be empty */
	KIND_LIST,
	KIND_ENV,
	KIND_MS,
	KIND_ID,
	KIND_COUNT,
	KIND_FROM,
	KIND_SIGNAL,
	KIND_IN,
	KIND_OUT,
	/* Limits: 0 and "none" lift them. */
	KIND_LIMIT_SIZE,
	KIND_LIMIT_CPUS,
	KIND_LIMIT_COUNT,
	KIND_LIMIT_MS
};

struct opt {
	const char *name;
	char letter; /* 0: none */
	enum opt_kind kind;
	size_t at;	 /* where in struct options */
	const char *arg; /* how help names the value; NULL for flags */
	const char *help;
};

static const struct opt opts[OPT_COUNT] = {
#define OPT_ROW(id, name, letter, kind, field, arg, help) \
	[OPT_##id] = {name, letter, KIND_##kind, offsetof(struct options, field), arg, help},
	OPTIONS(OPT_ROW)
#undef OPT_ROW
};

struct parser {
	struct options *o;
	const struct opt_spec *spec;
	char **argv;
	int argc, next;
	struct err *e;
};

static void *field(struct options *o, const struct opt *opt)
{
	return (char *)o + opt->at;
}

int options_add(struct opt_list *l, const char *item)
{
	const char **items = realloc(l->items, (l->count + 2) * sizeof(*items));

	if (!items)
		return -ENOMEM;
	l->items = items;
	items[l->count++] = item;
	items[l->count] = NULL;
	return 0;
}

static int bad_value(struct parser *p, const struct opt *opt, const char *value, const char *want)
{
	return err_set(p->e, ERR_INVALID, EINVAL, "--%s '%.60s': %s (see `cove help %s`)",
		       opt->name, value, want, p->spec->verb);
}

/* NAME=VALUE, or NAME for the value it has here. */
static int set_env(struct parser *p, const struct opt *opt, const char *value)
{
	struct opt_list *list = field(p->o, opt);
	autofree char *text = NULL;
	int r;

	if (!strchr(value, '=')) {
		const char *own = getenv(value);

		if (!own)
			return bad_value(p, opt, value, "not set here; write NAME=VALUE");
		if (asprintf(&text, "%s=%s", value, own) < 0)
			return err_set(p->e, ERR_FULL, ENOMEM, "out of memory");
		r = options_add(&p->o->kept, text);
		if (r < 0)
			return err_set(p->e, ERR_FULL, ENOMEM, "out of memory");
		value = take_ptr(text);
	}
	r = options_add(list, value);
	return r < 0 ? err_set(p->e, ERR_FULL, ENOMEM, "out of memory") : 0;
}

/* OUT or OUT:ERR. */
static int set_from(struct parser *p, const struct opt *opt, const char *value)
{
	const char *colon = strchr(value, ':');
	size_t n = colon ? (size_t)(colon - value) : strlen(value);
	char out[24];

	snprintf(out, sizeof(out), "%.*s", (int)n, value);
	if (n < sizeof(out) && str_parse_u64(out, UINT64_MAX, &p->o->out_from) &&
	    (!colon || str_parse_u64(colon + 1, UINT64_MAX, &p->o->err_from)))
		return 0;
	return bad_value(p, opt, value, "not a byte offset or line, or two with a colon between");
}

/* "A[:B]": cuts it at the first colon and returns B, or NULL. "\\:" and "\\\\" are a colon and a
 * backslash of a name. */
static char *split_places(char *text)
{
	char *to = text, *second = NULL;

	for (const char *p = text; *p; p++) {
		if (*p == '\\' && (p[1] == ':' || p[1] == '\\')) {
			*to++ = *++p;
		} else if (*p == ':' && !second) {
			*to++ = 0;
			second = to;
		} else {
			*to++ = *p;
		}
	}
	*to = 0;
	return second;
}

static int add_file(struct opt_files *l, const struct cove_transfer *item)
{
	struct cove_transfer *items = reallocarray(l->items, l->count + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	l->items = items;
	items[l->count++] = *item;
	return 0;
}

static int set_file(struct parser *p, const struct opt *opt, const char *value)
{
	struct cove_transfer item = {.size = sizeof(item)};
	bool is_in = opt->kind == KIND_IN;
	autofree char *text = strdup(value);
	char *first = text, *second;

	if (!text || options_add(&p->o->kept, text) < 0)
		return err_set(p->e, ERR_FULL, ENOMEM, "out of memory");
	text = NULL;
	second = split_places(first);
	if (!*first)
		return bad_value(p, opt, value, "is empty");
	if (is_in && strcmp(first, "-") == 0 && (!second || !*second))
		return bad_value(p, opt, value, "stdin has no name; write -:DST");
	item.from = first;
	item.to = second && *second ? second : ".";
	if (is_in && strcmp(item.from, "-") == 0) {
		item.from = NULL;
		item.fd = STDIN_FILENO;
	} else if (!is_in && strcmp(item.to, "-") == 0) {
		item.to = NULL;
		item.fd = STDOUT_FILENO;
	}
	if (add_file(field(p->o, opt), &item) < 0)
		return err_set(p->e, ERR_FULL, ENOMEM, "out of memory");
	return 0;
}

/* A limit. What it may be is for the library to say: it knows the least of each. */
static int set_limit(struct parser *p, const struct opt *opt, const char *value)
{
	static const char *const wants[] = {
		[KIND_LIMIT_SIZE] = "not a size; write 512M, 2G, 1.5GiB or none",
		[KIND_LIMIT_CPUS] = "not a number of processors; write 2, 0.5 or none",
		[KIND_LIMIT_COUNT] = "not a number; write 100 or none",
		[KIND_LIMIT_MS] = "not a time; write 90, 1.5s, 250ms, 10m, 2h, 1d or none",
	};
	uint64_t v = 0;
	bool ok = strcmp(value, "none") == 0;

	if (!ok && opt->kind == KIND_LIMIT_SIZE)
		ok = size_parse(value, &v);
	else if (!ok && opt->kind == KIND_LIMIT_CPUS)
		ok = size_parse_milli(value, &v);
	else if (!ok && opt->kind == KIND_LIMIT_COUNT)
		ok = str_parse_u64(value, UINT64_MAX - 1, &v);
	else if (!ok)
		ok = str_parse_ms(value, &v);
	if (!ok)
		return bad_value(p, opt, value, wants[opt->kind]);
	*(uint64_t *)field(p->o, opt) = v ? v : UINT64_MAX;
	return 0;
}

static int set_value(struct parser *p, const struct opt *opt, const char *value)
{
	p->o->given[opt - opts] = true;
	switch (opt->kind) {
	case KIND_FLAG:
		*(bool *)field(p->o, opt) = true;
		return 0;
	case KIND_TEXT:
	case KIND_ANY:
		if (!*value && opt->kind == KIND_TEXT)
			return bad_value(p, opt, value, "is empty");
		*(const char **)field(p->o, opt) = value;
		return 0;
	case KIND_LIST:
		if (options_add(field(p->o, opt), value) < 0)
			return err_set(p->e, ERR_FULL, ENOMEM, "out of memory");
		return 0;
	case KIND_ENV:
		return set_env(p, opt, value);
	case KIND_MS:
		if (str_parse_ms(value, field(p->o, opt)))
			return 0;
		return bad_value(p, opt, value, "not a time; write 90, 1.5s, 250ms, 10m, 2h or 1d");
	case KIND_ID:
		if (str_parse_u64(value, UINT64_MAX, field(p->o, opt)))
			return 0;
		return bad_value(p, opt, value, "not an exec id; `cove ps BOX` lists them");
	case KIND_COUNT:
		if (str_parse_u64(value, UINT32_MAX, field(p->o, opt)) &&
		    *(uint64_t *)field(p->o, opt) > 0)
			return 0;
		return bad_value(p, opt, value, "not a number from 1 on");
	case KIND_FROM:
		return set_from(p, opt, value);
	case KIND_SIGNAL:
		p->o->signal = str_parse_signal(value);
		if (p->o->signal > 0)
			return 0;
		return bad_value(p, opt, value,
				 "no such signal; write TERM, KILL, INT, ... or a number");
	case KIND_IN:
	case KIND_OUT:
		return set_file(p, opt, value);
	case KIND_LIMIT_SIZE:
	case KIND_LIMIT_CPUS:
	case KIND_LIMIT_COUNT:
	case KIND_LIMIT_MS:
		return set_limit(p, opt, value);
	}
	ASSERT(false);
	return -EINVAL;
}

/* By its name, or (NULL) by its letter. */
static const struct opt *find(const struct opt_spec *spec, const char *name, size_t len,
			      char letter)
{
	for (const enum opt_id *id = spec->allowed; *id != OPT_END; id++)
		if (name ? strlen(opts[*id].name) == len && strncmp(opts[*id].name, name, len) == 0
			 : opts[*id].letter == letter)
			return &opts[*id];
	return NULL;
}

static int unknown(struct parser *p, const char *text, size_t len)
{
	const char *names[OPT_COUNT + 1] = {NULL};
	const char *near = NULL;
	char word[64];
	size_t n = 0;

	snprintf(word, sizeof(word), "%.*s", (int)(len < sizeof(word) ? len : sizeof(word) - 1),
		 text);
	for (const enum opt_id *id = p->spec->allowed; *id != OPT_END; id++)
		names[n++] = opts[*id].name;
	if (str_starts(word, "--"))
		near = str_closest(word + 2, names);
	if (near)
		return err_set(p->e, ERR_INVALID, EINVAL,
			       "unknown option '%s'; did you mean '--%s'? See `cove help %s`", word,
			       near, p->spec->verb);
	return err_set(p->e, ERR_INVALID, EINVAL, "unknown option '%s'; see `cove help %s`", word,
		       p->spec->verb);
}

/* The value beside an option: attached, or the next word. */
static int take_value(struct parser *p, const struct opt *opt, const char *attached,
		      const char **ret)
{
	if (!attached && p->next >= p->argc)
		return err_set(p->e, ERR_INVALID, EINVAL,
			       "--%s needs a value, %s (see `cove help %s`)", opt->name, opt->arg,
			       p->spec->verb);
	*ret = attached ? attached : p->argv[p->next++];
	return 0;
}

static int parse_long(struct parser *p, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '='), *value = NULL;
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt *opt = find(p->spec, name, len, 0);
	int r;

	if (!opt)
		return unknown(p, word, len + 2);
	if (opt->kind == KIND_FLAG) {
		if (equals)
			return err_set(p->e, ERR_INVALID, EINVAL, "--%s takes no value", opt->name);
		return set_value(p, opt, NULL);
	}
	r = take_value(p, opt, equals ? equals + 1 : NULL, &value);
	return r < 0 ? r : set_value(p, opt, value);
}

/* -a, -abc for flags, -oVALUE and -o VALUE. */
static int parse_letters(struct parser *p, const char *word)
{
	for (const char *c = word + 1; *c; c++) {
		const struct opt *opt = find(p->spec, NULL, 0, *c);
		const char *value = NULL;
		int r;

		if (!opt)
			return unknown(p, (char[]){'-', *c, 0}, 2);
		if (opt->kind != KIND_FLAG) {
			r = take_value(p, opt, c[1] ? c + 1 : NULL, &value);
			return r < 0 ? r : set_value(p, opt, value);
		}
		r = set_value(p, opt, NULL);
		if (r < 0)
			return r;
	}
	return 0;
}

int options_parse(struct options *ret, const struct opt_spec *spec, int argc, char **argv,
		  struct err *e)
{
	struct parser p = {.o = ret, .spec = spec, .argv = argv, .argc = argc, .e = e};
	int r = 0;

	*ret = (struct options){.args = calloc((size_t)argc + 1, sizeof(*ret->args))};
	if (!ret->args)
		return err_set(e, ERR_FULL, ENOMEM, "out of memory");
	while (r == 0 && p.next < argc &&
	       (spec->command_after < 0 || ret->arg_count <= (size_t)spec->command_after)) {
		const char *word = argv[p.next++];

		if (strcmp(word, "--") == 0)
			break;
		if (word[0] != '-' || !word[1])
			ret->args[ret->arg_count++] = word;
		else if (word[1] == '-')
			r = parse_long(&p, word);
		else
			r = parse_letters(&p, word);
	}
	ret->plain_count = ret->arg_count;
	while (r == 0 && p.next < argc)
		ret->args[ret->arg_count++] = argv[p.next++];
	return r;
}

void options_done(struct options *o)
{
	for (size_t i = 0; i < o->kept.count; i++)
		free((char *)o->kept.items[i]);
	free(o->kept.items);
	free(o->mounts.items);
	free(o->env.items);
	free(o->labels.items);
	free(o->allow.items);
	free(o->deny.items);
	free(o->build_tags.items);
	free(o->build_args.items);
	free(o->build_secrets.items);
	free(o->build_packages.items);
	free(o->key_scopes.items);
	free(o->inputs.items);
	free(o->outputs.items);
	free(o->args);
	*o = (struct options){0};
}

bool options_puts_stdin(const struct options *o)
{
	for (size_t i = 0; i < o->inputs.count; i++)
		if (!o->inputs.items[i].from)
			return true;
	return false;
}

bool options_gets_stdout(const struct options *o)
{
	for (size_t i = 0; i < o->outputs.count; i++)
		if (!o->outputs.items[i].to)
			return true;
	return false;
}

bool options_has_limits(const struct options *o)
{
	return o->box.mem_bytes || o->box.cpu_milli || o->box.pids || o->box.disk_bytes ||
	       o->box.files || o->box.io_bytes || o->box.ttl_ms || o->box.idle_ms ||
	       o->box.net_bytes || o->box.net_conns || o->box.expire || o->box.storage ||
	       o->box.best_effort || o->box.strict;
}

/* Two columns within 80; a left side that is too wide stands alone above its help. */
enum { HELP_INDENT = 28, HELP_WIDTH = 52 };

/* How many bytes of s go on one line: up to the last space that fits. */
static size_t wrap_at(const char *s)
{
	size_t len = strlen(s), cut = HELP_WIDTH;

	if (len <= HELP_WIDTH)
		return len;
	while (cut > 0 && s[cut] != ' ')
		cut--;
	return cut ? cut : len;
}

void options_help(const enum opt_id *allowed, struct buf *out)
{
	for (const enum opt_id *id = allowed; *id != OPT_END; id++) {
		const struct opt *o = &opts[*id];
		char left[80], letter[5] = "    ";
		int n;

		if (*id == OPT_MEM)
			(void)buf_append_str(out, "\nLimits (0 or none lifts one; what you set is "
						  "kept, or the box does not start)\n");
		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		n = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, o->name, o->arg ? " " : "",
			     o->arg ? o->arg : "");
		if (n + 2 > HELP_INDENT)
			(void)buf_printf(out, "%s\n%*s", left, HELP_INDENT, "");
		else
			(void)buf_printf(out, "%-*s", HELP_INDENT, left);
		for (const char *s = o->help; *s;) {
			size_t len = wrap_at(s);

			(void)buf_printf(out, "%.*s\n", (int)len, s);
			s += len;
			s += *s == ' ';
			if (*s)
				(void)buf_printf(out, "%*s", HELP_INDENT, "");
		}
	}
}
