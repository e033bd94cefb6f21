/* Stages; see plan.h. */
#include "build/plan.h"

#include "base/fd.h"
#include "base/limits_build.h"
#include "base/str.h"
#include "build/mount.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *build_input_arg(const struct build_input *in, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; in->args && in->args[i]; i++)
		if (strncmp(in->args[i], name, n) == 0 && in->args[i][n] == '=')
			return in->args[i] + n + 1;
	return NULL;
}

bool build_arg_is_predefined(const char *name)
{
	static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY",
					    "ALL_PROXY"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

int build_expand_word(const struct build_vars *v, const struct df_instruction *in, const char *word,
		      char **ret, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, DOCKERFILE_MAX);
	r = build_expand(v, word, &b, e);
	if (r < 0) {
		err_prefix(e, "line %u", in->line);
	} else {
		*ret = buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
		r = *ret ? 0 : err_errno(e, ENOMEM, "line %u", in->line);
	}
	buf_done(&b);
	return r;
}

/* ---- variables outside of stages ---- */

static const char *look_global(void *arg, const char *name)
{
	return build_words_value(arg, name);
}

/* linux/arm64/v8 as the five names that Docker gives. */
static int set_platform(struct build_words *w, const char *prefix, const char *platform)
{
	const char *os_end = strchr(platform, '/'), *arch, *arch_end;
	autofree char *os = NULL, *machine = NULL;
	char name[32];
	int r;

	arch = os_end ? os_end + 1 : "";
	arch_end = strchr(arch, '/');
	os = strndup(platform, os_end ? (size_t)(os_end - platform) : strlen(platform));
	machine = strndup(arch, arch_end ? (size_t)(arch_end - arch) : strlen(arch));
	if (!os || !machine)
		return -ENOMEM;
	snprintf(name, sizeof(name), "%sPLATFORM", prefix);
	r = build_words_set(w, name, platform);
	snprintf(name, sizeof(name), "%sOS", prefix);
	if (r == 0)
		r = build_words_set(w, name, os);
	snprintf(name, sizeof(name), "%sARCH", prefix);
	if (r == 0)
		r = build_words_set(w, name, machine);
	snprintf(name, sizeof(name), "%sVARIANT", prefix);
	if (r == 0)
		r = build_words_set(w, name, arch_end ? arch_end + 1 : "");
	return r;
}

static int take_global(struct build_plan *p, const struct df_instruction *in, struct err *e)
{
	struct build_vars vars = {look_global, &p->globals, p->file->escape};

	for (size_t i = 0; i < in->args.count; i++) {
		const char *word = in->args.list[i], *equals = strchr(word, '='), *given;
		autofree char *name = strndup(word, strcspn(word, "="));
		autofree char *value = NULL;
		int r = name ? 0 : err_errno(e, ENOMEM, "line %u", in->line);

		if (r < 0)
			return r;
		given = build_input_arg(p->input, name);
		if (!given && equals) {
			r = build_expand_word(&vars, in, equals + 1, &value, e);
			given = value;
		}
		if (r == 0 && given)
			r = build_words_set(&p->globals, name, given);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- stages ---- */

static int fits_name(const struct build_stage *s, const char *name)
{
	return s->from->args.count > 1 && strcasecmp(s->from->args.list[1], name) == 0;
}

int build_plan_find(const struct build_plan *p, const char *name, size_t before)
{
	uint64_t number;

	for (size_t i = before; i-- > 0;)
		if (fits_name(&p->stages[i], name))
			return (int)i;
	if (str_parse_u64(name, DOCKERFILE_STEPS_MAX, &number) && number < before)
		return (int)number;
	return -1;
}

/* FROM takes names only: FROM 0 is an image that is called so. */
static int find_named(const struct build_plan *p, const char *name, size_t before)
{
	for (size_t i = before; i-- > 0;)
		if (fits_name(&p->stages[i], name))
			return (int)i;
	return -1;
}

static int check_platform(const struct build_plan *p, const struct df_instruction *in,
			  const struct build_vars *vars, struct err *e)
{
	const char *flag = df_flag(in, "platform");
	autofree char *value = NULL;
	int r;

	if (!flag)
		return 0;
	r = build_expand_word(vars, in, flag, &value, e);
	if (r < 0)
		return r;
	if (!*value || strcmp(value, p->input->platform) == 0 ||
	    (str_starts(p->input->platform, value) && p->input->platform[strlen(value)] == '/'))
		return 0;
	return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		       "line %u: a stage for %.40s cannot be built here (this is %s): programs of "
		       "another machine do not run",
		       in->line, value, p->input->platform);
}

static int take_stage(struct build_plan *p, size_t at, struct err *e)
{
	const struct df_instruction *in = &p->file->list[at];
	struct build_vars vars = {look_global, &p->globals, p->file->escape};
	struct build_stage *s = &p->stages[p->count];
	int r;

	*s = (struct build_stage){.from = in, .first = at + 1, .end = at + 1, .base_stage = -1};
	r = check_platform(p, in, &vars, e);
	if (r == 0)
		r = build_expand_word(&vars, in, in->args.list[0], &s->base, e);
	if (r < 0)
		return r;
	if (!*s->base) {
		free(take_ptr(s->base));
		return df_fail(e, in, "'%.60s' is empty: is an ARG before the first FROM missing?",
			       in->args.list[0]);
	}
	s->base_stage = find_named(p, s->base, p->count);
	if (in->args.count > 1 && find_named(p, in->args.list[1], p->count) >= 0) {
		free(take_ptr(s->base));
		return df_fail(e, in, "an earlier stage is called '%.60s', too", in->args.list[1]);
	}
	p->count++;
	return 0;
}

/* ---- what is needed ---- */

static void need(struct build_plan *p, size_t i);

/* A name that is no stage's is an image's. */
static void need_named(struct build_plan *p, const char *name, size_t before)
{
	int i = name ? build_plan_find(p, name, before) : -1;

	if (i >= 0)
		need(p, (size_t)i);
}

static void need(struct build_plan *p, size_t i)
{
	struct build_stage *s = &p->stages[i];

	if (s->needed)
		return;
	s->needed = true;
	p->steps += s->end - s->first + 1;
	if (s->base_stage >= 0)
		need(p, (size_t)s->base_stage);
	for (size_t k = s->first; k < s->end; k++) {
		const struct df_instruction *in = &p->file->list[k];

		need_named(p, df_flag(in, "from"), i);
		for (size_t m = 0; m < in->flags.count; m++) {
			struct build_mount mount;

			if (!str_starts(in->flags.list[m], "mount="))
				continue;
			if (build_mount_parse(in->flags.list[m] + 6, &mount, NULL) == 0)
				need_named(p, mount.from, i);
			build_mount_done(&mount);
		}
	}
}

static int find_target(struct build_plan *p, struct err *e)
{
	const char *target = p->input->target;
	int i;

	if (!target) {
		p->target = p->count - 1;
		return 0;
	}
	i = build_plan_find(p, target, p->count);
	if (i < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no stage of the Dockerfile is called '%.80s' (--target)", target);
	p->target = (size_t)i;
	return 0;
}

int build_plan_init(struct build_plan *ret, const struct dockerfile *file,
		    const struct build_input *input, struct err *e)
{
	int r;

	*ret = (struct build_plan){.file = file, .input = input};
	ret->stages = calloc(file->count, sizeof(*ret->stages));
	r = ret->stages ? 0 : -ENOMEM;
	if (r == 0)
		r = set_platform(&ret->globals, "BUILD", input->platform);
	if (r == 0)
		r = set_platform(&ret->globals, "TARGET", input->platform);
	if (r < 0)
		err_errno(e, -r, "read the Dockerfile");
	for (size_t i = 0; i < file->count && r == 0; i++) {
		if (file->list[i].kind == DF_FROM)
			r = take_stage(ret, i, e);
		else if (ret->count == 0)
			r = take_global(ret, &file->list[i], e);
		else
			ret->stages[ret->count - 1].end = i + 1;
	}
	if (r == 0)
		r = find_target(ret, e);
	if (r == 0)
		need(ret, ret->target);
	else
		build_plan_done(ret);
	return r;
}

void build_plan_done(struct build_plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->stages[i].base);
	free(p->stages);
	build_words_done(&p->globals);
	*p = (struct build_plan){0};
}
