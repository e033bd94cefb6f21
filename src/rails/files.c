/* Logs and the mark on disk: found, replayed, begun, let go; see ledger.h and ledger_parts.h. */
#include "base/crc.h"
#include "base/rand.h"
#include "base/str.h"
#include "rails/ledger_parts.h"
#include "store/record_run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LOCK_NAME "lock"
#define NEXT_NAME "log-next"
#define LOG_NAME  "log-"
#define NEW_NAME  ".log-new"

#define MARK_MAGIC 0x6b72616d6c696172u /* "railmark" */

enum { LOG_FILE_NAME = 32, LOGS_SEEN = 8, ZEROS = 1 << 16 };

/* Who has few runs has small logs; who has many does not change them often. */
static uint32_t log_bytes(const struct rails *l, uint64_t number)
{
	if (l->options.log_bytes)
		return l->options.log_bytes;
	return number > 5 ? LEDGER_LOG_MAX : LEDGER_LOG_MIN << (number - 1);
}

static void log_name(uint64_t number, char ret[LOG_FILE_NAME])
{
	snprintf(ret, LOG_FILE_NAME, LOG_NAME "%" PRIu64, number);
}

/* ---- the mark ---- */

static uint32_t mark_crc(const struct rails_mark *m)
{
	struct rails_mark copy = *m;

	copy.crc = 0;
	return crc32c(&copy, sizeof(copy));
}

int rails_mark_write(struct rails *l)
{
	struct rails_mark m = {.magic = MARK_MAGIC,
			       .token = l->token,
			       .log = l->head.number,
			       .older = l->older,
			       .next = l->next,
			       .at = l->at,
			       .inode = l->lock_inode};

	str_copy(m.boot, sizeof(m.boot), l->boot);
	m.crc = mark_crc(&m);
	return rails_pwrite(l->lock_fd, &m, sizeof(m), 0);
}

void rails_mark_spoil(struct rails *l)
{
	struct rails_mark none = {0};

	if (l->lock_fd >= 0 && rails_pwrite(l->lock_fd, &none, sizeof(none), 0) < 0)
		(void)!ftruncate(l->lock_fd, 0);
}

static bool mark_read(const struct rails *l, struct rails_mark *ret)
{
	return pread(l->lock_fd, ret, sizeof(*ret), 0) == (ssize_t)sizeof(*ret) &&
	       ret->magic == MARK_MAGIC && ret->crc == mark_crc(ret) &&
	       ret->inode == l->lock_inode && strcmp(ret->boot, l->boot) == 0;
}

/* ---- making ---- */

static int lock_open(struct rails *l)
{
	struct stat st;

	l->lock_fd = openat(l->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->lock_fd < 0 || fstat(l->lock_fd, &st) < 0)
		return -errno;
	l->lock_inode = st.st_ino;
	return 0;
}

int rails_files_make(struct rails *l, struct err *e)
{
	int r = state_make(l->st, e);

	if (r < 0)
		return r;
	fd_close(&l->dir_fd);
	fd_close(&l->lock_fd);
	r = l->dir_fd = fd_open_below(l->st->home_fd, RAILS_DIR, true);
	if (r >= 0)
		r = rails_journals_begin(&l->journals, l->dir_fd);
	if (r >= 0)
		r = lock_open(l);
	if (r >= 0 && (fsync(l->dir_fd) < 0 || fsync(l->st->home_fd) < 0))
		r = -errno;
	if (r < 0) {
		fd_close(&l->lock_fd);
		return state_error(l->st, -r, "make the ledger of runs in", e);
	}
	record_boot_id(l->boot);
	return 0;
}

/* A file as long as a log, all zeros, under the name that the next log is made of. */
static int next_make(struct rails *l, uint32_t bytes)
{
	autoclose int fd =
		openat(l->dir_fd, NEW_NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	autofree uint8_t *zeros = calloc(1, ZEROS);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (!zeros)
		return -ENOMEM;
	for (uint32_t at = 0; r == 0 && at < bytes; at += ZEROS)
		r = rails_pwrite(fd, zeros, bytes - at < ZEROS ? bytes - at : ZEROS, at);
	if (r == 0 && (fsync(fd) < 0 || renameat(l->dir_fd, NEW_NAME, l->dir_fd, NEXT_NAME) < 0))
		r = -errno;
	if (r < 0)
		unlinkat(l->dir_fd, NEW_NAME, 0);
	return r;
}

/* What a log became `next` of must not have its old name any more when its head is written. */
static int log_begin(struct rails *l, uint64_t number, uint64_t first)
{
	struct rails_log_head head = {.number = number, .first = first};
	uint32_t bytes = log_bytes(l, number);
	uint8_t raw[LOG_ALIGN];
	char name[LOG_FILE_NAME];
	autoclose int fd = -1;
	struct stat st;
	int r;

	fd = openat(l->dir_fd, NEXT_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && (fstat(fd, &st) < 0 || (uint64_t)st.st_size != bytes))
		fd_close(&fd);
	if (fd < 0) {
		r = next_make(l, bytes);
		if (r < 0)
			return r;
		fd = openat(l->dir_fd, NEXT_NAME, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	}
	if (fd < 0 || fsync(l->dir_fd) < 0)
		return -errno;
	rand_bytes(head.salt, sizeof(head.salt));
	rails_log_head_encode(&head, raw);
	r = rails_pwrite(fd, raw, sizeof(raw), 0);
	if (r < 0)
		return r;
	log_name(number, name);
	if (fdatasync(fd) < 0 || renameat(l->dir_fd, NEXT_NAME, l->dir_fd, name) < 0 ||
	    fsync(l->dir_fd) < 0)
		return -errno;
	fd_close(&l->log_fd);
	l->log_fd = take_fd(fd);
	l->log_bytes = bytes;
	l->head = head;
	l->at = LOG_ALIGN;
	l->next = first;
	return 0;
}

/* ---- reading a log ---- */

struct log_text {
	int fd;	    /* owned, -1 */
	uint8_t *p; /* owned: all of it */
	size_t len;
	struct rails_log_head head;
};

static void text_done(struct log_text *t)
{
	fd_close(&t->fd);
	free(t->p);
	t->p = NULL;
}

/* -ENOENT also where the file was made another's log, of which this name was left by a crash. */
static int text_read(const struct rails *l, uint64_t number, struct log_text *ret)
{
	struct log_text t = {.fd = -1};
	char name[LOG_FILE_NAME];
	char *text = NULL;
	int r;

	log_name(number, name);
	t.fd = openat(l->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	r = t.fd < 0 ? -errno : fd_read_regular(t.fd, LEDGER_LOG_MAX, &text, &t.len);
	t.p = (uint8_t *)text;
	if (r >= 0)
		r = rails_log_head_decode(&t.head, t.p, t.len);
	if (r == 0 && t.head.number != number)
		r = -ENOENT;
	if (r < 0) {
		text_done(&t);
		return r == -EFBIG ? -EBADMSG : r;
	}
	*ret = t;
	return 0;
}

static int log_error(const struct rails *l, int r, uint64_t number, struct err *e)
{
	if (r == -EBADMSG)
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the log %" PRIu64 " of runs in '%.100s' is damaged: nothing is "
			       "appended; restore it from a backup",
			       number, l->st->home);
	if (r == -EPROTONOSUPPORT)
		return err_set(e, ERR_UNSUPPORTED, EPROTONOSUPPORT,
			       "the runs in '%.100s' were written by a newer Cove", l->st->home);
	return state_error(l->st, -r, "read the log of runs in", e);
}

/* ---- replay ---- */

int rails_batch_apply(struct rails *l, struct rails_log_rows rows, bool is_replay)
{
	struct rails_log_row row;
	int r = 0;

	while (r == 0 && rails_log_next(&rows, &row) > 0) {
		if (row.is_removal)
			r = rails_journal_remove(&l->journals, &row.name);
		else
			r = rails_journal_write(&l->journals, &row.name, row.offset, row.p,
						row.len);
		/* It was removed, by this log or by hand. */
		if (is_replay && r == -ENOENT)
			r = 0;
	}
	return r;
}

static int on_batch_apply(void *arg, struct rails_log_rows rows)
{
	return rails_batch_apply(arg, rows, true);
}

/*
 * The batches at p, which are at `at` in the file and of which the first has the number `next`,
 * into the journals. They are durable before: the last may have been written by one who was killed
 * before its fsync, or whose fsync failed, after which the kernel takes what it has for written.
 */
static int replay_bytes(struct rails *l, int fd, const struct rails_log_head *head,
			const uint8_t *p, size_t n, uint64_t at, uint64_t next,
			struct rails_log_end *ret)
{
	int r = rails_log_scan(p, n, head, next, NULL, NULL, ret);

	if (r < 0 || ret->bytes == 0)
		return r;
	r = rails_pwrite(fd, p + ret->last, ret->bytes - ret->last, at + ret->last);
	if (r == 0 && fdatasync(fd) < 0)
		r = -errno;
	return r < 0 ? r : rails_log_scan(p, n, head, next, on_batch_apply, l, ret);
}

static int text_replay(struct rails *l, const struct log_text *t, struct rails_log_end *ret)
{
	return replay_bytes(l, t->fd, &t->head, t->p + LOG_ALIGN, t->len - LOG_ALIGN, LOG_ALIGN,
			    t->head.first, ret);
}

static void go_to(struct rails *l, struct log_text *t, uint32_t at, uint64_t next)
{
	fd_close(&l->log_fd);
	l->log_fd = take_fd(t->fd);
	l->log_bytes = (uint32_t)t->len;
	l->head = t->head;
	l->at = at;
	l->next = next;
}

/* Numbers of logs, in order. */
static int logs_find(const struct rails *l, uint64_t ret[LOGS_SEEN], size_t *ret_count)
{
	char **names;
	size_t count, n = 0;
	int r = state_all_names(l->dir_fd, &names, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && n < LOGS_SEEN; i++) {
		uint64_t number;

		if (!str_starts(names[i], LOG_NAME) ||
		    !str_parse_u64(names[i] + strlen(LOG_NAME), INT64_MAX, &number))
			continue;
		size_t k = n++;
		for (; k > 0 && ret[k - 1] > number; k--)
			ret[k] = ret[k - 1];
		ret[k] = number;
	}
	state_names_free(names, count);
	*ret_count = n;
	return 0;
}

static void log_unlink(const struct rails *l, uint64_t number)
{
	char name[LOG_FILE_NAME];

	log_name(number, name);
	unlinkat(l->dir_fd, name, 0);
}

/* All logs, whoever wrote them. */
static int replay_all(struct rails *l, struct err *e)
{
	uint64_t numbers[LOGS_SEEN], last = 0;
	struct rails_log_end end = {0};
	size_t count;
	int r = logs_find(l, numbers, &count);

	if (r < 0)
		return log_error(l, r, 0, e);
	l->older = 0;
	l->is_older_mine = false;
	fd_close(&l->log_fd);
	for (size_t i = 0; i < count; i++) {
		struct log_text t;

		r = text_read(l, numbers[i], &t);
		if (r == -ENOENT) {
			log_unlink(l, numbers[i]);
			continue;
		}
		/* What one ends with the next goes on from. */
		if (r == 0 && last && (t.head.number != last + 1 || t.head.first != end.next)) {
			text_done(&t);
			r = -EBADMSG;
		}
		if (r == 0) {
			r = text_replay(l, &t, &end);
			l->older = last;
			last = numbers[i];
			if (r == 0)
				go_to(l, &t, LOG_ALIGN + end.bytes, end.next);
			text_done(&t);
		}
		if (r < 0)
			return log_error(l, r, numbers[i], e);
	}
	rails_journals_sweep(&l->journals);
	if (last)
		return 0;
	r = log_begin(l, 1, 1);
	return r < 0 ? state_error(l->st, -r, "begin the log of runs in", e) : 0;
}

/* The log of the mark is open from here on. -EAGAIN: there is none. */
static int log_reopen(struct rails *l, uint64_t number)
{
	struct rails_log_head head;
	uint8_t raw[LOG_ALIGN];
	char name[LOG_FILE_NAME];
	autoclose int fd = -1;
	struct stat st;

	if (l->log_fd >= 0 && l->head.number == number)
		return 0;
	log_name(number, name);
	fd = openat(l->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    pread(fd, raw, sizeof(raw), 0) != (ssize_t)sizeof(raw) ||
	    rails_log_head_decode(&head, raw, sizeof(raw)) < 0 || head.number != number ||
	    st.st_size > LEDGER_LOG_MAX)
		return -EAGAIN;
	fd_close(&l->log_fd);
	l->log_fd = take_fd(fd);
	l->log_bytes = (uint32_t)st.st_size;
	l->head = head;
	return 0;
}

/* What a killed writer may have left behind the mark: one batch, of which the journals have a part
 * or nothing. The usual case is that there is none, and costs one read of a head. */
static int replay_rest(struct rails *l)
{
	size_t max = l->log_bytes - l->at, n = max < LEDGER_BATCH_MAX ? max : LEDGER_BATCH_MAX;
	uint8_t head[LOG_BATCH_HEAD];
	autofree uint8_t *p = NULL;
	struct rails_log_end end;
	ssize_t got = pread(l->log_fd, head, sizeof(head), l->at);
	int r;

	if (got < 0)
		return -errno;
	if (!rails_log_may_begin(head, (size_t)got, &l->head, l->next))
		return 0;
	p = malloc(n);
	if (!p)
		return -ENOMEM;
	got = pread(l->log_fd, p, n, l->at);
	if (got < 0)
		return -errno;
	r = replay_bytes(l, l->log_fd, &l->head, p, (size_t)got, l->at, l->next, &end);
	if (r == 0) {
		l->at += end.bytes;
		l->next = end.next;
	}
	return r;
}

/* From the mark on. -EAGAIN: it does not fit what is there. */
static int replay_from(struct rails *l, const struct rails_mark *m, struct err *e)
{
	char name[LOG_FILE_NAME];
	int r;

	log_name(m->log + 1, name);
	if (faccessat(l->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return -EAGAIN;
	r = log_reopen(l, m->log);
	if (r == 0 && (m->at < LOG_ALIGN || m->at > l->log_bytes))
		r = -EAGAIN;
	if (r < 0)
		return r;
	l->at = m->at;
	l->next = m->next;
	/* Whose fsync failed spoils the mark: so it is still true that none of mine did. */
	l->is_older_mine = l->is_older_mine && l->older == m->older;
	l->older = m->older;
	r = replay_rest(l);
	return r < 0 ? log_error(l, r, m->log, e) : 0;
}

int rails_files_catch_up(struct rails *l, struct err *e)
{
	struct rails_mark m;
	bool has = mark_read(l, &m);
	int r = -EAGAIN;

	if (has && m.token == l->token && l->log_fd >= 0)
		return 0;
	/* What was open may have been removed, and made anew. */
	rails_journals_forget(&l->journals);
	l->epoch.more++;
	r = has ? replay_from(l, &m, e) : -EAGAIN;
	if (r == -EAGAIN)
		r = replay_all(l, e);
	if (r < 0) {
		fd_close(&l->log_fd);
		return r;
	}
	r = rails_mark_write(l);
	return r < 0 ? state_error(l->st, -r, "write the lock of runs in", e) : 0;
}

/* ---- one log after the other ---- */

static int replay_again(struct rails *l, uint64_t number)
{
	struct rails_log_end end;
	struct log_text t;
	int r = text_read(l, number, &t);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = text_replay(l, &t, &end);
	text_done(&t);
	return r;
}

/* What the older log has is in the journals for good. */
static int older_finish(struct rails *l, struct err *e)
{
	int r = 0;

	/* Of another's journals it is not known whether an fsync of them failed. */
	if (!l->is_older_mine)
		r = replay_again(l, l->older);
	if (r == 0 && !l->is_older_mine)
		r = replay_again(l, l->head.number);
	if (r == 0)
		r = rails_log_sync(l, l->older);
	if (r < 0)
		return log_error(l, r, l->older, e);
	rails_log_retire(l);
	return 0;
}

int rails_log_switch(struct rails *l, struct err *e)
{
	uint64_t before = l->head.number;
	int r = l->older ? older_finish(l, e) : 0;

	if (r < 0)
		return r;
	r = log_begin(l, before + 1, l->next);
	if (r == 0) {
		l->older = before;
		l->is_older_mine = true;
		r = rails_mark_write(l);
	}
	return r < 0 ? state_error(l->st, -r, "begin the next log of runs in", e) : 0;
}

void rails_log_retire(struct rails *l)
{
	char name[LOG_FILE_NAME];

	log_name(l->older, name);
	if (faccessat(l->dir_fd, NEXT_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    renameat(l->dir_fd, name, l->dir_fd, NEXT_NAME) < 0)
		unlinkat(l->dir_fd, name, 0);
	l->older = 0;
}

/* ---- fsync of the journals of one log ---- */

struct journal_named {
	struct rails_name name;
	bool is_new, is_removal;
};

struct journal_names {
	struct journal_named *all; /* owned */
	size_t count, cap;
};

static int on_batch_names(void *arg, struct rails_log_rows rows)
{
	struct journal_names *list = arg;
	struct rails_log_row row;

	while (rails_log_next(&rows, &row) > 0) {
		if (list->count == list->cap) {
			size_t cap = list->cap ? 2 * list->cap : 256;
			struct journal_named *grown = realloc(list->all, cap * sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			list->all = grown;
			list->cap = cap;
		}
		list->all[list->count++] =
			(struct journal_named){row.name, row.offset == 0, row.is_removal};
	}
	return 0;
}

/* By name, a new one first. */
static int compare_named(const void *a, const void *b)
{
	const struct journal_named *x = a, *y = b;
	int c = x->name.space != y->name.space ? (int)x->name.space - (int)y->name.space
					       : memcmp(x->name.id, y->name.id, RAILS_ID);

	return c ? c : (int)y->is_new - (int)x->is_new;
}

static bool is_same(const struct journal_named *a, const struct journal_named *b)
{
	return a->name.space == b->name.space && memcmp(a->name.id, b->name.id, RAILS_ID) == 0;
}

static int sync_named(const struct rails_journals *j, struct journal_names *list)
{
	bool changed[RAILS_SPACES] = {false};
	int r = 0;

	qsort(list->all, list->count, sizeof(*list->all), compare_named);
	/* All of them begin to be written before the first is waited for. */
	for (size_t i = 0; i < list->count; i++)
		if (i == 0 || !is_same(&list->all[i], &list->all[i - 1]))
			rails_journal_flush(j, &list->all[i].name);
	for (size_t i = 0; r == 0 && i < list->count; i++) {
		const struct journal_named *n = &list->all[i];

		if (n->is_new || n->is_removal)
			changed[n->name.space] = true;
		if (i > 0 && is_same(n, n - 1))
			continue;
		r = rails_journal_sync(j, &n->name, n->is_new);
	}
	for (unsigned i = 0; r == 0 && i < RAILS_SPACES; i++)
		if (changed[i])
			r = rails_journals_sync_names(j, (enum rails_space)i);
	return r;
}

int rails_log_sync(const struct rails *l, uint64_t number)
{
	struct journal_names list = {0};
	struct rails_log_end end;
	struct log_text t;
	int r = text_read(l, number, &t);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = rails_log_scan(t.p + LOG_ALIGN, t.len - LOG_ALIGN, &t.head, t.head.first,
			   on_batch_names, &list, &end);
	text_done(&t);
	if (r == 0 && list.count > 0)
		r = sync_named(&l->journals, &list);
	free(list.all);
	return r;
}
