/*
 * What goes with a command: the steps that run_with.c is made of. They are put.c's and
 * onto_host.c's, or (src/remote) a server's.
 */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "cove.h"

#include <limits.h>
#include <sys/types.h>

/* The end of a call on a box, as core_return. */
int carry_return(struct cove_box *box, int r, const struct err *e, struct cove_error *err);

/* A file or directory of the host, opened to be put. */
int put_open(struct cove_box *box, const char *host_path, int *ret_fd, struct err *e);
/* Where cove_put would put it, as a path in the box: inside what is a directory there. makes_dir:
 * also inside what ends in a slash and is not there yet. */
int put_target(struct cove_box *box, const char *host_path, const char *box_path,
	       const struct cove_copy *how, bool makes_dir, char ret[BOX_PATH_MAX], struct err *e);
/* Puts it there, and nowhere inside. How many entries were left out. */
int put_at(struct cove_box *box, const char *host_path, const char *target,
	   const struct cove_copy *how, struct err *e);
/* What a descriptor has; as cove_put_fd. */
int put_stream(struct cove_box *box, int fd, const char *box_path, unsigned mode,
	       const struct cove_copy *how, struct err *e);

/* Where a copy would go. Two that are equal are one place. */
struct get_place {
	dev_t dev; /* of the directory, or of the pipe or device itself */
	ino_t ino;
	char name[NAME_MAX + 1]; /* there */
};
/* Finds it before there is anything to copy: an error that cove_get would meet at its end. */
int get_find_place(const char *host_path, const char *box_path, struct get_place *ret,
		   struct err *e);
