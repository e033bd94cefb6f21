/* Stages of Dockerfiles: which are needed, what instructions come to, and what holds after them. */
#include "tap.h"

#include "build/stage.h"

#include <stdio.h>

struct rig {
	struct dockerfile file;
	struct build_input input;
	struct build_plan plan;
	struct build_state state;
	struct err e;
};

static int make(struct rig *r, const char *text, const char *const *args, const char *target)
{
	int code;

	memset(r, 0, sizeof(*r));
	r->input = (struct build_input){args, target, "linux/amd64"};
	CHECK_EQ(dockerfile_parse(&r->file, text, strlen(text), &r->e), 0);
	code = build_plan_init(&r->plan, &r->file, &r->input, &r->e);
	if (code < 0)
		printf("# %s\n", r->e.msg);
	return code;
}

/* All instructions of a stage; the last step stays. */
static int walk(struct rig *r, size_t stage, const struct build_config *base,
		struct build_step *ret)
{
	const struct build_stage *s = &r->plan.stages[stage];
	int code = build_state_init(&r->state, &r->plan, stage, base, &r->e);

	*ret = (struct build_step){0};
	for (size_t i = s->first; i < s->end && code == 0; i++) {
		build_step_done(ret);
		code = build_state_next(&r->state, &r->file.list[i], ret, &r->e);
	}
	if (code < 0)
		printf("# %s\n", r->e.msg);
	return code;
}

static void done(struct rig *r, struct build_step *step)
{
	if (step)
		build_step_done(step);
	build_state_done(&r->state);
	build_plan_done(&r->plan);
	dockerfile_done(&r->file);
}

static const struct build_config nothing;

TEST(only_what_the_target_needs)
{
	static const char text[] = "FROM a AS one\nRUN 1\nFROM b AS two\nRUN 2\nFROM one AS three\n"
				   "COPY --from=1 x y\nFROM d\nCOPY --from=three x y\n"
				   "RUN --mount=from=one,target=/x true\nFROM e\n";
	struct rig r;

	CHECK_EQ(make(&r, text, NULL, NULL), 0);
	CHECK_EQ(r.plan.count, 5);
	CHECK_EQ(r.plan.target, 4);
	CHECK_EQ(r.plan.steps, 1);
	CHECK(r.plan.stages[4].needed && !r.plan.stages[0].needed);
	done(&r, NULL);
	CHECK_EQ(make(&r, text, NULL, "3"), 0);
	CHECK(r.plan.stages[0].needed && r.plan.stages[1].needed && r.plan.stages[2].needed);
	CHECK(!r.plan.stages[4].needed);
	CHECK_EQ(r.plan.stages[2].base_stage, 0);
	CHECK_EQ(r.plan.steps, 9);
	done(&r, NULL);
	CHECK_EQ(make(&r, text, NULL, "TWO"), 0);
	CHECK_EQ(r.plan.target, 1);
	CHECK(!r.plan.stages[0].needed);
	done(&r, NULL);
	CHECK_EQ(make(&r, text, NULL, "none"), -ENOENT);
	CHECK_EQ(r.e.kind, ERR_NOT_FOUND);
	dockerfile_done(&r.file);
}

TEST(globals)
{
	static const char *const args[] = {"V=12", "NOT=declared", "http_proxy=x", NULL};
	const char **unused;
	struct rig r;

	CHECK_EQ(make(&r,
		      "ARG V=1\nARG W=w$V\nFROM --platform=$TARGETPLATFORM a:$V-$W\n"
		      "FROM ${NONE:-b}\n",
		      args, NULL),
		 0);
	CHECK_STR(r.plan.stages[0].base, "a:12-w12");
	CHECK_STR(r.plan.stages[1].base, "b");
	unused = build_unused_args(&r.plan);
	CHECK_STR(unused[0], "NOT=declared");
	CHECK(!unused[1]);
	free(unused);
	done(&r, NULL);
	CHECK_EQ(make(&r, "FROM $NONE\n", NULL, NULL), -EINVAL);
	dockerfile_done(&r.file);
	CHECK_EQ(make(&r, "FROM --platform=linux/arm64 a\n", NULL, NULL), -EOPNOTSUPP);
	dockerfile_done(&r.file);
	CHECK_EQ(make(&r, "FROM a AS x\nFROM b AS X\n", NULL, NULL), -EINVAL);
	dockerfile_done(&r.file);
}

TEST(args_and_environment)
{
	static const char *const args[] = {"GIVEN=g", "HTTP_PROXY=p", NULL};
	struct build_config base = {0};
	struct build_step step;
	struct rig r;

	CHECK_EQ(build_words_add(&base.env, "PATH=/bin"), 0);
	CHECK_EQ(make(&r,
		      "ARG G=global\nFROM a\nARG G\nARG H=$G.h GIVEN=no NOVALUE\nARG TARGETARCH\n"
		      "ENV H=env X=$H Y=${PATH}:/y\nENV X=$X.2\nRUN env\n",
		      args, NULL),
		 0);
	CHECK_EQ(walk(&r, 0, &base, &step), 0);
	CHECK_EQ(step.kind, STEP_RUN);
	CHECK_STR(build_words_value(&step.env, "G"), "global");
	CHECK_STR(build_words_value(&step.env, "H"), "env");
	CHECK_STR(build_words_value(&step.env, "GIVEN"), "g");
	CHECK_STR(build_words_value(&step.env, "NOVALUE"), NULL);
	CHECK_STR(build_words_value(&step.env, "TARGETARCH"), "amd64");
	CHECK_STR(build_words_value(&step.env, "HTTP_PROXY"), "p");
	CHECK_STR(build_words_value(&step.env, "X"), "global.h.2");
	CHECK_STR(build_words_value(&r.state.config.env, "Y"), "/bin:/y");
	CHECK_STR(build_words_value(&r.state.config.env, "G"), NULL);
	CHECK_STR(step.argv.list[0], "/bin/sh");
	CHECK_STR(step.argv.list[1], "-c");
	CHECK_STR(step.argv.list[2], "env");
	done(&r, &step);
	build_config_done(&base);
}

TEST(configuration)
{
	struct build_config base = {0};
	const struct build_config *c;
	struct build_step step;
	struct rig r;

	CHECK_EQ(build_words_add(&base.cmd, "theirs"), 0);
	CHECK_EQ(build_words_add(&base.ports, "80/tcp"), 0);
	CHECK_EQ(make(&r,
		      "FROM a\nSHELL [\"/bin/bash\", \"-ec\"]\nENV U=app\nUSER $U:1\n"
		      "ENTRYPOINT run $U\nEXPOSE 80 5000-5002/udp\nLABEL a=$U 'b c'=d\n"
		      "MAINTAINER me\nVOLUME /d/$U\nSTOPSIGNAL SIGINT\nWORKDIR /a/b/../$U\n"
		      "WORKDIR c\n",
		      NULL, NULL),
		 0);
	CHECK_EQ(walk(&r, 0, &base, &step), 0);
	c = &r.state.config;
	CHECK_EQ(step.kind, STEP_WORKDIR);
	CHECK_STR(step.dest, "/a/app/c");
	CHECK_STR(c->cwd, "/a/app/c");
	CHECK_STR(c->user, "app:1");
	CHECK_STR(c->entrypoint.list[1], "-ec");
	CHECK_STR(c->entrypoint.list[2], "run $U");
	CHECK_EQ(c->cmd.count, 0);
	CHECK_EQ(c->ports.count, 4);
	CHECK_STR(c->ports.list[3], "5002/udp");
	CHECK_STR(build_words_value(&c->labels, "a"), "app");
	CHECK_STR(build_words_value(&c->labels, "b c"), "d");
	CHECK_STR(build_words_value(&c->labels, "maintainer"), "me");
	CHECK_STR(c->volumes.list[0], "/d/app");
	CHECK_STR(c->stop_signal, "SIGINT");
	done(&r, &step);
	build_config_done(&base);
}

TEST(command_before_entrypoint_stays)
{
	struct build_step step;
	struct rig r;

	CHECK_EQ(make(&r, "FROM a\nCMD [\"x\"]\nENTRYPOINT [\"y\"]\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_STR(r.state.config.cmd.list[0], "x");
	CHECK_STR(r.state.config.entrypoint.list[0], "y");
	done(&r, &step);
}

TEST(heredocs)
{
	struct build_step step;
	struct rig r;

	CHECK_EQ(make(&r, "FROM a\nRUN <<E\necho $X\nE\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_STR(step.argv.list[2], "echo $X\n");
	done(&r, &step);
	CHECK_EQ(make(&r, "FROM a\nRUN cat <<E >/x\n1\nE\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_STR(step.argv.list[2], "cat <<E >/x\n1\nE\n");
	done(&r, &step);
	CHECK_EQ(make(&r, "FROM a\nRUN <<E\n#!/usr/bin/python3\n1\nE\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_STR(step.input, "#!/usr/bin/python3\n1\n");
	CHECK_EQ(step.argv.count, 0);
	done(&r, &step);
	CHECK_EQ(make(&r, "FROM a\nENV X=1\nCOPY <<A <<'B' c /d/\n$X\nA\n$X\nB\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_STR(step.file_names.list[0], "A");
	CHECK_STR(step.file_texts.list[0], "1\n");
	CHECK_STR(step.file_texts.list[1], "$X\n");
	CHECK_STR(step.sources.list[0], "c");
	CHECK_STR(step.dest, "/d/");
	done(&r, &step);
}

TEST(copies)
{
	struct build_step step;
	struct rig r;

	CHECK_EQ(make(&r,
		      "FROM a AS x\nFROM b\nWORKDIR /w\nENV D=e O=1:2\n"
		      "COPY --from=x --chown=$O --chmod=755 a$D b .\n",
		      NULL, NULL),
		 0);
	CHECK_EQ(walk(&r, 1, &nothing, &step), 0);
	CHECK_EQ(step.kind, STEP_COPY);
	CHECK(!step.unpack);
	CHECK_STR(step.from, "x");
	CHECK_STR(step.chown, "1:2");
	CHECK_EQ(step.mode, 0755);
	CHECK_STR(step.sources.list[0], "ae");
	CHECK_STR(step.dest, "/w/");
	done(&r, &step);
	CHECK_EQ(make(&r, "FROM a\nADD x /y\n", NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK(step.unpack);
	CHECK_EQ(step.mode, -1);
	CHECK_STR(step.dest, "/y");
	done(&r, &step);
}

static void fails(const char *line, int code)
{
	struct build_step step;
	struct rig r;
	char text[200];

	snprintf(text, sizeof(text), "FROM a\n%s\n", line);
	CHECK_EQ(make(&r, text, NULL, NULL), 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), code);
	CHECK(strncmp(r.e.msg, "line 2: ", 8) == 0);
	done(&r, &step);
}

TEST(errors_name_the_line)
{
	fails("USER ''", -EINVAL);
	fails("USER ${X", -EINVAL);
	fails("EXPOSE abc", -EINVAL);
	fails("EXPOSE 1-65535", -EINVAL);
	fails("STOPSIGNAL SIGNONE", -EINVAL);
	fails("ENV \"\"=x", -EINVAL);
	fails("COPY a b c", -EINVAL);
	fails("COPY --from=$X a b", -EINVAL);
	fails("COPY --chmod=u+x a b", -EINVAL);
	fails("COPY --chown= a b", -EINVAL);
	fails("COPY '' b", -EINVAL);
	fails("ADD https://example.com/x /x", -EOPNOTSUPP);
	fails("ADD git@example.com:x /x", -EOPNOTSUPP);
	fails("RUN --network=host a", -EOPNOTSUPP);
	fails("RUN --mount=type=ssh a", -EOPNOTSUPP);
	fails("RUN --mount=type=none a", -EINVAL);
	fails("RUN --mount=type=cache a", -EINVAL);
	fails("RUN --mount=type=secret a", -EINVAL);
	fails("RUN --mount=type=secret,id=x,mode=9 a", -EINVAL);
	fails("RUN --mount=type=secret,id=x,what=9 a", -EINVAL);
}

TEST(mounts)
{
	struct build_step step;
	struct rig r;

	CHECK_EQ(make(&r,
		      "FROM a\nENV C=pip\n"
		      "RUN --mount=type=secret,id=t,required --mount=type=cache,id=$C,target=/c "
		      "--mount=type=secret,id=x,target=/x,mode=0444,uid=5 --network=none a\n",
		      NULL, NULL),
		 0);
	CHECK_EQ(walk(&r, 0, &nothing, &step), 0);
	CHECK_EQ(step.mount_count, 3);
	CHECK_EQ(step.mounts[0].kind, MOUNT_SECRET);
	CHECK(step.mounts[0].required);
	CHECK_STR(step.mounts[1].id, "pip");
	CHECK_EQ(step.mounts[1].kind, MOUNT_CACHE);
	CHECK_EQ(step.mounts[2].mode, 0444);
	CHECK_EQ(step.mounts[2].uid, 5);
	CHECK(step.no_network);
	done(&r, &step);
}

TAP_MAIN
