/*
 * Layers that a process is about to use and that nothing refers to yet: those of a build, whose
 * image is written at its end. layers/.new-<random>/pins names them; refs_collect counts it as long
 * as its maker lives, and a sweep deletes it after that.
 */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/layer.h"

struct refs;

struct layer_pins {
	struct layer_new dir;
	char **ids; /* owned */
	size_t count;
};
#define LAYER_PINS_NONE ((struct layer_pins){.dir = LAYER_NEW_NONE})

int layer_pins_open(struct state *s, struct layer_pins *ret, struct err *e);
void layer_pins_close(struct state *s, const struct ids *ids, struct layer_pins *p);
/* The same, and those that nothing else refers to go. */
void layer_pins_close_unused(struct state *s, const struct ids *ids, struct layer_pins *p);

/* Under the layers' lock: from now on none is removed. -ENOENT where there is no such layer. */
int layer_pins_add(struct state *s, struct layer_pins *p, const char *id, struct err *e);

/* For refs_collect. */
int layer_pins_refs(struct state *s, struct refs *r, struct err *e);
