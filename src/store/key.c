/* API keys on disk, and the tokens that they are known by; see key.h. */
#include "store/key.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/rand.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define KEYS_DIR "keys"

enum { ID_TRIES = 8, SECRET_BYTES = 32 };

static const char *const prefixes[] = {"cove_", "e2b_"};

/* ---- tokens ---- */

static int digit_of(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* 2 * n lower-case digits. */
static bool from_hex(const char *hex, uint8_t *ret, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = digit_of(hex[2 * i]), low = high < 0 ? -1 : digit_of(hex[2 * i + 1]);

		if (low < 0)
			return false;
		ret[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

static void hash_secret(const uint8_t secret[SECRET_BYTES], uint8_t ret[SHA256_BYTES])
{
	struct sha sha;

	sha256_init(&sha);
	sha_add(&sha, secret, SECRET_BYTES);
	sha_end(&sha, ret);
	explicit_bzero(&sha, sizeof(sha));
}

/* Whatever differs first, this takes as long. */
static bool is_same_hash(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
	volatile uint8_t differs = 0;

	for (size_t i = 0; i < SHA256_BYTES; i++)
		differs = (uint8_t)(differs | (a[i] ^ b[i]));
	return differs == 0;
}

/* The id, and the hash of the secret. */
static bool token_parse(const char *token, size_t len, char ret_id[KEY_ID_SIZE],
			uint8_t ret_hash[SHA256_BYTES])
{
	uint8_t secret[SECRET_BYTES];
	bool ok = false;

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]) && !ok; i++) {
		size_t n = strlen(prefixes[i]);

		ok = len == n + KEY_HEX && memcmp(token, prefixes[i], n) == 0;
		token += ok ? n : 0;
	}
	if (!ok)
		return false;
	memcpy(ret_id, token, KEY_ID_SIZE - 1);
	ret_id[KEY_ID_SIZE - 1] = 0;
	ok = str_is_key_id(ret_id) && from_hex(token + KEY_ID_SIZE - 1, secret, SECRET_BYTES);
	if (ok)
		hash_secret(secret, ret_hash);
	explicit_bzero(secret, sizeof(secret));
	return ok;
}

/* ---- the record ---- */

static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"created_ms", offsetof(struct key, created_ms)},
	{"revoked_ms", offsetof(struct key, revoked_ms)},
	{"boxes", offsetof(struct key, quotas[KEY_QUOTA_BOXES])},
	{"mem_bytes", offsetof(struct key, quotas[KEY_QUOTA_MEM])},
	{"cpu_milli", offsetof(struct key, quotas[KEY_QUOTA_CPUS])},
	{"disk_bytes", offsetof(struct key, quotas[KEY_QUOTA_DISK])},
	{"snapshots", offsetof(struct key, quotas[KEY_QUOTA_SNAPSHOTS])},
	{"images", offsetof(struct key, quotas[KEY_QUOTA_IMAGES])},
};

enum { NUMBER_COUNT = sizeof(numbers) / sizeof(numbers[0]) };

static uint64_t *number_at(const struct key *k, size_t i)
{
	return (uint64_t *)((uintptr_t)k + numbers[i].offset);
}

int key_format(const struct key *k, struct buf *out)
{
	char hash[SHA256_HEX_SIZE];
	int r = lines_put(out, "name", k->name);

	str_hex(k->hash, sizeof(k->hash), hash);
	if (r == 0)
		r = lines_put(out, "hash", hash);
	for (size_t i = 0; i < NUMBER_COUNT && r == 0; i++)
		if (*number_at(k, i))
			r = lines_put_u64(out, numbers[i].key, *number_at(k, i));
	for (size_t i = 0; key_scope_name(i) && r == 0; i++)
		if (k->scopes & 1u << i)
			r = lines_put(out, "scope", key_scope_name(i));
	for (size_t i = 0; i < k->mount_count && r == 0; i++)
		r = lines_put(out, "mount", k->mounts[i]);
	return r;
}

/* Of words only one that is known, and each once. */
static bool take_scope(struct key *k, const char *word)
{
	for (size_t i = 0; key_scope_name(i); i++)
		if (strcmp(word, key_scope_name(i)) == 0) {
			bool is_new = !(k->scopes & 1u << i);

			k->scopes |= 1u << i;
			return is_new;
		}
	return false;
}

static bool take_line(struct key *k, const char *key, const char *value, bool *has_hash)
{
	if (strcmp(key, "name") == 0)
		return !k->name[0] && str_is_plain_name(value, BOX_NAME_MAX) &&
		       str_copy(k->name, sizeof(k->name), value);
	if (strcmp(key, "hash") == 0) {
		bool ok = !*has_hash && strlen(value) == 2 * SHA256_BYTES &&
			  from_hex(value, k->hash, SHA256_BYTES);

		*has_hash = true;
		return ok;
	}
	if (strcmp(key, "scope") == 0)
		return take_scope(k, value);
	if (strcmp(key, "mount") == 0)
		return key_take_mount(k, value, NULL) == 0;
	for (size_t i = 0; i < NUMBER_COUNT; i++)
		if (strcmp(key, numbers[i].key) == 0)
			return *number_at(k, i) == 0 &&
			       str_parse_u64(value, UINT64_MAX - 1, number_at(k, i)) &&
			       *number_at(k, i) > 0;
	return false;
}

int key_parse(struct key *ret, char *text, size_t len)
{
	const char *key, *value;
	bool has_hash = false;
	struct lines lines;
	int r;

	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (!take_line(ret, key, value, &has_hash))
			return -EBADMSG;
	return r == 0 && ret->name[0] && has_hash && ret->scopes ? 0 : -EBADMSG;
}

void key_done(struct key *k)
{
	free(k->text);
	*k = (struct key){0};
}

/* ---- the directory ---- */

/* -ENOENT where there was never a key. */
static int open_dir(const struct state *st)
{
	return st->home_fd < 0 ? -ENOENT : fd_open_below(st->home_fd, KEYS_DIR, false);
}

/* The same, made and locked: of those who make or revoke a key one at a time. */
static int lock_dir(struct state *st, bool make, struct err *e)
{
	int fd = -1, r = make ? state_make(st, e) : 0;

	if (r < 0)
		return r;
	fd = make ? fd_open_below(st->home_fd, KEYS_DIR, true) : open_dir(st);
	if (fd == -ENOENT)
		return fd;
	if (fd >= 0 && make && fsync(st->home_fd) < 0)
		r = -errno;
	while (fd >= 0 && r == 0 && flock(fd, LOCK_EX) < 0)
		r = errno == EINTR ? 0 : -errno;
	if (fd >= 0 && r == 0)
		return fd;
	r = fd < 0 ? fd : r;
	fd_close(&fd);
	return state_error(st, -r, "open the directory of keys in", e);
}

static int damaged(const char *id, struct err *e)
{
	return err_set(e, ERR_DAMAGED, EBADMSG,
		       "the file of the key %s is damaged: remove it (cove key rm %s) and make "
		       "another",
		       id, id);
}

/* id is one. */
static int load(int dir, const char *id, struct key *ret, struct err *e)
{
	size_t len = 0;
	int r = fd_read_plain(dir, id, KEY_RECORD_MAX, &ret->text, &len);

	str_copy(ret->id, sizeof(ret->id), id);
	if (r == -ENOENT)
		return r;
	if (r < 0 && r != -EFBIG && r != -ELOOP)
		return err_errno(e, -r, "read the key %s", id);
	if (r == 0 && lines_check_sum(ret->text, len) > 0)
		r = key_parse(ret, ret->text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	else
		r = -EBADMSG;
	return r < 0 ? damaged(id, e) : 0;
}

static int store(struct state *st, int dir, const struct key *k, struct err *e)
{
	struct buf text;
	int r;

	buf_init(&text, KEY_RECORD_MAX);
	r = lines_begin_sum(&text);
	if (r == 0)
		r = key_format(k, &text);
	if (r == 0) {
		lines_end_sum(&text);
		r = fd_write_file(dir, k->id, buf_data(&text), buf_len(&text), 0600, true);
	}
	buf_done(&text);
	return r < 0 ? state_error(st, -r, "store the key in", e) : 0;
}

static int missing(const char *what, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT, "no key '%.80s' (cove key ls shows all)", what);
}

/* ---- all of them ---- */

static int compare_age(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->id, y->id);
}

static int list_dir(int dir, struct key **ret, size_t *ret_count, struct err *e)
{
	struct key *list = NULL;
	char **names = NULL;
	size_t count = 0, n = 0;
	int r = dir < 0 ? 0 : state_all_names(dir, &names, &count);

	if (r == 0) {
		list = calloc(count + 1, sizeof(*list));
		r = list ? 0 : -ENOMEM;
	}
	if (r < 0)
		err_errno(e, -r, "list the keys");
	for (size_t i = 0; i < count && r == 0; i++) {
		struct err why = {0};

		if (!str_is_key_id(names[i]))
			continue;
		r = load(dir, names[i], &list[n], &why);
		if (r < 0) {
			key_done(&list[n]);
			str_copy(list[n].id, sizeof(list[n].id), names[i]);
			list[n].is_damaged = true;
		}
		if (r < 0 && r != -ENOENT && r != -EBADMSG && e)
			*e = why;
		n += r != -ENOENT;
		r = r == -ENOENT || r == -EBADMSG ? 0 : r;
	}
	state_names_free(names, count);
	if (r < 0) {
		key_list_free(list, n);
		return r;
	}
	if (n > 1)
		qsort(list, n, sizeof(*list), compare_age);
	*ret = list;
	*ret_count = n;
	return 0;
}

int key_list(struct state *st, struct key **ret, size_t *ret_count, struct err *e)
{
	autoclose int dir = open_dir(st);

	if (dir < 0 && dir != -ENOENT)
		return state_error(st, -dir, "list the keys of", e);
	return list_dir(dir, ret, ret_count, e);
}

void key_list_free(struct key *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		key_done(&list[i]);
	free(list);
}

int key_watch(struct state *st, int *ret_fd, struct err *e)
{
	autoclose int dir = fd_open_below(st->home_fd, KEYS_DIR, true);
	autoclose int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	char path[32];

	if (dir < 0)
		return state_error(st, -dir, "make the directory of keys of", e);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", dir);
	if (fd < 0 || inotify_add_watch(fd, path, IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE) < 0)
		return err_errno(e, errno, "watch the keys");
	*ret_fd = take_fd(fd);
	return 0;
}

/* One that is not revoked, by its name. */
static int find_name(int dir, const char *name, struct key *ret, struct err *e)
{
	struct key *list = NULL;
	size_t count = 0;
	int r = list_dir(dir, &list, &count, e);

	for (size_t i = 0; i < count; i++)
		if (!list[i].is_damaged && !list[i].revoked_ms && strcmp(list[i].name, name) == 0) {
			*ret = list[i];
			list[i] = (struct key){0};
			r = 1;
			break;
		}
	key_list_free(list, count);
	return r < 0 ? r : r > 0 ? 0 : -ENOENT;
}

static int read_either(int dir, const char *what, struct key *ret, struct err *e)
{
	return str_is_key_id(what) ? load(dir, what, ret, e) : find_name(dir, what, ret, e);
}

/* ---- what others call ---- */

int key_make(struct state *st, struct key *k, char ret_token[KEY_TOKEN_SIZE], struct err *e)
{
	uint8_t secret[SECRET_BYTES];
	struct key other = {0};
	int r = 0;

	/* Such a name would be taken for an id. */
	if (!str_is_plain_name(k->name, BOX_NAME_MAX) || str_is_key_id(k->name))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.63s' is not the name of a key: lower-case letters, digits and "
			       "inner dashes, at most %u, and not 8 hex digits",
			       k->name, BOX_NAME_MAX);
	if (!k->scopes)
		return err_set(e, ERR_INVALID, EINVAL, "a key without a scope may do nothing");
	autoclose int dir = lock_dir(st, true, e);
	if (dir < 0)
		return dir;
	r = find_name(dir, k->name, &other, e);
	key_done(&other);
	if (r == 0)
		return err_set(e, ERR_EXISTS, EEXIST,
			       "there is a key '%s' already: remove it (cove key rm %s) or choose "
			       "another name",
			       k->name, k->name);
	for (int i = 0; i < ID_TRIES && r == -ENOENT; i++) {
		rand_hex(k->id, (KEY_ID_SIZE - 1) / 2);
		if (faccessat(dir, k->id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			r = errno == ENOENT ? 0 : -errno;
	}
	if (r < 0)
		return state_error(st, r == -ENOENT ? EEXIST : -r, "find an id for the key", e);
	rand_bytes(secret, sizeof(secret));
	hash_secret(secret, k->hash);
	k->created_ms = clock_wall_ms();
	k->revoked_ms = 0;
	r = store(st, dir, k, e);
	if (r == 0) {
		char *at = ret_token + strlen(prefixes[0]);

		memcpy(ret_token, prefixes[0], strlen(prefixes[0]));
		memcpy(at, k->id, KEY_ID_SIZE - 1);
		str_hex(secret, sizeof(secret), at + KEY_ID_SIZE - 1);
	}
	explicit_bzero(secret, sizeof(secret));
	return r;
}

int key_find(struct state *st, const void *token, size_t len, struct key *ret, struct err *e)
{
	uint8_t hash[SHA256_BYTES];
	char id[KEY_ID_SIZE];
	bool is_same;
	int r = -ENOENT;

	*ret = (struct key){0};
	if (token_parse(token, len, id, hash)) {
		autoclose int dir = open_dir(st);

		r = dir < 0 ? dir : load(dir, id, ret, e);
		is_same = is_same_hash(hash, ret->hash);
		if (r < 0 && r != -ENOENT)
			return dir < 0 ? state_error(st, -r, "open the directory of keys in", e)
				       : r;
		r = r == 0 && is_same ? 0 : -ENOENT;
	}
	if (r < 0) {
		key_done(ret);
		return err_set(e, ERR_NOT_FOUND, ENOENT, "no key has this token");
	}
	if (!ret->revoked_ms)
		return 0;
	r = err_set(e, ERR_DENIED, EKEYREVOKED, "the key '%s' was revoked", ret->name);
	key_done(ret);
	return r;
}

int key_read(struct state *st, const char *name_or_id, struct key *ret, struct err *e)
{
	autoclose int dir = open_dir(st);
	int r;

	*ret = (struct key){0};
	if (dir < 0 && dir != -ENOENT)
		return state_error(st, -dir, "open the directory of keys in", e);
	r = dir < 0 ? dir : read_either(dir, name_or_id, ret, e);
	return r == -ENOENT ? missing(name_or_id, e) : r;
}

int key_revoke(struct state *st, const char *name_or_id, struct err *e)
{
	autoclose int dir = lock_dir(st, false, e);
	struct key k = {0};
	int r = dir;

	if (dir >= 0)
		r = read_either(dir, name_or_id, &k, e);
	/* No token of it is accepted as it is; without the file it is not in the way either. */
	if (dir >= 0 && r == -EBADMSG) {
		r = unlinkat(dir, k.id, 0) < 0 || fsync(dir) < 0 ? -errno : 0;
		if (r < 0)
			state_error(st, -r, "remove the key from", e);
	} else if (r == 0 && k.revoked_ms) {
		r = -ENOENT;
	} else if (r == 0) {
		k.revoked_ms = clock_wall_ms();
		r = store(st, dir, &k, e);
	}
	key_done(&k);
	return r == -ENOENT ? missing(name_or_id, e) : r;
}
