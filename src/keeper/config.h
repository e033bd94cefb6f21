/*
 * What libcove tells a new keeper, in a sealed memfd on descriptor 3 (form: base/lines.h). Nothing
 * secret and nothing long is ever an argument.
 *
 * Descriptors at birth: 3 this configuration, 4 one end of a socketpair which is the keeper's first
 * client. The client may send requests at once; HELLO comes when the box is up, ERROR (id 0) and a
 * closed socket when it could not be started. For a one-shot box the end of this client is the end
 * of the box; for a visit it is its stop, and there is no socket: no other client joins.
 */
#pragma once

#include "base/err.h"
#include "base/limits_build.h"
#include "store/spec.h"
#include "wall/wall.h"

#include <stdbool.h>

enum { KEEPER_CONFIG_FD = 3, KEEPER_CLIENT_FD = 4 };

struct keeper_config {
	const char *home;	  /* state directory */
	const char *run;	  /* runtime directory */
	const char *init_path;	  /* the cove-init program */
	const char *door_path;	  /* the cove-door program */
	const char *ctl_path;	  /* the cove-ctl program, of a box that may ask */
	const char *save_path;	  /* the cove-save program, of one that may ask for snapshots */
	const char *wall_program; /* of the wall, while it is tried; NULL: it is looked for */
	const char *lowers[SPEC_LAYER_MAX]; /* the trees of its layers, top first */
	size_t lower_count;
	bool image_is_host;
	const char *premade; /* made ahead, in that directory (store/premade.h); NULL: it is not */
	bool soon;	     /* its first command comes at once */
	bool visit;	     /* up for its first client alone */
	/* 1 << limit_id: a quota of the box's owner counts it, so that it is kept or the box does
	 * not start, whatever best_effort says. */
	uint64_t counted;
	struct wall_secret secrets[BUILD_SECRETS_MAX]; /* of a RUN (core/build_run.h); in no file */
	size_t secret_count;
	struct spec spec;
	char *text; /* owned when read; everything points into it */
};

/* Is that limit to be kept or refused? */
bool keeper_config_is_due(const struct keeper_config *c, enum limit_id id);

int keeper_config_write(const struct keeper_config *c, int *ret_fd, struct err *e);
int keeper_config_read(struct keeper_config *ret, int fd, struct err *e);
void keeper_config_done(struct keeper_config *c);
/* Wipes the secrets, which the box has by now. */
void keeper_config_forget(struct keeper_config *c);
