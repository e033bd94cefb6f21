/* What stage.c and step.c share. No other file includes this. */
#pragma once

#include "build/stage.h"

const char *build_state_lookup(void *arg, const char *name);
int build_state_expand(struct build_state *s, const struct df_instruction *in, const char *word,
		       char **ret, struct err *e);
/* The words before a shell line: SHELL, or /bin/sh -c. */
int build_state_shell(const struct build_state *s, struct build_words *ret);

int build_step_run(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		   struct err *e);
int build_step_copy(struct build_state *s, const struct df_instruction *in, struct build_step *ret,
		    struct err *e);
int build_step_workdir(struct build_state *s, const struct df_instruction *in,
		       struct build_step *ret, struct err *e);
