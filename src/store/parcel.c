/* One file that holds many things; see pack.h. */
#include "store/parcel.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MAGIC "cove pack 1 "

enum { MAGIC_BYTES = sizeof(MAGIC) - 1, ROOM_STEP = 16 << 20 };

static void put_le(uint8_t *to, uint64_t v, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_le(const uint8_t *from, size_t bytes)
{
	uint64_t v = 0;

	for (size_t i = 0; i < bytes; i++)
		v |= (uint64_t)from[i] << 8 * i;
	return v;
}

/* ---- writing ---- */

static int check_room(struct parcel_writer *w, size_t n, struct err *e)
{
	struct statvfs disk;

	if (w->bytes_max && w->bytes + n > w->bytes_max)
		return err_set(e, ERR_LIMIT, EFBIG, "the file would be longer than %llu bytes",
			       (unsigned long long)w->bytes_max);
	if (!w->disk_reserve || (w->looked_at && w->bytes - w->looked_at < ROOM_STEP))
		return 0;
	w->looked_at = w->bytes;
	if (fstatvfs(w->fd, &disk) < 0)
		return err_errno(e, errno, "look at the disk of the file");
	if ((uint64_t)disk.f_bavail * disk.f_frsize >= w->disk_reserve)
		return 0;
	return err_set(e, ERR_FULL, ENOSPC, "the disk has no room for the file");
}

static int put(struct parcel_writer *w, const void *p, size_t n, struct err *e)
{
	int r = check_room(w, n, e);

	if (r < 0)
		return r;
	r = fd_write_full(w->fd, p, n);
	w->bytes += n;
	return r < 0 ? err_errno(e, -r, "write the file") : 0;
}

static int put_piece(struct parcel_writer *w, char type, const void *p, size_t n, struct err *e)
{
	uint8_t head[5] = {(uint8_t)type};
	int r;

	put_le(head + 1, n, 4);
	sha_add(&w->member, p, n);
	r = put(w, head, sizeof(head), e);
	return r < 0 ? r : put(w, p, n, e);
}

int parcel_begin(struct parcel_writer *w, int fd, const char *kind, struct err *e)
{
	char line[MAGIC_BYTES + PARCEL_KIND_MAX + 2];

	w->fd = fd;
	w->count = w->bytes = 0;
	w->bytes_max = w->disk_reserve = w->looked_at = 0;
	w->held = 0;
	sha256_init(&w->all);
	snprintf(line, sizeof(line), MAGIC "%.*s\n", PARCEL_KIND_MAX, kind);
	return put(w, line, strlen(line), e);
}

void parcel_bound(struct parcel_writer *w, uint64_t bytes_max, uint64_t disk_reserve)
{
	w->bytes_max = bytes_max;
	w->disk_reserve = disk_reserve;
}

int parcel_member(struct parcel_writer *w, const void *head, size_t len, struct err *e)
{
	sha256_init(&w->member);
	w->held = 0;
	if (len > PARCEL_HEAD_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "a record is too large to be packed");
	return put_piece(w, 'M', head, len, e);
}

static int flush(struct parcel_writer *w, struct err *e)
{
	int r = w->held ? put_piece(w, 'C', w->piece, w->held, e) : 0;

	w->held = 0;
	return r;
}

int parcel_add(struct parcel_writer *w, const void *p, size_t n, struct err *e)
{
	const uint8_t *from = p;
	int r = 0;

	while (r == 0 && n > 0) {
		size_t room = sizeof(w->piece) - w->held, part = n < room ? n : room;

		memcpy(w->piece + w->held, from, part);
		w->held += part;
		from += part;
		n -= part;
		if (w->held == sizeof(w->piece))
			r = flush(w, e);
	}
	return r;
}

int parcel_member_end(struct parcel_writer *w, struct err *e)
{
	uint8_t end[1 + SHA256_BYTES] = {'E'};
	int r = flush(w, e);

	if (r < 0)
		return r;
	sha_end(&w->member, end + 1);
	sha_add(&w->all, end + 1, SHA256_BYTES);
	w->count++;
	return put(w, end, sizeof(end), e);
}

int parcel_rewind(struct parcel_writer *w, const struct parcel_writer *to, struct err *e)
{
	if (ftruncate(to->fd, (off_t)to->bytes) < 0 ||
	    lseek(to->fd, (off_t)to->bytes, SEEK_SET) < 0)
		return err_errno(e, errno, "write the file");
	*w = *to;
	return 0;
}

int parcel_end(struct parcel_writer *w, struct err *e)
{
	uint8_t end[1 + 8 + SHA256_BYTES] = {'Z'};

	put_le(end + 1, w->count, 8);
	sha_end(&w->all, end + 9);
	return put(w, end, sizeof(end), e);
}

/* ---- reading ---- */

static int damaged(const char *what, struct err *e)
{
	return err_set(e, ERR_DAMAGED, EBADMSG, "the file is damaged: %s", what);
}

/* Exactly n bytes of the file. */
static int get(struct parcel_reader *r, void *p, size_t n, struct err *e)
{
	uint8_t *to = p;

	while (n > 0) {
		size_t part;

		if (r->at == r->have) {
			ssize_t got = fd_read_full(r->fd, r->piece, sizeof(r->piece));

			if (got < 0)
				return err_errno(e, (int)-got, "read the file");
			if (got == 0)
				return damaged("it was cut short", e);
			r->at = 0;
			r->have = (size_t)got;
		}
		part = r->have - r->at < n ? r->have - r->at : n;
		memcpy(to, r->piece + r->at, part);
		r->at += part;
		to += part;
		n -= part;
	}
	return 0;
}

int parcel_open(struct parcel_reader *r, int fd, const char *kind, struct err *e)
{
	char line[MAGIC_BYTES + PARCEL_KIND_MAX + 2] = "", want[sizeof(line)];
	size_t n = 0;

	r->fd = fd;
	r->count = 0;
	r->left = 0;
	r->in_member = r->ended = false;
	r->at = r->have = 0;
	sha256_init(&r->all);
	while (n < sizeof(line) - 1) {
		if (get(r, line + n, 1, NULL) < 0)
			break;
		if (line[n++] == '\n')
			break;
	}
	snprintf(want, sizeof(want), MAGIC "%.*s\n", PARCEL_KIND_MAX, kind);
	if (strcmp(line, want) == 0)
		return 0;
	if (!str_starts(line, MAGIC))
		return err_set(e, ERR_INVALID, EINVAL, "this is no file that Cove wrote");
	line[strcspn(line, "\n")] = 0;
	return err_set(e, ERR_INVALID, EINVAL, "this file is a %s, not a %s", line + MAGIC_BYTES,
		       kind);
}

/* The next piece's type; its length is in r->left where it has one. */
static int next_piece(struct parcel_reader *r, char *ret_type, struct err *e)
{
	uint8_t raw[4], sum[SHA256_BYTES], is[SHA256_BYTES];
	int k = get(r, ret_type, 1, e);

	if (k < 0)
		return k;
	if (*ret_type == 'C' && r->in_member) {
		k = get(r, raw, 4, e);
		r->left = (uint32_t)get_le(raw, 4);
		return k == 0 && (r->left == 0 || r->left > PARCEL_PIECE_MAX)
			       ? damaged("a piece has no such length", e)
			       : k;
	}
	if (*ret_type != 'E' || !r->in_member)
		return damaged("a part of it is none", e);
	sha_end(&r->member, is);
	k = get(r, sum, sizeof(sum), e);
	if (k == 0 && memcmp(sum, is, sizeof(is)) != 0)
		return damaged("the hash of a member is another", e);
	sha_add(&r->all, is, sizeof(is));
	r->in_member = false;
	r->count++;
	return k;
}

int parcel_read(struct parcel_reader *r, void *p, size_t n, size_t *ret_got, struct err *e)
{
	char type;
	int k = 0;

	*ret_got = 0;
	if (r->left == 0 && r->in_member)
		k = next_piece(r, &type, e);
	if (k < 0 || !r->in_member)
		return k;
	if (n > r->left)
		n = r->left;
	k = get(r, p, n, e);
	if (k < 0)
		return k;
	sha_add(&r->member, p, n);
	r->left -= (uint32_t)n;
	*ret_got = n;
	return 0;
}

int parcel_read_all(struct parcel_reader *r, size_t max, char **ret, size_t *ret_len, struct err *e)
{
	autofree char *text = NULL;
	size_t len = 0, cap = 0, got = 1;

	while (got > 0) {
		if (len + PARCEL_PIECE_MAX + 1 > cap) {
			char *grown = realloc(text, cap + 2 * PARCEL_PIECE_MAX);

			if (!grown)
				return err_errno(e, ENOMEM, "read the file");
			text = grown;
			cap += 2 * PARCEL_PIECE_MAX;
		}
		int k = parcel_read(r, text + len, PARCEL_PIECE_MAX, &got, e);
		if (k < 0)
			return k;
		len += got;
		if (len > max)
			return damaged("a record is too large", e);
	}
	text[len] = 0;
	*ret = take_ptr(text);
	*ret_len = len;
	return 0;
}

/* After the last member: Z, and nothing behind it. */
static int read_end(struct parcel_reader *r, struct err *e)
{
	uint8_t raw[8 + SHA256_BYTES], is[SHA256_BYTES], more;
	int k = get(r, raw, sizeof(raw), e);

	if (k < 0)
		return k;
	sha_end(&r->all, is);
	if (get_le(raw, 8) != r->count || memcmp(raw + 8, is, sizeof(is)) != 0)
		return damaged("members are missing", e);
	if (r->at != r->have || fd_read_full(r->fd, &more, 1) != 0)
		return damaged("something stands after its end", e);
	r->ended = true;
	return 0;
}

int parcel_next(struct parcel_reader *r, char **ret_head, size_t *ret_len, struct err *e)
{
	uint8_t raw[4], over[4096];
	autofree char *head = NULL;
	size_t got = 1, len;
	char type;
	int k = 0;

	while (k == 0 && r->in_member && got > 0)
		k = parcel_read(r, over, sizeof(over), &got, e);
	if (k < 0 || r->ended)
		return k;
	k = get(r, &type, 1, e);
	if (k < 0)
		return k;
	if (type == 'Z')
		return read_end(r, e);
	if (type != 'M')
		return damaged("a part of it is none", e);
	k = get(r, raw, 4, e);
	len = (size_t)get_le(raw, 4);
	if (k == 0 && len > PARCEL_HEAD_MAX)
		return damaged("a record is too large", e);
	head = k < 0 ? NULL : malloc(len + 1);
	if (k == 0 && !head)
		return err_errno(e, ENOMEM, "read the file");
	if (k == 0)
		k = get(r, head, len, e);
	if (k < 0)
		return k;
	head[len] = 0;
	sha256_init(&r->member);
	sha_add(&r->member, head, len);
	r->in_member = true;
	r->left = 0;
	*ret_head = take_ptr(head);
	*ret_len = len;
	return 1;
}

int parcel_check(int fd, const char *kind,
		 int (*on_head)(void *arg, char *head, size_t len, struct err *e), void *arg,
		 struct err *e)
{
	struct parcel_reader *r = malloc(sizeof(*r));
	int k = r ? parcel_open(r, fd, kind, e) : err_errno(e, ENOMEM, "read the file");

	while (k == 0) {
		autofree char *head = NULL;
		size_t len;

		k = parcel_next(r, &head, &len, e);
		if (k <= 0)
			break;
		k = on_head ? on_head(arg, head, len, e) : 0;
	}
	free(r);
	if (k == 0 && lseek(fd, 0, SEEK_SET) < 0)
		k = err_errno(e, errno, "read the file again: it must be a file, not a pipe");
	return k;
}
