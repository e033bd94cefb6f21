/*
 * What something in a box may ask of its keeper: cove-ctl, init and keeper speak of it in the same
 * words.
 *
 * cove-ctl asks init over a socket, with one line of CTL_LINE_MAX bytes at most:
 *
 *	[json ]info		what the box is
 *	[json ]budget		what it may still use
 *	[json ]snapshot NAME	a snapshot of it, now
 *
 * and init the keeper (WIRE_CTL). The answer is the line "ok" and a text, or the line "error KIND
 * SENTENCE"; then init closes the connection. The socket is an abstract one of the box's own
 * network, which init is the first to bind: no file, and nothing inside can put another there.
 *
 * Which of them a box has is one of its settings: words with commas between, `snapshot=N` for
 * how many snapshots it may have. Without any there is no program, no socket and no variable.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_CTL_SOCKET "cove-ctl" /* abstract */

enum wire_ctl_verb { WIRE_CTL_INFO, WIRE_CTL_BUDGET, WIRE_CTL_SNAPSHOT, WIRE_CTL_VERB_COUNT };

/* The message of init's. */
struct wire_ctl {
	uint64_t verb; /* enum wire_ctl_verb */
	uint64_t json; /* 1: the answer is to be JSON */
	const char *name;
	uint64_t uid; /* of who asks, in the box */
};

struct wire_ctl_answer {
	uint64_t kind, code; /* enum err_kind, 0: it was done; errno */
	const char *text;    /* the answer, or why there is none */
};

/* A request as a line. */
struct wire_ctl_line {
	enum wire_ctl_verb verb;
	bool json;
	char name[CTL_NAME_MAX + 1]; /* empty without */
};

const char *wire_ctl_verb_name(enum wire_ctl_verb verb);
/* -1: there is none of that name. */
int wire_ctl_verb_find(const char *name);
/* What a snapshot may be called: lower-case letters, digits and inner dashes. */
bool wire_ctl_is_name(const char *name);
/* n bytes without the newline. Strict: one space between words and nothing else. */
int wire_ctl_line_parse(const char *p, size_t n, struct wire_ctl_line *ret, struct err *e);
/* With the newline; its length. */
size_t wire_ctl_line_format(const struct wire_ctl_line *l, char ret[CTL_LINE_MAX]);

/* A box's setting. NULL and "" are none. */
struct wire_ctl_set {
	unsigned verbs;	    /* 1 << enum wire_ctl_verb */
	uint64_t snapshots; /* how many it may have at once; 0 without that verb */
};
int wire_ctl_set_parse(const char *text, struct wire_ctl_set *ret, struct err *e);
