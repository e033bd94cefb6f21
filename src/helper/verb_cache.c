/*
 * The build cache (db/db.h).
 *
 *	cache-find {"keys": [KEY...]}		    lines: key, layer, text of each that is known
 *	cache-put {"key", "layer", "text"}	    layer "" or missing: the step made none
 *	cache-trim {"unused_since_ms": N}	    lines: count
 *
 * Many keys are one question, since a process costs more than a row.
 */
#include "base/lines.h"
#include "base/str.h"
#include "db/db.h"
#include "helper/helper.h"

#include <errno.h>
#include <stdlib.h>

static int put_found(struct buf *b, const char *key, const struct db_cached *c)
{
	int r = lines_put(b, "key", key);

	if (r == 0)
		r = lines_put(b, "layer", c->layer);
	return r == 0 ? lines_put(b, "text", c->text) : r;
}

static int find_all(struct helper *h, struct db *db, struct buf *b, struct err *e)
{
	json_t *keys = json_object_get(h->args, "keys"), *key;
	struct db_cached found;
	size_t i;
	int r;

	json_array_foreach(keys, i, key)
	{
		if (!json_is_string(key))
			return err_set(e, ERR_INVALID, EINVAL, "a key is a text");
		r = db_cache_find(db, json_string_value(key), &found, e);
		if (r < 0)
			return r;
		if (r > 0) {
			r = put_found(b, json_string_value(key), &found);
			free(found.text);
			if (r < 0)
				return err_errno(e, -r, "answer");
		}
	}
	return 0;
}

int verb_cache_find(struct helper *h, struct err *e)
{
	struct db *db = NULL;
	struct buf b;
	int r = db_open(&h->state, &db, e);

	buf_init(&b, HELPER_ANSWER_MAX);
	if (r == 0)
		r = find_all(h, db, &b, e);
	if (r == 0)
		r = helper_result(h, buf_len(&b) ? buf_cstr(&b) : "", e);
	buf_done(&b);
	db_close(db);
	return r;
}

int verb_cache_put(struct helper *h, struct err *e)
{
	const char *layer = helper_find_str(h, "layer"), *key;
	struct db_cached c = {.text = (char *)(uintptr_t)helper_find_str(h, "text")};
	struct db *db = NULL;
	int r = helper_str(h, "key", &key, e);

	if (r < 0)
		return r;
	if (layer && *layer && !layer_is_id(layer))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is no layer", layer);
	str_copy(c.layer, sizeof(c.layer), layer ? layer : "");
	r = state_make(&h->state, e);
	if (r == 0)
		r = db_open(&h->state, &db, e);
	if (r == 0)
		r = db_cache_put(db, key, &c, e);
	db_close(db);
	return r;
}

int verb_cache_trim(struct helper *h, struct err *e)
{
	struct db *db = NULL;
	uint64_t count = 0;
	struct buf b;
	int r = db_open(&h->state, &db, e);

	buf_init(&b, 64);
	if (r == 0)
		r = db_cache_trim(db, helper_u64(h, "unused_since_ms", 0), &count, e);
	if (r == 0)
		r = lines_put_u64(&b, "count", count);
	if (r == 0)
		r = helper_result(h, buf_cstr(&b), e);
	buf_done(&b);
	db_close(db);
	return r;
}
