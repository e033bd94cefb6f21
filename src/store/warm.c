/* The records of warm pools; see warm.h. */
#include "store/warm.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/sha.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define WARM_DIR    "warm"
#define FILLER_FILE "filler"
#define STATE_FILE  "state"

enum { RECORD_MAX = 4096, STATE_MAX = WARM_POOLS_MAX * 512 };

int warm_dir(struct state *st, bool make)
{
	return st->home_fd < 0 ? -ENOENT : fd_open_below(st->home_fd, WARM_DIR, make);
}

static void make_id(const char *owner, const char *image, char ret[WARM_ID_SIZE])
{
	char text[KEY_ID_SIZE + IMAGE_NAME_MAX + 4], hex[65];

	snprintf(text, sizeof(text), "%s\n%s", owner, image);
	sha256_hex(text, strlen(text), hex);
	snprintf(ret, WARM_ID_SIZE, "%.16s", hex);
}

static bool is_id(const char *name)
{
	return strlen(name) == WARM_ID_SIZE - 1 &&
	       strspn(name, "0123456789abcdef") == WARM_ID_SIZE - 1;
}

/* ---- records ---- */

static int take_line(struct warm_pool *p, const char *key, const char *value)
{
	if (strcmp(key, "owner") == 0)
		return str_copy(p->owner, sizeof(p->owner), value) ? 0 : -EBADMSG;
	if (strcmp(key, "image") == 0)
		return str_copy(p->image, sizeof(p->image), value) ? 0 : -EBADMSG;
	if (strcmp(key, "size") == 0)
		return str_parse_u64(value, WARM_SIZE_MAX, &p->size) ? 0 : -EBADMSG;
	if (strcmp(key, "disk_bytes") == 0)
		return str_parse_u64(value, INT64_MAX, &p->disk_bytes) ? 0 : -EBADMSG;
	if (strcmp(key, "created_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &p->created_ms) ? 0 : -EBADMSG;
	return -EBADMSG;
}

static int load(int dir, const char *id, struct warm_pool *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len = 0;
	int r = fd_read_file(dir, id, RECORD_MAX, &text, &len);

	*ret = (struct warm_pool){0};
	str_copy(ret->id, sizeof(ret->id), id);
	if (r < 0)
		return r;
	if (lines_check_sum(text, len) <= 0)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (take_line(ret, key, value) < 0)
			return -EBADMSG;
	return r == 0 && ret->image[0] && ret->size ? 0 : -EBADMSG;
}

static int store(int dir, const struct warm_pool *p)
{
	struct buf text;
	int r;

	buf_init(&text, RECORD_MAX);
	r = lines_begin_sum(&text);
	if (r == 0 && p->owner[0])
		r = lines_put(&text, "owner", p->owner);
	if (r == 0)
		r = lines_put(&text, "image", p->image);
	if (r == 0)
		r = lines_put_u64(&text, "size", p->size);
	if (r == 0 && p->disk_bytes)
		r = lines_put_u64(&text, "disk_bytes", p->disk_bytes);
	if (r == 0)
		r = lines_put_u64(&text, "created_ms", p->created_ms);
	if (r == 0) {
		lines_end_sum(&text);
		r = fd_write_file(dir, p->id, buf_data(&text), buf_len(&text), 0600, true);
	}
	buf_done(&text);
	return r;
}

/* What there is besides the pool that is written: in all, and of its owner. */
struct counted {
	size_t pools, own;
	uint64_t own_size;
};

static int count_pools(int dir, const struct warm_pool *but, struct counted *ret)
{
	char **names = NULL;
	size_t count = 0;
	int r = state_all_names(dir, &names, &count);

	*ret = (struct counted){0};
	for (size_t i = 0; i < count; i++) {
		struct warm_pool p;

		if (!is_id(names[i]) || strcmp(names[i], but->id) == 0)
			continue;
		ret->pools++;
		if (load(dir, names[i], &p) < 0 || strcmp(p.owner, but->owner) != 0)
			continue;
		ret->own++;
		ret->own_size += p.size;
	}
	state_names_free(names, count);
	return r;
}

/* One key leaves room for the others, and all of them for the operator. */
static int check_count(int dir, const struct warm_pool *p, struct state *st, struct err *e)
{
	struct counted c;
	int r = count_pools(dir, p, &c);

	if (r < 0)
		return state_error(st, -r, "count the pools of", e);
	if (c.pools >= WARM_POOLS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "there are %u pools, the most there can be",
			       WARM_POOLS_MAX);
	if (p->owner[0] && c.own >= WARM_KEY_POOLS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "a key has at most %u pools",
			       WARM_KEY_POOLS_MAX);
	if (p->owner[0] && c.own_size + p->size > WARM_KEY_SIZE_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "a key's pools hold at most %u boxes together",
			       WARM_KEY_SIZE_MAX);
	return 0;
}

int warm_pool_set(struct state *st, struct warm_pool *p, struct err *e)
{
	autoclose int dir = -1;
	int r = state_make(st, e);

	if (r < 0)
		return r;
	if (p->size == 0 || p->size > WARM_SIZE_MAX)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a pool holds 1 to %u boxes; `cove pool rm` ends one",
			       WARM_SIZE_MAX);
	make_id(p->owner, p->image, p->id);
	p->created_ms = clock_wall_ms();
	dir = warm_dir(st, true);
	/* One at a time counts and writes. */
	if (dir < 0 || flock(dir, LOCK_EX) < 0)
		return state_error(st, dir < 0 ? -dir : errno, "open the pools of", e);
	r = check_count(dir, p, st, e);
	if (r < 0)
		return r;
	r = store(dir, p);
	return r < 0 ? state_error(st, -r, "keep the pool in", e) : 0;
}

int warm_pool_remove(struct state *st, const char *owner, const char *image, struct err *e)
{
	autoclose int dir = warm_dir(st, false);
	char id[WARM_ID_SIZE];
	int r = dir;

	make_id(owner, image, id);
	if (dir >= 0)
		r = unlinkat(dir, id, 0) < 0 || fsync(dir) < 0 ? -errno : 0;
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no pool of the image '%.100s' (cove pool ls shows all)", image);
	return r < 0 ? state_error(st, -r, "remove the pool from", e) : 0;
}

/* ---- what its server has ---- */

static void read_state(int dir, struct warm_pool *pools, size_t count)
{
	autoclose int filler = openat(dir, FILLER_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	autofree char *text = NULL;
	struct warm_pool *at = NULL;
	const char *key, *value;
	struct lines lines;
	uint64_t created_ms;
	size_t len = 0;

	/* Locked: somebody fills them. */
	if (filler < 0 || flock(filler, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
		return;
	for (size_t i = 0; i < count; i++)
		pools[i].is_filled = true;
	if (fd_read_file(dir, STATE_FILE, STATE_MAX, &text, &len) < 0)
		return;
	lines_init(&lines, text, len);
	while (lines_next(&lines, &key, &value) > 0) {
		if (strcmp(key, "pool") == 0) {
			at = NULL;
			for (size_t i = 0; i < count; i++)
				if (strcmp(pools[i].id, value) == 0)
					at = &pools[i];
		} else if (at && strcmp(key, "created_ms") == 0) {
			/* Of a pool that was changed since nothing is known. */
			if (!str_parse_u64(value, UINT64_MAX, &created_ms) ||
			    created_ms != at->created_ms)
				at = NULL;
		} else if (at && strcmp(key, "ready") == 0) {
			(void)str_parse_u64(value, WARM_TOTAL_MAX, &at->ready);
		} else if (at && strcmp(key, "why") == 0) {
			str_copy(at->why, sizeof(at->why), value);
		}
	}
}

int warm_pool_list(struct state *st, struct warm_pool **ret, size_t *ret_count, struct err *e)
{
	autoclose int dir = warm_dir(st, false);
	struct warm_pool *list = NULL;
	char **names = NULL;
	size_t count = 0, n = 0;
	int r = dir == -ENOENT ? 0 : dir < 0 ? dir : state_all_names(dir, &names, &count);

	if (r == 0) {
		list = calloc(count + 1, sizeof(*list));
		r = list ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < count && r == 0 && n < WARM_POOLS_MAX; i++)
		if (is_id(names[i])) {
			r = load(dir, names[i], &list[n]);
			n += r == 0;
			r = r == -EBADMSG || r == -ENOENT || r == -EFBIG ? 0 : r;
		}
	state_names_free(names, count);
	if (r < 0) {
		free(list);
		return state_error(st, -r, "list the pools of", e);
	}
	if (n > 0)
		read_state(dir, list, n);
	*ret = list;
	*ret_count = n;
	return 0;
}

int warm_filler_lock(struct state *st, int *ret_fd)
{
	autoclose int dir = warm_dir(st, false), fd = -1;

	if (dir < 0)
		return dir;
	fd = openat(dir, FILLER_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

int warm_state_write(struct state *st, const struct warm_pool *pools, size_t count)
{
	autoclose int dir = warm_dir(st, false);
	struct buf text;
	int r = dir < 0 ? dir : 0;

	buf_init(&text, STATE_MAX);
	for (size_t i = 0; i < count && r == 0; i++) {
		r = lines_put(&text, "pool", pools[i].id);
		if (r == 0)
			r = lines_put_u64(&text, "created_ms", pools[i].created_ms);
		if (r == 0)
			r = lines_put_u64(&text, "ready", pools[i].ready);
		if (r == 0 && pools[i].why[0])
			r = lines_put(&text, "why", pools[i].why);
	}
	if (r == 0)
		r = fd_write_file(dir, STATE_FILE, buf_data(&text), buf_len(&text), 0600, false);
	buf_done(&text);
	return r;
}
