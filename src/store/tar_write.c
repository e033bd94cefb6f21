/* Headers of tar streams; see tar_write.h. */
#include "store/tar_write.h"

#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAME_ROOM = 100, NUMBER_BITS = 33, NUMBER_ID_MAX = 07777777 };

/* POSIX.1-1988 ustar, as every tar reads it. */
struct tar_header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type;
	char link[100], magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155];
	char rest[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a tar header is one block");

/* All but the last byte of a field. */
static void put_octal(char *field, size_t size, uint64_t value)
{
	field[size - 1] = 0;
	for (size_t i = size - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
}

static bool fits_text(const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)text[i] >= 0x80)
			return false;
	return n <= NAME_ROOM;
}

/* What does not fit is cut, or 0: the pax header before it says it. */
static int put_header(struct buf *out, char type, const char *name, const struct tar_entry *entry)
{
	struct tar_header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
	bool is_link = entry->type == TAR_SYMLINK || entry->type == TAR_HARDLINK;
	unsigned sum = 0;

	memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	if (is_link && type != 'x')
		memcpy(h.link, entry->target, strnlen(entry->target, sizeof(h.link)));
	put_octal(h.mode, sizeof(h.mode), entry->mode & 07777);
	put_octal(h.uid, sizeof(h.uid), entry->uid <= NUMBER_ID_MAX ? entry->uid : 0);
	put_octal(h.gid, sizeof(h.gid), entry->gid <= NUMBER_ID_MAX ? entry->gid : 0);
	put_octal(h.size, sizeof(h.size), entry->size >> NUMBER_BITS ? 0 : entry->size);
	put_octal(h.mtime, sizeof(h.mtime), entry->mtime_s >> NUMBER_BITS ? 0 : entry->mtime_s);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const unsigned char *)&h)[i];
	snprintf(h.sum, sizeof(h.sum), "%06o", sum);
	return buf_append(out, &h, sizeof(h));
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

static int put_time(struct buf *b, const struct tar_entry *entry)
{
	char text[48];
	size_t n;

	n = (size_t)snprintf(text, sizeof(text), "%llu.%09u", (unsigned long long)entry->mtime_s,
			     entry->mtime_ns);
	while (text[n - 1] == '0')
		text[--n] = 0;
	if (text[n - 1] == '.')
		text[--n] = 0;
	return put_record(b, "mtime", text);
}

/* The records that an entry needs, in the order of their keys. */
static int put_records(struct buf *b, const char *name, const struct tar_entry *entry)
{
	bool is_link = entry->type == TAR_SYMLINK || entry->type == TAR_HARDLINK;
	char number[24];
	int r = 0;

	if (is_link && !fits_text(entry->target))
		r = put_record(b, "linkpath", entry->target);
	if (r == 0 && (entry->mtime_ns || entry->mtime_s >> NUMBER_BITS))
		r = put_time(b, entry);
	if (r == 0 && !fits_text(name))
		r = put_record(b, "path", name);
	if (r == 0 && entry->size >> NUMBER_BITS) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)entry->size);
		r = put_record(b, "size", number);
	}
	return r;
}

int tar_write_entry(struct buf *out, const struct tar_entry *entry)
{
	static const char types[] = {[TAR_FILE] = '0',	   [TAR_DIR] = '5',  [TAR_SYMLINK] = '2',
				     [TAR_HARDLINK] = '1', [TAR_FIFO] = '6', [TAR_OTHER] = 0};
	struct tar_entry about = {.type = TAR_FILE, .mode = 0644};
	char name[TAR_NAME_MAX + 3];
	struct buf records;
	int r;

	snprintf(name, sizeof(name), "%s%s", *entry->path ? entry->path : ".",
		 entry->type == TAR_DIR ? "/" : "");
	buf_init(&records, 4 * sizeof(name));
	r = put_records(&records, name, entry);
	about.size = buf_len(&records);
	if (r == 0 && about.size > 0)
		r = put_header(out, 'x', "pax", &about);
	if (r == 0 && about.size > 0)
		r = buf_append(out, buf_data(&records), buf_len(&records));
	if (r == 0)
		r = tar_write_pad(out, about.size);
	if (r == 0)
		r = put_header(out, types[entry->type], name, entry);
	buf_done(&records);
	return r;
}

int tar_write_pad(struct buf *out, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	return buf_append(out, zeros, (size_t)(-size % TAR_BLOCK));
}

int tar_write_end(struct buf *out)
{
	static const char zeros[2 * TAR_BLOCK];

	return buf_append(out, zeros, sizeof(zeros));
}
