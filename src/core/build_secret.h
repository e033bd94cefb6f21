/*
 * Build secrets: --secret id=NAME,src=FILE and RUN --mount=type=secret,id=NAME. They are read when
 * a build begins, kept in locked memory, and shown to a box as files in its own memory.
 */
#pragma once

#include "base/limits_build.h"
#include "build/stage.h"
#include "core/core.h"

struct build_secret {
	char *id;   /* owned */
	void *data; /* owned; locked memory */
	size_t len;
};

struct build_secrets {
	struct build_secret list[BUILD_SECRETS_MAX];
	size_t count;
};

/* given: as in struct cove_build_options; may be NULL. */
int build_secrets_init(struct build_secrets *ret, const char *const *given, struct err *e);
void build_secrets_done(struct build_secrets *s);

/* Those that a RUN mounts, for its box; the paths where it sees them are added to places. One that
 * was not given is left out, unless it is required. */
int build_secrets_show(const struct build_secrets *s, const struct build_step *step,
		       struct core_spec *spec, struct build_words *places, struct err *e);
