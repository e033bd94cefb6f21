/*
 * What an API key has on this machine, for its quotas: what its boxes may use, as their records
 * say, and what its workspaces may, which outlive them.
 *
 * A box counts its workspace as often as it counts itself (key_usage_add_box). What a workspace may
 * take beyond that counts here: all of one that no box has, the rest of one that was made larger
 * than the box that has it now, and the layers that stacked ones stand on, each once.
 */
#pragma once

#include "core/core.h"
#include "store/key.h"
#include "store/layer.h"

struct core_key_workspace {
	char name[BOX_NAME_MAX + 1];
	uint64_t bytes;	  /* that it may take: workspace_bound */
	uint64_t counted; /* of that, with boxes */
};

struct core_key_workspaces {
	struct core_key_workspace *list; /* owned */
	size_t count;
	char (*layers)[LAYER_ID_SIZE]; /* owned */
	size_t layer_count;
	uint64_t layer_bytes;
};

/* Adds those of the key that are not in w yet, which is zeroed at first. One that nothing bounds is
 * measured file by file, so look once before a lock is taken, and again under it. */
int core_key_workspaces_look(struct cove *cove, const char *key_id, struct core_key_workspaces *w,
			     struct err *e);
/* What of this one counts beyond its boxes; 0 of one that is not in w. After core_key_usage. */
uint64_t core_key_workspace_rest(const struct core_key_workspaces *w, const char *name);
void core_key_workspaces_done(struct core_key_workspaces *w);

/* Adds boxes and workspaces to *ret. is_left_out may be NULL. ret_names: of all boxes on this
 * machine; free with state_names_free; may be NULL. */
int core_key_usage(struct cove *cove, const char *key_id, bool (*is_left_out)(const struct spec *),
		   struct core_key_workspaces *w, struct key_usage *ret, char ***ret_names,
		   size_t *ret_count, struct err *e);
