/*
 * What Cove itself put into the box of a RUN, taken out of what becomes its layer: places where
 * something was mounted and that the image did not have, the authority of the box's door among the
 * certificates, and what directories look like that lie above those.
 */
#pragma once

#include "base/err.h"
#include "build/words.h"
#include "storage/stack.h"

struct build_scrub {
	const struct stack *below;	  /* what the box stood on */
	const char *pem;		  /* certificates that the box was given; NULL: none */
	const struct build_words *places; /* further paths where something was mounted */
	const struct build_words *drops;  /* and those of which nothing is kept */
};

/* In a child inside the box's ids; the box has ended. */
int build_scrub_run(int root_fd, const struct build_scrub *s, struct err *e);

/* Takes the certificates of pem out of a text, in place; returns its new length. */
size_t build_scrub_pem(char *text, size_t len, const char *pem);
