/* What is built in, by name: presets and groups, lists of them, and `use`; see presets.h. */
#include "base/buf.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/policy_form.h"
#include "door/presets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRESET_NAME_MAX = 32 };

const struct preset *preset_find(const char *name)
{
	if (strcmp(name, "none") == 0)
		name = "closed";
	for (const struct preset *p = presets; p->name; p++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

/* Why there is none of that name: what was meant, or what there is. */
static const char *explain(const char *name, char *ret, size_t size)
{
	const char *names[POLICY_USE_MAX + 1] = {NULL}, *near;
	size_t n = 0;

	for (const struct preset *p = presets; p->name && n < POLICY_USE_MAX; p++)
		names[n++] = p->name;
	near = str_closest(name, names);
	n = (size_t)snprintf(ret, size, "no group '%.40s'; ", name);
	if (near)
		n += (size_t)snprintf(ret + n, size - n, "did you mean '%s'? ", near);
	n += (size_t)snprintf(ret + n, size - n, "There are");
	for (const struct preset *p = presets; p->name && n < size; p++)
		if (p->is_group)
			n += (size_t)snprintf(ret + n, size - n, " %s", p->name);
	return ret;
}

/* One more of a set, of which each counts once. NULL, or what is wrong with it. */
static const char *add(uint32_t *set, const struct preset *p)
{
	uint32_t open = 1u << (preset_find("open") - presets);

	*set |= 1u << (p - presets);
	return (*set & open) && *set != open
		       ? "'open' lets everything out already; leave the others away"
		       : NULL;
}

/* ---- lists: balanced,huggingface ---- */

static int read_list(const char *list, uint32_t *ret, struct err *e)
{
	const struct preset *base = NULL;
	char name[PRESET_NAME_MAX], why[200];
	const char *at = list, *wrong = NULL;

	for (;; at++) {
		size_t n = strcspn(at, ",");
		const struct preset *p;

		snprintf(name, sizeof(name), "%.*s", (int)(n < sizeof(name) ? n : sizeof(name)),
			 at);
		p = preset_find(name);
		if (n == 0)
			wrong = "a name is empty; write it like balanced,huggingface";
		else if (!p || n >= sizeof(name))
			wrong = explain(name, why, sizeof(why));
		else if (!base && p->is_group)
			wrong = "a list begins with closed or balanced; groups follow";
		else if (base && p != base && !p->is_group)
			wrong = "of closed, balanced and open a list has one; groups follow";
		else
			wrong = add(ret, p);
		if (wrong)
			return err_set(e, ERR_INVALID, EINVAL, "'%.40s': %s", list, wrong);
		base = base ? base : p;
		at += n;
		if (!*at)
			return 0;
	}
}

int preset_text(const char *names, char **ret, struct err *e)
{
	const struct preset *one = preset_find(names);
	uint32_t set = 0;
	struct buf text;
	char why[200];
	int r = 0;

	if (!one && !strchr(names, ','))
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%s", explain(names, why, sizeof(why)));
	if (!one)
		r = read_list(names, &set, e);
	if (r < 0)
		return r;
	buf_init(&text, DOOR_POLICY_MAX);
	if (one)
		r = buf_append_str(&text, one->text);
	else
		r = buf_append_str(&text, "# The rules of all of these; `cove policy show NAME` "
					  "prints each.\nversion: 1\nuse: [");
	for (const struct preset *p = presets; !one && p->name && r == 0; p++)
		if (set & 1u << (p - presets))
			r = buf_printf(&text, "%s%s", p->is_group ? ", " : "", p->name);
	if (!one && r == 0)
		r = buf_append_str(&text, "]\nrules: []\n");
	*ret = r == 0 ? strdup(buf_cstr(&text)) : NULL;
	buf_done(&text);
	return *ret ? 0 : err_errno(e, ENOMEM, "read a policy");
}

/* ---- use: [balanced, huggingface] ---- */

static const char *any_name(const char *text)
{
	return *text ? NULL : "is empty";
}

int use_parse(struct policy_reading *x, struct entry *r, const struct policy_node *v)
{
	struct source src = {.name = "built in", .err = x->src.err};
	struct texts names = {0};
	const char *wrong = NULL;
	uint32_t set = 0;
	char why[200];
	int rc = reading_texts(x, v, &names, any_name);

	for (size_t i = 0; rc == 0 && i < names.count && !wrong; i++) {
		const struct preset *p = preset_find(names.items[i]);

		wrong = p ? add(&set, p) : explain(names.items[i], why, sizeof(why));
	}
	if (wrong)
		return source_error(&x->src, v->line, "use: %s", wrong);
	x->use_line = v->key_line;
	for (const struct preset *p = presets; p->name && rc == 0; p++)
		if (set & 1u << (p - presets))
			rc = policy_tree_parse(x->tree, &x->used[x->used_count++], &src, p->text,
					       strlen(p->text));
	return rc;
}
