/* The files of a group: small texts that are written whole and read back; see parts.h. */
#include "base/fd.h"
#include "base/str.h"
#include "cgroup/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The kernel takes a setting from one write. A shorter one is not an answer it gives. */
static int write_whole(int fd, const char *text)
{
	size_t n = strlen(text);
	ssize_t r;

	do
		r = write(fd, text, n);
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	return (size_t)r == n ? 0 : -EIO;
}

static int read_text(int fd, char *ret, size_t size)
{
	ssize_t n;

	do
		n = pread(fd, ret, size - 1, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	ret[n] = 0;
	return 0;
}

int knob_open(int dir_fd, const char *file, int flags)
{
	int fd = openat(dir_fd, file, flags | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int knob_set(int dir_fd, const char *file, const char *text)
{
	autoclose int fd = knob_open(dir_fd, file, O_WRONLY | O_TRUNC);

	return fd < 0 ? fd : write_whole(fd, text);
}

int knob_set_text(int dir_fd, const char *file, const char *text, char *ret, size_t size)
{
	autoclose int fd = knob_open(dir_fd, file, O_RDWR | O_TRUNC);
	int r = fd < 0 ? fd : write_whole(fd, text);

	if (r == 0)
		r = read_text(fd, ret, size);
	if (r == 0)
		ret[strcspn(ret, "\n")] = 0;
	return r;
}

static int set_number(int dir_fd, const char *file, uint64_t value, uint64_t slack)
{
	char text[32], now[64];
	uint64_t got;
	int r;

	snprintf(text, sizeof(text), "%" PRIu64, value);
	r = knob_set_text(dir_fd, file, text, now, sizeof(now));
	if (r < 0)
		return r;
	if (!str_parse_u64(now, UINT64_MAX, &got) || got > value || value - got > slack)
		return -ENODATA;
	return 0;
}

int knob_set_u64(int dir_fd, const char *file, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return knob_set(dir_fd, file, text);
}

int knob_set_max(int dir_fd, const char *file, uint64_t value)
{
	enum { PAGE_BYTES_MAX = 65536 };

	return set_number(dir_fd, file, value, PAGE_BYTES_MAX - 1);
}

int knob_set_exact(int dir_fd, const char *file, uint64_t value)
{
	return set_number(dir_fd, file, value, 0);
}

int knob_get(int dir_fd, const char *file, char *ret, size_t size)
{
	autoclose int fd = knob_open(dir_fd, file, O_RDONLY);

	return fd < 0 ? fd : read_text(fd, ret, size);
}

uint64_t knob_get_u64(int dir_fd, const char *file)
{
	char text[64];
	uint64_t v;

	if (knob_get(dir_fd, file, text, sizeof(text)) < 0)
		return 0;
	text[strcspn(text, "\n")] = 0;
	return str_parse_u64(text, UINT64_MAX, &v) ? v : 0;
}

uint64_t knob_field(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, word, n) == 0 && at[n] == ' ')
			return strtoull(at + n + 1, NULL, 10);
	}
	return 0;
}

uint64_t knob_get_cache(int fd, const char *inactive, const char *active)
{
	char text[KNOB_TEXT_MAX];

	if (knob_get(fd, "memory.stat", text, sizeof(text)) < 0)
		return 0;
	return knob_field(text, inactive) + knob_field(text, active);
}

bool knob_has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += n)
		if ((at == text || at[-1] == ' ') && strchr(" \n", at[n]))
			return true;
	return false;
}

bool knob_has_line(const char *text, const char *start)
{
	size_t n = strlen(start);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, start, n) == 0 && strchr(" \n", at[n]))
			return true;
	}
	return false;
}

int group_open(int dir_fd, const char *name)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

int group_make(int dir_fd, const char *name)
{
	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	return group_open(dir_fd, name);
}

void group_each(int dir_fd, void (*on_name)(int dir_fd, const char *name, void *arg), void *arg)
{
	struct dirent *d;
	struct stat st;
	DIR *dir;
	int copy;

	/* Without directories in it there are two links, and no need to read its many files. */
	if (fstat(dir_fd, &st) == 0 && st.st_nlink == 2)
		return;
	copy = group_open(dir_fd, ".");
	dir = copy < 0 ? NULL : fdopendir(copy);
	if (!dir) {
		fd_close(&copy);
		return;
	}
	while ((d = readdir(dir)))
		if (d->d_type == DT_DIR && d->d_name[0] != '.')
			on_name(dir_fd, d->d_name, arg);
	closedir(dir);
}
