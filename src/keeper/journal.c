/* The list of a box's commands on disk; see journal.h. */
#include "keeper/journal.h"

#include "base/buf.h"
#include "base/crc.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "wire/field.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOURNAL_NAME	"execs"
#define JOURNAL_DAMAGED "execs.damaged"

enum { LINE_MAX_BYTES = 512, FIELDS_MAX = 13, SUM_DIGITS = 8 };

/* After the id: the last field is the rest of the line, an empty text before it is "-". A line has
 * the fields it always had, since an older Cove may have written it: a new field is a new line. */
struct journal_line {
	const char *key;
	unsigned bit;
	struct wire_field fields[FIELDS_MAX];
};

/* clang-format off */
#define R(name) FIELD_OF(exec_record, name)

static const struct journal_line lines_of_record[] = {
	{"start", JOURNAL_START, {R(started_ms), R(pid), R(background), R(shell), R(command)}},
	{"token", JOURNAL_TOKEN, {R(arguments), R(token)}},
	{"begin", JOURNAL_BEGIN, {R(started_ms), R(pid)}},
	{"end", JOURNAL_END, {FIELD_STATE_OF(exec_record, state), R(has_exit), R(exit_code),
		R(signal), R(timed_out), R(oom_killed), R(truncated), R(duration_ms),
		R(stdout_bytes), R(stderr_bytes), R(shell_state), R(cause)}},
	{"used", JOURNAL_END, {R(cpu_us), R(mem_peak_bytes), R(io_read_bytes),
		R(io_write_bytes)}},
	{"denied", JOURNAL_END, {R(denied_count)}},
	{"limit", JOURNAL_END, {R(limit_value)}},
	{"late", JOURNAL_LATE, {R(stdout_bytes), R(stderr_bytes)}},
	{"drop", JOURNAL_DROP, {{0}}},
};
/* clang-format on */

enum { LINE_COUNT = sizeof(lines_of_record) / sizeof(*lines_of_record) };

static bool is_number(const struct wire_field *f)
{
	return f->kind == FIELD_U64 || f->kind == FIELD_U32 || f->kind == FIELD_BOOL;
}

/* ---- writing ---- */

static void format_sum(char ret[SUM_DIGITS + 1], const char *line, size_t len)
{
	snprintf(ret, SUM_DIGITS + 1, "%08x", crc32c(line, len));
}

/* "SUM KEY VALUE", the sum of what stands between it and the newline. */
static int put_summed(struct buf *b, const char *key, const char *value)
{
	char sum[SUM_DIGITS + 1], *line;
	size_t before = buf_len(b);
	int r = buf_append(b, "........ ", SUM_DIGITS + 1);

	if (r == 0)
		r = lines_put(b, key, value);
	if (r < 0) {
		b->len = before;
		return r;
	}
	line = (char *)b->data + b->start + before;
	format_sum(sum, line + SUM_DIGITS + 1, buf_len(b) - before - SUM_DIGITS - 2);
	memcpy(line, sum, SUM_DIGITS);
	return 0;
}

static int put_summed_u64(struct buf *b, const char *key, uint64_t value)
{
	char digits[24];

	snprintf(digits, sizeof(digits), "%" PRIu64, value);
	return put_summed(b, key, digits);
}

static int put_line(struct buf *b, const struct journal_line *l, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];
	size_t n = (size_t)snprintf(value, sizeof(value), "%u", r->exec_id);
	bool has_numbers = false;

	for (const struct wire_field *f = l->fields; f->kind != FIELD_END && n < sizeof(value);
	     f++) {
		char *at = value + n;
		size_t room = sizeof(value) - n;

		if (is_number(f)) {
			uint64_t v = wire_field_number(f, r);

			has_numbers = has_numbers || v;
			n += (size_t)snprintf(at, room, " %" PRIu64, v);
		} else {
			const char *text = wire_field_text(f, r);

			n += (size_t)snprintf(at, room, " %s",
					      text		       ? text
					      : f[1].kind == FIELD_END ? ""
								       : "-");
		}
	}
	/* What is not known, or was never, is not said. */
	if ((l->fields[0].offset == offsetof(struct exec_record, cpu_us) ||
	     l->fields[0].offset == offsetof(struct exec_record, denied_count) ||
	     l->fields[0].offset == offsetof(struct exec_record, limit_value)) &&
	    !has_numbers)
		return 0;
	return put_summed(b, l->key, value);
}

static int put_lines(struct buf *b, unsigned lines, const struct exec_record *r)
{
	int rc = 0;

	for (size_t i = 0; i < LINE_COUNT && rc == 0; i++)
		if (lines & lines_of_record[i].bit)
			rc = put_line(b, &lines_of_record[i], r);
	return rc;
}

void journal_init(struct journal *j)
{
	*j = (struct journal){.fd = -1};
}

void journal_done(struct journal *j)
{
	fd_close(&j->fd);
}

static int open_file(struct journal *j, int logs_fd)
{
	autoclose int fd = -1;
	int r;

	if (j->fd >= 0)
		return 0;
	fd = openat(logs_fd, JOURNAL_NAME, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	r = fd < 0 ? -errno : fd_cut_torn_line(fd, &j->bytes);
	if (r < 0)
		return r;
	j->fd = take_fd(fd);
	j->fresh = true;
	return 0;
}

int journal_add(struct journal *j, int logs_fd, unsigned lines, const struct exec_record *r)
{
	int rc = open_file(j, logs_fd);
	struct buf text;

	buf_init(&text, 8 * LINE_MAX_BYTES);
	if (rc == 0)
		rc = put_lines(&text, lines, r);
	if (rc == 0)
		rc = fd_write_full(j->fd, buf_data(&text), buf_len(&text));
	if (rc == 0)
		j->bytes += buf_len(&text);
	else if (j->fd >= 0 && ftruncate(j->fd, (off_t)j->bytes) < 0)
		rc = -errno;
	buf_done(&text);
	return rc;
}

int journal_sync(struct journal *j, int logs_fd, int box_fd)
{
	if (j->fd < 0) /* the list was just written anew, durably where there is a token */
		return 0;
	if (fdatasync(j->fd) < 0)
		return -errno;
	if (j->fresh && (fsync(logs_fd) < 0 || fsync(box_fd) < 0))
		return -errno;
	j->fresh = false;
	return 0;
}

bool journal_is_large(const struct journal *j)
{
	return j->bytes > KEEPER_JOURNAL_MAX / 2;
}

int journal_rewrite(struct journal *j, int logs_fd, uint32_t next, const struct token_set *tokens,
		    const struct exec_record *(*each)(void *arg), void *arg)
{
	const struct exec_record *record;
	struct token_set live = {0};
	struct buf text;
	int r = 0;

	buf_init(&text, KEEPER_JOURNAL_MAX);
	while (r == 0 && (record = each(arg))) {
		r = put_lines(&text,
			      JOURNAL_START | (record->token[0] ? JOURNAL_TOKEN : 0u) |
				      (record->state >= EXEC_DONE ? JOURNAL_END : 0u),
			      record);
		if (r == 0 && record->token[0])
			r = tokens_add(&live, token_key(record->token));
	}
	for (size_t i = 0; i < tokens->count && r == 0; i++)
		if (!tokens_has(&live, tokens->keys[i]))
			r = put_summed_u64(&text, "spent", tokens->keys[i]);
	tokens_done(&live);
	if (r == 0)
		r = put_summed_u64(&text, "next", next);
	if (r == 0)
		r = fd_write_file(logs_fd, JOURNAL_NAME, buf_data(&text), buf_len(&text), 0600,
				  tokens->count > 0);
	buf_done(&text);
	if (r == 0)
		journal_done(j); /* the next line opens the new file */
	return r;
}

int journal_set_aside(int logs_fd)
{
	return linkat(logs_fd, JOURNAL_NAME, logs_fd, JOURNAL_DAMAGED, 0) < 0 && errno != EEXIST
		       ? -errno
		       : 0;
}

/* ---- reading ---- */

static struct exec_record *find(struct journal_list *l, uint32_t id)
{
	size_t low = 0, high = l->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (l->records[mid].exec_id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < l->count && l->records[low].exec_id == id ? &l->records[low] : NULL;
}

/* A token that is forgotten could run its command twice. */
static void add_spent(struct journal_list *l, uint64_t key)
{
	int r = tokens_add(&l->spent, key);

	if (r < 0)
		l->error = r;
}

static void drop(struct journal_list *l, struct exec_record *r)
{
	size_t at = (size_t)(r - l->records);

	if (r->token[0])
		add_spent(l, token_key(r->token));
	memmove(r, r + 1, (l->count - at - 1) * sizeof(*r));
	l->count--;
}

/* Ids only grow; a line that goes back is damage. The oldest goes when the list is full, so that a
 * reader is bounded whatever the file holds. */
static struct exec_record *add(struct journal_list *l, uint32_t id)
{
	if (id < l->next)
		return NULL;
	if (l->count == KEEPER_EXECS_MAX)
		drop(l, l->records);
	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct exec_record *records = realloc(l->records, cap * sizeof(*records));

		if (!records)
			return NULL;
		l->records = records;
		l->cap = cap;
	}
	l->next = id + 1;
	l->records[l->count] = (struct exec_record){.exec_id = id};
	return &l->records[l->count++];
}

/* The fields after the id, into *r. False: the line is damaged. */
static bool parse_fields(const struct journal_line *l, char *value, struct exec_record *r)
{
	uint64_t n;

	for (const struct wire_field *f = l->fields; f->kind != FIELD_END; f++) {
		bool last = f[1].kind == FIELD_END;
		char *space = last ? NULL : strchr(value, ' ');

		if (!last && !space)
			return false;
		if (space)
			*space = 0;
		if (is_number(f)) {
			if (!str_parse_u64(value, UINT64_MAX, &n) ||
			    !wire_field_put_number(f, r, n))
				return false;
		} else if (!wire_field_put_text(f, r,
						!last && strcmp(value, "-") == 0 ? "" : value)) {
			return false;
		}
		value = space ? space + 1 : value;
	}
	return true;
}

/* False: the line is damaged. One of a command whose start is not there is not: that one was. */
static bool read_record_line(struct journal_list *list, const struct journal_line *l, char *value)
{
	char *space = strchr(value, ' ');
	struct exec_record parsed, *r;
	uint64_t id;

	if (space)
		*space = 0;
	if (!str_parse_u64(value, INT32_MAX, &id) || id == 0 ||
	    !space != (l->fields[0].kind == FIELD_END))
		return false;
	r = find(list, (uint32_t)id);
	if (l->bit == JOURNAL_START ? r != NULL : !r)
		return l->bit != JOURNAL_START;
	if (l->bit == JOURNAL_DROP) {
		drop(list, r);
		return true;
	}
	parsed = r ? *r : (struct exec_record){.exec_id = (uint32_t)id};
	if (!parse_fields(l, space + 1, &parsed))
		return false;
	if (!r)
		r = add(list, (uint32_t)id);
	if (r)
		*r = parsed;
	return r != NULL;
}

/* Checks and takes the sum away. False: it is wrong, or missing where it should not be. */
static bool take_sum(struct journal_list *list, char **line, size_t *len)
{
	char sum[SUM_DIGITS + 1], *at = *line;

	if (*len <= SUM_DIGITS + 2 || at[SUM_DIGITS] != ' ' ||
	    strspn(at, "0123456789abcdef") != SUM_DIGITS) {
		list->is_older = true;
		return !list->has_sums;
	}
	list->has_sums = true;
	*line += SUM_DIGITS + 1;
	*len -= SUM_DIGITS + 1;
	format_sum(sum, *line, *len - 1);
	return memcmp(at, sum, SUM_DIGITS) == 0;
}

/* False: the line is damaged. */
static bool read_line(struct journal_list *list, char *line, size_t len)
{
	const char *key, *value;
	struct lines l;
	uint64_t n;

	if (!take_sum(list, &line, &len))
		return false;
	lines_init(&l, line, len);
	if (lines_next(&l, &key, &value) <= 0)
		return false;
	if (strcmp(key, "next") == 0) {
		if (!str_parse_u64(value, INT32_MAX, &n))
			return false;
		if (n > list->next)
			list->next = (uint32_t)n;
		return true;
	}
	if (strcmp(key, "spent") == 0) {
		if (!str_parse_u64(value, UINT64_MAX, &n))
			return false;
		add_spent(list, n);
		return true;
	}
	for (size_t i = 0; i < LINE_COUNT; i++)
		if (strcmp(key, lines_of_record[i].key) == 0)
			return read_record_line(list, &lines_of_record[i],
						(char *)(uintptr_t)value);
	return false;
}

/* Line by line, so that one damaged line costs itself only. */
static void read_lines(struct journal_list *list, char *text, size_t len)
{
	char *end = text + len;

	while (text < end) {
		char *stop = memchr(text, '\n', (size_t)(end - text)), after;

		/* Torn; or whole, and its newline is something else now. */
		if (!stop) {
			struct journal_list last = {0};
			size_t rest = (size_t)(end - text);

			if (take_sum(&last, &text, &rest) && last.has_sums)
				list->damaged++;
			return;
		}
		after = stop[1];
		stop[1] = 0;
		if (!read_line(list, text, (size_t)(stop + 1 - text)))
			list->damaged++;
		stop[1] = after;
		text = stop + 1;
	}
}

int journal_read(int box_fd, struct journal_list *ret)
{
	autofree char *text = NULL;
	size_t len = 0;
	int r;

	*ret = (struct journal_list){.next = 1};
	r = fd_read_file(box_fd, "logs/" JOURNAL_NAME, KEEPER_JOURNAL_MAX, &text, &len);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	read_lines(ret, text, len);
	if (ret->damaged)
		ret->next += (uint32_t)(ret->damaged < INT32_MAX - ret->next ? ret->damaged : 0);
	return ret->error;
}

void journal_list_done(struct journal_list *l)
{
	free(l->records);
	tokens_done(&l->spent);
	*l = (struct journal_list){0};
}

struct journal_log journal_log_name(uint32_t id, unsigned stream)
{
	struct journal_log n;

	snprintf(n.text, sizeof(n.text), "%u.%s", id, stream == 0 ? "out" : "err");
	return n;
}
