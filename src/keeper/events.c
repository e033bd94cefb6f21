/* The box's own events; see events.h. */
#include "keeper/events.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct shell_place {
	struct shell_place *next;
	char name[SHELL_NAME_MAX + 1];
	char *cwd; /* owned */
};

void keeper_events_init(struct keeper_events *e)
{
	*e = (struct keeper_events){.fd = -1};
}

void keeper_events_done(struct keeper_events *e)
{
	while (e->shells) {
		struct shell_place *p = e->shells;

		e->shells = p->next;
		free(p->cwd);
		free(p);
	}
	e->shell_count = 0;
	fd_close(&e->fd);
}

int keeper_events_open(const struct keeper_events *e, int logs_fd, uint64_t generation)
{
	int fd = openat(logs_fd, generation == e->generation ? EVENT_LOG : EVENT_LOG_OLD,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -errno : fd;
}

/* The number of a file's last whole row; 0 if it has none. */
static uint64_t last_seq(int logs_fd, const char *name)
{
	autoclose int fd = openat(logs_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	autofree char *text = malloc(EVENTS_LINE_MAX + 1);
	struct stat st;
	char *row;
	off_t from;
	ssize_t n;

	if (fd < 0 || !text || fstat(fd, &st) < 0)
		return 0;
	from = st.st_size > EVENTS_LINE_MAX ? st.st_size - EVENTS_LINE_MAX : 0;
	n = pread(fd, text, EVENTS_LINE_MAX, from);
	while (n > 0 && text[n - 1] != '\n')
		n--;
	if (n <= 0)
		return 0;
	text[n - 1] = 0;
	row = memrchr(text, '\n', (size_t)n - 1);
	return event_row_seq(row ? row + 1 : text);
}

static int open_file(struct keeper_events *e, int logs_fd)
{
	bool first = e->fd < 0;
	autoclose int fd = -1;
	int r;

	if (e->fd >= 0 && e->bytes < KEEPER_EVENTS_MAX / 2)
		return 0;
	if (e->fd >= 0) {
		fd_close(&e->fd);
		if (renameat(logs_fd, EVENT_LOG, logs_fd, EVENT_LOG_OLD) < 0 && errno != ENOENT)
			return -errno;
	}
	fd = openat(logs_fd, EVENT_LOG, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fd_cut_torn_line(fd, &e->bytes);
	if (r < 0)
		return r;
	e->fd = take_fd(fd);
	e->generation++;
	if (first && e->bytes > 0)
		e->seq = last_seq(logs_fd, EVENT_LOG);
	if (first && e->seq == 0)
		e->seq = last_seq(logs_fd, EVENT_LOG_OLD);
	return 0;
}

int keeper_events_add(struct keeper_events *e, int logs_fd, const struct event *event,
		      struct buf *row)
{
	struct event numbered = *event;
	int r = logs_fd < 0 ? 0 : open_file(e, logs_fd);

	if (r < 0)
		return r;
	numbered.seq = e->seq + 1;
	r = event_format_json(&numbered, row);
	if (r < 0)
		return r;
	if (logs_fd >= 0) {
		r = fd_write_full(e->fd, buf_data(row), buf_len(row));
		if (r == 0)
			e->bytes += buf_len(row);
		else if (ftruncate(e->fd, (off_t)e->bytes) < 0)
			r = -errno;
	}
	if (r == 0)
		e->seq++;
	row->len--; /* its newline */
	return r;
}

bool keeper_events_shell_moved(struct keeper_events *e, const char *shell, const char *cwd)
{
	struct shell_place *p = e->shells;
	char *copy;
	bool moved;

	while (p && strcmp(p->name, shell) != 0)
		p = p->next;
	if (!p && e->shell_count < INIT_SHELLS_MAX && (p = calloc(1, sizeof(*p)))) {
		snprintf(p->name, sizeof(p->name), "%s", shell);
		p->next = e->shells;
		e->shells = p;
		e->shell_count++;
	}
	if (!p || (p->cwd && strcmp(p->cwd, cwd) == 0))
		return false;
	copy = strdup(cwd);
	if (!copy)
		return false;
	moved = p->cwd != NULL;
	free(p->cwd);
	p->cwd = copy;
	return moved;
}
