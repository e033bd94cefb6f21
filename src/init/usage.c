/* What a command used; see usage.h. */
#include "init/usage.h"

#include "base/fd.h"
#include "base/iocount.h"
#include "base/limits.h"
#include "base/str.h"
#include "init/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum {
	STAT_CPU,
	STAT_PEAK,
	STAT_OOM,
	STAT_IO,
	STAT_PIDS,
	STAT_MISSING = -2, /* instead of a descriptor: it was looked for */
	STAT_TEXT = 4096,
};

/* The first that is there. */
static const struct {
	int kind;
	const char *file;
	int flags;
} sources[TREE_STATS][2] = {
	[STAT_CPU] = {{TREE_V2, "cpu.stat", O_RDONLY}},
	[STAT_PEAK] = {{TREE_MEMORY, "memory.max_usage_in_bytes", O_RDWR},
		       {TREE_V2, "memory.peak", O_RDWR}},
	[STAT_OOM] = {{TREE_MEMORY, "memory.oom_control", O_RDONLY},
		      {TREE_V2, "memory.events", O_RDONLY}},
	[STAT_IO] = {{TREE_IO, "blkio.throttle.io_service_bytes", O_RDONLY},
		     {TREE_V2, "io.stat", O_RDONLY}},
	[STAT_PIDS] = {{TREE_V2, "pids.events", O_RDONLY}},
};

/* memory.peak can be written to since Linux 6.12 only, and before that be opened for reading. */
static int open_source(const struct init_tree *t, int stat, int i)
{
	int dir_fd = t->fd[sources[stat][i].kind], fd;

	if (!sources[stat][i].file || dir_fd < 0)
		return -1;
	fd = openat(dir_fd, sources[stat][i].file, sources[stat][i].flags | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT && sources[stat][i].flags != O_RDONLY)
		fd = openat(dir_fd, sources[stat][i].file, O_RDONLY | O_CLOEXEC);
	return fd;
}

static int stat_open(struct init_tree *t, int stat)
{
	int *fd = &t->stat_fd[stat];

	if (*fd == -1) {
		*fd = open_source(t, stat, 0);
		if (*fd < 0)
			*fd = open_source(t, stat, 1);
		if (*fd < 0)
			*fd = STAT_MISSING;
	}
	return *fd;
}

void usage_open(struct init_tree *t)
{
	for (int i = 0; i < TREE_STATS; i++)
		stat_open(t, i);
}

/* "" where it cannot be read. What does not fit is cut: the numbers that matter come first, and
 * no list of devices is so long. */
static const char *read_text(int fd, char text[STAT_TEXT])
{
	ssize_t n = fd < 0 ? 0 : pread(fd, text, STAT_TEXT - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* The number of the line "KEY NUMBER". */
static uint64_t find_number(const char *text, const char *key)
{
	size_t n = strlen(key);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, key, n) == 0 && at[n] == ' ')
			return strtoull(at + n + 1, NULL, 10);
	}
	return 0;
}

uint64_t usage_pids_hits(const struct init_tree_groups *g, struct init_tree *t)
{
	char text[STAT_TEXT];
	uint64_t n = find_number(read_text(g ? g->pids_events_fd : -1, text), "max");

	if (t)
		n += find_number(read_text(stat_open(t, STAT_PIDS), text), "max");
	return n;
}

void usage_read(struct init_tree *t, struct usage *ret)
{
	char text[STAT_TEXT];

	*ret = (struct usage){0};
	if (!init_tree_has_group(t))
		return;
	ret->cpu_us = find_number(read_text(stat_open(t, STAT_CPU), text), "usage_usec");
	ret->mem_peak_bytes = strtoull(read_text(stat_open(t, STAT_PEAK), text), NULL, 10);
	ret->oom_kills = find_number(read_text(stat_open(t, STAT_OOM), text), "oom_kill");
	io_count(read_text(stat_open(t, STAT_IO), text), &ret->io_read_bytes, &ret->io_write_bytes);
	ret->pids_hits = usage_pids_hits(t->groups, t);
}

static uint64_t since(uint64_t before, uint64_t now)
{
	return now > before ? now - before : 0;
}

void usage_add(struct usage *sum, const struct usage *before, const struct usage *now)
{
	sum->cpu_us += since(before->cpu_us, now->cpu_us);
	sum->io_read_bytes += since(before->io_read_bytes, now->io_read_bytes);
	sum->io_write_bytes += since(before->io_write_bytes, now->io_write_bytes);
	sum->oom_kills += since(before->oom_kills, now->oom_kills);
	sum->pids_hits += since(before->pids_hits, now->pids_hits);
	if (now->mem_peak_bytes > sum->mem_peak_bytes)
		sum->mem_peak_bytes = now->mem_peak_bytes;
}

void usage_reset_peak(struct init_tree *t)
{
	int fd = init_tree_has_group(t) ? stat_open(t, STAT_PEAK) : -1;
	ssize_t n = fd < 0 ? 0 : pwrite(fd, "0", 1, 0);

	(void)n; /* refused by an older kernel: as documented */
}

void usage_put(const struct usage *u, struct exec_record *ret)
{
	ret->oom_killed = u->oom_kills > 0;
	ret->cpu_us = u->cpu_us;
	ret->mem_peak_bytes = u->mem_peak_bytes;
	ret->io_read_bytes = u->io_read_bytes;
	ret->io_write_bytes = u->io_write_bytes;
}

const char *usage_cause(const struct init *in, const struct usage *u, bool failed, const char *cwd,
			const char *was)
{
	if (!failed)
		return was;
	if (u->oom_kills > 0)
		return "oom";
	if (u->pids_hits > 0)
		return "pids";
	if (disk_is_full(in, "/") || (cwd && disk_is_full(in, cwd)))
		return "disk";
	return was;
}

static uint64_t read_number(int dir_fd, const char *file)
{
	char text[STAT_TEXT];
	autoclose int fd = openat(dir_fd, file, O_RDONLY | O_CLOEXEC);

	return strtoull(read_text(fd, text), NULL, 10); /* "max" is 0: no limit */
}

bool usage_is_short_of_memory(const struct init_tree_groups *g)
{
	static const char *const files[2][2] = {
		{"memory.usage_in_bytes", "memory.limit_in_bytes"},
		{"memory.current", "memory.max"},
	};
	int v2 = g->fd[TREE_MEMORY] < 0;
	int dir_fd = g->fd[v2 ? TREE_V2 : TREE_MEMORY];
	uint64_t limit = dir_fd < 0 ? 0 : read_number(dir_fd, files[v2][1]);

	return limit > 0 && read_number(dir_fd, files[v2][0]) > limit - limit / 8;
}

static bool is_own_disk(const struct init *in, dev_t dev)
{
	for (unsigned i = 0; i < in->disk_count; i++)
		if (in->disks[i] == dev)
			return true;
	return false;
}

/* A directory as O_PATH: of files an overlay does not tell whose they are. */
static int open_above(const char *path)
{
	char text[BOX_PATH_MAX];
	char *slash;
	int fd;

	str_copy(text, sizeof(text), path);
	while ((fd = path_open(text, O_PATH | O_DIRECTORY)) < 0 && (slash = strrchr(text, '/')) &&
	       text[1])
		slash[slash == text] = '\0';
	return fd;
}

/* A file system that is much larger than what the box may have is not one that bounds it; what it
 * keeps back for itself comes on top of the limit. */
static bool find_bounded(const struct init *in, const char *path, struct statvfs *ret)
{
	autoclose int fd = in->disk_limit > 0 ? open_above(path) : -1;
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && is_own_disk(in, st.st_dev) &&
	       fstatvfs(fd, ret) == 0 && ret->f_frsize > 0 &&
	       (in->disk_quota ||
		ret->f_blocks <= (in->disk_limit + in->disk_limit / 8) / ret->f_frsize + 1024);
}

bool disk_is_bounded(const struct init *in, const char *path)
{
	struct statvfs fs;

	return find_bounded(in, path, &fs);
}

bool disk_is_full(const struct init *in, const char *path)
{
	struct statvfs fs;
	uint64_t little;

	/* Of a quota the keeper knows. */
	if (in->disk_quota || !find_bounded(in, path, &fs))
		return false;
	/* A write that is refused may have been a large one: some room is left then. */
	little = (uint64_t)fs.f_blocks * fs.f_frsize / DISK_ROOM_SHARE;
	little = little < DISK_ROOM_MIN ? DISK_ROOM_MIN : little;
	little = little > DISK_ROOM_MAX ? DISK_ROOM_MAX : little;
	return (uint64_t)fs.f_bavail * fs.f_frsize < little || (fs.f_files > 0 && fs.f_favail == 0);
}
