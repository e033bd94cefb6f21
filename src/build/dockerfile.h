/*
 * A Dockerfile as a list of instructions: text in, words out. No I/O, and nothing is expanded: what
 * a variable means depends on where the instruction stands (stage.h).
 *
 * Read as Docker reads it: parser directives (escape, syntax, check) in the first lines, comments,
 * continued lines, JSON forms, heredocs of RUN, COPY and ADD. What is not supported is an error
 * that names the line and a remedy; HEALTHCHECK is left out, and its line kept.
 */
#pragma once

#include "base/err.h"
#include "base/limits_build.h"
#include "build/words.h"

#include <stdbool.h>
#include <stddef.h>

/* In the order of their rows in dockerfile.c. */
enum df_kind {
	DF_ADD,
	DF_ARG,
	DF_CMD,
	DF_COPY,
	DF_ENTRYPOINT,
	DF_ENV,
	DF_EXPOSE,
	DF_FROM,
	DF_LABEL,
	DF_MAINTAINER,
	DF_RUN,
	DF_SHELL,
	DF_STOPSIGNAL,
	DF_USER,
	DF_VOLUME,
	DF_WORKDIR,
	DF_KIND_COUNT
};

struct df_heredoc {
	char *name, *text; /* owned; of <<- without the tabs */
	bool expand;	   /* its name had no quotes */
};

/* args, as written (quotes, variables and escapes are still there):
 *	FROM			the image; with AS the name of the stage behind it
 *	ENV, LABEL		name, value, name, value, ...
 *	ARG			NAME or NAME=VALUE each
 *	COPY, ADD		sources, then the destination
 *	RUN, CMD, ENTRYPOINT	is_json: the words; otherwise the command as one
 *	others			words, or the rest of the line as one
 */
struct df_instruction {
	enum df_kind kind;
	unsigned line;		  /* of its first, from 1 */
	char *text;		  /* owned; in one line, without comments, as people are shown it */
	struct build_words flags; /* "name=value", without the dashes; "name" where none is given */
	struct build_words args;
	bool is_json;
	struct df_heredoc *heredocs; /* owned */
	size_t heredoc_count;
};

struct dockerfile {
	char escape; /* '\\' or '`' */
	struct df_instruction *list;
	size_t count;
	unsigned ignored[DOCKERFILE_IGNORED_MAX]; /* lines of the first HEALTHCHECKs */
	size_t ignored_count;
};

/* -EINVAL, -E2BIG; the sentence begins with "line N: ". Nothing is owned then. */
int dockerfile_parse(struct dockerfile *ret, const char *text, size_t len, struct err *e);
void dockerfile_done(struct dockerfile *d);

const char *df_kind_name(enum df_kind kind);

/* The value of a flag, borrowed; "" where it has none, NULL where it is not there. */
const char *df_flag(const struct df_instruction *i, const char *name);

/* An array of strings as JSON writes it: 0, or -EINVAL where it is something else. */
int df_json_words(const char *text, struct build_words *ret);

/* An error of this instruction: "line N: ...". */
int df_fail(struct err *e, const struct df_instruction *i, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
