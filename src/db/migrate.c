/*
 * The tables, as a list of steps. A catalogue says in its user_version how many it has taken; the
 * rest are taken at its opening, all in one transaction. A step that was released is never changed:
 * a change is one more step, and tests/data/catalogue has a catalogue of every version to begin
 * from.
 */
#include "db/sql.h"

#include <stdio.h>

static const char *const steps[DB_VERSION] = {
	/* 1: what there is, and what stands on which layer */
	"CREATE TABLE layer (id TEXT PRIMARY KEY, kind INTEGER NOT NULL, created_ms INTEGER NOT "
	"NULL, bytes INTEGER NOT NULL, files INTEGER NOT NULL, diff TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE owner (kind INTEGER NOT NULL, name TEXT NOT NULL, of TEXT, created_ms "
	"INTEGER "
	"NOT NULL, stamp INTEGER NOT NULL, PRIMARY KEY (kind, name)) WITHOUT ROWID;"
	"CREATE TABLE ref (kind INTEGER NOT NULL, name TEXT NOT NULL, place INTEGER NOT NULL, "
	"layer "
	"TEXT NOT NULL, PRIMARY KEY (kind, name, place)) WITHOUT ROWID;"
	"CREATE TABLE dir (name TEXT PRIMARY KEY, stamp INTEGER NOT NULL) WITHOUT ROWID;",

	/* 2: the build cache; references are counted by layer */
	"CREATE TABLE cache (key TEXT PRIMARY KEY, layer TEXT NOT NULL, text TEXT NOT NULL, "
	"created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX cache_used ON cache (used_ms);"
	"CREATE INDEX ref_layer ON ref (layer);",

	/* 3: blobs */
	"CREATE TABLE blob (digest TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;",
};

static int read_version(struct db *db, uint64_t *ret, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e, "PRAGMA user_version", "");

	if (r == 0)
		r = db_row(db, row, e);
	if (r > 0)
		*ret = db_column_u64(row, 0);
	return r < 0 ? r : 0;
}

int db_migrate(struct db *db, struct err *e)
{
	uint64_t version = 0;
	char text[48];
	int r = read_version(db, &version, e);

	if (r < 0 || version == DB_VERSION)
		return r;
	if (version > DB_VERSION)
		return 1;
	r = db_begin(db, e);
	if (r < 0)
		return r;
	/* Another process may have been first. */
	r = read_version(db, &version, e);
	for (uint64_t i = version; r == 0 && i < DB_VERSION; i++) {
		int code = sqlite3_exec(db->sql, steps[i], NULL, NULL, NULL);

		r = code == SQLITE_OK ? 0 : db_error(db, code, "make the tables", e);
	}
	snprintf(text, sizeof(text), "PRAGMA user_version = %d", DB_VERSION);
	if (r == 0)
		r = db_run(db, e, text, "");
	return db_end(db, r, e);
}
