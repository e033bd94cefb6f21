/* Snapshots, for the files of core that make and use them. */
#pragma once

#include "base/json.h"
#include "core/commit.h"
#include "store/retention.h"
#include "store/snapshot.h"

/* Takes one of a box and writes its record under the given name. transient: only for a moment; the
 * name is then made up. inside: the box asked for it (snapshot_inside.h). *ret is the caller's
 * (snapshot_done). */
struct snapshot_make {
	const char *name;
	bool no_freeze, transient, inside;
};
int snapshot_make(struct cove *cove, const char *box, const struct snapshot_make *how,
		  struct snapshot *ret, struct err *e);

/* A box's own rule: what is not 0 is changed. */
int snapshot_rule_change(struct cove *cove, const char *box, const struct retention *to,
			 struct err *e);
/* Removes what the rule of a box, or that of its image, says is too much. How many went. */
int snapshot_retain(struct cove *cove, const char *box, struct err *e);

/* How many directories of the host the box has: these are in no snapshot. */
uint64_t snapshot_host_dirs(const struct spec *spec);
/* Was its workspace a copy of a host directory? What was written to that is not in it. */
bool snapshot_leaves_copy(const struct snapshot *s);
/* What of the box was never in it: one JSON array of sentences. */
void snapshot_put_missing(struct json *j, const struct spec *spec);

/* A spec from its text, for as long as *ret_text is there, which is the caller's to free. */
int snapshot_spec(const struct snapshot *s, struct spec *ret, char **ret_text, struct err *e);
