/* Writes tar streams, good and hostile, into memory. */
#pragma once

#include "base/buf.h"
#include "tap.h"

struct tar_maker {
	struct buf out;
};

static inline void maker_init(struct tar_maker *m)
{
	buf_init(&m->out, 64u << 20);
}

static inline void maker_bytes(struct tar_maker *m, const void *p, size_t n)
{
	static const char zero[512];

	CHECK_EQ(buf_append(&m->out, p, n), 0);
	CHECK_EQ(buf_append(&m->out, zero, (512 - n % 512) % 512), 0);
}

static inline void maker_seal(unsigned char *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (int i = 0; i < 512; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
}

struct maker_entry {
	char type;
	const char *name, *target;
	unsigned mode, uid, gid;
	unsigned long long size;
	unsigned long long mtime;
	int gnu;
};

static inline void maker_header(struct tar_maker *m, struct maker_entry e)
{
	unsigned char h[512] = {0};

	memcpy(h, e.name, strlen(e.name) < 100 ? strlen(e.name) : 100);
	snprintf((char *)h + 100, 8, "%07o", e.mode);
	snprintf((char *)h + 108, 8, "%07o", e.uid);
	snprintf((char *)h + 116, 8, "%07o", e.gid);
	snprintf((char *)h + 124, 12, "%011llo", e.size & 077777777777ull);
	snprintf((char *)h + 136, 12, "%011llo", e.mtime & 077777777777ull);
	h[156] = (unsigned char)e.type;
	if (e.target)
		memcpy(h + 157, e.target, strlen(e.target) < 100 ? strlen(e.target) : 100);
	memcpy(h + 257, e.gnu ? "ustar  " : "ustar\00000", 8);
	maker_seal(h);
	CHECK_EQ(buf_append(&m->out, h, sizeof(h)), 0);
}

static inline void maker_file(struct tar_maker *m, const char *name, const char *text)
{
	maker_header(m, (struct maker_entry){.type = '0',
					     .name = name,
					     .mode = 0644,
					     .size = strlen(text),
					     .mtime = 1000});
	maker_bytes(m, text, strlen(text));
}

static inline void maker_dir(struct tar_maker *m, const char *name)
{
	maker_header(m,
		     (struct maker_entry){.type = '5', .name = name, .mode = 0755, .mtime = 1000});
}

static inline void maker_link(struct tar_maker *m, char type, const char *name, const char *target)
{
	maker_header(
		m,
		(struct maker_entry){
			.type = type, .name = name, .target = target, .mode = 0777, .mtime = 1000});
}

/* An extended header with the given body. */
static inline void maker_meta(struct tar_maker *m, char type, const void *body, size_t n)
{
	maker_header(m, (struct maker_entry){.type = type,
					     .name = "././@LongLink",
					     .size = n,
					     .gnu = type == 'L' || type == 'K'});
	maker_bytes(m, body, n);
}

/* "LENGTH KEY=VALUE\n" */
static inline void maker_pax(struct tar_maker *m, const char *key, const char *value)
{
	size_t n = strlen(key) + strlen(value) + 3, digits = 1;
	char *body = malloc(n + 16);
	int len;

	while (snprintf(NULL, 0, "%zu", n + digits) > (int)digits)
		digits++;
	len = snprintf(body, n + 16, "%zu %s=%s\n", n + digits, key, value);
	CHECK_EQ((size_t)len, n + digits);
	maker_meta(m, 'x', body, (size_t)len);
	free(body);
}

static inline void maker_end(struct tar_maker *m)
{
	static const char zero[1024];

	CHECK_EQ(buf_append(&m->out, zero, sizeof(zero)), 0);
}

static inline void maker_done(struct tar_maker *m)
{
	buf_done(&m->out);
}
