/*
 * One stage while it is built: what its instructions mean one after another. Each is turned into a
 * step, with everything expanded, and changes what holds for the next. No I/O.
 *
 * Variables are those of ENV, of the image that it stands on, and of ARG in this stage, in this
 * order. They are expanded in FROM, COPY, ADD, ENV, LABEL, ARG, USER, WORKDIR, EXPOSE, VOLUME and
 * STOPSIGNAL, and in the values of flags but --from; RUN, CMD and ENTRYPOINT leave them to the
 * shell.
 */
#pragma once

#include "build/mount.h"
#include "build/plan.h"

/* How programs are run in what was built so far; all owned. */
struct build_config {
	char *user, *cwd, *stop_signal;
	struct build_words env, entrypoint, cmd, shell, labels, ports, volumes;
};
void build_config_done(struct build_config *c);
int build_config_copy(struct build_config *to, const struct build_config *from);

struct build_state {
	const struct build_plan *plan; /* borrowed */
	size_t stage;
	struct build_config config;
	struct build_words args; /* NAME=VALUE of each ARG that has a value */
	bool cmd_is_own;	 /* it was set here, not by the image */
};

/* config is what the stage begins with; it is copied. */
int build_state_init(struct build_state *s, const struct build_plan *plan, size_t stage,
		     const struct build_config *config, struct err *e);
void build_state_done(struct build_state *s);

enum build_step_kind {
	STEP_NONE, /* only the configuration changed */
	STEP_RUN,
	STEP_COPY,    /* and ADD, with unpack */
	STEP_WORKDIR, /* the directory is made if it is missing */
};

struct build_step {
	enum build_step_kind kind;
	const struct df_instruction *in; /* borrowed */
	char *text;			 /* owned; the instruction, expanded: for people */
	/* STEP_RUN */
	struct build_words argv, env;
	struct build_mount *mounts; /* owned */
	size_t mount_count;
	bool no_network;
	char *input; /* owned; a script: argv names no program then, it is run from a file */
	/* STEP_COPY */
	struct build_words sources;    /* beside heredocs */
	struct build_words file_names; /* heredocs: names and texts */
	struct build_words file_texts;
	char *from, *chown; /* owned; NULL: the context, root */
	int mode;	    /* -1: as it is */
	bool unpack;
	/* STEP_COPY and STEP_WORKDIR */
	char *dest; /* owned; absolute; ends with a slash where it is a directory for certain */
};

/* The next instruction, which is not FROM. build_step_done in any case. */
int build_state_next(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		     struct err *e);
void build_step_done(struct build_step *s);

/* Names that were given with --build-arg and that no ARG of the file declares; borrowed from the
 * input, NULL-terminated; free the list. */
const char **build_unused_args(const struct build_plan *plan);
