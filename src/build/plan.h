/*
 * The stages of a Dockerfile: what each stands on, and which of them a target needs. No I/O.
 *
 * Stages are referred to by name or number, and only by later ones.
 */
#pragma once

#include "build/dockerfile.h"
#include "build/expand.h"

struct build_input {
	const char *const *args; /* "NAME=VALUE", NULL-terminated; may be NULL */
	const char *target;	 /* name or number of a stage; NULL: the last */
	const char *platform;	 /* "linux/amd64" */
};

struct build_stage {
	const struct df_instruction *from;
	size_t first, end; /* its instructions behind FROM */
	char *base;	   /* owned; the name of an image, expanded; "scratch" is none */
	int base_stage;	   /* a stage instead; -1: none */
	bool needed;
};

struct build_plan {
	const struct dockerfile *file; /* borrowed */
	const struct build_input *input;
	struct build_words globals; /* ARG before the first FROM, and the predefined ones */
	struct build_stage *stages; /* owned */
	size_t count, target;
	size_t steps; /* instructions of the stages that are needed, FROM included */
};

/* The sentence of an error begins with "line N: " where it is the file's. */
int build_plan_init(struct build_plan *ret, const struct dockerfile *file,
		    const struct build_input *input, struct err *e);
void build_plan_done(struct build_plan *p);

/* A stage before the given one by name or number: its index, or -1. */
int build_plan_find(const struct build_plan *p, const char *name, size_t before);

/* What the caller gave for a name; NULL: nothing. */
const char *build_input_arg(const struct build_input *in, const char *name);
/* May it be given without an ARG that declares it? (http_proxy and friends) */
bool build_arg_is_predefined(const char *name);

/* Expands one word into a new string. The sentence names the instruction's line. */
int build_expand_word(const struct build_vars *v, const struct df_instruction *in, const char *word,
		      char **ret, struct err *e);
