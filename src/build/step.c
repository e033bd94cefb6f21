/*
 * Instructions that make layers, as steps; see stage.h.
 *
 * RUN with heredocs: one that is nothing but a heredoc is a script, run by the shell or by the
 * program behind its #!. In any other the heredocs are put back behind the line, for the shell.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/limits_build.h"
#include "base/path.h"
#include "base/str.h"
#include "build/parts.h"
#include "build/stage_parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- RUN ---- */

/* The line with its heredocs, as a shell reads it. */
static int with_heredocs(const struct df_instruction *in, char **ret)
{
	struct buf b;
	int r;

	buf_init(&b, 2 * DOCKERFILE_MAX);
	r = buf_append_str(&b, in->args.list[0]);
	for (size_t i = 0; i < in->heredoc_count && r == 0; i++)
		r = buf_printf(&b, "\n%s%s", in->heredocs[i].text, in->heredocs[i].name);
	if (r == 0)
		r = buf_append_str(&b, "\n");
	*ret = r == 0 && buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
	buf_done(&b);
	return *ret ? 0 : r < 0 ? r : -ENOMEM;
}

static int take_line(struct build_state *s, const struct df_instruction *in, struct build_step *ret)
{
	autofree char *line = NULL;
	bool is_script = in->heredoc_count == 1 && df_is_mark(in->args.list[0]);
	int r = 0;

	if (in->is_json)
		return build_words_add_all(&ret->argv, &in->args);
	if (is_script && str_starts(in->heredocs[0].text, "#!")) {
		ret->input = strdup(in->heredocs[0].text);
		return ret->input ? 0 : -ENOMEM;
	}
	if (in->heredoc_count > 0 && !is_script)
		r = with_heredocs(in, &line);
	if (r == 0)
		r = build_state_shell(s, &ret->argv);
	if (r < 0)
		return r;
	return build_words_add(&ret->argv, line	       ? line
					   : is_script ? in->heredocs[0].text
						       : in->args.list[0]);
}

static int take_mount(struct build_state *s, const struct df_instruction *in, const char *flag,
		      struct build_step *ret, struct err *e)
{
	struct build_mount *list =
		realloc(ret->mounts, (ret->mount_count + 1) * sizeof(*ret->mounts));
	autofree char *text = NULL;
	int r;

	if (!list)
		return -ENOMEM;
	ret->mounts = list;
	r = build_state_expand(s, in, flag, &text, e);
	if (r < 0)
		return r;
	r = build_mount_parse(text, &list[ret->mount_count++], e);
	if (r < 0)
		err_prefix(e, "line %u", in->line);
	return r;
}

static int take_network(const struct df_instruction *in, struct build_step *ret, struct err *e)
{
	const char *network = df_flag(in, "network");

	if (!network || strcmp(network, "default") == 0)
		return 0;
	if (strcmp(network, "none") == 0) {
		ret->no_network = true;
		return 0;
	}
	return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
		       "line %u: --network=%.40s is not supported: 'default' is the build's policy "
		       "(--net), 'none' closes it",
		       in->line, network);
}

static int take_environment(struct build_state *s, struct build_step *ret)
{
	const char *const *given = s->plan->input->args;
	int r = build_words_add_all(&ret->env, &s->args);

	for (size_t i = 0; given && given[i] && r == 0; i++) {
		autofree char *name = strndup(given[i], strcspn(given[i], "="));

		if (!name)
			return -ENOMEM;
		if (build_arg_is_predefined(name) && strchr(given[i], '='))
			r = build_words_set(&ret->env, name, strchr(given[i], '=') + 1);
	}
	for (size_t i = 0; i < s->config.env.count && r == 0; i++) {
		const char *pair = s->config.env.list[i];
		autofree char *name = strndup(pair, strcspn(pair, "="));

		r = name && strchr(pair, '=')
			    ? build_words_set(&ret->env, name, strchr(pair, '=') + 1)
			    : -ENOMEM;
	}
	return r;
}

int build_step_run(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		   struct err *e)
{
	int r = take_network(in, ret, e);

	ret->kind = STEP_RUN;
	for (size_t i = 0; i < in->flags.count && r == 0; i++)
		if (str_starts(in->flags.list[i], "mount="))
			r = take_mount(s, in, in->flags.list[i] + 6, ret, e);
	if (r == 0)
		r = take_line(s, in, ret);
	return r < 0 ? r : take_environment(s, ret);
}

/* ---- where something goes ---- */

/* An absolute path: relative ones are below the working directory. With a slash at the end where
 * the word had one, or could be nothing but a directory. */
static int take_dest(struct build_state *s, const struct df_instruction *in, const char *word,
		     struct build_step *ret, struct err *e)
{
	autofree char *text = NULL;
	char all[BOX_PATH_MAX], clean[BOX_PATH_MAX];
	const char *cwd = s->config.cwd ? s->config.cwd : "/", *base;
	int r = build_state_expand(s, in, word, &text, e);
	bool is_dir;

	if (r < 0)
		return r;
	base = path_base(text);
	is_dir = !*base || strcmp(base, ".") == 0 || strcmp(base, "..") == 0 ||
		 strcmp(text, "/") == 0;
	if (*text == '/' ? !str_copy(all, sizeof(all), text)
			 : !path_join(all, sizeof(all), cwd, *text ? text : "."))
		return df_fail(e, in, "'%.60s...' is longer than a path can be", text);
	if (!path_normalize(clean, sizeof(clean), all))
		return df_fail(e, in, "'%.60s' is no path", text);
	if (asprintf(&ret->dest, "%s%s", clean, is_dir && strcmp(clean, "/") != 0 ? "/" : "") < 0) {
		ret->dest = NULL;
		return -ENOMEM;
	}
	return 0;
}

int build_step_workdir(struct build_state *s, const struct df_instruction *in,
		       struct build_step *ret, struct err *e)
{
	size_t n;
	int r = take_dest(s, in, in->args.list[0], ret, e);

	ret->kind = STEP_WORKDIR;
	if (r < 0)
		return r;
	n = strlen(ret->dest);
	if (n > 1 && ret->dest[n - 1] == '/')
		ret->dest[n - 1] = 0;
	free(s->config.cwd);
	s->config.cwd = strdup(ret->dest);
	if (!s->config.cwd || asprintf(&ret->text, "WORKDIR %s", ret->dest) < 0) {
		ret->text = NULL;
		return -ENOMEM;
	}
	return 0;
}

/* ---- COPY and ADD ---- */

static int check_source(const struct df_instruction *in, const char *text, struct err *e)
{
	bool is_git = str_starts(text, "git@") || str_starts(text, "git://");

	if (!*text)
		return df_fail(e, in, "a source is empty");
	if (in->kind != DF_ADD)
		return 0;
	if (is_git || str_starts(text, "http://") || str_starts(text, "https://"))
		return err_set(e, ERR_UNSUPPORTED, EOPNOTSUPP,
			       "line %u: ADD of %s is not supported; use RUN with %s, under the "
			       "build's network policy",
			       in->line, is_git ? "a repository" : "a URL",
			       is_git ? "git clone" : "curl or wget");
	return 0;
}

static int take_file(struct build_state *s, const struct df_instruction *in,
		     const struct df_heredoc *h, struct build_step *ret, struct err *e)
{
	struct build_vars vars = {build_state_lookup, s, '\\'};
	struct buf b;
	int r;

	if (strchr(h->name, '/') || strcmp(h->name, ".") == 0 || strcmp(h->name, "..") == 0)
		return df_fail(e, in, "'%.60s' is no name for a file", h->name);
	buf_init(&b, DOCKERFILE_MAX);
	r = h->expand ? build_expand_text(&vars, h->text, &b, e) : buf_append_str(&b, h->text);
	if (r < 0 && e->kind != ERR_NONE)
		err_prefix(e, "line %u", in->line);
	if (r == 0)
		r = buf_cstr(&b) ? build_words_add(&ret->file_texts, buf_cstr(&b)) : -ENOMEM;
	if (r == 0)
		r = build_words_add(&ret->file_names, h->name);
	buf_done(&b);
	return r;
}

static int take_sources(struct build_state *s, const struct df_instruction *in,
			struct build_step *ret, struct err *e)
{
	size_t heredoc = 0;
	int r = 0;

	for (size_t i = 0; i + 1 < in->args.count && r == 0; i++) {
		autofree char *text = NULL;

		if (heredoc < in->heredoc_count && df_is_mark(in->args.list[i])) {
			r = take_file(s, in, &in->heredocs[heredoc++], ret, e);
			continue;
		}
		r = build_state_expand(s, in, in->args.list[i], &text, e);
		if (r == 0)
			r = check_source(in, text, e);
		if (r == 0)
			r = build_words_add(&ret->sources, text);
	}
	return r;
}

static int take_owner(struct build_state *s, const struct df_instruction *in,
		      struct build_step *ret, struct err *e)
{
	const char *chown = df_flag(in, "chown"), *chmod = df_flag(in, "chmod");
	autofree char *mode = NULL;
	char *end;
	int r = chown ? build_state_expand(s, in, chown, &ret->chown, e) : 0;

	if (r == 0 && chown && !*ret->chown) {
		free(take_ptr(ret->chown));
		r = df_fail(e, in, "--chown is empty");
	}
	if (r == 0 && chmod)
		r = build_state_expand(s, in, chmod, &mode, e);
	if (r < 0 || !chmod)
		return r;
	ret->mode = (int)strtol(mode, &end, 8);
	if (!*mode || *end || mode[0] == '-' || ret->mode < 0 || ret->mode > 07777)
		return df_fail(e, in, "--chmod is a number as in 0755, not '%.40s'", mode);
	return 0;
}

/* The instruction as people are shown it, with what it comes to. */
static int take_text(struct build_step *ret)
{
	struct buf b;
	int r;

	buf_init(&b, 2 * DOCKERFILE_MAX);
	r = buf_append_str(&b, df_kind_name(ret->in->kind));
	for (size_t i = 0; i < ret->in->flags.count && r == 0; i++)
		r = buf_printf(&b, " --%s", ret->in->flags.list[i]);
	for (size_t i = 0; i < ret->sources.count && r == 0; i++)
		r = buf_printf(&b, " %s", ret->sources.list[i]);
	for (size_t i = 0; i < ret->file_names.count && r == 0; i++)
		r = buf_printf(&b, " <<%s", ret->file_names.list[i]);
	if (r == 0)
		r = buf_printf(&b, " %s", ret->dest);
	ret->text = r == 0 && buf_cstr(&b) ? strdup(buf_cstr(&b)) : NULL;
	buf_done(&b);
	return ret->text ? 0 : r < 0 ? r : -ENOMEM;
}

int build_step_copy(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		    struct err *e)
{
	const char *from = df_flag(in, "from");
	int r = 0;

	ret->kind = STEP_COPY;
	ret->unpack = in->kind == DF_ADD;
	if (from && (!*from || strchr(from, '$')))
		return df_fail(e, in,
			       "--from takes the name of a stage or an image, and no "
			       "variable: write FROM %.40s AS name",
			       from);
	if (from) {
		ret->from = strdup(from);
		r = ret->from ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = take_owner(s, in, ret, e);
	if (r == 0)
		r = take_sources(s, in, ret, e);
	if (r == 0)
		r = take_dest(s, in, in->args.list[in->args.count - 1], ret, e);
	if (r == 0 && ret->sources.count + ret->file_names.count > 1 &&
	    ret->dest[strlen(ret->dest) - 1] != '/')
		return df_fail(e, in,
			       "with more than one source the destination is a directory: "
			       "write '%.60s/'",
			       ret->dest);
	return r < 0 ? r : take_text(ret);
}

void build_step_done(struct build_step *s)
{
	free(s->text);
	build_words_done(&s->argv);
	build_words_done(&s->env);
	for (size_t i = 0; i < s->mount_count; i++)
		build_mount_done(&s->mounts[i]);
	free(s->mounts);
	free(s->input);
	build_words_done(&s->sources);
	build_words_done(&s->file_names);
	build_words_done(&s->file_texts);
	free(s->from);
	free(s->chown);
	free(s->dest);
	*s = (struct build_step){0};
}
