/* Statements; see sql.h. */
#include "db/sql.h"

#include <errno.h>
#include <stdarg.h>

int db_error(struct db *db, int code, const char *what, struct err *e)
{
	const char *words = db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(code);

	switch (code & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		db->is_damaged = true;
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the catalogue is damaged (%.80s): it is made anew the next time",
			       words);
	case SQLITE_FULL:
		return err_set(e, ERR_FULL, ENOSPC, "%s in the catalogue: the disk is full", what);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "%s in the catalogue: another process has held it for %d s", what,
			       DB_BUSY_MS / 1000);
	case SQLITE_READONLY:
		return err_set(e, ERR_DENIED, EROFS, "%s in the catalogue: it is read-only", what);
	case SQLITE_NOMEM:
		return err_errno(e, ENOMEM, "%s in the catalogue", what);
	default:
		return err_set(e, ERR_INTERNAL, 0, "%s in the catalogue: %.100s", what, words);
	}
}

static int bind_all(sqlite3_stmt *s, const char *types, va_list ap)
{
	int r = SQLITE_OK;

	for (int i = 1; types[i - 1] && r == SQLITE_OK; i++) {
		if (types[i - 1] == 't')
			r = sqlite3_bind_text(s, i, va_arg(ap, const char *), -1, SQLITE_TRANSIENT);
		else
			r = sqlite3_bind_int64(s, i, (sqlite3_int64)va_arg(ap, uint64_t));
	}
	return r;
}

static int prepare(struct db *db, sqlite3_stmt **ret, struct err *e, const char *sql,
		   const char *types, va_list ap)
{
	int r = sqlite3_prepare_v2(db->sql, sql, -1, ret, NULL);

	if (r == SQLITE_OK)
		r = bind_all(*ret, types, ap);
	return r == SQLITE_OK ? 0 : db_error(db, r, "ask", e);
}

int db_run(struct db *db, struct err *e, const char *sql, const char *types, ...)
{
	autorows sqlite3_stmt *s = NULL;
	va_list ap;
	int r;

	va_start(ap, types);
	r = prepare(db, &s, e, sql, types, ap);
	va_end(ap);
	while (r == 0) {
		int code = sqlite3_step(s);

		if (code == SQLITE_DONE)
			return 0;
		if (code != SQLITE_ROW)
			r = db_error(db, code, "write", e);
	}
	return r;
}

int db_rows(struct db *db, sqlite3_stmt **ret, struct err *e, const char *sql, const char *types,
	    ...)
{
	va_list ap;
	int r;

	va_start(ap, types);
	r = prepare(db, ret, e, sql, types, ap);
	va_end(ap);
	return r;
}

int db_row(struct db *db, sqlite3_stmt *row, struct err *e)
{
	int code = sqlite3_step(row);

	if (code == SQLITE_ROW)
		return 1;
	return code == SQLITE_DONE ? 0 : db_error(db, code, "read", e);
}

void db_rows_done(sqlite3_stmt **row)
{
	sqlite3_finalize(*row);
	*row = NULL;
}

uint64_t db_column_u64(sqlite3_stmt *row, int column)
{
	return (uint64_t)sqlite3_column_int64(row, column);
}

const char *db_column_text(sqlite3_stmt *row, int column)
{
	const unsigned char *text = sqlite3_column_text(row, column);

	return text ? (const char *)text : "";
}
