/*
 * Lines that match, in a copy of init (work.h).
 *
 * How it works
 *
 * Files are read into one buffer, from which whole lines are taken. One that does not fit is
 * searched in its first INIT_SEARCH_LINE bytes. A file with a NUL is binary: one in its beginning
 * skips it, one further on ends it there. A carriage return at a line's end is not part of it.
 *
 * A fixed text is looked for in the whole buffer first, so that a file without it costs one pass. A
 * regular expression is the libc's, in UTF-8; a line that is not valid is searched as bytes, by the
 * same expression compiled once more, because the libc sees the end of a line in the first byte
 * that is no character. How long it takes is bounded from outside, and what it needs to be
 * compiled by the address space.
 *
 * Lines before a match are kept, cut as they would be sent, until it is known that they are wanted.
 */
#include "init/tool_walk.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 2000, TICK_LINES = 64 };
#define FOUND_NONE SSIZE_MAX

/* A line that was read, kept in case the next one matches. */
struct kept_line {
	uint64_t number; /* 0: none */
	char *text;	 /* owned; line_max + 1 bytes */
	bool is_cut;
};

struct grep {
	struct work *w;
	struct tool_walk walk;
	struct init_glob filter;
	const char *pattern;
	size_t pattern_len;
	uint64_t max, context;
	size_t line_max;
	bool ignore_case, has_regex[2];
	regex_t regex[2]; /* of UTF-8, and of bytes */
	bool in_bytes;	  /* the locale is that of the second */
	char *folded;	  /* owned; ignoring case: the pattern, in lower case, and a line */
	char *line;
	char *buffer;		  /* owned; INIT_SEARCH_LINE + 1 bytes */
	struct kept_line *before; /* owned; a ring of `context` lines */
	/* of the file at work */
	const char *path;
	uint64_t number; /* of the line at work, from 1 on */
	uint64_t after;	 /* lines still to be sent, although they do not match */
	bool full;	 /* it is all over */
};

/* ---- one line ---- */

static void fold(char *to, const char *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = from[i] >= 'A' && from[i] <= 'Z' ? (char)(from[i] + 'a' - 'A') : from[i];
}

static void set_locale(struct grep *g, bool bytes)
{
	if (g->in_bytes != bytes)
		setlocale(LC_CTYPE, bytes ? "C" : "C.UTF-8");
	g->in_bytes = bytes;
}

/* p ends with a NUL behind its n bytes. Where the match begins, FOUND_NONE, or a negative errno. */
static ssize_t find(struct grep *g, const char *p, size_t n)
{
	regmatch_t match;
	const char *at;
	bool bytes;
	int bad;

	if (g->w->m->regex) {
		bytes = !g->has_regex[0] || (g->has_regex[1] && !str_is_utf8(p, n));
		set_locale(g, bytes);
		bad = regexec(&g->regex[bytes], p, 1, &match, 0);
		return bad == 0 ? match.rm_so : bad == REG_NOMATCH ? FOUND_NONE : -ENOMEM;
	}
	if (g->ignore_case) {
		fold(g->line, p, n);
		at = memmem(g->line, n, g->folded, g->pattern_len);
		return at ? at - g->line : FOUND_NONE;
	}
	at = memmem(p, n, g->pattern, g->pattern_len);
	return at ? at - p : FOUND_NONE;
}

/* How many of n bytes are sent if no more than max can be; no character is cut. */
static size_t cut(const char *p, size_t n, size_t max)
{
	size_t len = max;

	if (n <= max)
		return n;
	for (int i = 0; i < 3 && len > 1 && ((uint8_t)p[len] & 0xc0) == 0x80; i++)
		len--;
	return len;
}

/* Sends a line, or as much of it around its match (FOUND_NONE: none) as may be. */
static int send_line(struct grep *g, const char *p, size_t n, ssize_t at, struct err *e)
{
	bool found = at != FOUND_NONE;
	struct wire_match m = {.path = g->path, .line = g->number, .is_context = !found};
	char text[INIT_LINE_MAX + 1];
	size_t from = 0, len;

	if (found)
		m.column = (uint64_t)at + 1;
	/* A match far behind is shown with a little of what is before it. */
	if (found && (size_t)at + g->pattern_len > g->line_max)
		from = (size_t)at - ((size_t)at < g->line_max / 4 ? (size_t)at : g->line_max / 4);
	for (int i = 0; i < 3 && from > 0 && ((uint8_t)p[from] & 0xc0) == 0x80; i++)
		from--;
	if (from > 0)
		m.text_column = from + 1;
	len = cut(p + from, n - from, g->line_max);
	m.is_cut = from > 0 || len < n - from;
	memcpy(text, p + from, len);
	text[len] = '\0';
	m.text = text;
	return work_sent(g->w, wire_match_encode(&g->w->out, 0, 0, &m), e);
}

static int send_before(struct grep *g, struct err *e)
{
	int r = 0;

	for (uint64_t i = 0; i < g->context && r == 0; i++) {
		struct kept_line *k = &g->before[(g->number + i) % g->context];
		struct wire_match m = {.path = g->path,
				       .line = k->number,
				       .text = k->text,
				       .is_cut = k->is_cut,
				       .is_context = 1};

		if (k->number > 0)
			r = work_sent(g->w, wire_match_encode(&g->w->out, 0, 0, &m), e);
		k->number = 0;
	}
	return r;
}

static void keep(struct grep *g, const char *p, size_t n)
{
	struct kept_line *k = &g->before[g->number % g->context];

	size_t len = cut(p, n, g->line_max);

	k->number = g->number;
	k->is_cut = len < n;
	memcpy(k->text, p, len);
	k->text[len] = '\0';
}

/* One line without its end; the byte behind it is ours to write. */
static int take_line(struct grep *g, char *p, size_t n, struct err *e)
{
	ssize_t at;
	int r = 0;

	g->number++;
	if (n > 0 && p[n - 1] == '\r')
		n--;
	p[n] = '\0';
	at = find(g, p, n);
	if (at < 0)
		return err_set(e, ERR_LIMIT, ENOMEM,
			       "the regular expression needs too much memory");
	if (at == FOUND_NONE) {
		if (g->after > 0) {
			g->after--;
			return send_line(g, p, n, at, e);
		}
		if (g->context > 0)
			keep(g, p, n);
		return 0;
	}
	if (g->w->summary.count == g->max) {
		g->w->summary.truncated = TRUNCATED_COUNT;
		g->full = true;
		return 0;
	}
	g->w->summary.count++;
	if (g->context > 0)
		r = send_before(g, e);
	g->after = g->context;
	return r < 0 ? r : send_line(g, p, n, at, e);
}

/* ---- one file ---- */

/* Nothing of it can match, and no line of it has to be kept: only counted. */
static bool is_without(const struct grep *g, const char *p, size_t n)
{
	return !g->w->m->regex && !g->ignore_case && g->context == 0 &&
	       !memmem(p, n, g->pattern, g->pattern_len);
}

static uint64_t count_lines(const char *p, size_t n)
{
	const char *end = p + n;
	uint64_t count = 0;

	while ((p = memchr(p, '\n', (size_t)(end - p)))) {
		count++;
		p++;
	}
	return count;
}

/* Takes the whole lines of the buffer, and at the file's end the rest. Returns the bytes taken. */
static ssize_t take_lines(struct grep *g, size_t have, bool at_end, struct err *e)
{
	char *p = g->buffer, *end = g->buffer + have;
	unsigned lines = 0;
	char *last = memrchr(p, '\n', have);
	size_t whole = at_end ? have : last ? (size_t)(last + 1 - p) : 0;
	int r = 0;

	if (is_without(g, p, whole)) {
		g->number += count_lines(p, whole) + (whole > 0 && p[whole - 1] != '\n');
		return (ssize_t)whole;
	}
	while (p < end && r == 0 && !g->full) {
		char *newline = memchr(p, '\n', (size_t)(end - p));

		if (!newline && !at_end)
			break;
		r = take_line(g, p, (size_t)((newline ? newline : end) - p), e);
		p = newline ? newline + 1 : end;
		if (++lines % TICK_LINES == 0 && work_is_late(g->w)) {
			g->w->summary.truncated = TRUNCATED_TIME;
			g->full = true;
		}
	}
	return r < 0 ? r : p - g->buffer;
}

/* The rest of a line whose beginning filled the buffer. Returns how much stands behind it. */
static size_t skip_line(struct grep *g, int fd, uint64_t *left)
{
	while (*left > 0 && !work_is_late(g->w)) {
		size_t max = *left < INIT_SEARCH_LINE ? (size_t)*left : INIT_SEARCH_LINE;
		ssize_t n = read(fd, g->buffer, max);
		char *newline;
		size_t have;

		if (n <= 0)
			break;
		*left -= (uint64_t)n;
		newline = memchr(g->buffer, '\n', (size_t)n);
		if (newline) {
			have = (size_t)(g->buffer + n - (newline + 1));
			memmove(g->buffer, newline + 1, have);
			return have;
		}
	}
	*left = 0;
	return 0;
}

/* A NUL ends the text: what is before its line is searched, and of a file that has it in its
 * beginning nothing. Returns what is left of have. */
static size_t cut_at_nul(const struct grep *g, size_t have, uint64_t *left)
{
	const char *nul = memchr(g->buffer, 0, have), *line;

	if (!nul)
		return have;
	*left = 0;
	if (g->number == 0 && nul - g->buffer < (ssize_t)INIT_SNIFF_BYTES)
		return 0;
	line = memrchr(g->buffer, '\n', (size_t)(nul - g->buffer));
	return line ? (size_t)(line + 1 - g->buffer) : 0;
}

static void begin_file(struct grep *g, const char *path)
{
	g->path = path;
	g->number = g->after = 0;
	for (uint64_t i = 0; i < g->context; i++)
		g->before[i].number = 0;
}

/* Fills the buffer further. False at the end, also of a file that cannot be read after all. */
static bool fill(struct grep *g, int fd, uint64_t *left, size_t *have)
{
	size_t room = INIT_SEARCH_LINE - *have;
	ssize_t n;

	do {
		n = read(fd, g->buffer + *have, *left < room ? (size_t)*left : room);
	} while (n < 0 && errno == EINTR);
	/* Some files of /proc never end but say when there is nothing now. */
	if (n < 0 && errno != EAGAIN)
		g->w->summary.left_out++;
	if (n <= 0)
		return false;
	*left -= (uint64_t)n;
	*have = cut_at_nul(g, *have + (size_t)n, left);
	return *left > 0;
}

/* What a file gains while it is read is not searched. */
static int search_file(struct grep *g, const char *path, int fd, const struct stat *st,
		       struct err *e)
{
	uint64_t left = st->st_size > 0 ? (uint64_t)st->st_size : INIT_UNSIZED_MAX;
	size_t have = 0;
	bool more = true;

	begin_file(g, path);
	while (more && !g->full) {
		ssize_t taken;
		bool is_long;

		more = fill(g, fd, &left, &have);
		is_long = more && have == INIT_SEARCH_LINE && !memchr(g->buffer, '\n', have);
		taken = take_lines(g, have, !more || is_long, e);
		if (taken < 0)
			return (int)taken;
		if (is_long) {
			have = skip_line(g, fd, &left);
			more = left > 0 || have > 0;
		} else {
			have -= (size_t)taken;
			memmove(g->buffer, g->buffer + taken, have);
		}
		if (!g->full && work_is_late(g->w)) {
			g->w->summary.truncated = TRUNCATED_TIME;
			g->full = true;
		}
	}
	return 0;
}

static int search_open(struct grep *g, const char *path, int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	g->w->summary.files++;
	return search_file(g, path, fd, &st, e);
}

static int on_entry(void *arg, const struct tool_entry *entry, struct err *e)
{
	struct grep *g = arg;
	autoclose int fd = -1;
	int r;

	if (entry->type != 'f')
		return 0;
	fd = openat(entry->dir_fd, entry->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		g->w->summary.left_out += errno != ENOENT && errno != ELOOP;
		return 0;
	}
	r = search_open(g, g->walk.path, fd, e);
	return r < 0 ? r : g->full;
}

/* ---- what is asked ---- */

static int compile(struct grep *g, struct err *e)
{
	int flags = REG_EXTENDED | (g->ignore_case ? REG_ICASE : 0), bad[2];
	char why[96];

	/* Without that locale there is only the one of bytes. */
	bad[0] = setlocale(LC_CTYPE, "C.UTF-8") ? regcomp(&g->regex[0], g->pattern, flags)
						: REG_BADPAT;
	g->has_regex[0] = bad[0] == 0;
	set_locale(g, true);
	bad[1] = regcomp(&g->regex[1], g->pattern, flags);
	g->has_regex[1] = bad[1] == 0;
	if (g->has_regex[0] || g->has_regex[1])
		return 0;
	regerror(bad[1], &g->regex[1], why, sizeof(why));
	return err_set(e, bad[1] == REG_ESPACE ? ERR_LIMIT : ERR_INVALID,
		       bad[1] == REG_ESPACE ? ENOMEM : EINVAL,
		       "the regular expression cannot be used: %s", why);
}

static int allocate(struct grep *g)
{
	g->buffer = malloc(INIT_SEARCH_LINE + 1);
	g->line = malloc(INIT_SEARCH_LINE + 1);
	g->folded = strdup(g->pattern);
	g->before = calloc(g->context + 1, sizeof(*g->before));
	if (!g->buffer || !g->line || !g->folded || !g->before)
		return -ENOMEM;
	fold(g->folded, g->pattern, g->pattern_len);
	for (uint64_t i = 0; i < g->context; i++) {
		g->before[i].text = malloc(g->line_max + 1);
		if (!g->before[i].text)
			return -ENOMEM;
	}
	return 0;
}

static int prepare(struct grep *g, struct err *e)
{
	const struct wire_file *m = g->w->m;

	g->pattern = m->pattern ? m->pattern : "";
	g->pattern_len = strlen(g->pattern);
	g->ignore_case = m->ignore_case;
	g->max = m->count ? m->count : INIT_FOUND_USUAL;
	g->max = g->max < INIT_FOUND_MAX ? g->max : INIT_FOUND_MAX;
	g->context = m->context < INIT_CONTEXT_MAX ? m->context : INIT_CONTEXT_MAX;
	g->line_max = m->line_bytes == 0		  ? LINE_BYTES
		      : m->line_bytes > INIT_LINE_MAX / 2 ? INIT_LINE_MAX / 2
							  : (size_t)m->line_bytes;
	if (g->pattern_len == 0 || g->pattern_len > INIT_PATTERN_MAX || strchr(g->pattern, '\n'))
		return err_set(e, ERR_INVALID, EINVAL,
			       "what is searched for has 1 to %u bytes and no end of a line",
			       INIT_PATTERN_MAX);
	if (allocate(g) < 0)
		return err_errno(e, ENOMEM, "search");
	return m->regex ? compile(g, e) : 0;
}

static int search(struct grep *g, struct err *e)
{
	const struct file_op *op = g->w->op;
	autoclose int look = path_open(op->path, O_PATH), fd = -1;
	struct stat st;
	int r;

	if (look < 0)
		return file_error(op, -look, "search", "", e);
	if (fstat(look, &st) < 0)
		return file_error(op, errno, "look at", "", e);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return file_error_type(op, st.st_mode, "", e);
	fd = path_open(op->path, O_RDONLY);
	if (fd < 0)
		return file_error(op, -fd, "search", "", e);
	if (S_ISREG(st.st_mode))
		return search_open(g, "", fd, e);
	r = tool_walk_begin(&g->walk, g->w, g->w->m->glob ? &g->filter : NULL, take_fd(fd));
	return r < 0 ? file_error(op, -r, "search", "", e)
		     : tool_walk_run(&g->walk, g, on_entry, e);
}

/* Memory is given back by the end of the process. */
int tool_grep(struct work *w, struct err *e)
{
	struct grep g = {.w = w};
	int r = prepare(&g, e);

	if (r == 0 && w->m->glob)
		r = init_glob_init(&g.filter, w->m->glob, true, e);
	return r < 0 ? r : search(&g, e);
}
