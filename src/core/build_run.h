/*
 * RUN: a command in a box of its own, which stands on what was built so far, and what it wrote as a
 * layer. The box ends before anything is taken from it, and is removed, also by the sweep where
 * this process is killed.
 */
#pragma once

#include "base/err.h"
#include "build/stage.h"
#include "core/build_tree.h"
#include <cove.h>

struct build_secrets;

struct build_run {
	const struct build_step *step;
	const struct build_words *layers; /* bottom first */
	size_t extra_count;		  /* of them at the top: for this command alone */
	const struct build_words *drops;  /* paths of which nothing is kept */
	struct layer_pins *pins;	  /* holds the new layer */
	const char *user, *cwd;		  /* NULL: root, / */
	const struct cove_build_options *options;
	const struct build_secrets *secrets;
	uint64_t bytes_max; /* that the layer may hold, holes counted */
	int cancel_fd;	    /* -1: none */
	void (*on_output)(void *arg, bool is_err, const void *data, size_t len);
	void (*on_note)(void *arg, const char *text);
	void *arg;
};

/* A command that fails is an error that says how; the caller adds the line. */
int build_run_make(struct cove *cove, const struct build_run *run, struct build_layer *ret,
		   struct err *e);
