/* Entries of a get as a tar stream; see tar_out.h. */
#include "core/tar_out.h"

#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 512, NAME_ROOM = 100, OCTAL_MAX_BITS = 33, ID_MAX = 07777777 };

/* POSIX.1-1988 ustar, as every tar reads it. */
struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155];
	char rest[12];
};
_Static_assert(sizeof(struct ustar) == BLOCK, "a tar header is one block");

static int no_room(struct err *e)
{
	return err_set(e, ERR_INTERNAL, ENOBUFS, "no room for a tar header");
}

void tar_out_init(struct tar_out *t, struct buf *out, const char *path)
{
	char text[BOX_PATH_MAX] = "";
	const char *base;

	*t = (struct tar_out){.out = out};
	buf_init(&t->held, INIT_UNSIZED_MAX);
	str_copy(text, sizeof(text), path);
	for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--)
		text[n - 1] = 0;
	base = path_base(text);
	if (strcmp(text, "~") == 0 || !path_is_safe_relative(base) ||
	    !str_copy(t->prefix, sizeof(t->prefix), base))
		str_copy(t->prefix, sizeof(t->prefix), ".");
}

void tar_out_done(struct tar_out *t)
{
	buf_done(&t->held);
}

static int put_zeros(struct tar_out *t, size_t n, struct err *e)
{
	static const char zeros[BLOCK];

	for (; n > 0; n -= n < BLOCK ? n : BLOCK)
		if (buf_append(t->out, zeros, n < BLOCK ? n : BLOCK) < 0)
			return no_room(e);
	return 0;
}

static size_t padding(uint64_t size)
{
	return (size_t)(-size & (BLOCK - 1));
}

/* All but the last byte of a field. */
static void octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = 0;
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

/* One header; name and target are cut where a pax header before it has all of them. */
static int put_header(struct tar_out *t, char type, const char *name, const char *target,
		      const struct wire_entry *m, struct err *e)
{
	struct ustar h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
	unsigned sum = 0;

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	if (target)
		memcpy(h.link, target, strnlen(target, sizeof(h.link)));
	octal(h.mode, sizeof(h.mode), m->mode & 07777);
	octal(h.uid, sizeof(h.uid), m->uid <= ID_MAX ? m->uid : 0);
	octal(h.gid, sizeof(h.gid), m->gid <= ID_MAX ? m->gid : 0);
	octal(h.size, sizeof(h.size), m->size >> OCTAL_MAX_BITS ? 0 : m->size);
	octal(h.mtime, sizeof(h.mtime), m->mtime_ns / 1000000000u);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum);
	return buf_append(t->out, &h, sizeof(h)) < 0 ? no_room(e) : 0;
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static int put_record(struct buf *b, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, len = rest + 1;
	char digits[24];

	while ((size_t)snprintf(digits, sizeof(digits), "%zu", len) + rest != len)
		len = rest + strlen(digits);
	return buf_printf(b, "%zu %s=%s\n", len, key, value);
}

/* What the header after it has no room for. */
static int put_pax(struct tar_out *t, const char *name, const char *target,
		   const struct wire_entry *m, struct err *e)
{
	struct wire_entry about = {.mode = 0644, .mtime_ns = m->mtime_ns};
	char number[24];
	struct buf b;
	int r = 0;

	buf_init(&b, 4 * BOX_PATH_MAX);
	if (strlen(name) > NAME_ROOM)
		r = put_record(&b, "path", name);
	if (r == 0 && target && strlen(target) > NAME_ROOM)
		r = put_record(&b, "linkpath", target);
	if (r == 0 && m->size >> OCTAL_MAX_BITS) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)m->size);
		r = put_record(&b, "size", number);
	}
	about.size = buf_len(&b);
	if (r < 0)
		r = no_room(e);
	else if (about.size > 0)
		r = put_header(t, 'x', "pax", NULL, &about, e);
	if (r == 0 && about.size > 0 && buf_append(t->out, buf_data(&b), buf_len(&b)) < 0)
		r = no_room(e);
	if (r == 0 && about.size > 0)
		r = put_zeros(t, padding(about.size), e);
	buf_done(&b);
	return r;
}

static int put_entry(struct tar_out *t, char type, const char *name, const char *target,
		     const struct wire_entry *m, struct err *e)
{
	int r = put_pax(t, name, target, m, e);

	return r < 0 ? r : put_header(t, type, name, target, m, e);
}

/* A path of the get as a name in the archive. */
static int name_of(const struct tar_out *t, const char *path, bool is_dir, char *ret, size_t size,
		   struct err *e)
{
	int n = snprintf(ret, size, "%s%s%s%s", t->prefix, *path ? "/" : "", path,
			 is_dir ? "/" : "");

	if (*path && !path_is_safe_relative(path))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a path that is not allowed");
	return n < 0 || (size_t)n >= size ? no_room(e) : 0;
}

int tar_out_entry(struct tar_out *t, const struct wire_entry *m, struct err *e)
{
	struct wire_entry plain = *m;
	char target[sizeof(t->path)] = "";
	int r = name_of(t, m->path, m->type == 'd', t->path, sizeof(t->path), e);

	if (r < 0)
		return r;
	plain.mode &= 0777;
	if (m->type == 'f') {
		t->in_file = true;
		t->is_held = m->size == 0;
		t->left = m->size;
		t->file = plain;
		return t->is_held ? 0 : put_entry(t, '0', t->path, NULL, &plain, e);
	}
	plain.size = 0;
	if (m->type == 'd')
		return put_entry(t, '5', t->path, NULL, &plain, e);
	if (m->type != 'l' && m->type != 'h')
		return 1;
	if (!m->target || !*m->target || strlen(m->target) >= BOX_PATH_MAX)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent a link without a target");
	if (m->type == 'l')
		return put_entry(t, '2', t->path, m->target, &plain, e);
	r = name_of(t, m->target, false, target, sizeof(target), e);
	return r < 0 ? r : put_entry(t, '1', t->path, target, &plain, e);
}

int tar_out_data(struct tar_out *t, const void *p, size_t n, struct err *e)
{
	if (t->is_held)
		return buf_append(&t->held, p, n) < 0
			       ? err_set(e, ERR_LIMIT, EFBIG, "a file without a size goes on")
			       : 0;
	if (n > t->left)
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box sent more than the file has");
	t->left -= n;
	return buf_append(t->out, p, n) < 0 ? no_room(e) : 0;
}

int tar_out_pad(struct tar_out *t, struct err *e)
{
	size_t n = t->left < WIRE_DATA_MAX ? (size_t)t->left : WIRE_DATA_MAX;
	int r;

	if (t->left > TAR_FILL_MAX)
		return err_set(e, ERR_CONFLICT, EAGAIN,
			       "'%.100s' became shorter while it was copied: copy it again",
			       t->path);
	r = put_zeros(t, n, e);
	t->left -= n;
	return r < 0 ? r : t->left > 0;
}

int tar_out_file_end(struct tar_out *t, struct err *e)
{
	int r = 0;

	if (t->is_held) {
		t->file.size = buf_len(&t->held);
		r = put_entry(t, '0', t->path, NULL, &t->file, e);
		if (r == 0 && buf_append(t->out, buf_data(&t->held), buf_len(&t->held)) < 0)
			r = no_room(e);
		buf_clear(&t->held);
	}
	if (r == 0)
		r = put_zeros(t, padding(t->file.size), e);
	t->in_file = false;
	return r;
}

int tar_out_end(struct tar_out *t, struct err *e)
{
	return put_zeros(t, 2 * (size_t)BLOCK, e);
}
