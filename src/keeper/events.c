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

#define EVENTS_NAME	"events.jsonl"
#define EVENTS_OLD_NAME "events.1.jsonl"

enum { EVENT_LINE_MAX = 64 << 10 };

struct shell_place {
	struct shell_place *next;
	char name[SHELL_NAME_MAX + 1];
	char *cwd; /* owned */
};

void events_init(struct events *e)
{
	*e = (struct events){.fd = -1};
}

void events_done(struct events *e)
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

static int open_file(struct events *e, int logs_fd)
{
	struct stat st;

	if (e->fd >= 0 && e->bytes < KEEPER_EVENTS_MAX / 2)
		return 0;
	if (e->fd >= 0) {
		fd_close(&e->fd);
		if (renameat(logs_fd, EVENTS_NAME, logs_fd, EVENTS_OLD_NAME) < 0 && errno != ENOENT)
			return -errno;
	}
	e->fd = openat(logs_fd, EVENTS_NAME, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		       0600);
	if (e->fd < 0)
		return -errno;
	if (fstat(e->fd, &st) < 0)
		return -errno;
	e->bytes = (uint64_t)st.st_size;
	return 0;
}

int events_add(struct events *e, int logs_fd, const struct event *event)
{
	struct buf line;
	int r = open_file(e, logs_fd);

	if (r < 0)
		return r;
	buf_init(&line, EVENT_LINE_MAX);
	r = event_format_json(event, &line);
	if (r == 0)
		r = fd_write_full(e->fd, buf_data(&line), buf_len(&line));
	if (r == 0)
		e->bytes += buf_len(&line);
	else if (ftruncate(e->fd, (off_t)e->bytes) < 0)
		r = -errno;
	buf_done(&line);
	return r;
}

static struct shell_place *place_of(struct events *e, const char *shell)
{
	struct shell_place *p;

	for (p = e->shells; p; p = p->next)
		if (strcmp(p->name, shell) == 0)
			return p;
	if (e->shell_count >= INIT_SHELLS_MAX)
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	snprintf(p->name, sizeof(p->name), "%s", shell);
	p->next = e->shells;
	e->shells = p;
	e->shell_count++;
	return p;
}

bool events_shell_moved(struct events *e, const char *shell, const char *cwd)
{
	struct shell_place *p = place_of(e, shell);
	char *copy;
	bool moved;

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
