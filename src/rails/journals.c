/* The journals' files; see journals.h. */
#include "rails/journals.h"

#include "base/fd.h"
#include "storage/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const space_dirs[RAILS_SPACES] = {"runs", "values"};

const char *rails_space_dir(enum rails_space space)
{
	return space_dirs[space];
}

void rails_journal_path(const struct rails_name *name, char ret[JOURNAL_PATH])
{
	snprintf(ret, JOURNAL_PATH, "%s/%s/journal", space_dirs[name->space], name->id);
}

void rails_journals_init(struct rails_journals *j)
{
	*j = (struct rails_journals){0};
	for (unsigned i = 0; i < RAILS_SPACES; i++)
		j->dirs[i] = -1;
	for (unsigned i = 0; i < JOURNAL_SETS; i++)
		for (unsigned k = 0; k < JOURNAL_WAYS; k++)
			j->open[i][k].fd = -1;
}

void rails_journals_forget(struct rails_journals *j)
{
	for (unsigned i = 0; i < JOURNAL_SETS; i++)
		for (unsigned k = 0; k < JOURNAL_WAYS; k++)
			fd_close(&j->open[i][k].fd);
}

void rails_journals_done(struct rails_journals *j)
{
	rails_journals_forget(j);
	for (unsigned i = 0; i < RAILS_SPACES; i++)
		fd_close(&j->dirs[i]);
}

int rails_journals_begin(struct rails_journals *j, int rails_fd)
{
	for (unsigned i = 0; i < RAILS_SPACES; i++) {
		fd_close(&j->dirs[i]);
		j->dirs[i] = fd_open_below(rails_fd, space_dirs[i], true);
		if (j->dirs[i] < 0)
			return j->dirs[i];
	}
	return fsync(rails_fd) < 0 ? -errno : 0;
}

/* ---- open files ---- */

static struct rails_journal *set_of(struct rails_journals *j, const struct rails_name *name)
{
	unsigned h = 2166136261u ^ (unsigned)name->space;

	for (unsigned i = 0; i < RAILS_ID; i++)
		h = (h ^ (uint8_t)name->id[i]) * 16777619u;
	return j->open[(h >> 7) % JOURNAL_SETS];
}

static struct rails_journal *find_open(struct rails_journals *j, const struct rails_name *name)
{
	struct rails_journal *set = set_of(j, name);

	for (unsigned k = 0; k < JOURNAL_WAYS; k++)
		if (set[k].fd >= 0 && set[k].name.space == name->space &&
		    memcmp(set[k].name.id, name->id, RAILS_ID) == 0)
			return &set[k];
	return NULL;
}

static int open_file(const struct rails_journals *j, const struct rails_name *name, int flags)
{
	char path[JOURNAL_PATH];
	int fd;

	snprintf(path, sizeof(path), "%s/journal", name->id);
	fd = openat(j->dirs[name->space], path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

static int open_journal(struct rails_journals *j, const struct rails_name *name, bool make,
			struct rails_journal **ret)
{
	struct rails_journal *set = set_of(j, name), *slot = find_open(j, name);
	int fd;

	if (!slot) {
		if (make && mkdirat(j->dirs[name->space], name->id, 0700) < 0 && errno != EEXIST)
			return -errno;
		fd = open_file(j, name, O_WRONLY | (make ? O_CREAT : 0));
		if (fd < 0)
			return fd;
		slot = &set[0];
		for (unsigned k = 1; k < JOURNAL_WAYS; k++)
			if (slot->fd >= 0 && (set[k].fd < 0 || set[k].used < slot->used))
				slot = &set[k];
		fd_close(&slot->fd);
		*slot = (struct rails_journal){.name = *name, .fd = fd};
	}
	slot->used = ++j->clock;
	*ret = slot;
	return 0;
}

static void close_journal(struct rails_journals *j, const struct rails_name *name)
{
	struct rails_journal *slot = find_open(j, name);

	if (slot)
		fd_close(&slot->fd);
}

/* ---- writing ---- */

/* Room for more than this row, so that it is not asked for each time. */
static uint64_t reserve_to(uint64_t end)
{
	uint64_t more = end / 4;

	if (more < LEDGER_GROW_MIN)
		more = LEDGER_GROW_MIN;
	if (more > LEDGER_GROW_MAX)
		more = LEDGER_GROW_MAX;
	return (end + more + 4095) & ~4095ull;
}

int rails_journal_reserve(struct rails_journals *j, const struct rails_name *name, uint64_t offset,
			  size_t n)
{
	struct rails_journal *file;
	int r = open_journal(j, name, offset == 0, &file);
	uint64_t to = reserve_to(offset + n);

	if (r < 0 || offset + n <= file->reserved)
		return r;
	while (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)(to - offset)) < 0)
		/* Where there is no such thing, who writes finds out. */
		if (errno == EOPNOTSUPP || errno == ENOSYS)
			break;
		else if (errno != EINTR)
			return -errno;
	file->reserved = to;
	return 0;
}

void rails_journal_drop(struct rails_journals *j, const struct rails_name *name)
{
	struct stat st;
	char path[JOURNAL_PATH];

	close_journal(j, name);
	snprintf(path, sizeof(path), "%s/journal", name->id);
	if (fstatat(j->dirs[name->space], path, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0)
		return;
	unlinkat(j->dirs[name->space], path, 0);
	unlinkat(j->dirs[name->space], name->id, AT_REMOVEDIR);
}

int rails_pwrite(int fd, const void *p, size_t n, uint64_t offset)
{
	const char *at = p;

	while (n > 0) {
		ssize_t done = pwrite(fd, at, n, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done < 0 ? -errno : -EIO;
		at += done;
		offset += (uint64_t)done;
		n -= (size_t)done;
	}
	return 0;
}

int rails_journal_write(struct rails_journals *j, const struct rails_name *name, uint64_t offset,
			const void *p, size_t n)
{
	struct rails_journal *file;
	int r = open_journal(j, name, offset == 0, &file);

	return r < 0 ? r : rails_pwrite(file->fd, p, n, offset);
}

int rails_journal_remove(struct rails_journals *j, const struct rails_name *name)
{
	char gone[32];
	int dir = j->dirs[name->space];

	close_journal(j, name);
	state_gone_name(gone);
	if (renameat(dir, name->id, dir, gone) < 0)
		return errno == ENOENT ? 0 : -errno;
	/* What is left of it is swept later. */
	(void)tree_remove(dir, gone, NULL);
	return 0;
}

void rails_journals_sweep(struct rails_journals *j)
{
	for (unsigned i = 0; i < RAILS_SPACES; i++) {
		char **names;
		size_t count;

		if (state_leftovers(j->dirs[i], &names, &count) < 0)
			continue;
		for (size_t k = 0; k < count; k++)
			(void)tree_remove(j->dirs[i], names[k], NULL);
		state_names_free(names, count);
	}
}

/* ---- fsync ---- */

void rails_journal_flush(const struct rails_journals *j, const struct rails_name *name)
{
	autoclose int fd = open_file(j, name, O_WRONLY);

	if (fd >= 0)
		(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

int rails_journal_sync(const struct rails_journals *j, const struct rails_name *name, bool is_new)
{
	autoclose int fd = open_file(j, name, O_WRONLY), dir = -1;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fsync(fd) < 0)
		return -errno;
	if (!is_new)
		return 0;
	dir = openat(j->dirs[name->space], name->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	return fsync(dir) < 0 ? -errno : 0;
}

int rails_journals_sync_names(const struct rails_journals *j, enum rails_space space)
{
	return fsync(j->dirs[space]) < 0 ? -errno : 0;
}
