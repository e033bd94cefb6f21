/* What was used of budgets; see used.h. */
#include "door/used.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static bool take_number(const char **at, const char *end, uint64_t *ret)
{
	const char *space = memchr(*at, ' ', (size_t)(end - *at));
	char text[24];

	if (!space || (size_t)(space - *at) >= sizeof(text))
		return false;
	memcpy(text, *at, (size_t)(space - *at));
	text[space - *at] = 0;
	*at = space + 1;
	return str_parse_u64(text, UINT64_MAX, ret);
}

int used_line_next(const char **at, const char *end, struct used_line *ret)
{
	const char *stop;
	size_t n;

	if (*at == end)
		return 0;
	stop = memchr(*at, '\n', (size_t)(end - *at));
	if (!stop || !take_number(at, stop, &ret->rate_due) || !take_number(at, stop, &ret->up) ||
	    !take_number(at, stop, &ret->down))
		return -EBADMSG;
	n = (size_t)(stop - *at);
	if (n >= sizeof(ret->name) || memchr(*at, 0, n))
		return -EBADMSG;
	memcpy(ret->name, *at, n);
	ret->name[n] = 0;
	*at = stop + 1;
	return 1;
}

int used_line_write(struct buf *out, const struct used_line *l)
{
	return buf_printf(out, "%llu %llu %llu %s\n", (unsigned long long)l->rate_due,
			  (unsigned long long)l->up, (unsigned long long)l->down, l->name);
}

/* *to becomes the higher one; true if it was not. */
static bool raise(uint64_t *to, uint64_t value)
{
	if (value <= *to)
		return false;
	*to = value;
	return true;
}

bool used_line_raise(struct used_line *to, const struct used_line *from)
{
	bool due = raise(&to->rate_due, from->rate_due);
	bool up = raise(&to->up, from->up), down = raise(&to->down, from->down);

	return due || up || down;
}

/* ---- the broker's ---- */

static int add_line(struct used *u, const struct used_line *line)
{
	struct used_line *grown;

	for (size_t i = u->count; i-- > 0;)
		if (strcmp(u->lines[i].name, line->name) == 0) {
			u->is_changed = used_line_raise(&u->lines[i], line) || u->is_changed;
			return 0;
		}
	if (u->count == USED_LINES_MAX)
		memmove(u->lines, u->lines + 1, --u->count * sizeof(*line));
	grown = reallocarray(u->lines, u->count + 1, sizeof(*line));
	if (!grown)
		return -ENOMEM;
	u->lines = grown;
	u->lines[u->count++] = *line;
	u->is_changed = true;
	return 0;
}

int used_add(struct used *u, const char *text, size_t len)
{
	const char *end = text + len;
	struct used_line line;
	int r;

	for (const char *at = text; (r = used_line_next(&at, end, &line)) > 0;)
		;
	for (const char *at = text; r >= 0 && used_line_next(&at, end, &line) > 0;)
		r = add_line(u, &line);
	return r;
}

int used_write(const struct used *u, struct buf *out)
{
	int r = 0;

	for (size_t i = 0; i < u->count && r == 0; i++)
		r = used_line_write(out, &u->lines[i]);
	return r;
}

int used_load(struct used *u, int box_fd)
{
	autofree char *text = NULL;
	size_t len = 0;
	int r = fd_read_file(box_fd, USED_FILE, USED_TEXT_MAX, &text, &len);

	if (r == 0)
		r = used_add(u, text, len);
	u->is_changed = false;
	return r == -ENOENT ? 0 : r;
}

int used_save(struct used *u, int box_fd)
{
	struct buf text;
	int r;

	if (!u->is_changed)
		return 0;
	buf_init(&text, USED_TEXT_MAX);
	r = used_write(u, &text);
	if (r == 0)
		r = fd_write_file(box_fd, USED_FILE, buf_data(&text), buf_len(&text), 0600, true);
	buf_done(&text);
	u->is_changed = r < 0;
	return r;
}

void used_done(struct used *u)
{
	free(u->lines);
	*u = (struct used){0};
}
