/*
 * Dockerfiles and .dockerignore. Whatever is read, is read the same a second time and in the same
 * order of lines; comments and empty lines before it move the lines and change nothing else; what
 * has no variable, quote or escape expands to itself; a path that is left out stays so when the
 * patterns are given twice. What instructions come to is the same a second time, and a path that
 * something is copied to is absolute and has no "..".
 */
#include "fuzz.h"

#include "base/limits_build.h"
#include "build/dockerfile.h"
#include "build/expand.h"
#include "build/ignore.h"
#include "build/stage.h"

static const char *lookup(void *arg, const char *name)
{
	(void)arg;
	return name[0] == 'A' ? "value $A" : name[0] == 'B' ? "" : NULL;
}

static void check_words(const struct build_words *w)
{
	for (size_t i = 0; i < w->count; i++) {
		struct build_vars vars = {lookup, NULL, '\\'};
		struct err e = {0};
		struct buf b;

		buf_init(&b, DOCKERFILE_MAX);
		if (build_expand(&vars, w->list[i], &b, &e) == 0 && !strpbrk(w->list[i], "$\\'\""))
			MUST(strcmp(buf_cstr(&b), w->list[i]) == 0);
		buf_done(&b);
	}
}

/* One line per step: what it comes to. */
static void walk_stage(const struct build_plan *p, size_t index, struct buf *out)
{
	const struct build_stage *s = &p->stages[index];
	struct build_config config = {0};
	struct build_state state;
	struct err e = {0};
	int r = build_state_init(&state, p, index, &config, &e);

	for (size_t i = s->first; i < s->end && r == 0; i++) {
		struct build_step step;

		r = build_state_next(&state, &p->file->list[i], &step, &e);
		if (r == 0) {
			MUST(step.text);
			MUST(!step.dest || (step.dest[0] == '/' && !strstr(step.dest, "/../")));
			MUST(step.mode >= -1 && step.mode <= 07777);
			MUST(step.kind != STEP_RUN || step.argv.count > 0 || step.input);
			(void)buf_append_str(out, step.text);
			(void)buf_append_str(out, step.dest ? step.dest : "");
		} else {
			MUST(e.kind != ERR_NONE && strncmp(e.msg, "line ", 5) == 0);
		}
		build_step_done(&step);
	}
	build_state_done(&state);
}

static void check_stages(const struct dockerfile *d)
{
	const char *args[] = {"A=given", "B=", NULL};
	struct build_input input = {.args = args, .platform = "linux/amd64"};
	struct build_plan plan;
	struct buf once, twice;
	struct err e = {0};

	if (build_plan_init(&plan, d, &input, &e) < 0) {
		MUST(e.kind != ERR_NONE);
		return;
	}
	MUST(plan.count > 0 && plan.stages[plan.target].needed && plan.steps <= d->count);
	buf_init(&once, 8 << 20);
	buf_init(&twice, 8 << 20);
	for (size_t i = 0; i < plan.count; i++) {
		MUST(plan.stages[i].base_stage < (int)i);
		walk_stage(&plan, i, &once);
		walk_stage(&plan, i, &twice);
	}
	must_equal(&once, &twice);
	buf_done(&once);
	buf_done(&twice);
	build_plan_done(&plan);
}

static void must_be_same(const struct df_instruction *a, const struct df_instruction *b,
			 unsigned shift)
{
	MUST(a->kind == b->kind && a->line + shift == b->line && a->is_json == b->is_json);
	MUST(strcmp(a->text, b->text) == 0 && a->args.count == b->args.count);
	MUST(a->flags.count == b->flags.count && a->heredoc_count == b->heredoc_count);
	for (size_t i = 0; i < a->args.count; i++)
		MUST(strcmp(a->args.list[i], b->args.list[i]) == 0);
	for (size_t i = 0; i < a->heredoc_count; i++)
		MUST(strcmp(a->heredocs[i].text, b->heredocs[i].text) == 0);
}

static void check_file(const char *p, size_t n)
{
	static const char before[] = "# a comment that is no directive\n\n";
	char *moved = malloc(n + sizeof(before));
	struct dockerfile a, b;
	struct err e = {0};

	MUST(moved);
	memcpy(moved, before, sizeof(before) - 1);
	if (n)
		memcpy(moved + sizeof(before) - 1, p, n);
	if (dockerfile_parse(&a, p, n, &e) == 0) {
		unsigned last = 0;

		for (size_t i = 0; i < a.count; i++) {
			MUST(a.list[i].line > last && a.list[i].text);
			last = a.list[i].line;
			check_words(&a.list[i].args);
		}
		check_stages(&a);
		/* Directives count in the first line only. */
		if (n && p[0] != '#' && (uint8_t)p[0] != 0xef) {
			MUST(dockerfile_parse(&b, moved, n + sizeof(before) - 1, &e) == 0);
			MUST(a.count == b.count);
			for (size_t i = 0; i < a.count; i++)
				must_be_same(&a.list[i], &b.list[i], 2);
			dockerfile_done(&b);
		}
		dockerfile_done(&a);
	} else {
		MUST(e.kind != ERR_NONE && a.count == 0);
	}
	free(moved);
}

static void check_ignore(const char *p, size_t n)
{
	struct build_ignore once, twice;
	struct err e = {0};
	char *both = malloc(2 * n + 2);

	MUST(both);
	if (n) {
		memcpy(both, p, n);
		memcpy(both + n + 1, p, n);
	}
	both[n] = '\n';
	if (build_ignore_parse(&once, p, n, &e) == 0) {
		uint64_t steps = 0;
		static const char *const paths[] = {"a", "a/b", "a/b/c", "x.log", "src/main.c"};

		if (build_ignore_parse(&twice, both, 2 * n + 1, &e) == 0) {
			for (size_t i = 0; i < 5; i++)
				MUST(build_ignore_has(&once, paths[i], UINT64_MAX, &steps) ==
				     build_ignore_has(&twice, paths[i], UINT64_MAX, &steps));
			build_ignore_done(&twice);
		}
		build_ignore_done(&once);
	}
	free(both);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	check_file((const char *)p, n);
	if (n < 4096)
		check_ignore((const char *)p, n);
	return 0;
}
