/* The logs of a box; see output.h. */
#include "keeper/output.h"

#include "base/fd.h"
#include "base/limits.h"
#include "keeper/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

void keeper_logs_init(struct keeper_logs *l, int box_fd)
{
	*l = (struct keeper_logs){
		.box_fd = box_fd,
		.dir_fd = -1,
		.bytes_max = KEEPER_LOGS_BYTES_MAX,
		.exec_bytes_max = KEEPER_LOG_BYTES_MAX,
	};
}

void keeper_logs_done(struct keeper_logs *l)
{
	fd_close(&l->dir_fd);
}

int keeper_logs_dir(struct keeper_logs *l)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

	if (l->dir_fd >= 0)
		return l->dir_fd;
	l->dir_fd = openat(l->box_fd, "logs", flags);
	if (l->dir_fd < 0 && errno == ENOENT) {
		if (mkdirat(l->box_fd, "logs", 0700) < 0 && errno != EEXIST)
			return -errno;
		l->dir_fd = openat(l->box_fd, "logs", flags);
	}
	return l->dir_fd < 0 ? -errno : l->dir_fd;
}

void keeper_outputs_init(struct keeper_output *out)
{
	for (unsigned s = 0; s < OUTPUT_COUNT; s++)
		out[s] = (struct keeper_output){.fd = -1};
}

static void close_one(struct keeper_logs *l, struct keeper_output *o)
{
	if (o->fd < 0)
		return;
	fd_close(&o->fd);
	l->open--;
}

/* Opens the file, for appending and for reading back. */
static int open_one(struct keeper_logs *l, uint32_t id, struct keeper_output *o, unsigned s)
{
	int dir = keeper_logs_dir(l);

	if (o->fd >= 0)
		return o->fd;
	if (dir < 0)
		return dir;
	/* A number is never used twice, so a file of that name is what a lost keeper left. */
	o->fd = openat(dir, journal_log_name(id, s).text,
		       O_RDWR | O_CLOEXEC | O_NOFOLLOW | (o->kept == 0 ? O_CREAT | O_TRUNC : 0),
		       0600);
	if (o->fd < 0)
		return -errno;
	l->open++;
	return o->fd;
}

/* Returns how many bytes reached the file. */
static size_t write_at(int fd, uint64_t at, const char *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = pwrite(fd, p + done, n - done, (off_t)(at + done));

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			break;
		done += (size_t)r;
	}
	return done;
}

void keeper_output_append(struct keeper_logs *l, uint32_t id, struct keeper_output *out, unsigned s,
			  const void *p, size_t n)
{
	uint64_t of_exec = l->exec_bytes_max - out[OUTPUT_OUT].kept - out[OUTPUT_ERR].kept;
	uint64_t of_box = l->bytes < l->bytes_max ? l->bytes_max - l->bytes : 0;
	uint64_t room = of_exec < of_box ? of_exec : of_box;
	struct keeper_output *o = &out[s];
	size_t keep = o->cut ? 0 : n < room ? n : (size_t)room, done = 0;

	if (keep > 0 && open_one(l, id, o, s) >= 0)
		done = write_at(o->fd, o->kept, p, keep);
	o->bytes += n;
	o->kept += done;
	l->bytes += done;
	if (done < n)
		o->cut = true;
	if (o->cut || l->open > KEEPER_LOG_FDS_MAX)
		close_one(l, o);
}

ssize_t keeper_output_read(struct keeper_logs *l, uint32_t id, struct keeper_output *o, unsigned s,
			   uint64_t at, void *p, size_t n)
{
	ssize_t r;
	int fd;

	if (at >= o->kept)
		return 0;
	if (n > o->kept - at)
		n = (size_t)(o->kept - at);
	fd = open_one(l, id, o, s);
	if (fd < 0)
		return fd;
	do {
		r = pread(fd, p, n, (off_t)at);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		r = -errno;
	if (l->open > KEEPER_LOG_FDS_MAX)
		close_one(l, o);
	return r;
}

void keeper_outputs_load(struct keeper_logs *l, uint32_t id, struct keeper_output *out)
{
	int dir = keeper_logs_dir(l);

	for (unsigned s = 0; s < OUTPUT_COUNT && dir >= 0; s++) {
		struct stat st;

		if (fstatat(dir, journal_log_name(id, s).text, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode) || st.st_size <= 0)
			continue;
		out[s].kept = (uint64_t)st.st_size;
		l->bytes += out[s].kept;
	}
}

void keeper_outputs_close(struct keeper_logs *l, struct keeper_output *out)
{
	for (unsigned s = 0; s < OUTPUT_COUNT; s++)
		close_one(l, &out[s]);
}

void keeper_outputs_remove(struct keeper_logs *l, uint32_t id, struct keeper_output *out)
{
	keeper_outputs_close(l, out);
	for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
		if (out[s].kept > 0 && l->dir_fd >= 0)
			unlinkat(l->dir_fd, journal_log_name(id, s).text, 0);
		l->bytes -= out[s].kept;
		out[s].kept = 0;
		out[s].cut = true;
	}
}
