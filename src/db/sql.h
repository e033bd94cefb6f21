/*
 * What the files of db share: statements of SQLite. No other module includes this.
 *
 * A statement's arguments follow as `types` says: 't' a text (NULL is null), 'i' a uint64_t.
 */
#pragma once

#include "db/db.h"

#include <sqlite3.h>

enum { DB_VERSION = 3, DB_BUSY_MS = 20000 };

struct db {
	sqlite3 *sql;	   /* owned */
	struct state *s;   /* borrowed */
	int lock_fd;	   /* owned; shared while it is open: the file is not replaced */
	char path[560];	   /* "" in memory */
	char why[200];	   /* that it is in memory */
	bool is_damaged;   /* a statement found it so */
	sqlite3_stmt *row; /* of db_owner_find: its texts */
};

/* The errno and sentence of what SQLite said. */
int db_error(struct db *db, int code, const char *what, struct err *e);

/* One statement whose rows do not matter. */
int db_run(struct db *db, struct err *e, const char *sql, const char *types, ...);
/* Its rows: db_row until it returns 0 (or -errno), then db_rows_done. */
int db_rows(struct db *db, sqlite3_stmt **ret, struct err *e, const char *sql, const char *types,
	    ...);
int db_row(struct db *db, sqlite3_stmt *row, struct err *e);
void db_rows_done(sqlite3_stmt **row);
#define autorows __attribute__((cleanup(db_rows_done)))

uint64_t db_column_u64(sqlite3_stmt *row, int column);
/* "" for null; lives until the next row. */
const char *db_column_text(sqlite3_stmt *row, int column);

/* ---- migrate.c ---- */

/* From whatever older version it is, all or nothing. 1: it is a newer Cove's. */
int db_migrate(struct db *db, struct err *e);

/* ---- reconcile.c ---- */

int db_reconcile(struct db *db, struct state *s, struct err *e);
