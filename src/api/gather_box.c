/* What is new of one box; see gather.h. */
#include "api/gather.h"

#include "api/figures.h"
#include "api/handlers.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "cgroup/reader.h"
#include "core/view.h"
#include "store/event.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

enum { BLOCK = 128 << 10, COMMAND_MAX = 1024 };

int gather_type(const char *word)
{
	for (int i = 0; word && feed_types[i]; i++)
		if (strcmp(feed_types[i], word) == 0)
			return i;
	return -1;
}

const char *gather_type_name(int type)
{
	return feed_types[type];
}

/* ---- what it is ---- */

static json_t *labels_of(const struct spec *spec)
{
	json_t *object = json_object();
	char *text;

	for (size_t i = 0; object && i < spec->label_count; i++) {
		const char *equals = strchr(spec->labels[i], '=');
		size_t n = equals ? (size_t)(equals - spec->labels[i]) : 0;
		char name[256];

		if (!equals || n >= sizeof(name) || str_starts(spec->labels[i], CORE_REQUEST_LABEL))
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)n, spec->labels[i]);
		json_object_set_new(object, name, json_string(equals + 1));
	}
	text = json_object_size(object) > 0 ? json_dumps(object, JSON_COMPACT) : NULL;
	if (!text || strlen(text) > GATHER_LABELS_BYTES) {
		json_decref(object);
		object = NULL;
	}
	free(text);
	return object;
}

static void log_open(struct gather_box *b, int box_fd)
{
	struct stat st;

	fd_close(&b->fd);
	b->fd = fd_openat2(box_fd, "logs/" EVENT_LOG, O_RDONLY, 0, FD_BENEATH | FD_NO_SYMLINKS);
	if (b->fd < 0) {
		b->fd = -1;
		return;
	}
	if (fstat(b->fd, &st) == 0 && st.st_ino != b->log_ino) {
		b->log_ino = st.st_ino;
		b->at = 0;
	}
}

struct gather_box *gather_box_new(struct state *st, const char *name)
{
	struct gather_box *b = calloc(1, sizeof(*b));
	struct record record;
	autoclose int fd = -1;
	struct stat s;

	if (!b || record_load(st, name, &record, NULL) < 0) {
		free(b);
		return NULL;
	}
	b->fd = -1;
	str_copy(b->name, sizeof(b->name), name);
	b->created_ms = record.spec.created_ms;
	b->one_shot = record.spec.one_shot;
	b->labels = labels_of(&record.spec);
	if (record.state == BOX_RUNNING)
		b->started_ms = record.started_ms ? record.started_ms : b->created_ms;
	record_done(&record);
	if (record_open(st, name, &fd, NULL) < 0 || fstat(fd, &s) < 0) {
		gather_box_free(b);
		return NULL;
	}
	b->ino = s.st_ino;
	b->birth_ns = fd_birth_ns(fd);
	b->is_there = true;
	log_open(b, fd);
	return b;
}

void gather_box_free(struct gather_box *b)
{
	if (!b)
		return;
	fd_close(&b->fd);
	json_decref(b->labels);
	free(b);
}

/* ---- rows ---- */

int gather_emit(struct api_gather *g, struct gather_box *b, enum feed_type type, uint64_t time_ms,
		const char *what, uint64_t seq, json_t *data)
{
	json_t *row = json_pack("{s:I,s:I,s:s,s:s,s:I}", "seq", (json_int_t)g->feed.next, "time_ms",
				(json_int_t)time_ms, "type", feed_types[type], "box", b->name,
				"created_ms", (json_int_t)b->created_ms);
	char *text = NULL;
	size_t n = 0;
	int r;

	if (what)
		json_object_set_new(row, what, json_integer((json_int_t)seq));
	if (b->labels)
		json_object_set(row, "labels", b->labels);
	json_object_set_new(row, "data", data ? data : json_object());
	text = json_dumps(row, JSON_COMPACT);
	if (text && strlen(text) >= FEED_ROW_MAX - 1) {
		free(text);
		json_object_set_new(row, "data", json_pack("{s:b}", "too_long", 1));
		text = json_dumps(row, JSON_COMPACT);
	}
	if (text) {
		n = strlen(text);
		text[n] = '\n';
	}
	r = text ? feed_append(&g->feed, text, n + 1, 1) : -ENOMEM;
	if (r == 0) {
		pthread_mutex_lock(&g->lock);
		figures_event(g->figures, row);
		pthread_mutex_unlock(&g->lock);
		g->rows++;
	}
	free(text);
	json_decref(row);
	return r;
}

static const char *word_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static int emit_limit(struct api_gather *g, struct gather_box *b, uint64_t at_ms,
		      const json_t *data)
{
	static const char *const limits[] = {"timeout", "oom", "pids", "disk", "ttl", "idle"};
	const char *cause = word_of(data, "cause");
	const json_t *exec = json_object_get(data, "exec_id");

	for (size_t i = 0; cause && i < sizeof(limits) / sizeof(limits[0]); i++)
		if (strcmp(cause, limits[i]) == 0)
			return gather_emit(
				g, b, FEED_LIMIT_HIT, at_ms, NULL, 0,
				json_pack("{s:s,s:O?}", "limit", cause, "exec_id", exec));
	return 0;
}

/* What the figures of the moment show, too: other threads read it. */
static void set_run(struct api_gather *g, struct gather_box *b, uint64_t started_ms)
{
	pthread_mutex_lock(&g->lock);
	b->started_ms = started_ms;
	b->cpu_us = 0;
	pthread_mutex_unlock(&g->lock);
}

/* What the run had of the machine; its own word where the keeper had time to say it. */
static void add_use(struct api_gather *g, struct gather_box *b, uint64_t at_ms, json_t *data)
{
	uint64_t alive = b->started_ms && at_ms > b->started_ms ? at_ms - b->started_ms : 0, cpu_us;

	pthread_mutex_lock(&g->lock);
	cpu_us = b->cpu_us;
	pthread_mutex_unlock(&g->lock);
	if (!json_object_get(data, "cpu_us") && cpu_us)
		json_object_set_new(data, "cpu_us", json_integer((json_int_t)cpu_us));
	if (alive)
		json_object_set_new(data, "alive_ms", json_integer((json_int_t)alive));
	set_run(g, b, 0);
}

static void cut_command(json_t *data)
{
	const char *text = word_of(data, "command");
	size_t n = text ? strlen(text) : 0;

	if (n <= COMMAND_MAX)
		return;
	for (n = COMMAND_MAX; n > 0 && ((uint8_t)text[n] & 0xc0) == 0x80; n--)
		;
	json_object_set_new(data, "command", json_stringn(text, n));
	json_object_set_new(data, "command_truncated", json_true());
}

static int type_of_event(const char *event)
{
	static const struct {
		const char *word;
		enum feed_type type;
	} known[] = {
		{"open", FEED_BOX_STARTED},	{"close", FEED_BOX_STOPPED},
		{"pause", FEED_BOX_PAUSED},	{"resume", FEED_BOX_WOKEN},
		{"command", FEED_EXEC_STARTED}, {"result", FEED_EXEC_ENDED},
		{"door", FEED_DOOR_ENDED},	{"snapshot", FEED_BOX_SNAPSHOT},
	};

	for (size_t i = 0; event && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(known[i].word, event) == 0)
			return (int)known[i].type;
	return -1;
}

/* data is the row of the box's log; what the new row says itself is taken out of it. */
static int emit_event(struct api_gather *g, struct gather_box *b, json_t *data)
{
	uint64_t seq = (uint64_t)json_integer_value(json_object_get(data, "seq"));
	uint64_t at_ms = (uint64_t)json_integer_value(json_object_get(data, "at_ms"));
	int type = type_of_event(word_of(data, "event"));
	int r = 0;

	if (seq <= b->seq)
		return 0;
	if (seq > b->seq + 1)
		r = gather_emit(g, b, FEED_MISSED, at_ms, "box_seq", seq - 1,
				json_pack("{s:I}", "count", (json_int_t)(seq - 1 - b->seq)));
	if (r == 0)
		b->seq = seq - 1;
	if (r < 0 || type < 0) {
		b->seq = r < 0 ? b->seq : seq;
		return r;
	}
	json_object_del(data, "seq");
	json_object_del(data, "at_ms");
	json_object_del(data, "event");
	json_object_del(data, "box");
	cut_command(data);
	if (type == FEED_BOX_STARTED)
		set_run(g, b, at_ms);
	if (type == FEED_BOX_STOPPED)
		add_use(g, b, at_ms, data);
	r = gather_emit(g, b, (enum feed_type)type, at_ms, "box_seq", seq, json_incref(data));
	if (r < 0)
		return r;
	b->seq = seq;
	return type == FEED_EXEC_ENDED || type == FEED_BOX_STOPPED || type == FEED_BOX_PAUSED
		       ? emit_limit(g, b, at_ms, data)
		       : 0;
}

/* Whole lines of a block. */
static int take_lines(struct api_gather *g, struct gather_box *b, char *block, size_t n)
{
	size_t done = 0;
	int r = 0;

	while (r == 0 && g->rows < GATHER_ROWS_MAX) {
		char *end = memchr(block + done, '\n', n - done);
		json_t *row;

		if (!end)
			break;
		row = json_loadb(block + done, (size_t)(end - block) - done, 0, NULL);
		r = row ? emit_event(g, b, row) : 0;
		json_decref(row);
		if (r == 0)
			done = (size_t)(end + 1 - block);
	}
	b->at += done;
	/* A line that fills the block is none of ours. */
	if (r == 0 && done == 0 && n == BLOCK && g->rows < GATHER_ROWS_MAX)
		b->at += n;
	return r;
}

/* The keeper begins another file when this one is full. */
static bool log_moved(struct api_gather *g, struct gather_box *b, uint64_t size)
{
	uint64_t was = b->log_ino;
	autoclose int fd = -1;

	if (size < KEEPER_EVENTS_MAX / 2 - FEED_ROW_MAX ||
	    record_open(g->st, b->name, &fd, NULL) < 0)
		return false;
	log_open(b, fd);
	return b->fd >= 0 && b->log_ino != was;
}

static int read_events(struct api_gather *g, struct gather_box *b)
{
	autofree char *block = NULL;
	struct stat st;
	ssize_t n;
	int r = 0;

	if (b->fd < 0 && b->is_there) {
		autoclose int fd = -1;

		if (record_open(g->st, b->name, &fd, NULL) == 0)
			log_open(b, fd);
	}
	while (r == 0 && b->fd >= 0 && g->rows < GATHER_ROWS_MAX) {
		uint64_t before = b->at;

		if (fstat(b->fd, &st) < 0)
			return -errno;
		if ((uint64_t)st.st_size <= b->at && !log_moved(g, b, (uint64_t)st.st_size))
			break;
		if (!block && !(block = malloc(BLOCK)))
			return -ENOMEM;
		n = pread(b->fd, block, BLOCK, (off_t)b->at);
		if (n < 0)
			return -errno;
		r = take_lines(g, b, block, (size_t)n);
		if (b->at == before)
			break;
	}
	return r;
}

/* ---- its door ---- */

struct gather_telling {
	struct api_gather *g;
	struct gather_box *b;
};

/* A box that is denied again and again takes no room from others. */
static bool may_emit_denial(struct api_gather *g, struct gather_box *b)
{
	uint64_t passed_ms = g->now_ms - b->denials_ms;
	uint64_t regained = passed_ms / 1000 * GATHER_DENIALS_RATE;

	if (b->denials_ms == 0 || regained > b->denials)
		b->denials = 0;
	else
		b->denials -= regained;
	if (b->denials_ms == 0 || passed_ms >= 1000)
		b->denials_ms = g->now_ms;
	if (b->denials >= GATHER_DENIALS_BURST) {
		b->left_out++;
		return false;
	}
	b->denials++;
	return true;
}

static json_t *data_of_row(const struct audit_row *row)
{
	const struct {
		const char *key, *text;
	} texts[] = {{"kind", row->kind},     {"host", row->host}, {"method", row->method},
		     {"path", row->path},     {"rule", row->rule}, {"verdict", row->verdict},
		     {"reason", row->reason}, {"why", row->why},   {"by", row->by}};
	const struct {
		const char *key;
		uint64_t n;
	} numbers[] = {{"port", row->port},
		       {"exec_id", row->exec_id},
		       {"count", row->count},
		       {"about", row->about}};
	json_t *data = json_object();

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].text)
			json_object_set_new(data, texts[i].key, json_string(texts[i].text));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		if (numbers[i].n)
			json_object_set_new(data, numbers[i].key,
					    json_integer((json_int_t)numbers[i].n));
	return data;
}

static int on_door_row(void *arg, const char *box, const struct audit_row *row)
{
	struct gather_telling *t = arg;
	struct api_gather *g = t->g;
	struct gather_box *b = t->b;
	int type = -1, r = 0;
	json_t *data;

	pthread_mutex_lock(&g->lock);
	figures_verdict(g->figures, b->name, row->kind, row->verdict, row->why, row->count);
	pthread_mutex_unlock(&g->lock);
	if (g->api->options.on_door_row)
		g->api->options.on_door_row(g->api->options.arg, b->name, row);
	if (row->seq <= b->door_row)
		return 0;
	if (strcmp(row->kind, "ask") == 0)
		type = FEED_ASK_OPENED;
	else if (strcmp(row->kind, "answer") == 0)
		type = FEED_ASK_ANSWERED;
	else if (row->verdict && strcmp(row->verdict, "deny") == 0 && may_emit_denial(g, b))
		type = FEED_DOOR_DENIED;
	if (type >= 0) {
		data = data_of_row(row);
		if (type == FEED_DOOR_DENIED && b->left_out)
			json_object_set_new(data, "left_out",
					    json_integer((json_int_t)b->left_out));
		r = gather_emit(g, b, (enum feed_type)type, row->time_ms, "audit_seq", row->seq,
				data);
		if (r == 0 && type == FEED_DOOR_DENIED)
			b->left_out = 0;
	}
	if (r == 0)
		b->door_row = row->seq;
	if (r == 0 && g->rows >= GATHER_ROWS_MAX)
		r = 1;
	return r;
}

static int read_door(struct api_gather *g, struct gather_box *b)
{
	struct gather_telling t = {g, b};
	int r;

	if (!b->log[0] && b->is_there) {
		autoclose int fd = -1;

		if (record_open(g->st, b->name, &fd, NULL) < 0 || !audit_log_of(fd, b->log))
			b->log[0] = 0;
	}
	if (!b->log[0])
		return 0;
	if (g->logs_fd < 0)
		g->logs_fd = audit_logs_dir(g->st);
	r = g->logs_fd < 0 ? 0 : audit_read_on(g->logs_fd, b->log, &b->door, on_door_row, &t);
	return r > 0 ? 0 : r;
}

int gather_box_read(struct api_gather *g, struct gather_box *b)
{
	int r = read_events(g, b);

	return r == 0 && g->rows < GATHER_ROWS_MAX ? read_door(g, b) : r;
}

/* ---- other rows ---- */

void gather_box_skip(struct api_gather *g, struct gather_box *b)
{
	autofree char *tail = malloc(BLOCK + 1);
	autoclose int fd = -1;
	struct stat st;
	ssize_t n = 0;

	if (tail && b->fd >= 0 && fstat(b->fd, &st) == 0) {
		uint64_t from = st.st_size > BLOCK ? (uint64_t)st.st_size - BLOCK : 0;
		const char *row;

		n = pread(b->fd, tail, BLOCK, (off_t)from);
		while (n > 0 && tail[n - 1] != '\n')
			n--;
		b->at = from + (uint64_t)(n > 0 ? n : 0);
		if (n > 0) {
			tail[n - 1] = 0;
			row = memrchr(tail, '\n', (size_t)n - 1);
			b->seq = event_row_seq(row ? row + 1 : tail);
		}
	}
	if (record_open(g->st, b->name, &fd, NULL) == 0 && audit_log_of(fd, b->log)) {
		g->logs_fd = g->logs_fd < 0 ? audit_logs_dir(g->st) : g->logs_fd;
		if (g->logs_fd >= 0)
			(void)audit_cursor_end(g->logs_fd, b->log, &b->door);
	}
}

int gather_box_created(struct api_gather *g, struct gather_box *b)
{
	int r = b->has_row ? 0
			   : gather_emit(g, b, FEED_BOX_CREATED, b->created_ms, NULL, 0,
					 json_pack("{s:b}", "one_shot", b->one_shot));

	b->has_row = r == 0;
	return r;
}

int gather_box_removed(struct api_gather *g, struct gather_box *b)
{
	json_t *data = json_object();

	if (b->started_ms)
		add_use(g, b, g->now_ms, data);
	return gather_emit(g, b, FEED_BOX_REMOVED, g->now_ms, NULL, 0, data);
}

/* A keeper that was lost, or a host that went down, wrote no end. */
static int emit_lost(struct api_gather *g, struct gather_box *b, const struct record *record)
{
	json_t *data = json_pack("{s:s,s:s}", "cause", record->cause, "by", record->by);
	int r;

	add_use(g, b, record->ended_ms, data);
	r = gather_emit(g, b, FEED_BOX_STOPPED, record->ended_ms, NULL, 0, json_incref(data));
	if (r == 0)
		r = emit_limit(g, b, record->ended_ms, data);
	json_decref(data);
	return r;
}

int gather_box_look(struct api_gather *g, struct gather_box *b)
{
	char group[BOX_NAME_MAX + 16];
	struct record record;
	uint64_t cpu_us;
	int r = 0;

	if (!b->started_ms || record_load(g->st, b->name, &record, NULL) < 0)
		return 0;
	if (record.state == BOX_STOPPED && record.ended_ms) {
		/* Its keeper's own word comes first. */
		r = gather_box_read(g, b);
		if (r == 0 && b->started_ms && g->rows < GATHER_ROWS_MAX)
			r = emit_lost(g, b, &record);
	}
	record_done(&record);
	if (r < 0 || !b->started_ms || !g->groups)
		return r;
	snprintf(group, sizeof(group), "%s-%s", g->st->tag, b->name);
	if (cgroup_reader_cpu_us(g->groups, group, &cpu_us) < 0)
		return 0;
	pthread_mutex_lock(&g->lock);
	b->cpu_us = cpu_us > b->cpu_us ? cpu_us : b->cpu_us;
	pthread_mutex_unlock(&g->lock);
	return 0;
}
