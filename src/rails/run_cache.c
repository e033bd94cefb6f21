/*
 * The states of runs that this process keeps, so that a turn does not read a journal; and rows on
 * their way to it. All of it belongs to whose turn it is, but for what only reads (run_load and so
 * on), which makes states of its own.
 */
#include "rails/run_parts.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CACHE_HEADS = 256, READ_BLOCK = 256 << 10 };

_Static_assert((unsigned)READ_BLOCK > RUN_ROW_MAX, "a block has room for any row");

struct run_cached {
	struct run_state s;
	struct rails_epoch epoch;
	ino_t inode;	/* of its journal; 0: not known yet */
	uint64_t batch; /* that used it last */
	struct run_cached *next;
};

struct run_cache {
	struct run_cached *heads[CACHE_HEADS]; /* owned */
	unsigned count;
	uint8_t row[RUN_ROW_MAX]; /* one that is being put */
};

struct run_cache *run_cache_new(void)
{
	return calloc(1, sizeof(struct run_cache));
}

static void cached_free(struct run_cached *c)
{
	run_state_done(&c->s);
	free(c);
}

void run_cache_free(struct run_cache *c)
{
	for (unsigned i = 0; c && i < CACHE_HEADS; i++)
		while (c->heads[i]) {
			struct run_cached *next = c->heads[i]->next;

			cached_free(c->heads[i]);
			c->heads[i] = next;
		}
	free(c);
}

static struct run_cached **place_of(struct run_cache *c, const char *id)
{
	unsigned h = 2166136261u;
	struct run_cached **at;

	for (const char *p = id; *p; p++)
		h = (h ^ (uint8_t)*p) * 16777619u;
	at = &c->heads[(h ^ h >> 16) % CACHE_HEADS];
	while (*at && strcmp((*at)->s.id.id, id) != 0)
		at = &(*at)->next;
	return at;
}

static void drop(struct run_cache *c, struct run_cached **at)
{
	struct run_cached *gone = *at;

	*at = gone->next;
	cached_free(gone);
	c->count--;
}

/* One that this batch has not used: its rows are in its journal. */
static void make_room(struct run_cache *c, uint64_t batch)
{
	struct run_cached **oldest = NULL;

	if (c->count < RUN_CACHED_MAX)
		return;
	for (unsigned i = 0; i < CACHE_HEADS; i++)
		for (struct run_cached **at = &c->heads[i]; *at; at = &(*at)->next)
			if ((*at)->batch != batch && (!oldest || (*at)->batch < (*oldest)->batch))
				oldest = at;
	if (oldest)
		drop(c, oldest);
}

static struct run_cached *add(struct rails_batch *b, const char *id)
{
	struct run_cache *c = *rails_runs(rails_of_batch(b));
	struct run_cached *new = calloc(1, sizeof(*new)), **at;

	if (!new)
		return NULL;
	make_room(c, rails_batch_number(b));
	at = place_of(c, id);
	run_state_init(&new->s, id);
	new->epoch = rails_epoch_of(b);
	new->batch = rails_batch_number(b);
	*at = new;
	c->count++;
	return new;
}

/* ---- reading journals ---- */

int run_read_error(const char *id, int r, struct err *e)
{
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no run '%.40s'", id);
	if (r == -EPROTONOSUPPORT)
		return err_set(e, ERR_UNSUPPORTED, EPROTONOSUPPORT,
			       "run '%s' was written by a newer Cove", id);
	if (r == -EBADMSG)
		return err_set(e, ERR_DAMAGED, EBADMSG, "the journal of run '%s' is damaged", id);
	return err_errno(e, -r, "read run '%s'", id);
}

int run_read_bytes(int fd, uint64_t offset, run_on_bytes *on_bytes, void *arg)
{
	autofree uint8_t *block = malloc(READ_BLOCK);
	size_t have = 0;

	if (!block)
		return -ENOMEM;
	for (;;) {
		ssize_t n = pread(fd, block + have, READ_BLOCK - have, (off_t)(offset + have));
		int64_t used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return have ? -EBADMSG : 0;
		have += (size_t)n;
		used = on_bytes(arg, block, have);
		if (used < 0)
			return (int)used;
		if (used == 0 && have == READ_BLOCK)
			return -EBADMSG;
		have -= (size_t)used;
		offset += (uint64_t)used;
		memmove(block, block + used, have);
	}
}

static int64_t on_fold(void *arg, const uint8_t *p, size_t n)
{
	return run_fold_bytes(arg, p, n);
}

/* The rows that a state does not have yet. */
static int extend(const struct rails *l, struct run_state *s, ino_t *inode)
{
	autoclose int fd = -1;
	struct stat st;
	int r = rails_journal_open(l, &s->id, &fd);

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	/* It is another one, or shorter: what is known of it is of no use. */
	if ((s->bytes && *inode && st.st_ino != *inode) || (uint64_t)st.st_size < s->bytes)
		return -ESTALE;
	*inode = st.st_ino;
	r = run_read_bytes(fd, s->bytes, on_fold, s);
	return r == 0 && s->rows == 0 ? -ENOENT : r;
}

static int load(const struct rails *l, const char *id, struct run_state *ret, ino_t *inode)
{
	int r;

	run_state_init(ret, id);
	*inode = 0;
	r = extend(l, ret, inode);
	if (r < 0)
		run_state_done(ret);
	return r;
}

/* ---- in a turn ---- */

int run_check_id(const char *id, struct err *e)
{
	if (rails_is_id(id) && id[0] != RUN_ID_OF_VALUES)
		return 0;
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no run '%.40s'", id ? id : "");
}

int run_check_any_id(const char *id, struct err *e)
{
	return rails_is_id(id) ? 0 : run_check_id(id, e);
}

static int cache_of(struct rails *l, struct run_cache **ret, struct err *e)
{
	struct run_cache **c = rails_runs(l);

	if (!*c)
		*c = run_cache_new();
	*ret = *c;
	return *c ? 0 : err_errno(e, ENOMEM, "look at a run");
}

int run_in_turn(struct rails_batch *b, const char *id, struct run_state **ret, struct err *e)
{
	struct rails_epoch now = rails_epoch_of(b);
	struct rails *l = rails_of_batch(b);
	struct run_cache *cache = NULL;
	struct run_cached **at, *c;
	int r = run_check_any_id(id, e);

	if (r == 0)
		r = cache_of(l, &cache, e);
	if (r < 0)
		return r;
	at = place_of(cache, id);
	/* Rows that were folded into it may not have come about. */
	if (*at && (*at)->epoch.lost != now.lost)
		drop(cache, at);
	c = *at;
	if (c && c->epoch.more != now.more) {
		r = extend(l, &c->s, &c->inode);
		if (r < 0)
			drop(cache, at);
		if (r < 0 && r != -ESTALE)
			return run_read_error(id, r, e);
		c = r < 0 ? NULL : c;
	}
	if (!c) {
		struct run_state s;
		ino_t inode;

		r = load(l, id, &s, &inode);
		if (r < 0)
			return run_read_error(id, r, e);
		c = add(b, id);
		if (!c) {
			run_state_done(&s);
			return err_errno(e, ENOMEM, "look at run '%s'", id);
		}
		c->s = s;
		c->inode = inode;
	}
	c->epoch = now;
	c->batch = rails_batch_number(b);
	*ret = &c->s;
	return 0;
}

int run_in_turn_new(struct rails_batch *b, const char *id, struct run_state **ret, struct err *e)
{
	struct run_cache *cache;
	struct run_cached **at, *c;
	int r = cache_of(rails_of_batch(b), &cache, e);

	if (r < 0)
		return r;
	at = place_of(cache, id);
	if (*at)
		drop(cache, at);
	c = add(b, id);
	if (!c)
		return err_errno(e, ENOMEM, "make a run");
	*ret = &c->s;
	return 0;
}

void run_forget(struct rails_batch *b, const char *id)
{
	struct run_cache *cache = *rails_runs(rails_of_batch(b));
	struct run_cached **at = cache ? place_of(cache, id) : NULL;

	if (at && *at)
		drop(cache, at);
}

int run_of_owner(struct rails_batch *b, const char *id, uint64_t fence, bool over_too,
		 struct run_state **ret, struct err *e)
{
	int r = run_in_turn(b, id, ret, e);
	const struct run_state *s = *ret;

	if (r < 0)
		return r;
	if (fence == 0 || fence != s->fence)
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "run '%s' has another owner: '%s' has it since fence %llu", id,
			       s->holder, (unsigned long long)s->fence);
	if (s->said != RUN_RUNNING && !over_too)
		return err_set(e, ERR_CONFLICT, EALREADY, "run '%s' is over: %s", id,
			       run_status_name(s->said));
	return 0;
}

size_t run_put_room(const struct run_row *row)
{
	/* The number and the time are not known yet, and neither is the fence of a lease. */
	return run_row_room(row) + RAILS_ROW_COST + 32;
}

int run_put(struct rails_batch *b, struct run_state *s, struct run_row *row, struct err *e)
{
	struct run_cache *cache = *rails_runs(rails_of_batch(b));
	struct run_place place = {.offset = s->bytes};
	int n, r;

	row->number = s->rows + 1;
	row->time_ms = rails_now_ms(rails_of_batch(b));
	n = run_row_encode(row, cache->row, sizeof(cache->row));
	if (n < 0)
		return err_set(e, ERR_LIMIT, E2BIG, "a row of run '%s' is larger than %u bytes",
			       s->id.id, RUN_ROW_MAX);
	if (s->bytes + (uint64_t)n > LEDGER_JOURNAL_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "run '%s' has more than %u bytes of rows",
			       s->id.id, LEDGER_JOURNAL_MAX);
	place.bytes = (uint32_t)n;
	r = run_fold(s, row, &place);
	if (r == -E2BIG)
		return err_set(e, ERR_LIMIT, E2BIG, "run '%s' has as many steps as it may have",
			       s->id.id);
	if (r == -EBADMSG)
		return err_set(e, ERR_CONFLICT, EINVAL,
			       "run '%s' is %s: this cannot happen to it now", s->id.id,
			       run_status_name(s->said));
	if (r < 0)
		return err_errno(e, -r, "write run '%s'", s->id.id);
	rails_add(b, &s->id, place.offset, cache->row, (size_t)n);
	return 0;
}

/* ---- looking ---- */

struct run_look {
	const char *id;
	struct run_state *ret;
};

static int turn_look(void *arg, struct rails_batch *b, struct err *e)
{
	struct run_look *look = arg;
	ino_t inode;
	int r = load(rails_of_batch(b), look->id, look->ret, &inode);

	return r < 0 ? run_read_error(look->id, r, e) : 0;
}

int run_load(struct rails *l, const char *id, struct run_state *ret, struct err *e)
{
	int r = run_check_id(id, e);

	return r < 0 ? r : run_load_any(l, id, ret, e);
}

int run_load_any(struct rails *l, const char *id, struct run_state *ret, struct err *e)
{
	struct run_look look = {id, ret};
	ino_t inode;
	int r = load(l, id, ret, &inode);

	/* Its last row may be on its way: then wait for who writes it. */
	if (r == -EBADMSG)
		return rails_commit(l, 0, turn_look, &look, e);
	return r < 0 ? run_read_error(id, r, e) : 0;
}

struct run_reading {
	uint64_t after;
	run_on_row *on_row;
	void *arg;
	bool is_over;
};

static int64_t on_rows(void *arg, const uint8_t *p, size_t n)
{
	struct run_reading *rows = arg;
	size_t at = 0;

	while (at < n) {
		struct run_row row;
		int bytes = rows->is_over ? (int)(n - at) : run_row_decode(&row, p + at, n - at);

		if (bytes <= 0)
			return bytes < 0 ? bytes : (int64_t)at;
		if (!rows->is_over && row.number > rows->after)
			rows->is_over = !rows->on_row(rows->arg, &row);
		at += (size_t)bytes;
	}
	return (int64_t)at;
}

int run_rows(struct rails *l, const char *id, uint64_t after, run_on_row *on_row, void *arg,
	     struct err *e)
{
	struct rails_name name = {.space = RAILS_RUNS};
	struct run_reading rows = {after, on_row, arg, false};
	struct run_state s;
	autoclose int fd = -1;
	int r = run_check_id(id, e);

	if (r < 0)
		return r;
	str_copy(name.id, sizeof(name.id), id);
	r = rails_journal_open(l, &name, &fd);
	if (r == 0)
		r = run_read_bytes(fd, 0, on_rows, &rows);
	if (r != -EBADMSG)
		return r < 0 ? run_read_error(id, r, e) : 0;
	/* Where it is not damaged, its last row was being written: it comes with the next call. */
	r = run_load(l, id, &s, e);
	if (r == 0)
		run_state_done(&s);
	return r;
}

int run_row_read(const struct rails *l, const struct rails_name *name,
		 const struct run_place *place, struct run_row *ret, uint8_t **ret_text,
		 struct err *e)
{
	autofree uint8_t *text = malloc(place->bytes ? place->bytes : 1);
	autoclose int fd = -1;
	int r = text ? rails_journal_open(l, name, &fd) : -ENOMEM;

	if (r == 0 && pread(fd, text, place->bytes, (off_t)place->offset) != (ssize_t)place->bytes)
		r = -EBADMSG;
	if (r == 0)
		r = run_row_decode(ret, text, place->bytes) == (int)place->bytes ? 0 : -EBADMSG;
	if (r < 0)
		return run_read_error(name->id, r, e);
	*ret_text = take_ptr(text);
	return 0;
}
