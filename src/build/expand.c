/*
 * Expansion; see expand.h.
 *
 * How it works
 *
 * One pass over the text. The words in ${X:-word} are expanded by the same function until the
 * brace that ends them, into the buffer; where they turn out not to be wanted, the buffer is cut
 * back to where it was. How deep they may be nested is bounded.
 */
#include "build/expand.h"

#include "base/limits_build.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum quoting { QUOTES, NO_QUOTES };

struct expansion {
	const struct build_vars *vars;
	enum quoting quoting;
	const char *p;
	struct buf *out;
	unsigned depth;
	struct err *e;
};

static int fail(struct expansion *x, const char *what)
{
	return err_set(x->e, ERR_INVALID, EINVAL, "%s", what);
}

static int put(struct expansion *x, const char *s, size_t n)
{
	int r = buf_append(x->out, s, n);

	if (r == -ENOBUFS)
		return err_set(x->e, ERR_LIMIT, E2BIG, "the value is longer than %zu bytes",
			       x->out->max);
	return r < 0 ? err_errno(x->e, -r, "expand a value") : 0;
}

static void cut_back(struct buf *b, size_t len)
{
	b->len = len;
}

/* A name, digits, or one of the shell's special characters. False: none stands here. */
static bool take_name(struct expansion *x, char ret[BUILD_NAME_MAX + 1])
{
	const char *start = x->p;
	size_t n;

	if (isdigit((unsigned char)*x->p)) {
		while (isdigit((unsigned char)*x->p))
			x->p++;
	} else if (*x->p && strchr("@*#?-$!0", *x->p)) {
		x->p++;
	} else {
		while (isalnum((unsigned char)*x->p) || *x->p == '_')
			x->p++;
	}
	n = (size_t)(x->p - start);
	if (n == 0 || n > BUILD_NAME_MAX)
		return false;
	memcpy(ret, start, n);
	ret[n] = 0;
	return true;
}

static int expand_until(struct expansion *x, char stop);

static int put_value(struct expansion *x, const char *name)
{
	const char *value = x->vars->lookup(x->vars->arg, name);

	return value ? put(x, value, strlen(value)) : 0;
}

static int not_set(struct expansion *x, const char *name, size_t start)
{
	int n = (int)(x->out->len - start);

	return err_set(x->e, ERR_INVALID, EINVAL, "%s: %.*s", name, n > 0 ? n : 7,
		       n > 0 ? (const char *)buf_data(x->out) + start : "not set");
}

/* Behind ${name: an operator, a word and the brace. */
static int take_operator(struct expansion *x, const char *name)
{
	const char *value = x->vars->lookup(x->vars->arg, name);
	size_t start = x->out->len;
	bool is_set = value != NULL;
	char op;
	int r;

	if (*x->p == ':') {
		is_set = value && *value;
		x->p++;
	}
	op = *x->p;
	if (!op || !strchr("-+?", op))
		return fail(x, "of ${NAME...} only :-, -, :+, +, :? and ? are supported");
	x->p++;
	r = expand_until(x, '}');
	if (r < 0)
		return r;
	if (*x->p != '}')
		return fail(x, "a ${ has no } that ends it");
	x->p++;
	if (op == '?' && !is_set)
		return not_set(x, name, start);
	if (op == '+' ? is_set : !is_set)
		return 0;
	cut_back(x->out, start);
	return op == '+' ? 0 : put(x, value, strlen(value));
}

/* At a dollar. */
static int take_dollar(struct expansion *x)
{
	char name[BUILD_NAME_MAX + 1];

	x->p++;
	if (*x->p != '{') {
		if (!take_name(x, name))
			return put(x, "$", 1);
		return put_value(x, name);
	}
	x->p++;
	if (!take_name(x, name))
		return fail(x, "no name stands behind ${");
	if (*x->p == '}') {
		x->p++;
		return put_value(x, name);
	}
	if (!*x->p)
		return fail(x, "a ${ has no } that ends it");
	return take_operator(x, name);
}

static int take_single(struct expansion *x)
{
	const char *end = strchr(x->p + 1, '\'');
	int r;

	if (!end)
		return fail(x, "a ' has no second one that ends it");
	r = put(x, x->p + 1, (size_t)(end - x->p - 1));
	x->p = end + 1;
	return r;
}

/* The escape character within double quotes: it counts only before what means something there. */
static int take_soft_escape(struct expansion *x)
{
	char next = x->p[1];

	if (next == '"' || next == '$' || next == x->vars->escape)
		x->p++;
	return put(x, x->p++, 1);
}

static int take_double(struct expansion *x)
{
	int r = 0;

	x->p++;
	while (r == 0 && *x->p != '"') {
		if (!*x->p)
			return fail(x, "a \" has no second one that ends it");
		if (*x->p == '$')
			r = take_dollar(x);
		else if (*x->p == x->vars->escape)
			r = take_soft_escape(x);
		else
			r = put(x, x->p++, 1);
	}
	x->p++;
	return r;
}

/* Outside of quotes the character behind it is itself; at the end it is nothing. */
static int take_escape(struct expansion *x)
{
	x->p++;
	return *x->p ? put(x, x->p++, 1) : 0;
}

/* Up to the character that stops it (which stays), or to the end. */
static int expand_until(struct expansion *x, char stop)
{
	int r = 0;

	if (++x->depth > BUILD_EXPAND_DEPTH_MAX)
		return fail(x, "${...} within ${...} is nested too deep");
	while (r == 0 && *x->p && *x->p != stop) {
		if (*x->p == '$')
			r = take_dollar(x);
		else if (*x->p == x->vars->escape)
			r = take_escape(x);
		else if (*x->p == '\'' && x->quoting == QUOTES)
			r = take_single(x);
		else if (*x->p == '"' && x->quoting == QUOTES)
			r = take_double(x);
		else
			r = put(x, x->p++, 1);
	}
	x->depth--;
	return r;
}

static int expand(const struct build_vars *v, const char *text, enum quoting quoting,
		  struct buf *out, struct err *e)
{
	struct expansion x = {.vars = v, .quoting = quoting, .p = text, .out = out, .e = e};

	return expand_until(&x, 0);
}

int build_expand(const struct build_vars *v, const char *word, struct buf *out, struct err *e)
{
	return expand(v, word, QUOTES, out, e);
}

int build_expand_text(const struct build_vars *v, const char *text, struct buf *out, struct err *e)
{
	return expand(v, text, NO_QUOTES, out, e);
}
