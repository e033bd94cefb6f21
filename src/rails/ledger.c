/*
 * The group commit; see ledger.h.
 *
 * Who finds no one leading leads: it takes those that wait, in their order, as far as their room
 * goes, gives each its turn, makes what they added durable, answers all, and passes the lead to the
 * first that has come meanwhile. The rows of a batch are in one buffer, as they are in the log.
 */
#include "rails/ledger_parts.h"

#include "base/clock.h"
#include "base/rand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

uint64_t rails_now_ms(const struct rails *l)
{
	return l->options.now_ms ? l->options.now_ms(l->options.arg) : clock_wall_ms();
}

struct state *rails_state(const struct rails *l)
{
	return l->st;
}

struct rails *rails_of_batch(const struct rails_batch *b)
{
	return b->l;
}

uint64_t rails_batch_number(const struct rails_batch *b)
{
	return b->l->next;
}

struct run_cache **rails_runs(struct rails *l)
{
	return &l->runs;
}

struct rails_epoch rails_epoch_of(const struct rails_batch *b)
{
	return b->l->epoch;
}

/* ---- the end of it ---- */

/* From here on nothing is appended by this process. */
static void stop(struct rails *l, const struct err *why)
{
	if (l->broken.kind != ERR_NONE)
		return;
	err_set(&l->broken, ERR_INTERNAL, 0,
		"no run is written any more until Cove is started again: %s", why->msg);
	rails_mark_spoil(l);
	l->epoch.lost++;
}

static bool is_room(int r)
{
	return r == -ENOSPC || r == -EDQUOT || r == -ENOMEM || r == -EMFILE || r == -ENFILE;
}

/* ---- one batch ---- */

static struct rails_log_rows rows_of(const struct rails *l, size_t len)
{
	return (struct rails_log_rows){buf_data(&l->batch) + LOG_BATCH_HEAD,
				       buf_data(&l->batch) + len};
}

/* Takes back the files that were made for rows that do not come. */
static void drop_new(struct rails *l, size_t len)
{
	struct rails_log_rows rows = rows_of(l, len);
	struct rails_log_row row;

	while (rails_log_next(&rows, &row) > 0)
		if (row.offset == 0 && !row.is_removal)
			rails_journal_drop(&l->journals, &row.name);
}

/* All that may lack room, before the log has the batch. */
static int reserve(struct rails *l, size_t len, struct err *e)
{
	struct rails_log_rows rows = rows_of(l, len);
	struct rails_log_row row;
	int r = 0;

	if (l->at + ((len + LOG_ALIGN - 1) & ~(size_t)(LOG_ALIGN - 1)) > l->log_bytes) {
		r = rails_log_switch(l, e);
		if (r < 0 && !is_room(r))
			stop(l, e);
		if (r < 0)
			return r;
	}
	while (r == 0 && rails_log_next(&rows, &row) > 0)
		if (!row.is_removal)
			r = rails_journal_reserve(&l->journals, &row.name, row.offset, row.len);
	return r < 0 ? state_error(l->st, -r, "make room for a run in", e) : 0;
}

/* The batch into the log. -ENOSPC and its like: the log is as it was. Another error: what the log
 * has now is not known. */
static int log_write(struct rails *l, uint32_t rows, struct err *e)
{
	static const uint8_t zeros[LOG_ALIGN];
	int r = rails_log_end(&l->batch, &l->head, l->next, rows);

	if (r == 0)
		r = rails_pwrite(l->log_fd, buf_data(&l->batch), buf_len(&l->batch), l->at);
	if (is_room(r) && rails_pwrite(l->log_fd, zeros, sizeof(zeros), l->at) < 0)
		r = -EIO;
	if (r == 0 && fdatasync(l->log_fd) < 0)
		r = errno == ENOSPC || errno == EDQUOT ? -EIO : -errno;
	return r < 0 ? state_error(l->st, -r, "write the log of runs in", e) : 0;
}

static int batch_commit(struct rails *l, uint32_t rows, struct err *e)
{
	size_t len = buf_len(&l->batch);
	struct err why = {0};
	int r = reserve(l, len, &why), written = 0;

	if (r == 0)
		r = written = log_write(l, rows, &why);
	if (r < 0) {
		drop_new(l, len);
		l->epoch.lost++;
		*e = why;
	}
	if (written < 0 && !is_room(written)) {
		stop(l, &why);
		e->kind = ERR_INTERRUPTED;
	}
	if (r < 0)
		return r;
	l->at += (uint32_t)buf_len(&l->batch);
	l->next++;
	r = rails_batch_apply(l, rows_of(l, len), false);
	if (r == 0)
		r = rails_mark_write(l);
	if (r < 0) {
		/* It is durable, and found by whoever replays the log. */
		state_error(l->st, -r, "write a run in", &why);
		stop(l, &why);
		*e = why;
		e->kind = ERR_INTERRUPTED;
	}
	return r;
}

static int lock(struct rails *l, struct err *e)
{
	int r = 0;

	if (l->broken.kind != ERR_NONE) {
		*e = l->broken;
		return -EIO;
	}
	if (l->lock_fd < 0)
		r = rails_files_make(l, e);
	while (r == 0 && flock(l->lock_fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return state_error(l->st, errno, "lock the runs in", e);
	if (r < 0)
		return r;
	r = rails_files_catch_up(l, e);
	if (r < 0)
		flock(l->lock_fd, LOCK_UN);
	return r;
}

static void turn(struct rails *l, struct rails_waiter *w, uint32_t *rows)
{
	struct rails_batch b = {.l = l, .out = &l->batch, .rows = *rows, .left = w->room};

	w->r = w->on_turn(w->arg, &b, &w->e);
	ASSERT(w->r >= 0 || b.rows == *rows);
	*rows = b.rows;
}

/* All of the list, which only the leader has. */
static void commit_all(struct rails *l, struct rails_waiter *list)
{
	struct err e = {0};
	uint32_t rows = 0;
	int r = lock(l, &e);
	bool locked = r >= 0;

	if (r >= 0)
		r = l->short_of = rails_log_begin(&l->batch);
	for (struct rails_waiter *w = list; w && r >= 0; w = w->next)
		turn(l, w, &rows);
	if (r >= 0 && l->short_of < 0) {
		r = err_errno(&e, -l->short_of, "write the log of runs");
		l->epoch.lost++;
	}
	if (r >= 0 && rows > 0)
		r = batch_commit(l, rows, &e);
	if (locked)
		flock(l->lock_fd, LOCK_UN);
	for (struct rails_waiter *w = list; w && r < 0; w = w->next)
		if (w->r >= 0) {
			w->r = r;
			w->e = e;
		}
}

/* ---- those that wait ---- */

static void enqueue(struct rails *l, struct rails_waiter *w)
{
	if (l->last)
		l->last->next = w;
	else
		l->first = w;
	l->last = w;
}

/* Any log has room for one, at its beginning. */
static size_t batch_max(const struct rails *l)
{
	size_t bytes = l->options.log_bytes ? l->options.log_bytes : LEDGER_LOG_MIN;

	return bytes - LOG_ALIGN < LEDGER_BATCH_MAX ? bytes - LOG_ALIGN : LEDGER_BATCH_MAX;
}

/* The first of them, as many as one batch has room for. */
static struct rails_waiter *take_batch(struct rails *l)
{
	struct rails_waiter *list = l->first, *end = list;
	size_t room = LOG_BATCH_HEAD + LOG_ALIGN + list->room, max = batch_max(l);

	while (end->next && room + end->next->room <= max) {
		end = end->next;
		room += end->room;
	}
	l->first = end->next;
	if (!l->first)
		l->last = NULL;
	end->next = NULL;
	return list;
}

static void lead(struct rails *l)
{
	struct rails_waiter *list = take_batch(l), *w, *next;

	l->is_led = true;
	pthread_mutex_unlock(&l->mutex);
	commit_all(l, list);
	pthread_mutex_lock(&l->mutex);
	l->is_led = false;
	l->to_sync = l->is_older_mine ? l->older : 0;
	for (w = list; w; w = next) {
		next = w->next;
		w->is_done = true;
		pthread_cond_signal(&w->changed);
	}
	if (l->first)
		pthread_cond_signal(&l->first->changed);
}

struct retired {
	uint64_t number;
	int synced;
};

static int turn_retire(void *arg, struct rails_batch *b, struct err *e)
{
	const struct retired *t = arg;
	struct rails *l = b->l;

	/* Another was quicker. */
	if (l->older != t->number || !l->is_older_mine)
		return 0;
	if (t->synced < 0) {
		state_error(l->st, -t->synced, "sync the runs in", e);
		stop(l, e);
		return t->synced;
	}
	rails_log_retire(l);
	return rails_mark_write(l);
}

static int commit(struct rails *l, struct rails_waiter *w, struct err *e)
{
	pthread_cond_init(&w->changed, NULL);
	pthread_mutex_lock(&l->mutex);
	enqueue(l, w);
	while (!w->is_done) {
		if (l->is_led)
			pthread_cond_wait(&w->changed, &l->mutex);
		else
			lead(l);
	}
	pthread_mutex_unlock(&l->mutex);
	pthread_cond_destroy(&w->changed);
	if (w->r < 0 && e)
		*e = w->e;
	return w->r;
}

/* When a log is over, one of those that waited for its last batch makes the journals durable. */
static void sync_older(struct rails *l)
{
	struct retired t = {0};
	struct rails_waiter w = {.on_turn = turn_retire, .arg = &t};

	pthread_mutex_lock(&l->mutex);
	if (!l->is_syncing)
		t.number = l->to_sync;
	l->is_syncing |= t.number != 0;
	pthread_mutex_unlock(&l->mutex);
	if (!t.number)
		return;
	t.synced = rails_log_sync(l, t.number);
	commit(l, &w, NULL);
	pthread_mutex_lock(&l->mutex);
	l->is_syncing = false;
	pthread_mutex_unlock(&l->mutex);
}

int rails_commit(struct rails *l, size_t room, rails_on_turn *on_turn, void *arg, struct err *e)
{
	struct rails_waiter w = {.room = room, .on_turn = on_turn, .arg = arg};
	int r;

	if (room + LOG_BATCH_HEAD + LOG_ALIGN > batch_max(l))
		return err_set(e, ERR_LIMIT, E2BIG, "%zu bytes are too many for one step of a run",
			       room);
	r = commit(l, &w, e);
	sync_older(l);
	return r;
}

/* ---- in a turn ---- */

static void add(struct rails_batch *b, const struct rails_log_row *row)
{
	size_t cost = row->len + RAILS_ROW_COST;

	ASSERT(cost <= b->left);
	b->left -= cost;
	if (!b->l->short_of)
		b->l->short_of = rails_log_add(b->out, row);
	b->rows++;
}

void rails_add(struct rails_batch *b, const struct rails_name *name, uint64_t offset, const void *p,
	       size_t n)
{
	add(b,
	    &(struct rails_log_row){.name = *name, .offset = offset, .p = p, .len = (uint32_t)n});
}

void rails_add_removal(struct rails_batch *b, const struct rails_name *name)
{
	add(b, &(struct rails_log_row){.name = *name, .is_removal = true});
}

/* ---- opening ---- */

static int open_existing(struct rails *l, struct err *e)
{
	struct stat st;
	int r;

	if (l->st->home_fd < 0 ||
	    (fstatat(l->st->home_fd, RAILS_DIR, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT))
		return 0;
	r = lock(l, e);
	if (r == 0)
		flock(l->lock_fd, LOCK_UN);
	return r;
}

int rails_open(struct rails **ret, struct state *st, const struct rails_options *o, struct err *e)
{
	struct rails *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return err_errno(e, ENOMEM, "open the runs");
	l->st = st;
	if (o)
		l->options = *o;
	l->dir_fd = l->lock_fd = l->log_fd = -1;
	rails_journals_init(&l->journals);
	rand_bytes(&l->token, sizeof(l->token));
	pthread_mutex_init(&l->mutex, NULL);
	buf_init(&l->batch, LEDGER_BATCH_MAX);
	r = open_existing(l, e);
	if (r < 0) {
		rails_close(l);
		return r;
	}
	*ret = l;
	return 0;
}

void rails_close(struct rails *l)
{
	if (!l)
		return;
	ASSERT(!l->first && !l->is_led);
	run_cache_free(l->runs);
	rails_journals_done(&l->journals);
	fd_close(&l->log_fd);
	fd_close(&l->lock_fd);
	fd_close(&l->dir_fd);
	pthread_mutex_destroy(&l->mutex);
	buf_done(&l->batch);
	free(l);
}

/* ---- reading ---- */

int rails_journal_open(const struct rails *l, const struct rails_name *name, int *ret_fd)
{
	char path[sizeof(RAILS_DIR) + JOURNAL_PATH], tail[JOURNAL_PATH];
	int fd;

	if (l->st->home_fd < 0 || !rails_is_id(name->id))
		return -ENOENT;
	rails_journal_path(name, tail);
	snprintf(path, sizeof(path), RAILS_DIR "/%s", tail);
	fd = openat(l->st->home_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	*ret_fd = fd;
	return 0;
}

static int list_ids(DIR *dir, struct state_list *ids)
{
	struct dirent *d;
	int r = 0;

	while (r == 0 && (errno = 0, d = readdir(dir)))
		if (rails_is_id(d->d_name))
			r = state_list_add(ids, d->d_name, LEDGER_NAMES_MAX);
	return r == 0 ? -errno : r;
}

int rails_list(const struct rails *l, enum rails_space space, char ***ret_ids, size_t *ret_count,
	       struct err *e)
{
	struct state_list ids = {0};
	char path[64];
	DIR *dir;
	int fd, r;

	*ret_ids = NULL;
	*ret_count = 0;
	if (l->st->home_fd < 0)
		return 0;
	snprintf(path, sizeof(path), RAILS_DIR "/%s", rails_space_dir(space));
	fd = openat(l->st->home_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	dir = fd < 0 ? NULL : fdopendir(fd);
	r = dir ? list_ids(dir, &ids) : -errno;
	if (dir)
		closedir(dir);
	else
		fd_close(&fd);
	r = state_list_take(&ids, r, ret_ids, ret_count);
	return r < 0 ? state_error(l->st, -r, "list the runs in", e) : 0;
}
