/* Webhooks on disk; see webhook.h. */
#include "store/webhook.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/url.h"
#include "store/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define WEBHOOK_DIR  "webhooks"
#define WEBHOOK_SENT "sent"

enum { WEBHOOK_FILE_MAX = 16 << 10 };

static int dir_open(struct state *st, bool make)
{
	return st->home_fd < 0 ? -ENOENT : fd_open_below(st->home_fd, WEBHOOK_DIR, make);
}

static int sent_open(int dir_fd, bool make)
{
	return dir_fd < 0 ? dir_fd : fd_open_below(dir_fd, WEBHOOK_SENT, make);
}

static bool is_id(const char *s)
{
	return strlen(s) == WEBHOOK_ID_SIZE - 1 && s[strspn(s, "0123456789abcdef")] == 0;
}

uint64_t webhook_changed_ns(struct state *st)
{
	struct stat s;

	if (st->home_fd < 0 || fstatat(st->home_fd, WEBHOOK_DIR, &s, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return (uint64_t)s.st_ctim.tv_sec * 1000000000u + (uint64_t)s.st_ctim.tv_nsec;
}

/* ---- the record ---- */

static const struct {
	const char *key;
	size_t offset, size;
} texts[] = {
	{"url", offsetof(struct webhook, url), sizeof(((struct webhook *)0)->url)},
	{"owner", offsetof(struct webhook, owner), sizeof(((struct webhook *)0)->owner)},
	{"types", offsetof(struct webhook, types), sizeof(((struct webhook *)0)->types)},
	{"box", offsetof(struct webhook, box), sizeof(((struct webhook *)0)->box)},
	{"label", offsetof(struct webhook, label), sizeof(((struct webhook *)0)->label)},
	{"secret", offsetof(struct webhook, secret), sizeof(((struct webhook *)0)->secret)},
};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static int format(const struct webhook *w, struct buf *b)
{
	int r = lines_begin_sum(b);

	for (int i = 0; i < TEXTS && r == 0; i++)
		if (((const char *)w)[texts[i].offset])
			r = lines_put(b, texts[i].key, (const char *)w + texts[i].offset);
	if (r == 0)
		r = lines_put_u64(b, "created_ms", w->created_ms);
	if (r == 0)
		r = lines_put_u64(b, "after", w->after);
	if (r == 0)
		lines_end_sum(b);
	return r;
}

static bool take_line(struct webhook *w, const char *key, const char *value)
{
	for (int i = 0; i < TEXTS; i++)
		if (strcmp(key, texts[i].key) == 0)
			return str_copy((char *)w + texts[i].offset, texts[i].size, value);
	if (strcmp(key, "created_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &w->created_ms);
	return strcmp(key, "after") == 0 && str_parse_u64(value, UINT64_MAX, &w->after);
}

static int read_record(int dir_fd, const char *id, struct webhook *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r = fd_read_file(dir_fd, id, WEBHOOK_FILE_MAX, &text, &len);

	*ret = (struct webhook){0};
	if (r == 0 && lines_check_sum(text, len) != 1)
		r = -EBADMSG;
	if (r < 0)
		return r;
	str_copy(ret->id, sizeof(ret->id), id);
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (!take_line(ret, key, value))
			return -EBADMSG;
	explicit_bzero(text, len);
	return r == 0 && ret->url[0] && ret->secret[0] ? 0 : -EBADMSG;
}

/* ---- making and removing ---- */

static int check_room(struct state *st, const struct webhook *w, struct err *e)
{
	struct webhook *list = NULL;
	size_t count = 0, own = 0;
	int r = webhook_list(st, &list, &count, e);

	for (size_t i = 0; i < count; i++)
		own += strcmp(list[i].owner, w->owner) == 0;
	free(list);
	if (r == 0 && (count >= WEBHOOKS_MAX || (w->owner[0] && own >= WEBHOOKS_OF_KEY)))
		return err_set(
			e, ERR_LIMIT, E2BIG,
			"there are as many webhooks as may be: %d, %d of one key; remove one",
			WEBHOOKS_MAX, WEBHOOKS_OF_KEY);
	return r;
}

static int check_url(const struct webhook *w, struct err *e)
{
	struct url u;

	if (url_parse(&u, w->url) < 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.100s' is no URL as https://example.org/path", w->url);
	/* Where the events of a tenant go is at least not readable on the way, and is no service
	 * that speaks something else. */
	if (w->owner[0] && !u.is_tls)
		return err_set(e, ERR_DENIED, EACCES, "a key's webhook is https");
	if (w->owner[0] && u.port != 443 && u.port < 1024)
		return err_set(e, ERR_DENIED, EACCES,
			       "a key's webhook is at port 443 or above 1023, not %u", u.port);
	return 0;
}

static int check_types(const char *list, struct err *e)
{
	while (*list) {
		size_t n = strcspn(list, ",");
		int i = 0;

		while (feed_types[i] &&
		       (strlen(feed_types[i]) != n || memcmp(feed_types[i], list, n) != 0))
			i++;
		if (!feed_types[i])
			return err_set(e, ERR_INVALID, EINVAL,
				       "there is no type of event '%.*s'; box.stopped is one",
				       (int)(n < 40 ? n : 40), list);
		list += n + (list[n] == ',');
	}
	return 0;
}

int webhook_make(struct state *st, struct webhook *w, struct err *e)
{
	uint64_t oldest = 1, newest = 0;
	char name[WEBHOOK_ID_SIZE];
	autoclose int fd = -1;
	struct buf b;
	int r = check_url(w, e);

	if (r == 0)
		r = check_types(w->types, e);
	if (r == 0)
		r = state_make(st, e);
	if (r < 0)
		return r;
	fd = dir_open(st, true);
	/* One at a time counts and writes. */
	if (fd < 0 || flock(fd, LOCK_EX) < 0)
		return state_error(st, fd < 0 ? -fd : errno, "make a webhook in", e);
	r = check_room(st, w, e);
	if (r < 0)
		return r;
	rand_hex(name, 8);
	str_copy(w->id, sizeof(w->id), name);
	memcpy(w->secret, "whsec_", 6);
	rand_hex(w->secret + 6, 32);
	w->created_ms = clock_wall_ms();
	(void)feed_range(st, &oldest, &newest);
	w->after = newest;
	buf_init(&b, WEBHOOK_FILE_MAX);
	r = format(w, &b);
	if (r == 0)
		r = fd_write_file(fd, w->id, buf_data(&b), buf_len(&b), 0600, true);
	explicit_bzero((void *)(uintptr_t)buf_data(&b), buf_len(&b));
	buf_done(&b);
	return r < 0 ? state_error(st, -r, "make a webhook in", e) : 0;
}

static int by_age(const void *a, const void *b)
{
	const struct webhook *x = a, *y = b;

	return x->created_ms < y->created_ms ? -1 : x->created_ms > y->created_ms;
}

int webhook_list(struct state *st, struct webhook **ret, size_t *ret_count, struct err *e)
{
	autoclose int fd = dir_open(st, false);
	struct webhook *list;
	char **names = NULL;
	size_t count = 0, n = 0;
	int r = fd == -ENOENT ? 0 : fd < 0 ? fd : state_all_names(fd, &names, &count);

	if (r < 0)
		return err_errno(e, -r, "list the webhooks");
	list = calloc(count + 1, sizeof(*list));
	r = list ? 0 : -ENOMEM;
	for (size_t i = 0; r == 0 && i < count; i++)
		if (is_id(names[i])) {
			r = read_record(fd, names[i], &list[n]);
			n += r == 0;
			r = r == -EBADMSG || r == -ENOENT || r == -EFBIG ? 0 : r;
		}
	state_names_free(names, count);
	if (r < 0) {
		free(list);
		return err_errno(e, -r, "list the webhooks");
	}
	qsort(list, n, sizeof(*list), by_age);
	*ret = list;
	*ret_count = n;
	return 0;
}

int webhook_read(struct state *st, const char *id, const char *owner, struct webhook *ret,
		 struct err *e)
{
	autoclose int fd = dir_open(st, false);
	int r = fd < 0 ? fd : is_id(id) ? read_record(fd, id, ret) : -ENOENT;

	if (r == 0 && owner && strcmp(owner, ret->owner) != 0)
		r = -ENOENT;
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "there is no webhook '%.40s'", id);
	return r < 0 ? err_errno(e, -r, "read webhook '%.40s'", id) : 0;
}

int webhook_remove(struct state *st, const char *id, const char *owner, struct err *e)
{
	autoclose int fd = dir_open(st, false), sent_fd = sent_open(fd, false);
	struct webhook w;
	char name[WEBHOOK_ID_SIZE + 8];
	int r = webhook_read(st, id, owner, &w, e);

	/* A damaged one goes by its id, if whose it is does not matter. */
	if (r < 0 && (r == -ENOENT || owner || !is_id(id)))
		return r;
	explicit_bzero(w.secret, sizeof(w.secret));
	if (unlinkat(fd, id, 0) < 0 || fsync(fd) < 0)
		return err_errno(e, errno, "remove webhook '%s'", id);
	if (sent_fd < 0)
		return 0;
	snprintf(name, sizeof(name), "%s.state", id);
	(void)unlinkat(sent_fd, name, 0); /* says nothing without the other */
	snprintf(name, sizeof(name), "%s.log", id);
	(void)unlinkat(sent_fd, name, 0);
	return 0;
}

/* ---- how far it is ---- */

static const struct {
	const char *key;
	size_t offset;
} numbers[] = {
	{"cursor", offsetof(struct webhook_state, cursor)},
	{"delivered", offsetof(struct webhook_state, delivered)},
	{"failures", offsetof(struct webhook_state, failures)},
	{"next_ms", offsetof(struct webhook_state, next_ms)},
	{"disabled_ms", offsetof(struct webhook_state, disabled_ms)},
};
enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

int webhook_state_read(struct state *st, const struct webhook *w, struct webhook_state *ret)
{
	autoclose int dir_fd = dir_open(st, false), fd = sent_open(dir_fd, false);
	char name[WEBHOOK_ID_SIZE + 8];
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r;

	*ret = (struct webhook_state){.cursor = w->after};
	snprintf(name, sizeof(name), "%s.state", w->id);
	r = fd < 0 ? fd : fd_read_file(fd, name, WEBHOOK_FILE_MAX, &text, &len);
	/* One that is damaged begins again: what comes twice has the same id. */
	if (r < 0 || lines_check_sum(text, len) != 1)
		return r == -ENOENT || r == 0 ? 0 : r;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while (lines_next(&lines, &key, &value) > 0) {
		for (int i = 0; i < NUMBERS; i++)
			if (strcmp(key, numbers[i].key) == 0)
				(void)str_parse_u64(value, UINT64_MAX,
						    (uint64_t *)((char *)ret + numbers[i].offset));
		if (strcmp(key, "reason") == 0)
			str_copy(ret->reason, sizeof(ret->reason), value);
	}
	return 0;
}

int webhook_state_write(struct state *st, const char *id, const struct webhook_state *s)
{
	autoclose int fd = dir_open(st, false), sent_fd = sent_open(fd, true);
	char name[WEBHOOK_ID_SIZE + 8];
	struct buf b;
	int r = sent_fd < 0 ? sent_fd : 0;

	buf_init(&b, WEBHOOK_FILE_MAX);
	if (r == 0)
		r = lines_begin_sum(&b);
	for (int i = 0; i < NUMBERS && r == 0; i++)
		r = lines_put_u64(&b, numbers[i].key,
				  *(const uint64_t *)((const char *)s + numbers[i].offset));
	if (r == 0 && s->reason[0])
		r = lines_put(&b, "reason", s->reason);
	if (r == 0)
		lines_end_sum(&b);
	snprintf(name, sizeof(name), "%s.state", id);
	/* Of one that was removed meanwhile nothing is left. */
	if (r == 0 && faccessat(fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0)
		r = fd_write_file(sent_fd, name, buf_data(&b), buf_len(&b), 0600, false);
	buf_done(&b);
	return r;
}

int webhook_enable(struct state *st, const char *id, const char *owner, struct err *e)
{
	autoclose int fd = dir_open(st, false);
	struct webhook_state s;
	struct webhook w;
	int r = webhook_read(st, id, owner, &w, e);

	if (r < 0)
		return r;
	explicit_bzero(w.secret, sizeof(w.secret));
	r = webhook_state_read(st, &w, &s);
	s.disabled_ms = s.failures = s.next_ms = 0;
	if (r == 0)
		r = webhook_state_write(st, id, &s);
	/* The server looks again when this directory has another time (webhook_changed_ns). */
	if (r == 0 && futimens(fd, NULL) < 0)
		r = -errno;
	return r < 0 ? err_errno(e, -r, "enable webhook '%s'", id) : 0;
}

/* ---- what was tried ---- */

int webhook_log_read(struct state *st, const char *id, char **ret)
{
	autoclose int dir_fd = dir_open(st, false), fd = sent_open(dir_fd, false);
	char name[WEBHOOK_ID_SIZE + 8];
	int r;

	snprintf(name, sizeof(name), "%s.log", id);
	r = fd < 0 ? fd : fd_read_file(fd, name, 2 * WEBHOOK_LOG_BYTES, ret, NULL);
	if (r == -ENOENT) {
		*ret = strdup("");
		r = *ret ? 0 : -ENOMEM;
	}
	/* A crash may have left a part of a line. */
	if (r == 0 && **ret) {
		char *last = strrchr(*ret, '\n');

		*(last ? last + 1 : *ret) = 0;
	}
	return r;
}

int webhook_log_add(struct state *st, const char *id, const char *line, size_t len)
{
	autoclose int dir_fd = dir_open(st, false), fd = sent_open(dir_fd, true), log_fd = -1;
	char name[WEBHOOK_ID_SIZE + 8];
	autofree char *text = NULL;
	const char *half;
	uint64_t bytes = 0;
	int r;

	snprintf(name, sizeof(name), "%s.log", id);
	if (fd < 0 || faccessat(dir_fd, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return -ENOENT;
	log_fd = openat(fd, name, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = log_fd < 0 ? -errno : fd_cut_torn_line(log_fd, &bytes);
	if (r == 0 && bytes + len > WEBHOOK_LOG_BYTES) {
		r = webhook_log_read(st, id, &text);
		half = r == 0 ? strchr(text + strlen(text) / 2, '\n') : NULL;
		if (r == 0)
			r = fd_write_file(fd, name, half ? half + 1 : "",
					  half ? strlen(half + 1) : 0, 0600, false);
		fd_close(&log_fd);
		log_fd = openat(fd, name, O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
		r = r == 0 && log_fd < 0 ? -errno : r;
	}
	return r < 0 ? r : fd_write_full(log_fd, line, len);
}
