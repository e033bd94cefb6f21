/*
 * Layers that no command makes: COPY, ADD and WORKDIR. A child makes them that has nothing of the
 * host but the context: an overlay of what was built so far takes what is written, so that paths
 * lead where they lead in a box of it, and its upper directory becomes the layer.
 */
#pragma once

#include "base/err.h"
#include "build/ignore.h"
#include "build/stage.h"
#include "core/core.h"
#include "store/layer.h"
#include "store/layer_tar.h"
#include "store/pins.h"

struct build_expanded;

struct build_tree {
	const struct build_step *step;	  /* STEP_COPY or STEP_WORKDIR */
	const struct build_words *layers; /* what was built so far, bottom first */
	const char *user;		  /* who owns a WORKDIR that is made; NULL: root */
	struct layer_pins *pins;	  /* holds the new layer */
	uint64_t bytes_max;		  /* that it may hold, holes counted */
	int cancel_fd;			  /* readable: give up; none: 0 or less */
	/* COPY: */
	int context_fd;			       /* -1: none */
	const struct build_ignore *ignore;     /* of the context */
	const struct build_words *from;	       /* the layers of a stage or image instead; or NULL */
	const struct build_expanded *expanded; /* ADD's compressed archives */
	size_t expanded_count;
};

/* What became of a step: a layer that is placed, or none where nothing changed. */
struct build_layer {
	char id[LAYER_ID_SIZE]; /* "": none */
	uint64_t bytes;
};

int build_tree_make(struct cove *cove, const struct build_tree *t, struct build_layer *ret,
		    struct err *e);

/* A tree that is whole, hashed and synced gets its name, unless it holds nothing. */
struct build_new {
	struct layer_new dir; /* taken */
	struct layer_tar_result made;
};
int build_layer_place(struct cove *cove, struct build_new *n, struct layer_pins *pins,
		      struct build_layer *ret, struct err *e);
