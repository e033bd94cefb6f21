/* Layers, blobs and what stands on them; see db.h. */
#include "base/str.h"
#include "db/sql.h"

#include <errno.h>
#include <string.h>

/* ---- layers ---- */

int db_layer_put(struct db *db, const char *id, const struct layer_meta *m, struct err *e)
{
	return db_run(db, e, "INSERT OR REPLACE INTO layer VALUES (?,?,?,?,?,?)", "tiiiit", id,
		      (uint64_t)m->kind, m->created_ms, m->bytes, m->files, m->diff);
}

int db_layer_remove(struct db *db, const char *id, struct err *e)
{
	return db_run(db, e, "DELETE FROM layer WHERE id = ?", "t", id);
}

#define LAYER_COLUMNS                                                                       \
	"SELECT id, kind, created_ms, bytes, files, diff, (SELECT count(*) FROM ref WHERE " \
	"layer = id) FROM layer "

static void read_layer(sqlite3_stmt *row, struct db_layer *ret)
{
	memset(ret, 0, sizeof(*ret));
	str_copy(ret->id, sizeof(ret->id), db_column_text(row, 0));
	ret->meta.kind = db_column_u64(row, 1) == LAYER_SNAPSHOT ? LAYER_SNAPSHOT : LAYER_IMAGE;
	ret->meta.created_ms = db_column_u64(row, 2);
	ret->meta.bytes = db_column_u64(row, 3);
	ret->meta.files = db_column_u64(row, 4);
	str_copy(ret->meta.diff, sizeof(ret->meta.diff), db_column_text(row, 5));
	ret->refs = db_column_u64(row, 6);
}

int db_layer_find(struct db *db, const char *id, struct db_layer *ret, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e, LAYER_COLUMNS "WHERE id = ?", "t", id);

	if (r == 0)
		r = db_row(db, row, e);
	if (r > 0)
		read_layer(row, ret);
	return r;
}

int db_layer_each(struct db *db, int (*fn)(void *arg, const struct db_layer *layer), void *arg,
		  struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	struct db_layer layer;
	int r = db_rows(db, &row, e, LAYER_COLUMNS "ORDER BY id", "");

	while (r == 0 && (r = db_row(db, row, e)) > 0) {
		read_layer(row, &layer);
		r = fn(arg, &layer);
	}
	return r;
}

/* ---- blobs ---- */

int db_blob_put(struct db *db, const char *digest, uint64_t bytes, struct err *e)
{
	return db_run(db, e, "INSERT OR REPLACE INTO blob VALUES (?,?)", "ti", digest, bytes);
}

int db_blob_remove(struct db *db, const char *digest, struct err *e)
{
	return db_run(db, e, "DELETE FROM blob WHERE digest = ?", "t", digest);
}

int db_blob_each(struct db *db, int (*fn)(void *arg, const char *digest, uint64_t bytes), void *arg,
		 struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e, "SELECT digest, bytes FROM blob ORDER BY digest", "");

	while (r == 0 && (r = db_row(db, row, e)) > 0)
		r = fn(arg, db_column_text(row, 0), db_column_u64(row, 1));
	return r;
}

/* ---- what stands on layers ---- */

static int drop_refs(struct db *db, enum db_kind kind, const char *name, struct err *e)
{
	return db_run(db, e, "DELETE FROM ref WHERE kind = ? AND name = ?", "it", (uint64_t)kind,
		      name);
}

int db_owner_put(struct db *db, const struct db_owner *o, struct err *e)
{
	bool is_alone = sqlite3_get_autocommit(db->sql);
	int r = is_alone ? db_begin(db, e) : 0;

	if (r < 0)
		return r;
	r = drop_refs(db, o->kind, o->name, e);
	if (r == 0)
		r = db_run(db, e, "INSERT OR REPLACE INTO owner VALUES (?,?,?,?,?)", "ittii",
			   (uint64_t)o->kind, o->name, o->of, o->created_ms, o->stamp);
	for (size_t i = 0; r == 0 && i < o->layer_count; i++)
		r = db_run(db, e, "INSERT INTO ref VALUES (?,?,?,?)", "itit", (uint64_t)o->kind,
			   o->name, (uint64_t)i, o->layers[i]);
	return is_alone ? db_end(db, r, e) : r;
}

int db_owner_remove(struct db *db, enum db_kind kind, const char *name, struct err *e)
{
	bool is_alone = sqlite3_get_autocommit(db->sql);
	int r = is_alone ? db_begin(db, e) : 0;

	if (r < 0)
		return r;
	r = drop_refs(db, kind, name, e);
	if (r == 0)
		r = db_run(db, e, "DELETE FROM owner WHERE kind = ? AND name = ?", "it",
			   (uint64_t)kind, name);
	return is_alone ? db_end(db, r, e) : r;
}

#define OWNER_COLUMNS "SELECT kind, name, of, created_ms, stamp FROM owner WHERE kind = ? "

static void read_owner(sqlite3_stmt *row, struct db_owner *ret)
{
	*ret = (struct db_owner){
		.kind = (enum db_kind)db_column_u64(row, 0),
		.name = db_column_text(row, 1),
		.of = sqlite3_column_type(row, 2) == SQLITE_NULL ? NULL : db_column_text(row, 2),
		.created_ms = db_column_u64(row, 3),
		.stamp = db_column_u64(row, 4)};
}

int db_owner_find(struct db *db, enum db_kind kind, const char *name, struct db_owner *ret,
		  struct err *e)
{
	int r;

	db_rows_done(&db->row);
	r = db_rows(db, &db->row, e, OWNER_COLUMNS "AND name = ?", "it", (uint64_t)kind, name);
	if (r == 0)
		r = db_row(db, db->row, e);
	if (r > 0)
		read_owner(db->row, ret);
	else
		db_rows_done(&db->row);
	return r;
}

int db_owner_each(struct db *db, enum db_kind kind,
		  int (*fn)(void *arg, const struct db_owner *owner), void *arg, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	struct db_owner owner;
	int r = db_rows(db, &row, e, OWNER_COLUMNS "ORDER BY name", "i", (uint64_t)kind);

	while (r == 0 && (r = db_row(db, row, e)) > 0) {
		read_owner(row, &owner);
		r = fn(arg, &owner);
	}
	return r;
}

int db_owner_bytes(struct db *db, enum db_kind kind, uint64_t *ret, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e,
			"SELECT coalesce(sum(bytes), 0) FROM layer WHERE id IN (SELECT layer FROM "
			"ref WHERE kind = ?)",
			"i", (uint64_t)kind);

	if (r == 0)
		r = db_row(db, row, e);
	if (r > 0)
		*ret = db_column_u64(row, 0);
	return r < 0 ? r : 0;
}
