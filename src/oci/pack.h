/* A directory as a tar stream that another process reads: packed by a child (store/layer_tar.h). */
#pragma once

#include "base/child.h"
#include "base/err.h"
#include "storage/ids.h"
#include "store/layer_tar.h"

#include <stdbool.h>

struct pack_shared;

struct pack_stream {
	int fd; /* owned: the stream */
	bool runs;
	struct child_forked child;
	struct pack_shared *shared; /* owned */
};

int pack_open(const struct ids *ids, int root_fd, enum layer_tar_form form, struct pack_stream *ret,
	      struct err *e);
/* Ends it: whoever reads finds the end of the stream. */
void pack_stop(struct pack_stream *p);
/* As expand_verdict and expand_close: why it ended too early, else r. */
int pack_verdict(const struct pack_stream *p, int r, struct err *e);
int pack_close(struct pack_stream *p, int r, struct err *e);
