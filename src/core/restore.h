/* What the files of restoring share; see restore.c. */
#pragma once

#include "core/backup.h"
#include "storage/storage.h"
#include "store/layer.h"
#include "store/pins.h"

/* A member's head. */
struct restore_member {
	const char *what, *name, *file, *dir, *kind, *diff;
	uint64_t disk_bytes, created_ms, bytes, files;
};

/* A box or workspace that is being made. */
struct restore_making {
	char name[BOX_NAME_MAX + 1];
	int fd; /* owned: its directory, in the stage; -1: none */
	bool is_workspace;
	uint64_t disk_bytes;
	struct volume volume;
	int root_fd; /* owned; where its files go; -1: not opened yet */
};

/* Where all boxes, or workspaces, are made before the first takes its name: <name>, <name>.img,
 * <name>.stack. */
struct restore_stage {
	char tmp[32];
	int fd; /* owned; -1: nothing was made */
};

/* The operation lock of a box that is replaced. */
struct restore_lock {
	char name[BOX_NAME_MAX + 1];
	int fd; /* owned: its directory */
};

/* What a layer of an imported file is called here. */
struct layer_alias {
	char from[LAYER_ID_SIZE], to[LAYER_ID_SIZE];
};

struct restore {
	struct cove *cove;
	const char *kind;	     /* of file */
	const char *as;		     /* the name that what is imported gets, or NULL */
	bool is_import;		     /* by whom it was written is not known */
	char only[BOX_NAME_MAX + 1]; /* then: what all that it brings is called; empty before */
	unsigned seen;		     /* then: 1 << kind of what came in this reading */
	struct layer_alias *aliases; /* owned */
	size_t alias_count;
	struct cove_backup_options o;
	struct cove_backed_up done;
	struct parcel_reader *r; /* owned */
	struct restore_making box;
	struct restore_stage boxes, workspaces;
	struct layer_pins pins;	    /* what it made, or found, until the records name it */
	struct restore_lock *locks; /* owned; of the boxes that it replaces */
	size_t lock_count;
	struct state_list old_layers; /* of forks that were replaced */
	struct err *e;
};

/* What a head says; it is cut up, and *ret points into it. */
int restore_member_read(char *head, size_t len, struct restore_member *ret, struct err *e);
int restore_bad_member(struct restore *s, const char *what);
/* A file of s->kind; s->as and s->is_import are set. */
int restore_run(struct cove *cove, struct restore *s, const char *path,
		const struct cove_backup_options *options, struct cove_backed_up *ret,
		struct cove_error *err);

/* ---- restore_swap.c: what was made gets its names ---- */

/* Makes stage->fd below dir_fd, once. */
int restore_stage_open(struct restore *s, struct restore_stage *stage, int dir_fd);
/* Everything in the stages, by renames; what it replaces is in them afterwards. */
int restore_swap(struct restore *s);
/* Deletes the stages and lets go of the boxes; without the layers' lock. */
void restore_stages_done(struct restore *s);

/* ---- import.c: of files whose writer is not known ---- */

/* What a layer of the file is called here. */
const char *restore_alias(const struct restore *s, const char *id);
/* ERR_DAMAGED where there is none of this name: what stands on it is not made. */
int restore_need_layer(struct restore *s, const char *id);
/* The name that a layer, unpacked at root_fd, may have; meta is made to fit. */
int restore_choose_id(struct restore *s, const struct restore_member *m, int root_fd,
		      struct layer_meta *meta, char ret[LAYER_ID_SIZE]);
/* text is taken. */
int restore_import_snapshot(struct restore *s, const struct restore_member *m, char *text,
			    size_t len);
/* How large what is in a file is, and what the file says of the disk that it was on. The descriptor
 * is at its beginning again afterwards. */
struct restore_size {
	uint64_t bytes;	     /* of the file */
	uint64_t disk_bytes; /* 0: there was no limit */
	bool has_layers;     /* some of the bytes are of those */
};
int restore_size_read(int fd, const char *kind, struct restore_size *ret, struct err *e);
