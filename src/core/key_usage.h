/*
 * What an API key has on this machine, for its quotas: what its boxes may use, as their records
 * say, and what its workspaces may, which outlive them.
 *
 * A box counts its workspace as often as it counts itself (key_usage_add_box). What a workspace may
 * take beyond that counts here: all of one that no box has, the rest of one that was made larger
 * than the box that has it now.
 *
 * And layers, each once: those that its boxes, stacked workspaces, snapshots and images stand on.
 * What images without a namespace stand on is the operator's; so are an older image's layers that a
 * box or snapshot of such an image still has.
 */
#pragma once

#include "core/core.h"
#include "store/key.h"
#include "store/layer.h"
#include "store/snapshot.h"

struct core_key_workspace {
	char name[BOX_NAME_MAX + 1];
	uint64_t bytes;	  /* that it may take: workspace_bound */
	uint64_t counted; /* of that, with boxes */
};

struct core_key_layer {
	char id[LAYER_ID_SIZE];
	bool only_state; /* not where it is of an image */
};

struct core_key_workspaces {
	struct core_key_workspace *list; /* owned */
	size_t count;
	bool is_looked_at;
	struct core_key_layer *layers; /* owned; sorted after core_key_usage */
	size_t layer_count, layer_cap;
};

/* Adds those of the key that are not in w yet, which is zeroed at first. One that nothing bounds is
 * measured file by file, so look once before a lock is taken, and again under it. */
int core_key_workspaces_look(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
			     struct err *e);
/* What of this one counts beyond its boxes; 0 of one that is not in w. After core_key_usage. */
uint64_t core_key_workspace_rest(const struct core_key_workspaces *w, const char *name);
void core_key_workspaces_done(struct core_key_workspaces *w);

/* Adds boxes to *ret, and where w was looked at workspaces and layers, too. Once with one w.
 * is_left_out may be NULL. ret_names: of all boxes on this
 * machine; free with state_names_free; may be NULL. */
int core_key_usage(struct cove *cove, const char *key_id, bool (*is_left_out)(const struct spec *),
		   struct core_key_workspaces *w, struct key_usage *ret, char ***ret_names,
		   size_t *ret_count, struct err *e);

/*
 * A snapshot that gets a name of a key's namespace, whoever asks for it: begin before the layers'
 * lock, which takes time; check under it, when its layers are in place and before it is written.
 * ERR_LIMIT where it does not fit into the key's quotas. A name without a key, or of a key that
 * is not of this machine, always fits.
 */
struct core_key_snapshot {
	struct key key;
	struct core_key_workspaces had;
	bool is_counted;
};
int core_key_snapshot_begin(struct cove *cove, const char *owner, const char *name,
			    struct core_key_snapshot *k, struct err *e);
int core_key_snapshot_check(struct cove *cove, struct core_key_snapshot *k,
			    const struct snapshot *sn, struct err *e);
void core_key_snapshot_done(struct core_key_snapshot *k);
