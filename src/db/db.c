/*
 * Opening the catalogue; see db.h.
 *
 * Who has it open holds a shared lock on cove.db.lock. One that is damaged is replaced by who gets
 * that lock alone, so that its file, its log and its index go together and under no other
 * process; who does not get it works in memory this once.
 */
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "db/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define DB_FILE	   "cove.db"
#define DB_LOCK	   DB_FILE ".lock"
#define DB_DAMAGED DB_FILE ".damaged"

const char *db_in_memory(const struct db *db)
{
	return db->path[0] ? NULL : db->why;
}

int db_begin(struct db *db, struct err *e)
{
	return db_run(db, e, "BEGIN IMMEDIATE", "");
}

int db_end(struct db *db, int r, struct err *e)
{
	int done = r == 0 ? db_run(db, e, "COMMIT", "") : 0;

	/* A commit that failed may have undone it by itself, which is all that is wanted. */
	if ((r != 0 || done < 0) && !sqlite3_get_autocommit(db->sql))
		(void)db_run(db, NULL, "ROLLBACK", "");
	return r != 0 ? r : done;
}

/* SQLite is built with threads in mind; here is one. */
static int open_sqlite(struct db *db, const char *path, struct err *e)
{
	int code = sqlite3_open_v2(path, &db->sql,
				   SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
					   SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
				   NULL);

	if (code == SQLITE_OK) {
		sqlite3_extended_result_codes(db->sql, 1);
		sqlite3_busy_timeout(db->sql, DB_BUSY_MS);
		code = sqlite3_exec(db->sql,
				    "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
				    "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;",
				    NULL, NULL, NULL);
	}
	return code == SQLITE_OK ? 0 : db_error(db, code, "open", e);
}

/* 1: it cannot be used, and db->why says why. */
static int try_file(struct db *db, struct state *s, struct err *e)
{
	struct err why = {0};
	int r = open_sqlite(db, db->path, &why);

	if (r == 0)
		r = db_migrate(db, &why);
	if (r == 1) {
		str_copy(db->why, sizeof(db->why), "it is a newer Cove's");
		return 1;
	}
	if (r == 0)
		r = db_reconcile(db, s, &why);
	if (r == 0 || db->is_damaged) {
		if (e)
			*e = why;
		return r;
	}
	/* What the directories say is wrong is wrong in memory, too. */
	str_copy(db->why, sizeof(db->why), why.msg);
	return 1;
}

static void drop_sqlite(struct db *db)
{
	db_rows_done(&db->row);
	sqlite3_close(db->sql);
	db->sql = NULL;
	db->is_damaged = false;
}

/* The damaged one is kept, once, for who wants to know what happened. */
static int put_away(struct state *s)
{
	if (renameat(s->home_fd, DB_FILE, s->home_fd, DB_DAMAGED) < 0 && errno != ENOENT)
		return -errno;
	if ((unlinkat(s->home_fd, DB_FILE "-wal", 0) < 0 && errno != ENOENT) ||
	    (unlinkat(s->home_fd, DB_FILE "-shm", 0) < 0 && errno != ENOENT))
		return -errno;
	return 0;
}

void db_close(struct db *db)
{
	bool is_damaged;

	if (!db)
		return;
	is_damaged = db->is_damaged && db->path[0];
	drop_sqlite(db);
	/* Found too late to be replaced: not by the next one. */
	if (is_damaged && flock(db->lock_fd, LOCK_EX | LOCK_NB) == 0)
		(void)put_away(db->s);
	fd_close(&db->lock_fd);
	free(db);
}

static int replace(struct db *db, struct state *s, struct err *e)
{
	int r;

	drop_sqlite(db);
	if (flock(db->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		str_copy(db->why, sizeof(db->why), "it is damaged, and another process has it");
		return 1;
	}
	/* Another one may have been first. */
	r = try_file(db, s, e);
	if (r < 0 && db->is_damaged) {
		drop_sqlite(db);
		r = put_away(s);
		if (r == 0)
			r = try_file(db, s, e);
		else
			r = state_error(s, -r, "replace the catalogue in", e);
	}
	flock(db->lock_fd, LOCK_SH);
	return r;
}

static int open_file(struct db *db, struct state *s, struct err *e)
{
	mode_t mask;
	int r;

	db->lock_fd = s->home_fd < 0 ? -1
				     : openat(s->home_fd, DB_LOCK,
					      O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (db->lock_fd < 0 || flock(db->lock_fd, LOCK_SH) < 0) {
		snprintf(db->why, sizeof(db->why), "'%.100s': %s", s->home,
			 strerror(s->home_fd < 0 ? ENOENT : errno));
		return 1;
	}
	snprintf(db->path, sizeof(db->path), "%s/" DB_FILE, s->home);
	mask = umask(077); /* its files are the owner's */
	r = try_file(db, s, e);
	if (r < 0 && db->is_damaged)
		r = replace(db, s, e);
	umask(mask);
	return r;
}

static int open_memory(struct db *db, struct state *s, struct err *e)
{
	int r;

	log_debug("the catalogue is made in memory: %s", db->why);
	drop_sqlite(db);
	db->path[0] = 0;
	r = open_sqlite(db, ":memory:", e);
	if (r == 0)
		r = db_migrate(db, e);
	if (r == 0)
		r = db_reconcile(db, s, e);
	return r;
}

int db_open(struct state *s, struct db **ret, struct err *e)
{
	struct db *db = calloc(1, sizeof(*db));
	int r;

	if (!db)
		return err_errno(e, ENOMEM, "open the catalogue");
	db->lock_fd = -1;
	db->s = s;
	r = open_file(db, s, e);
	if (r == 1)
		r = open_memory(db, s, e);
	if (r < 0) {
		db_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

int db_check(struct db *db, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e, "PRAGMA integrity_check(1)", "");

	if (r == 0)
		r = db_row(db, row, e);
	if (r > 0 && strcmp(db_column_text(row, 0), "ok") != 0) {
		db->is_damaged = true;
		return err_set(e, ERR_DAMAGED, EBADMSG, "the catalogue is damaged: %.150s",
			       db_column_text(row, 0));
	}
	return r < 0 ? r : 0;
}
