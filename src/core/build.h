/*
 * Building an image from a Dockerfile: what the files of the driver share.
 *
 *	read	the Dockerfile, .dockerignore, secrets (build.c)
 *	resolve	every instruction of the stages that are needed, expanded, with a key each: the hash
 *		of all that its layer depends on (build_resolve.c)
 *	look	which of these layers are there (build_cache.c)
 *	make	the others, in order, and note them (build_steps.c)
 *	write	the image (build_image.c)
 *
 * So everything that can be wrong in the file is said before the first command runs.
 */
#pragma once

#include "build/stage.h"
#include "core/build_run.h"
#include "core/build_secret.h"
#include "core/build_tree.h"
#include "core/core.h"

/* One instruction. */
struct build_item {
	struct build_step step;
	size_t stage;
	char *user, *cwd; /* owned; as it finds them; NULL: root, / */
	char key[65];	  /* "": it makes no layer */
	/* What the cache knows: */
	bool is_known;
	char layer[LAYER_ID_SIZE]; /* "": it made none */
	char below[65];		   /* hash of the layers that it was made on */
};

struct build_history {
	uint64_t created_ms;
	bool empty;
	char *by; /* owned */
};

/* One stage. */
struct build_made {
	struct build_words layers;     /* bottom first; of what was made so far */
	struct build_config config;    /* at its end */
	struct build_history *history; /* owned */
	size_t history_count;
	char key[65];	     /* at its end */
	size_t first, count; /* its items */
};

struct build {
	struct cove *cove;
	struct cove_build_options o;
	int context_fd;		   /* owned; -1: none */
	struct layer_new unpacked; /* the context that came as a tar is in it */
	char *text;		   /* owned; the Dockerfile */
	struct build_ignore ignore;
	struct dockerfile file;
	char platform[48];
	struct build_input input;
	struct build_plan plan;
	struct build_secrets secrets;
	struct layer_pins pins;
	struct build_made *stages; /* owned; as many as the plan has */
	struct build_item *items;  /* owned */
	size_t item_count;
	unsigned step, steps, cached;
	/* What all its layers hold, those of earlier builds with them and holes counted, and
	 * may hold. */
	uint64_t bytes, bytes_max;
	bool leaves_nothing; /* but the image: its owner's disk is counted */
};

/* ---- build_context.c ---- */

/* Opens the context, or unpacks it first. */
int build_context_open(struct build *b, struct err *e);
void build_context_done(struct build *b);

int build_resolve(struct build *b, struct err *e);
int build_steps_run(struct build *b, struct err *e);
int build_image_write(struct build *b, struct cove_build_result *ret, struct err *e);

/* An image that a stage stands on or copies from, by its name; free with image_done and free. */
int build_image_find(struct build *b, const struct df_instruction *in, const char *name,
		     struct image **ret, struct err *e);

/* Appends to a stage's history. */
int build_history_add(struct build_made *m, const char *by, uint64_t created_ms, bool empty);

/* ---- build_cache.c ---- */

/* Fills in what is known of each item. That the cache cannot be asked is no error: nothing is known
 * then. */
void build_cache_find(struct build *b);
/* A step that another stage has, too, is made once. */
void build_cache_know(struct build *b, const char *key, const char *layer, const char *below);
void build_cache_put(struct build *b, const struct build_item *item, const char *layer,
		     const struct build_words *below);
/* The hash of a list of layers. */
void build_layers_hash(const struct build_words *layers, char ret[65]);

/* ---- build_hash.c ---- */

/* What is copied, for its key: names, kinds, modes and bytes of what the words name, by a child
 * that does nothing else. */
int build_context_hash(const struct build *b, const struct build_words *words, char ret[65],
		       struct err *e);
