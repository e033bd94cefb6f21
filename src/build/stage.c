/* Stages as they are built; see stage.h. The steps that make layers are in step.c. */
#include "build/stage.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/str.h"
#include "build/stage_parts.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- configuration ---- */

void build_config_done(struct build_config *c)
{
	free(c->user);
	free(c->cwd);
	free(c->stop_signal);
	build_words_done(&c->env);
	build_words_done(&c->entrypoint);
	build_words_done(&c->cmd);
	build_words_done(&c->shell);
	build_words_done(&c->labels);
	build_words_done(&c->ports);
	build_words_done(&c->volumes);
	*c = (struct build_config){0};
}

static int copy_text(char **to, const char *from)
{
	if (!from)
		return 0;
	*to = strdup(from);
	return *to ? 0 : -ENOMEM;
}

int build_config_copy(struct build_config *to, const struct build_config *from)
{
	int r;

	*to = (struct build_config){0};
	r = copy_text(&to->user, from->user);
	if (r == 0)
		r = copy_text(&to->cwd, from->cwd);
	if (r == 0)
		r = copy_text(&to->stop_signal, from->stop_signal);
	if (r == 0)
		r = build_words_add_all(&to->env, &from->env);
	if (r == 0)
		r = build_words_add_all(&to->entrypoint, &from->entrypoint);
	if (r == 0)
		r = build_words_add_all(&to->cmd, &from->cmd);
	if (r == 0)
		r = build_words_add_all(&to->shell, &from->shell);
	if (r == 0)
		r = build_words_add_all(&to->labels, &from->labels);
	if (r == 0)
		r = build_words_add_all(&to->ports, &from->ports);
	if (r == 0)
		r = build_words_add_all(&to->volumes, &from->volumes);
	if (r < 0)
		build_config_done(to);
	return r;
}

int build_state_init(struct build_state *s, const struct build_plan *plan, size_t stage,
		     const struct build_config *config, struct err *e)
{
	int r;

	*s = (struct build_state){.plan = plan, .stage = stage};
	r = build_config_copy(&s->config, config);
	return r < 0 ? err_errno(e, -r, "begin a stage") : 0;
}

void build_state_done(struct build_state *s)
{
	build_config_done(&s->config);
	build_words_done(&s->args);
}

/* ---- variables ---- */

const char *build_state_lookup(void *arg, const char *name)
{
	struct build_state *s = arg;
	const char *value = build_words_value(&s->config.env, name);

	if (!value)
		value = build_words_value(&s->args, name);
	/* What a command would have: `ENV PATH=/mine:$PATH` adds to it. */
	return value || strcmp(name, "PATH") != 0 ? value : PATH_OF_PROGRAMS;
}

int build_state_expand(struct build_state *s, const struct df_instruction *in, const char *word,
		       char **ret, struct err *e)
{
	struct build_vars vars = {build_state_lookup, s, s->plan->file->escape};

	return build_expand_word(&vars, in, word, ret, e);
}

static int no_memory(const struct df_instruction *in, int r, struct err *e)
{
	if (r >= 0 || (e && e->kind != ERR_NONE))
		return r;
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG, "line %u: there are too many values", in->line);
	return err_errno(e, -r, "line %u", in->line);
}

/* ---- instructions that only say something ---- */

static int take_env(struct build_state *s, const struct df_instruction *in,
		    struct build_words *words, struct err *e)
{
	struct build_words pairs = {0};
	int r = 0;

	/* All of one instruction see what held before it. */
	for (size_t i = 0; i < in->args.count && r == 0; i++) {
		autofree char *text = NULL;

		r = build_state_expand(s, in, in->args.list[i], &text, e);
		if (r == 0 && i % 2 == 0 && (!*text || strchr(text, '=')))
			r = df_fail(e, in, "'%.60s' is no name", text);
		if (r == 0)
			r = build_words_add(&pairs, text);
	}
	for (size_t i = 0; i + 1 < pairs.count && r == 0; i += 2)
		r = build_words_set(words, pairs.list[i], pairs.list[i + 1]);
	build_words_done(&pairs);
	return r;
}

static int take_arg(struct build_state *s, const struct df_instruction *in, struct err *e)
{
	for (size_t i = 0; i < in->args.count; i++) {
		const char *word = in->args.list[i], *equals = strchr(word, '='), *given;
		autofree char *name = strndup(word, strcspn(word, "=")), *value = NULL;
		int r = 0;

		if (!name)
			return -ENOMEM;
		given = build_input_arg(s->plan->input, name);
		if (!given && equals) {
			r = build_state_expand(s, in, equals + 1, &value, e);
			given = value;
		} else if (!given) {
			given = build_words_value(&s->plan->globals, name);
		}
		if (r == 0 && given)
			r = build_words_set(&s->args, name, given);
		if (r < 0)
			return r;
	}
	return 0;
}

int build_state_shell(const struct build_state *s, struct build_words *ret)
{
	int r;

	if (s->config.shell.count > 0)
		return build_words_add_all(ret, &s->config.shell);
	r = build_words_add(ret, "/bin/sh");
	return r < 0 ? r : build_words_add(ret, "-c");
}

static int take_command(struct build_state *s, const struct df_instruction *in,
			struct build_words *words)
{
	int r = 0;

	build_words_done(words);
	if (!in->is_json)
		r = build_state_shell(s, words);
	return r < 0 ? r : build_words_add_all(words, &in->args);
}

static bool has_word(const struct build_words *w, const char *word)
{
	for (size_t i = 0; i < w->count; i++)
		if (strcmp(w->list[i], word) == 0)
			return true;
	return false;
}

/* "80", "80/udp", "8000-8003/tcp". */
static int take_port(struct build_state *s, const struct df_instruction *in, const char *text,
		     struct err *e)
{
	char copy[32], *slash, *last;
	const char *proto = "tcp";
	uint64_t from, to;

	if (!str_copy(copy, sizeof(copy), text))
		return df_fail(e, in, "'%.60s...' is no port", text);
	slash = strchr(copy, '/');
	if (slash) {
		*slash = 0;
		proto = slash + 1;
	}
	last = strchr(copy, '-');
	if (last)
		*last++ = 0;
	if (!str_parse_u64(copy, 65535, &from) || !str_parse_u64(last ? last : copy, 65535, &to) ||
	    from == 0 || to < from ||
	    (strcmp(proto, "tcp") != 0 && strcmp(proto, "udp") != 0 && strcmp(proto, "sctp") != 0))
		return df_fail(e, in, "'%.60s' is no port: PORT, PORT/udp or PORT-PORT", text);
	if (to - from >= BUILD_PORTS_MAX)
		return df_fail(e, in, "'%.60s' is more than %u ports", text, BUILD_PORTS_MAX);
	for (; from <= to; from++) {
		char port[32];
		int r = 0;

		snprintf(port, sizeof(port), "%u/%s", (unsigned)from, proto);
		if (!has_word(&s->config.ports, port))
			r = build_words_add(&s->config.ports, port);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_ports(struct build_state *s, const struct df_instruction *in, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < in->args.count && r == 0; i++) {
		autofree char *text = NULL;
		char *rest, *word;

		r = build_state_expand(s, in, in->args.list[i], &text, e);
		rest = text;
		while (r == 0 && (word = strsep(&rest, " \t")))
			if (*word)
				r = take_port(s, in, word, e);
	}
	return r;
}

static int take_volumes(struct build_state *s, const struct df_instruction *in, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < in->args.count && r == 0; i++) {
		autofree char *text = NULL;

		r = build_state_expand(s, in, in->args.list[i], &text, e);
		if (r == 0 && !*text)
			r = df_fail(e, in, "VOLUME needs a path");
		if (r == 0 && !has_word(&s->config.volumes, text))
			r = build_words_add(&s->config.volumes, text);
	}
	return r;
}

/* One value in place of the one before. */
static int take_value(struct build_state *s, const struct df_instruction *in, char **place,
		      struct err *e)
{
	char *text = NULL;
	int r = build_state_expand(s, in, in->args.list[0], &text, e);

	if (r < 0)
		return r;
	if (!*text) {
		free(text);
		return df_fail(e, in, "%s is empty", df_kind_name(in->kind));
	}
	free(*place);
	*place = text;
	return 0;
}

static int take_signal(struct build_state *s, const struct df_instruction *in, struct err *e)
{
	int r = take_value(s, in, &s->config.stop_signal, e);

	if (r == 0 && str_parse_signal(s->config.stop_signal) == 0)
		r = df_fail(e, in, "'%.60s' is no signal", s->config.stop_signal);
	return r;
}

static int take_shell(struct build_state *s, const struct df_instruction *in)
{
	build_words_done(&s->config.shell);
	return build_words_add_all(&s->config.shell, &in->args);
}

static int take_said(struct build_state *s, const struct df_instruction *in, struct err *e)
{
	int r;

	switch (in->kind) {
	case DF_ENV:
		return take_env(s, in, &s->config.env, e);
	case DF_LABEL:
		return take_env(s, in, &s->config.labels, e);
	case DF_MAINTAINER:
		return build_words_set(&s->config.labels, "maintainer", in->args.list[0]);
	case DF_ARG:
		return take_arg(s, in, e);
	case DF_CMD:
		s->cmd_is_own = true;
		return take_command(s, in, &s->config.cmd);
	case DF_ENTRYPOINT:
		r = take_command(s, in, &s->config.entrypoint);
		/* The image's own arguments were for its own program. */
		if (!s->cmd_is_own)
			build_words_done(&s->config.cmd);
		return r;
	case DF_EXPOSE:
		return take_ports(s, in, e);
	case DF_VOLUME:
		return take_volumes(s, in, e);
	case DF_USER:
		return take_value(s, in, &s->config.user, e);
	case DF_STOPSIGNAL:
		return take_signal(s, in, e);
	case DF_SHELL:
		return take_shell(s, in);
	default:
		return -EINVAL;
	}
}

/* ---- all ---- */

int build_state_next(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		     struct err *e)
{
	struct err local = {0};
	int r;

	if (!e)
		e = &local;
	e->kind = ERR_NONE;
	*ret = (struct build_step){.in = in, .mode = -1};
	switch (in->kind) {
	case DF_RUN:
		r = build_step_run(s, in, ret, e);
		break;
	case DF_COPY:
	case DF_ADD:
		r = build_step_copy(s, in, ret, e);
		break;
	case DF_WORKDIR:
		r = build_step_workdir(s, in, ret, e);
		break;
	default:
		r = take_said(s, in, e);
		break;
	}
	if (r == 0 && !ret->text)
		r = copy_text(&ret->text, in->text);
	return no_memory(in, r, e);
}

const char **build_unused_args(const struct build_plan *plan)
{
	const char *const *args = plan->input->args;
	size_t n = 0, count = 0;
	const char **list;

	while (args && args[n])
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (size_t i = 0; list && i < n; i++) {
		size_t len = strcspn(args[i], "=");
		autofree char *name = strndup(args[i], len);
		bool used = !name || build_arg_is_predefined(name);

		for (size_t k = 0; k < plan->file->count && !used; k++) {
			const struct df_instruction *in = &plan->file->list[k];

			for (size_t m = 0; in->kind == DF_ARG && m < in->args.count; m++)
				used |= strcspn(in->args.list[m], "=") == len &&
					strncmp(in->args.list[m], args[i], len) == 0;
		}
		if (!used)
			list[count++] = args[i];
	}
	return list;
}
