/* The build cache; see db.h. It is the one thing here that no directory knows. */
#include "base/clock.h"
#include "base/str.h"
#include "db/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { USED_STEP_MS = 3600000 }; /* how exact it is when one was used last */

static int check_key(const char *key, struct err *e)
{
	if (*key && strlen(key) <= DB_CACHE_KEY_MAX)
		return 0;
	return err_set(e, ERR_LIMIT, ENAMETOOLONG, "a key of the build cache has 1 to %u bytes",
		       DB_CACHE_KEY_MAX);
}

int db_cache_put(struct db *db, const char *key, const struct db_cached *c, struct err *e)
{
	uint64_t now = clock_wall_ms();
	int r = check_key(key, e);

	if (r < 0)
		return r;
	if (c->text && strlen(c->text) > DB_CACHE_TEXT_MAX)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "a step of a build is remembered with at most %u bytes",
			       DB_CACHE_TEXT_MAX);
	return db_run(db, e, "INSERT OR REPLACE INTO cache VALUES (?,?,?,?,?)", "tttii", key,
		      c->layer, c->text ? c->text : "", now, now);
}

int db_cache_find(struct db *db, const char *key, struct db_cached *ret, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	uint64_t now = clock_wall_ms();
	int r = check_key(key, e);

	if (r == 0)
		r = db_rows(db, &row, e,
			    "SELECT layer, text FROM cache WHERE key = ? AND (layer = '' OR layer "
			    "IN (SELECT id FROM layer))",
			    "t", key);
	if (r == 0)
		r = db_row(db, row, e);
	if (r <= 0)
		return r;
	*ret = (struct db_cached){.text = strdup(db_column_text(row, 1))};
	str_copy(ret->layer, sizeof(ret->layer), db_column_text(row, 0));
	db_rows_done(&row);
	if (!ret->text)
		return err_errno(e, ENOMEM, "read the build cache");
	/* Not every time, which would cost a sync; and a full disk is no reason to forget. */
	(void)db_run(db, NULL, "UPDATE cache SET used_ms = ? WHERE key = ? AND used_ms < ?", "iti",
		     now, key, now > USED_STEP_MS ? now - USED_STEP_MS : 0);
	return 1;
}

int db_cache_each(struct db *db, int (*fn)(void *arg, const char *layer), void *arg, struct err *e)
{
	autorows sqlite3_stmt *row = NULL;
	int r = db_rows(db, &row, e, "SELECT DISTINCT layer FROM cache WHERE layer != ''", "");

	while (r == 0 && (r = db_row(db, row, e)) > 0)
		r = fn(arg, db_column_text(row, 0));
	return r;
}

int db_cache_trim(struct db *db, uint64_t unused_since_ms, uint64_t *ret_count, struct err *e)
{
	int r = db_run(db, e,
		       "DELETE FROM cache WHERE used_ms < ? OR (layer != '' AND layer NOT IN "
		       "(SELECT id FROM layer)) OR key IN (SELECT key FROM cache ORDER BY used_ms "
		       "DESC LIMIT -1 OFFSET ?)",
		       "ii", unused_since_ms, (uint64_t)DB_CACHE_MAX);

	if (r == 0 && ret_count)
		*ret_count = (uint64_t)sqlite3_changes(db->sql);
	return r;
}
