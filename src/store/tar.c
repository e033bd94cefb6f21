/*
 * The tar reader; see tar.h.
 *
 * How it works
 *
 * Headers are collected in one block, extended headers (pax x and g, GNU L and K) in a buffer with
 * a maximum, file data is passed through. What an extended header says is kept in struct tar_extra
 * and used for exactly the next entry. Padding after data is not looked at, as every tar writes
 * what it likes there; everything else is checked.
 *
 * Why so strict: an image is made of what this reader says, while somebody else may have looked at
 * the same stream with another reader before. Where the two could disagree we refuse.
 */
#include "store/tar.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where the fields of a header are. */
struct tar_field {
	size_t at, len;
};
static const struct tar_field F_NAME = {0, 100}, F_MODE = {100, 8}, F_UID = {108, 8},
			      F_GID = {116, 8}, F_SIZE = {124, 12}, F_MTIME = {136, 12},
			      F_CHECKSUM = {148, 8}, F_TARGET = {157, 100}, F_PREFIX = {345, 155};
enum { AT_TYPE = 156, AT_MAGIC = 257 };

enum { ID_MAX = 65535 };

void tar_init(struct tar *t, const struct tar_ops *ops, void *arg)
{
	memset(t, 0, sizeof(*t));
	t->ops = ops;
	t->arg = arg;
	buf_init(&t->meta, TAR_META_MAX + 1);
}

static void extra_done(struct tar_extra *x)
{
	free(x->path);
	free(x->target);
	memset(x, 0, sizeof(*x));
}

void tar_done(struct tar *t)
{
	buf_done(&t->meta);
	extra_done(&t->extra);
}

static int bad(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, EBADMSG, "bad tar stream: %s", what);
}

static int too_much(struct err *e, const char *what)
{
	return err_set(e, ERR_LIMIT, E2BIG, "tar stream: %s", what);
}

/* ---- numbers and strings of a header ---- */

/* GNU's base-256: the first bit says so, the rest is a big-endian number. Negative ones become 0,
 * which only a time before 1970 can mean. */
static bool parse_base256(const uint8_t *p, size_t n, bool may_be_negative, uint64_t *ret)
{
	uint64_t v = p[0] & 0x3f;

	if (p[0] & 0x40) {
		*ret = 0;
		return may_be_negative;
	}
	for (size_t i = 1; i < n; i++) {
		if (v >> 55)
			return false;
		v = v << 8 | p[i];
	}
	*ret = v;
	return true;
}

/* Octal digits after spaces, ended by a space, a NUL or the end of the field. All blank is 0. */
static bool parse_octal(const uint8_t *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	while (i < n && p[i] == ' ')
		i++;
	for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
		v = v << 3 | (uint64_t)(p[i] - '0');
	for (; i < n; i++)
		if (p[i] != ' ' && p[i] != 0)
			return false;
	*ret = v;
	return true;
}

static bool parse_number(const uint8_t *block, struct tar_field f, bool may_be_negative,
			 uint64_t *ret)
{
	const uint8_t *p = block + f.at;

	return p[0] & 0x80 ? parse_base256(p, f.len, may_be_negative, ret)
			   : parse_octal(p, f.len, ret);
}

static bool checksum_is_right(const uint8_t *block)
{
	uint64_t want, plain = 0;
	int64_t with_sign = 0;

	if (!parse_octal(block + F_CHECKSUM.at, F_CHECKSUM.len, &want))
		return false;
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool own = i >= F_CHECKSUM.at && i < F_CHECKSUM.at + F_CHECKSUM.len;
		uint8_t c = own ? ' ' : block[i];

		plain += c;
		with_sign += (int8_t)c;
	}
	return want == plain || (with_sign >= 0 && want == (uint64_t)with_sign);
}

static size_t field_text(const uint8_t *block, struct tar_field f, char *dst)
{
	size_t n = strnlen((const char *)block + f.at, f.len);

	memcpy(dst, block + f.at, n);
	dst[n] = 0;
	return n;
}

/* ---- extended headers ---- */

static int take_text(char **field, const char *value, size_t n, struct err *e)
{
	if (*field)
		return bad(e, "a name is given twice");
	if (n == 0)
		return bad(e, "an empty name in an extended header");
	if (n > TAR_NAME_MAX)
		return too_much(e, "a name is longer than 4095 bytes");
	if (memchr(value, 0, n))
		return bad(e, "a NUL in a name");
	*field = strndup(value, n);
	return *field ? 0 : err_errno(e, ENOMEM, "read a tar header");
}

static int take_decimal(bool *has, uint64_t *number, const char *value, size_t n, struct err *e)
{
	char digits[24];

	if (*has || n >= sizeof(digits))
		return bad(e, "a number in an extended header");
	memcpy(digits, value, n);
	digits[n] = 0;
	*has = true;
	return str_parse_u64(digits, UINT64_MAX, number) ? 0
							 : bad(e, "a number in an extended header");
}

/* Seconds with an optional fraction; a time before 1970 becomes 0. */
static int take_time(struct tar_extra *x, const char *value, size_t n, struct err *e)
{
	bool negative = n > 0 && value[0] == '-';
	const char *p = negative ? value + 1 : value;
	size_t len = negative ? n - 1 : n, whole = 0;
	unsigned scale = 100000000;
	int r;

	while (whole < len && p[whole] != '.')
		whole++;
	r = take_decimal(&x->has_mtime, &x->mtime_s, p, whole, e);
	if (r < 0)
		return r;
	for (size_t i = whole + 1; i < len; i++) {
		if (p[i] < '0' || p[i] > '9')
			return bad(e, "a time in an extended header");
		x->mtime_ns += (unsigned)(p[i] - '0') * scale;
		scale /= 10;
	}
	if (negative)
		x->mtime_s = x->mtime_ns = 0;
	return 0;
}

struct record_text {
	const char *key, *value;
	size_t key_len, value_len;
};

static bool key_is(const struct record_text *r, const char *key)
{
	return r->key_len == strlen(key) && memcmp(r->key, key, r->key_len) == 0;
}

static int take_pax_record(struct tar_extra *x, const struct record_text *r, struct err *e)
{
	static const char sparse[] = "GNU.sparse.";

	if (key_is(r, "path"))
		return take_text(&x->path, r->value, r->value_len, e);
	if (key_is(r, "linkpath"))
		return take_text(&x->target, r->value, r->value_len, e);
	if (key_is(r, "size"))
		return take_decimal(&x->has_size, &x->size, r->value, r->value_len, e);
	if (key_is(r, "uid"))
		return take_decimal(&x->has_uid, &x->uid, r->value, r->value_len, e);
	if (key_is(r, "gid"))
		return take_decimal(&x->has_gid, &x->gid, r->value, r->value_len, e);
	if (key_is(r, "mtime"))
		return take_time(x, r->value, r->value_len, e);
	if (r->key_len >= strlen(sparse) && memcmp(r->key, sparse, strlen(sparse)) == 0)
		return err_set(e, ERR_UNSUPPORTED, EBADMSG,
			       "the tar stream has sparse files; make it without --sparse");
	return 0;
}

/* One "LENGTH KEY=VALUE\n", LENGTH counting all of it. Returns its length, 0 if it is not one. */
static size_t split_record(const char *p, size_t n, struct record_text *ret)
{
	size_t len = 0, i = 0, eq;

	for (; i < n && i < 8 && p[i] >= '0' && p[i] <= '9'; i++)
		len = len * 10 + (size_t)(p[i] - '0');
	if (i == 0 || i >= n || p[i] != ' ' || len > n || len < i + 4 || p[len - 1] != '\n')
		return 0;
	eq = ++i;
	while (eq < len && p[eq] != '=')
		eq++;
	if (eq == i || eq >= len)
		return 0;
	*ret = (struct record_text){p + i, p + eq + 1, eq - i, len - eq - 2};
	return len;
}

static int take_pax(struct tar *t, struct err *e)
{
	const char *p = (const char *)buf_data(&t->meta);
	size_t n = buf_len(&t->meta);
	struct tar_extra global = {0};
	int r = 0;

	while (n > 0 && r == 0) {
		struct record_text record;
		size_t len = split_record(p, n, &record);

		if (len == 0)
			r = bad(e, "an extended header is malformed");
		else
			r = take_pax_record(t->meta_type == 'g' ? &global : &t->extra, &record, e);
		p += len;
		n -= len;
	}
	/* A global header that renames or resizes every entry is legal and never what anybody
	 * meant. */
	if (r == 0 && (global.path || global.target || global.has_size || global.has_uid ||
		       global.has_gid || global.has_mtime))
		r = bad(e, "a global header sets names, sizes, owners or times");
	extra_done(&global);
	return r;
}

static int take_meta(struct tar *t, struct err *e)
{
	const char *p = (const char *)buf_data(&t->meta);
	size_t n = buf_len(&t->meta);
	int r;

	/* GNU tar counts the closing NUL. */
	if (n > 0 && p[n - 1] == 0)
		n--;
	if (t->meta_type == 'x' || t->meta_type == 'g')
		r = take_pax(t, e);
	else
		r = take_text(t->meta_type == 'L' ? &t->extra.path : &t->extra.target, p, n, e);
	buf_clear(&t->meta);
	return r;
}

/* ---- entries ---- */

/* Takes "/" and "./" from the front, as other programs that unpack do (some write absolute names),
 * and "/" from the end; what is left is safe to create below a directory, or empty for the root. */
static int clean_path(char *p, struct err *e)
{
	size_t n = strlen(p), depth = 0;
	char *from = p;

	while (from[0] == '/' || (from[0] == '.' && (from[1] == '/' || from[1] == 0)))
		from++;
	n -= (size_t)(from - p);
	memmove(p, from, n + 1);
	while (n > 0 && p[n - 1] == '/')
		p[--n] = 0;
	if (n > 0 && !path_is_safe_relative(p))
		return bad(e, "a path with '..', '.' or an empty part");
	for (size_t i = 0; i < n; i++)
		depth += p[i] == '/';
	return depth >= TAR_DEPTH_MAX ? too_much(e, "directories are nested too deeply") : 0;
}

static int entry_type(char type, enum tar_type *ret, struct err *e)
{
	switch (type) {
	case '0':
	case '7':
	case 0:
		*ret = TAR_FILE;
		return 0;
	case '1':
		*ret = TAR_HARDLINK;
		return 0;
	case '2':
		*ret = TAR_SYMLINK;
		return 0;
	case '3':
	case '4':
		*ret = TAR_OTHER;
		return 0;
	case '6':
		*ret = TAR_FIFO;
		return 0;
	case '5':
		*ret = TAR_DIR;
		return 0;
	case 'S':
		return err_set(e, ERR_UNSUPPORTED, EBADMSG,
			       "the tar stream has sparse files; make it without --sparse");
	default:
		return bad(e, "an entry of unknown type");
	}
}

static int read_names(struct tar *t, bool is_gnu, char *path, char *target, struct err *e)
{
	size_t n = 0;

	if (t->extra.path) {
		str_copy(path, TAR_NAME_MAX + 1, t->extra.path);
	} else {
		/* GNU tar keeps other things where ustar has its prefix. */
		if (!is_gnu)
			n = field_text(t->block, F_PREFIX, path);
		if (n > 0)
			path[n++] = '/';
		if (field_text(t->block, F_NAME, path + n) == 0)
			return bad(e, "an entry without a name");
	}
	if (t->extra.target)
		str_copy(target, TAR_NAME_MAX + 1, t->extra.target);
	else
		field_text(t->block, F_TARGET, target);
	return 0;
}

static int read_numbers(struct tar *t, struct tar_entry *entry, struct err *e)
{
	const struct tar_extra *x = &t->extra;
	uint64_t mode, uid, gid, size, mtime;

	if (!parse_number(t->block, F_MODE, false, &mode) ||
	    !parse_number(t->block, F_UID, false, &uid) ||
	    !parse_number(t->block, F_GID, false, &gid) ||
	    !parse_number(t->block, F_SIZE, false, &size) ||
	    !parse_number(t->block, F_MTIME, true, &mtime))
		return bad(e, "a number in a header");
	uid = x->has_uid ? x->uid : uid;
	gid = x->has_gid ? x->gid : gid;
	size = x->has_size ? x->size : size;
	if (uid > ID_MAX || gid > ID_MAX)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "an entry belongs to user or group %llu; a box has ids up to 65535",
			       (unsigned long long)(uid > ID_MAX ? uid : gid));
	if (size > TAR_FILE_MAX)
		return too_much(e, "a file is larger than 1 TiB");
	entry->mode = (unsigned)(mode & 07777);
	entry->uid = (unsigned)uid;
	entry->gid = (unsigned)gid;
	entry->size = size;
	entry->mtime_s = x->has_mtime ? x->mtime_s : mtime;
	entry->mtime_ns = x->has_mtime ? x->mtime_ns : 0;
	if (entry->mtime_s > INT64_MAX)
		return bad(e, "a time in a header");
	return 0;
}

static int check_entry(const struct tar_entry *entry, char *path, char *target, struct err *e)
{
	size_t n = strlen(path);
	bool slash = n > 0 && path[n - 1] == '/';
	int r = clean_path(path, e);

	if (r < 0)
		return r;
	if (entry->type != TAR_DIR && (slash || !*path))
		return bad(e, "a file that is named like a directory");
	if (entry->type != TAR_FILE && entry->size > 0)
		return bad(e, "an entry with data that cannot have any");
	if ((entry->type == TAR_SYMLINK || entry->type == TAR_HARDLINK) && !*target)
		return bad(e, "a link without a target");
	if (entry->type == TAR_HARDLINK) {
		r = clean_path(target, e);
		if (r == 0 && !*target)
			r = bad(e, "a hard link to a directory");
	}
	return r;
}

static void expect_data(struct tar *t, enum tar_state state, uint64_t size)
{
	t->left = size;
	t->padding = (size_t)(-size % TAR_BLOCK);
	t->state = state;
}

static int end_entry(struct tar *t, struct err *e)
{
	return t->ops->on_entry_end ? t->ops->on_entry_end(t->arg, e) : 0;
}

static int take_entry(struct tar *t, bool is_gnu, struct err *e)
{
	char path[TAR_NAME_MAX + 1], target[TAR_NAME_MAX + 1];
	struct tar_entry entry = {.path = path, .target = target};
	int r = entry_type((char)t->block[AT_TYPE], &entry.type, e);

	if (r == 0)
		r = read_names(t, is_gnu, path, target, e);
	if (r == 0)
		r = read_numbers(t, &entry, e);
	if (r == 0)
		r = check_entry(&entry, path, target, e);
	if (r == 0 && ++t->entries > TAR_ENTRIES_MAX)
		r = too_much(e, "more than 2,000,000 entries");
	extra_done(&t->extra);
	t->pending = false;
	if (r == 0)
		r = t->ops->on_entry(t->arg, &entry, e);
	if (r < 0)
		return r;
	if (entry.size == 0)
		return end_entry(t, e);
	expect_data(t, TAR_DATA, entry.size);
	return 0;
}

static int begin_meta(struct tar *t, struct err *e)
{
	uint64_t size;

	t->meta_type = (char)t->block[AT_TYPE];
	if (!parse_number(t->block, F_SIZE, false, &size))
		return bad(e, "a number in a header");
	if (size == 0)
		return bad(e, "an empty extended header");
	if (size > TAR_META_MAX)
		return too_much(e, "an extended header is larger than 1 MiB");
	if (++t->entries > TAR_ENTRIES_MAX)
		return too_much(e, "more than 2,000,000 entries");
	t->pending = t->pending || t->meta_type != 'g';
	expect_data(t, TAR_META, size);
	return 0;
}

/* What the first bytes say if it is no tar at all. */
static const char *compression_of(const uint8_t *p)
{
	static const struct {
		const char *magic;
		size_t n;
		const char *program;
	} known[] = {
		{"\x1f\x8b", 2, "gunzip"},
		{"\xfd"
		 "7zXZ",
		 5, "unxz"},
		{"\x28\xb5\x2f\xfd", 4, "unzstd"},
		{"BZh", 3, "bunzip2"},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (memcmp(p, known[i].magic, known[i].n) == 0)
			return known[i].program;
	return NULL;
}

static int not_a_tar(const struct tar *t, struct err *e)
{
	const char *program = t->entries == 0 ? compression_of(t->block) : NULL;

	if (program)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the stream is compressed; pipe it through %s first", program);
	return bad(e, t->entries ? "a header is damaged" : "this is not a tar archive");
}

static int take_header(struct tar *t, struct err *e)
{
	static const uint8_t zero[TAR_BLOCK];
	const uint8_t *magic = t->block + AT_MAGIC;
	bool is_gnu = memcmp(magic, "ustar  ", 8) == 0;
	char type = (char)t->block[AT_TYPE];

	if (memcmp(t->block, zero, TAR_BLOCK) == 0) {
		if (t->pending)
			return bad(e, "an extended header without an entry");
		if (++t->zero_blocks == 2)
			t->state = TAR_END;
		return 0;
	}
	if (t->zero_blocks)
		return bad(e, "an entry after the end");
	if ((!is_gnu && memcmp(magic, "ustar\00000", 8) != 0) || !checksum_is_right(t->block))
		return not_a_tar(t, e);
	if (type == 'x' || type == 'g' || type == 'L' || type == 'K')
		return begin_meta(t, e);
	return take_entry(t, is_gnu, e);
}

/* ---- feeding ---- */

static int feed_header(struct tar *t, const uint8_t *p, size_t n, size_t *ret_used, struct err *e)
{
	size_t take = TAR_BLOCK - t->have;

	if (take > n)
		take = n;
	memcpy(t->block + t->have, p, take);
	t->have += take;
	*ret_used = take;
	if (t->have < TAR_BLOCK)
		return 0;
	t->have = 0;
	return take_header(t, e);
}

static int feed_payload(struct tar *t, const uint8_t *p, size_t n, size_t *ret_used, struct err *e)
{
	size_t take = t->left < n ? (size_t)t->left : n;
	bool meta = t->state == TAR_META;
	int r;

	*ret_used = take;
	t->left -= take;
	if (meta)
		r = buf_append(&t->meta, p, take) < 0 ? err_errno(e, ENOMEM, "read a tar header")
						      : 0;
	else
		r = t->ops->on_data(t->arg, p, take, e);
	if (r < 0 || t->left > 0)
		return r;
	t->state = t->padding ? TAR_PADDING : TAR_HEADER;
	return meta ? take_meta(t, e) : end_entry(t, e);
}

static int feed_some(struct tar *t, const uint8_t *p, size_t n, size_t *ret_used, struct err *e)
{
	switch (t->state) {
	case TAR_HEADER:
		return feed_header(t, p, n, ret_used, e);
	case TAR_META:
	case TAR_DATA:
		return feed_payload(t, p, n, ret_used, e);
	case TAR_PADDING:
		*ret_used = t->padding < n ? t->padding : n;
		t->padding -= *ret_used;
		if (t->padding == 0)
			t->state = TAR_HEADER;
		return 0;
	case TAR_END:
		*ret_used = n;
		for (size_t i = 0; i < n; i++)
			if (p[i])
				return bad(e, "bytes after the end of the archive");
		return 0;
	}
	return -EINVAL;
}

int tar_feed(struct tar *t, const void *p, size_t n, struct err *e)
{
	const uint8_t *bytes = p;

	while (n > 0 && t->error == 0) {
		size_t used = 0;

		t->error = feed_some(t, bytes, n, &used, e);
		bytes += used;
		n -= used;
	}
	return t->error;
}

int tar_finish(struct tar *t, struct err *e)
{
	if (t->error)
		return t->error;
	if (t->entries == 0 && t->have > 0 && t->have < TAR_BLOCK)
		return t->error = not_a_tar(t, e);
	/* Some writers end with one zero block only, and some of layers with none. */
	if (t->state == TAR_END)
		return 0;
	if (t->state != TAR_HEADER || t->have > 0 || t->pending)
		return t->error = bad(e, "it ends too early");
	if (t->zero_blocks > 0 || t->guarded)
		return 0;
	if (t->entries == 0)
		return t->error = bad(e, "it is empty");
	return t->error = bad(e, "it lacks the zeros at its end, so it may have been cut short; "
				 "if it is whole, add 1024 of them");
}
