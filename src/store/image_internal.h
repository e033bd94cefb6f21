/* What image.c and host_image.c share: layers as directories. */
#pragma once

#include "base/err.h"
#include "storage/ids.h"
#include "store/state.h"

/* Deletes what killed imports and removed layers left below layers/. */
void layers_sweep(struct state *s, const struct ids *ids);

/* Moves layers/<name> to the trash, to be deleted by layers_sweep. Missing is success. */
int layers_trash(struct state *s, const char *name);

/* host_image.c: deletes every skeleton; the caller knows that no box uses one. */
int image_host_drop(struct state *s, const struct ids *ids, struct err *e);

/* A private layers/.new-<random>; the caller makes rootfs/ inside, then layers_place gives it its
 * name, or layers_drop deletes it. */
struct layer_new {
	char name[32];
	int fd; /* owned; keeps it locked */
};
int layers_new(struct state *s, struct layer_new *ret, struct err *e);
/* Existing is success: the new one is dropped. */
int layers_place(struct state *s, const struct ids *ids, struct layer_new *l, const char *id,
		 struct err *e);
void layers_drop(struct state *s, const struct ids *ids, struct layer_new *l);

/* What is run inside the box's ids, by a child: run returns 0 or a negative errno with a sentence
 * in err. The job is the first member of a larger structure of size bytes without pointers to
 * itself; what the child writes there, its caller reads there. */
struct inside_job {
	int (*run)(struct inside_job *job);
	struct err err;
	int code;
};
int inside_run(const struct ids *ids, struct inside_job *job, size_t size, struct err *e);
