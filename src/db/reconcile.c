/*
 * Making the catalogue agree with the directories.
 *
 * How it works: a directory whose inode and time of change are those that were seen when it was
 * last read has the same names in it, and a record (which is replaced, not written into) the same
 * text. So an opening usually costs a few stat(2) and no transaction. What differs is read again
 * within one, and what is gone is dropped. A time of change that is not a while ago could hide a
 * second change within the same tick of the clock: such a stamp is kept as 0, and read again.
 *
 * Boxes are looked at one by one: their records change without their directory.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "db/sql.h"
#include "store/blobs.h"
#include "store/image.h"
#include "store/record.h"
#include "store/snapshot.h"
#include "store/workspace_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FRESH_MS = 2000, STAMP_MISSING = 2 };

struct sync {
	struct db *db;
	struct state *s;
	struct err *e;
	bool has_begun;
};

/* Within a transaction from the first difference on. */
static int sync_begin(struct sync *y)
{
	int r = y->has_begun ? 0 : db_begin(y->db, y->e);

	y->has_begun = r == 0;
	return r;
}

static uint64_t stamp_of(const struct stat *st)
{
	uint64_t ms = (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000;
	uint64_t now = clock_wall_ms(), h = 1469598103934665603ull;
	const uint64_t parts[] = {(uint64_t)st->st_dev, (uint64_t)st->st_ino, (uint64_t)st->st_size,
				  (uint64_t)st->st_mtim.tv_sec, (uint64_t)st->st_mtim.tv_nsec};

	if (ms + FRESH_MS >= now)
		return 0;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		h = (h ^ parts[i]) * 1099511628211ull;
	return h >> 1 | 1; /* odd, so none of the others, and positive in a table */
}

/* ---- names in the tables ---- */

struct db_names {
	char **names; /* owned; sorted */
	size_t count;
};

static int read_known(struct sync *y, struct db_names *ret, const char *sql, const char *types,
		      uint64_t kind)
{
	autorows sqlite3_stmt *row = NULL;
	struct state_list list = {0};
	int r = db_rows(y->db, &row, y->e, sql, types, kind);

	while (r == 0 && (r = db_row(y->db, row, y->e)) > 0)
		r = state_list_add(&list, db_column_text(row, 0), SIZE_MAX);
	r = state_list_take(&list, r, &ret->names, &ret->count);
	return r == -ENOMEM ? err_errno(y->e, ENOMEM, "read the catalogue") : r;
}

/* Calls for what is on one side only, both being sorted; fresh also for what is on both where
 * `again` is set. */
struct sides {
	int (*fresh)(struct sync *y, const char *name);
	int (*gone)(struct sync *y, const char *name);
	bool again;
};

static int compare_sides(struct sync *y, char **names, size_t count, const struct db_names *k,
			 const struct sides *sides)
{
	size_t i = 0, j = 0;
	int r = 0;

	while (r == 0 && (i < count || j < k->count)) {
		int c = i == count ? 1 : j == k->count ? -1 : strcmp(names[i], k->names[j]);

		if (c < 0 || (c == 0 && sides->again))
			r = sides->fresh(y, names[i]);
		else if (c > 0)
			r = sides->gone(y, k->names[j]);
		i += c <= 0;
		j += c >= 0;
	}
	return r;
}

/* ---- directories whose names are all that counts ---- */

static int fresh_layer(struct sync *y, const char *id)
{
	struct layer_meta meta;

	if (!layer_is_id(id) || layer_read(y->s, id, &meta) < 0)
		return 0; /* not one, gone meanwhile, or damaged: `cove system verify` says so */
	return db_layer_put(y->db, id, &meta, y->e);
}

static int gone_layer(struct sync *y, const char *id)
{
	return db_layer_remove(y->db, id, y->e);
}

static int fresh_blob(struct sync *y, const char *digest)
{
	autoclose int fd = -1;
	uint64_t bytes;

	return blobs_open(y->s, digest, &fd, &bytes, NULL) < 0
		       ? 0
		       : db_blob_put(y->db, digest, bytes, y->e);
}

static int gone_blob(struct sync *y, const char *digest)
{
	return db_blob_remove(y->db, digest, y->e);
}

static int list_layers(struct sync *y, char ***names, size_t *count)
{
	return state_all_names(y->s->layers_fd, names, count);
}

static int list_blobs(struct sync *y, char ***names, size_t *count)
{
	*count = 0;
	return y->s->home_fd < 0 ? 0 : blobs_list(y->s, names, count, NULL);
}

/* ---- records ---- */

static int fresh_image(struct sync *y, const char *name)
{
	struct image im;
	int r = image_find(y->s, name, &im, NULL);

	if (r == 0)
		r = db_owner_put(y->db,
				 &(struct db_owner){.kind = DB_IMAGE,
						    .name = im.name,
						    .of = im.digest,
						    .created_ms = im.created_ms,
						    .layers = im.layers,
						    .layer_count = im.layer_count},
				 y->e);
	else
		r = 0;
	image_done(&im);
	return r;
}

static int gone_image(struct sync *y, const char *name)
{
	return db_owner_remove(y->db, DB_IMAGE, name, y->e);
}

static int list_images(struct sync *y, char ***names, size_t *count)
{
	struct state_list list = {0};
	struct image *images = NULL;
	size_t n = 0;
	int r = image_list(y->s, &images, &n, NULL);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = images[i].is_host ? 0 : state_list_add(&list, images[i].name, SIZE_MAX);
	image_list_free(images, n);
	return state_list_take(&list, r, names, count);
}

/* What it stands on, its workspace's part after the box's. */
static int fresh_snapshot(struct sync *y, const char *name)
{
	const char *layers[2 * SPEC_LAYER_MAX];
	struct snapshot sn;
	size_t count = 0;
	int r = snapshot_find(y->s, name, &sn, NULL);

	if (r == 0) {
		for (size_t i = 0; i < sn.layer_count; i++)
			layers[count++] = sn.layers[i];
		for (size_t i = 0; i < sn.workspace_layer_count; i++)
			layers[count++] = sn.workspace_layers[i];
		r = db_owner_put(y->db,
				 &(struct db_owner){.kind = DB_SNAPSHOT,
						    .name = name,
						    .of = sn.box,
						    .created_ms = sn.created_ms,
						    .layers = layers,
						    .layer_count = count},
				 y->e);
	} else {
		r = 0;
	}
	snapshot_done(&sn);
	return r;
}

static int gone_snapshot(struct sync *y, const char *name)
{
	return db_owner_remove(y->db, DB_SNAPSHOT, name, y->e);
}

static int list_snapshots(struct sync *y, char ***names, size_t *count)
{
	struct state_list list = {0};
	struct snapshot *all = NULL;
	size_t n = 0;
	int r = snapshot_list(y->s, &all, &n, NULL);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = state_list_add(&list, all[i].name, SIZE_MAX);
	snapshot_list_free(all, n);
	return state_list_take(&list, r, names, count);
}

static int fresh_workspace(struct sync *y, const char *name)
{
	struct workspace_stack stack = {0};
	int r;

	if (workspace_stack_read(y->s, name, &stack) < 0)
		stack = (struct workspace_stack){0};
	r = db_owner_put(y->db,
			 &(struct db_owner){.kind = DB_WORKSPACE,
					    .name = name,
					    .layers = (const char *const *)stack.layers,
					    .layer_count = stack.count},
			 y->e);
	workspace_stack_done(&stack);
	return r;
}

static int gone_workspace(struct sync *y, const char *name)
{
	return db_owner_remove(y->db, DB_WORKSPACE, name, y->e);
}

static int list_workspaces(struct sync *y, char ***names, size_t *count)
{
	return state_names(y->s->workspaces_fd, names, count);
}

static const struct place {
	const char *name;
	const char *known_sql; /* its names */
	const char *types;
	uint64_t kind;
	int (*list)(struct sync *y, char ***names, size_t *count);
	struct sides sides;
} places[] = {
	{"layers", "SELECT id FROM layer", "", 0, list_layers, {fresh_layer, gone_layer, false}},
	{"blobs", "SELECT digest FROM blob", "", 0, list_blobs, {fresh_blob, gone_blob, false}},
	{"images",
	 "SELECT name FROM owner WHERE kind = ?",
	 "i",
	 DB_IMAGE,
	 list_images,
	 {fresh_image, gone_image, true}},
	{"snapshots",
	 "SELECT name FROM owner WHERE kind = ?",
	 "i",
	 DB_SNAPSHOT,
	 list_snapshots,
	 {fresh_snapshot, gone_snapshot, true}},
	{"workspaces",
	 "SELECT name FROM owner WHERE kind = ?",
	 "i",
	 DB_WORKSPACE,
	 list_workspaces,
	 {fresh_workspace, gone_workspace, true}},
};

/* Its stamp as it is in the table; 0: never read, or not surely. */
static int read_stamp(struct sync *y, const char *name, uint64_t *ret)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(y->db, &row, y->e, "SELECT stamp FROM dir WHERE name = ?", "t", name);

	if (r == 0)
		r = db_row(y->db, row, y->e);
	*ret = r > 0 ? db_column_u64(row, 0) : 0;
	return r < 0 ? r : 0;
}

static int sync_place(struct sync *y, const struct place *p)
{
	struct db_names known = {0};
	uint64_t stamp = 0, seen = 0;
	struct stat st = {0};
	char **names = NULL;
	size_t count = 0;
	int r = read_stamp(y, p->name, &seen);

	if (r < 0)
		return r;
	/* Before the names are read: what changes meanwhile shows the next time. One that is not
	 * there is empty. */
	if (y->s->home_fd >= 0 && fstatat(y->s->home_fd, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		stamp = stamp_of(&st);
	else
		stamp = STAMP_MISSING;
	if (stamp && stamp == seen)
		return 0;
	r = sync_begin(y);
	if (r < 0)
		return r;
	r = p->list(y, &names, &count);
	if (r < 0)
		return err_errno(y->e, -r, "list the %s in '%.140s'", p->name, y->s->home);
	r = read_known(y, &known, p->known_sql, p->types, p->kind);
	if (r == 0)
		r = compare_sides(y, names, count, &known, &p->sides);
	if (r == 0)
		r = db_run(y->db, y->e, "INSERT OR REPLACE INTO dir VALUES (?,?)", "ti", p->name,
			   stamp);
	state_names_free(names, count);
	state_names_free(known.names, known.count);
	return r;
}

/* ---- boxes ---- */

static int put_box(struct sync *y, const char *name, uint64_t stamp)
{
	struct record record = {0};
	int r = record_load(y->s, name, &record, NULL);

	/* One that is damaged stands on nothing that could be found out. */
	r = db_owner_put(y->db,
			 &(struct db_owner){.kind = DB_BOX,
					    .name = name,
					    .stamp = stamp,
					    .of = r == 0 ? record.spec.image : NULL,
					    .created_ms = record.spec.created_ms,
					    .layers = record.spec.layers,
					    .layer_count = r == 0 ? record.spec.layer_count : 0},
			 y->e);
	record_done(&record);
	return r;
}

static int sync_box(struct sync *y, const char *name)
{
	char path[BOX_NAME_MAX + 16];
	struct db_owner known;
	uint64_t stamp = 0;
	struct stat st;
	int r;

	snprintf(path, sizeof(path), "%s/record", name);
	if (fstatat(y->s->boxes_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0)
		stamp = stamp_of(&st);
	r = db_owner_find(y->db, DB_BOX, name, &known, y->e);
	if (r < 0 || (r > 0 && stamp && known.stamp == stamp))
		return r < 0 ? r : 0;
	db_rows_done(&y->db->row);
	r = sync_begin(y);
	return r < 0 ? r : put_box(y, name, stamp);
}

static int gone_box(struct sync *y, const char *name)
{
	int r = sync_begin(y);

	return r < 0 ? r : db_owner_remove(y->db, DB_BOX, name, y->e);
}

static int sync_boxes(struct sync *y)
{
	static const struct sides sides = {sync_box, gone_box, true};
	struct db_names known = {0};
	char **names = NULL;
	size_t count = 0;
	int r = record_names(y->s, &names, &count, y->e);

	if (r == 0)
		r = read_known(y, &known, "SELECT name FROM owner WHERE kind = ?", "i", DB_BOX);
	if (r == 0)
		r = compare_sides(y, names, count, &known, &sides);
	state_names_free(names, count);
	state_names_free(known.names, known.count);
	return r;
}

int db_reconcile(struct db *db, struct state *s, struct err *e)
{
	struct sync y = {.db = db, .s = s, .e = e};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(places) / sizeof(places[0]); i++)
		r = sync_place(&y, &places[i]);
	if (r == 0)
		r = sync_boxes(&y);
	db_rows_done(&db->row);
	return y.has_begun ? db_end(db, r, e) : r;
}
