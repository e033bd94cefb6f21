/* Names that match a pattern, in a copy of init (work.h). */
#include "init/tool_walk.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

struct finding {
	struct work *w;
	struct tool_walk walk;
	uint64_t max;
};

/* A file, or a link to one: such a link is named, but nothing is reached through it. */
static bool is_wanted(const struct finding *f, const struct tool_entry *entry)
{
	struct stat st;

	return f->w->m->any_type || entry->type == 'f' ||
	       (entry->type == 'l' && fstatat(entry->dir_fd, entry->name, &st, 0) == 0 &&
		S_ISREG(st.st_mode));
}

static int on_entry(void *arg, const struct tool_entry *entry, struct err *e)
{
	struct finding *f = arg;
	struct wire_summary *s = &f->w->summary;
	char target[BOX_PATH_MAX];
	struct stat st;
	ssize_t n = -1;

	if (!is_wanted(f, entry) ||
	    fstatat(entry->dir_fd, entry->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (s->count == f->max) {
		s->truncated = TRUNCATED_COUNT;
		return 1;
	}
	s->count++;
	if (S_ISLNK(st.st_mode))
		n = readlinkat(entry->dir_fd, entry->name, target, sizeof(target) - 1);
	if (n >= 0)
		target[n] = '\0';
	return work_sent(
		f->w, file_encode_entry(&f->w->out, 0, f->walk.path, &st, n >= 0 ? target : NULL),
		e);
}

int tool_glob(struct work *w, struct err *e)
{
	struct finding f = {.w = w, .max = w->m->count ? w->m->count : INIT_FOUND_USUAL};
	struct init_glob glob;
	int r = init_glob_init(&glob, w->m->pattern ? w->m->pattern : "", false, e), fd;

	if (r < 0)
		return r;
	f.max = f.max < INIT_FOUND_MAX ? f.max : INIT_FOUND_MAX;
	fd = path_open(w->op->path, O_RDONLY | O_DIRECTORY);
	r = fd < 0 ? fd : tool_walk_begin(&f.walk, w, &glob, fd);
	if (r < 0)
		file_error(w->op, -r, "search", "", e);
	else
		r = tool_walk_run(&f.walk, &f, on_entry, e);
	tool_walk_done(&f.walk);
	init_glob_done(&glob);
	return r;
}
