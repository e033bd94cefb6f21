/* The list of a box's commands on disk; see journal.h. */
#include "keeper/journal.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define JOURNAL_NAME "execs"

enum { LINE_MAX_BYTES = 512, FIELDS_MAX = 12 };

static const char *const state_names[EXEC_STATE_COUNT] = {
	[EXEC_RUNNING] = "running",
	[EXEC_DONE] = "done",
	[EXEC_INTERRUPTED] = "interrupted",
};

const char *exec_state_name(enum exec_state state)
{
	return state_names[state];
}

/* ---- writing ---- */

static int put_start(struct buf *b, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];

	snprintf(value, sizeof(value), "%u %" PRIu64 " %" PRIu64 " %d %s %s", r->id, r->started_ms,
		 r->pid, r->background, r->shell[0] ? r->shell : "-", r->command);
	return lines_put(b, "start", value);
}

/* A line of its own, so that what an older Cove wrote or reads has the form it knows. */
static int put_used(struct buf *b, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];

	if (!r->cpu_us && !r->mem_peak_bytes && !r->io_read_bytes && !r->io_write_bytes)
		return 0;
	snprintf(value, sizeof(value), "%u %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, r->id,
		 r->cpu_us, r->mem_peak_bytes, r->io_read_bytes, r->io_write_bytes);
	return lines_put(b, "used", value);
}

static int put_end(struct buf *b, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];
	int rc;

	snprintf(value, sizeof(value),
		 "%u %s %d %d %d %d %d %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %u %s", r->id,
		 exec_state_name(r->state), r->has_exit, r->exit_code, r->signal, r->timed_out,
		 r->oom_killed, r->truncated, r->duration_ms, r->bytes[0], r->bytes[1],
		 r->shell_state, r->cause);
	rc = lines_put(b, "end", value);
	return rc == 0 ? put_used(b, r) : rc;
}

static int put_begin(struct buf *b, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];

	snprintf(value, sizeof(value), "%u %" PRIu64 " %" PRIu64, r->id, r->started_ms, r->pid);
	return lines_put(b, "begin", value);
}

static int put_late(struct buf *b, const struct exec_record *r)
{
	char value[LINE_MAX_BYTES];

	snprintf(value, sizeof(value), "%u %" PRIu64 " %" PRIu64, r->id, r->bytes[0], r->bytes[1]);
	return lines_put(b, "late", value);
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
	struct stat st;

	if (j->fd >= 0)
		return 0;
	j->fd = openat(logs_fd, JOURNAL_NAME,
		       O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0)
		return -errno;
	if (fstat(j->fd, &st) < 0)
		return -errno;
	j->bytes = (uint64_t)st.st_size;
	return 0;
}

static int append(struct journal *j, int logs_fd, const struct buf *line)
{
	int r = open_file(j, logs_fd);

	if (r == 0)
		r = fd_write_full(j->fd, buf_data(line), buf_len(line));
	if (r == 0)
		j->bytes += buf_len(line);
	else if (j->fd >= 0 && ftruncate(j->fd, (off_t)j->bytes) < 0)
		r = -errno;
	return r;
}

static int append_record(struct journal *j, int logs_fd, const struct exec_record *r,
			 int (*put)(struct buf *b, const struct exec_record *r))
{
	struct buf line;
	int rc;

	buf_init(&line, 4 * LINE_MAX_BYTES);
	rc = put(&line, r);
	if (rc == 0)
		rc = append(j, logs_fd, &line);
	buf_done(&line);
	return rc;
}

int journal_start(struct journal *j, int logs_fd, const struct exec_record *r)
{
	return append_record(j, logs_fd, r, put_start);
}

int journal_begin(struct journal *j, int logs_fd, const struct exec_record *r)
{
	return append_record(j, logs_fd, r, put_begin);
}

int journal_end(struct journal *j, int logs_fd, const struct exec_record *r)
{
	return append_record(j, logs_fd, r, put_end);
}

int journal_late(struct journal *j, int logs_fd, const struct exec_record *r)
{
	return append_record(j, logs_fd, r, put_late);
}

static int put_drop(struct buf *b, const struct exec_record *r)
{
	return lines_put_u64(b, "drop", r->id);
}

int journal_drop(struct journal *j, int logs_fd, uint32_t id)
{
	return append_record(j, logs_fd, &(struct exec_record){.id = id}, put_drop);
}

bool journal_is_large(const struct journal *j)
{
	return j->bytes > KEEPER_JOURNAL_MAX / 2;
}

int journal_rewrite(struct journal *j, int logs_fd, uint32_t next,
		    const struct exec_record *(*each)(void *arg), void *arg)
{
	const struct exec_record *record;
	struct buf text;
	int r;

	buf_init(&text, KEEPER_JOURNAL_MAX);
	r = 0;
	while (r == 0 && (record = each(arg))) {
		r = put_start(&text, record);
		if (r == 0 && record->state != EXEC_RUNNING)
			r = put_end(&text, record);
	}
	if (r == 0)
		r = lines_put_u64(&text, "next", next);
	if (r == 0)
		r = fd_write_file(logs_fd, JOURNAL_NAME, buf_data(&text), buf_len(&text), 0600,
				  false);
	buf_done(&text);
	if (r == 0)
		journal_done(j); /* the next line opens the new file */
	return r;
}

/* ---- reading ---- */

struct reader {
	struct exec_record *list; /* sorted by id */
	size_t count, cap;
	uint32_t next;
};

/* Cuts `count` words off a value, the last one being all the rest. */
static bool cut_fields(char *value, char *fields[], size_t count)
{
	for (size_t i = 0; i + 1 < count; i++) {
		char *space = strchr(value, ' ');

		if (!space)
			return false;
		*space = 0;
		fields[i] = value;
		value = space + 1;
	}
	fields[count - 1] = value;
	return true;
}

static bool parse_numbers(char *const fields[], size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++)
		if (!str_parse_u64(fields[i], UINT64_MAX, &ret[i]))
			return false;
	return true;
}

static bool parse_id(const char *s, uint32_t *ret)
{
	uint64_t id;

	if (!str_parse_u64(s, INT32_MAX, &id) || id == 0)
		return false;
	*ret = (uint32_t)id;
	return true;
}

static struct exec_record *find(struct reader *rd, uint32_t id)
{
	size_t low = 0, high = rd->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (rd->list[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low < rd->count && rd->list[low].id == id ? &rd->list[low] : NULL;
}

static void drop(struct reader *rd, struct exec_record *r)
{
	size_t at = (size_t)(r - rd->list);

	memmove(r, r + 1, (rd->count - at - 1) * sizeof(*r));
	rd->count--;
}

/* Ids only grow; a line that goes back is damage. The oldest goes when the list is full, so that a
 * reader is bounded whatever the file holds. */
static struct exec_record *add(struct reader *rd, uint32_t id)
{
	if (id < rd->next)
		return NULL;
	if (rd->count == KEEPER_EXECS_MAX)
		drop(rd, rd->list);
	if (rd->count == rd->cap) {
		size_t cap = rd->cap ? rd->cap * 2 : 16;
		struct exec_record *list = realloc(rd->list, cap * sizeof(*list));

		if (!list)
			return NULL;
		rd->list = list;
		rd->cap = cap;
	}
	rd->next = id + 1;
	rd->list[rd->count] = (struct exec_record){.id = id};
	return &rd->list[rd->count++];
}

static void read_start(struct reader *rd, char *value)
{
	struct exec_record *r;
	char *field[6];
	uint64_t n[3];
	uint32_t id;

	if (!cut_fields(value, field, 6) || !parse_id(field[0], &id) ||
	    !parse_numbers(field + 1, 3, n))
		return;
	r = add(rd, id);
	if (!r)
		return;
	r->started_ms = n[0];
	r->pid = n[1];
	r->background = n[2] != 0;
	if (strcmp(field[4], "-") != 0)
		str_copy(r->shell, sizeof(r->shell), field[4]);
	str_copy(r->command, sizeof(r->command), field[5]);
}

static bool parse_state(const char *word, enum exec_state *ret)
{
	for (unsigned i = 0; i < EXEC_STATE_COUNT; i++)
		if (strcmp(word, state_names[i]) == 0) {
			*ret = (enum exec_state)i;
			return true;
		}
	return false;
}

static void read_end(struct reader *rd, char *value)
{
	char *field[FIELDS_MAX + 1];
	struct exec_record *r;
	enum exec_state state;
	uint64_t n[10];
	uint32_t id;

	if (!cut_fields(value, field, 13) || !parse_id(field[0], &id) ||
	    !parse_state(field[1], &state) || !parse_numbers(field + 2, 10, n))
		return;
	r = find(rd, id);
	if (!r || n[1] > INT32_MAX || n[2] > INT32_MAX)
		return;
	r->state = state;
	r->has_exit = n[0] != 0;
	r->exit_code = (int)n[1];
	r->signal = (int)n[2];
	r->timed_out = n[3] != 0;
	r->oom_killed = n[4] != 0;
	r->truncated = n[5] != 0;
	r->duration_ms = n[6];
	r->bytes[0] = n[7];
	r->bytes[1] = n[8];
	r->shell_state = (uint8_t)n[9];
	str_copy(r->cause, sizeof(r->cause), field[12]);
}

static void read_used(struct reader *rd, char *value)
{
	struct exec_record *r;
	char *field[5];
	uint64_t n[4];
	uint32_t id;

	if (!cut_fields(value, field, 5) || !parse_id(field[0], &id) ||
	    !parse_numbers(field + 1, 4, n))
		return;
	r = find(rd, id);
	if (!r)
		return;
	r->cpu_us = n[0];
	r->mem_peak_bytes = n[1];
	r->io_read_bytes = n[2];
	r->io_write_bytes = n[3];
}

/* "ID N N": the record, or NULL. */
static struct exec_record *read_pair(struct reader *rd, char *value, uint64_t ret[2])
{
	char *field[3];
	uint32_t id;

	if (!cut_fields(value, field, 3) || !parse_id(field[0], &id) ||
	    !parse_numbers(field + 1, 2, ret))
		return NULL;
	return find(rd, id);
}

static void read_begin(struct reader *rd, char *value)
{
	uint64_t n[2];
	struct exec_record *r = read_pair(rd, value, n);

	if (!r)
		return;
	r->started_ms = n[0];
	r->pid = n[1];
}

static void read_late(struct reader *rd, char *value)
{
	uint64_t n[2];
	struct exec_record *r = read_pair(rd, value, n);

	if (!r)
		return;
	r->bytes[0] = n[0];
	r->bytes[1] = n[1];
}

static void read_drop(struct reader *rd, char *value)
{
	struct exec_record *r;
	uint32_t id;

	if (!parse_id(value, &id))
		return;
	r = find(rd, id);
	if (r)
		drop(rd, r);
}

static void read_next(struct reader *rd, char *value)
{
	uint32_t id;

	if (parse_id(value, &id) && id > rd->next)
		rd->next = id;
}

static void read_line(struct reader *rd, char *line, size_t len)
{
	static const struct {
		const char *key;
		void (*read)(struct reader *rd, char *value);
	} table[] = {
		{"start", read_start}, {"begin", read_begin}, {"end", read_end},
		{"used", read_used},   {"late", read_late},   {"drop", read_drop},
		{"next", read_next},
	};
	const char *key, *value;
	struct lines l;

	lines_init(&l, line, len);
	if (lines_next(&l, &key, &value) <= 0)
		return;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (strcmp(key, table[i].key) == 0)
			table[i].read(rd, (char *)(uintptr_t)value);
}

/* Line by line, so that one damaged line costs itself only. */
static void read_lines(struct reader *rd, char *text, size_t len)
{
	char *end = text + len;

	while (text < end) {
		char *stop = memchr(text, '\n', (size_t)(end - text)), after;

		if (!stop)
			return;
		after = stop[1];
		stop[1] = 0;
		read_line(rd, text, (size_t)(stop + 1 - text));
		stop[1] = after;
		text = stop + 1;
	}
}

int journal_read(int box_fd, struct exec_record **ret, size_t *ret_count, uint32_t *ret_next)
{
	struct reader rd = {.next = 1};
	autofree char *text = NULL;
	size_t len = 0;
	int r = fd_read_file(box_fd, "logs/" JOURNAL_NAME, KEEPER_JOURNAL_MAX, &text, &len);

	if (r < 0 && r != -ENOENT)
		return r;
	if (text)
		read_lines(&rd, text, len);
	*ret = rd.list;
	*ret_count = rd.count;
	*ret_next = rd.next;
	return 0;
}
