/*
 * How far boxes' files were read, and what was counted, over restarts; see gather.h.
 *
 *	events/state	{"version", "boot", "seq", "boxes": [...], "figures"}: all of it as it was
 *			when row seq was the last
 *
 * Rows after that one are read again: they say what of the boxes' files has a row already, and are
 * counted. Verdicts of doors have no rows but for denials; they are counted from the place in the
 * audit log that is kept with the counts.
 */
#include "api/gather.h"

#include "api/figures.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/record_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_VERSION = 1 };

/* ---- the list ---- */

/* Where it is, or would be. */
static size_t place_of(const struct api_gather *g, const char *name)
{
	size_t from = 0, to = g->count;

	while (from < to) {
		size_t mid = (from + to) / 2;

		if (strcmp(g->boxes[mid]->name, name) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

struct gather_box *gather_box_find(struct api_gather *g, const char *name)
{
	size_t at = place_of(g, name);

	return at < g->count && strcmp(g->boxes[at]->name, name) == 0 ? g->boxes[at] : NULL;
}

int gather_box_insert(struct api_gather *g, struct gather_box *b)
{
	size_t at = place_of(g, b->name);
	int r = 0;

	pthread_mutex_lock(&g->lock);
	if (g->count == g->cap) {
		size_t cap = g->cap ? 2 * g->cap : 64;
		struct gather_box **grown =
			reallocarray(g->boxes, cap, sizeof(struct gather_box *));

		r = grown ? 0 : -ENOMEM;
		g->boxes = grown ? grown : g->boxes;
		g->cap = grown ? cap : g->cap;
	}
	if (r == 0) {
		memmove(g->boxes + at + 1, g->boxes + at,
			(g->count - at) * sizeof(struct gather_box *));
		g->boxes[at] = b;
		g->count++;
	}
	pthread_mutex_unlock(&g->lock);
	if (r < 0)
		gather_box_free(b);
	return r;
}

void gather_box_drop(struct api_gather *g, struct gather_box *b)
{
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->count; i++) {
		if (g->boxes[i] != b)
			continue;
		g->count--;
		memmove(g->boxes + i, g->boxes + i + 1,
			(g->count - i) * sizeof(struct gather_box *));
		break;
	}
	pthread_mutex_unlock(&g->lock);
	gather_box_free(b);
}

/* ---- writing ---- */

static json_t *box_save(const struct gather_box *b)
{
	return json_pack("{s:s,s:I,s:I,s:I,s:O?,s:b,s:I,s:I,s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I}",
			 "name", b->name, "created_ms", (json_int_t)b->created_ms, "ino",
			 (json_int_t)b->ino, "birth_ns", (json_int_t)b->birth_ns, "labels",
			 b->labels, "one_shot", b->one_shot, "seq", (json_int_t)b->seq, "log_ino",
			 (json_int_t)b->log_ino, "at", (json_int_t)b->at, "log", b->log, "segment",
			 (json_int_t)b->door.segment, "door_at", (json_int_t)b->door.at, "door_seq",
			 (json_int_t)b->door.seq, "door_row", (json_int_t)b->door_row, "started_ms",
			 (json_int_t)b->started_ms, "cpu_us", (json_int_t)b->cpu_us);
}

int gather_state_save(struct api_gather *g)
{
	char boot[RECORD_BOOT_LEN + 1];
	json_t *boxes = json_array(), *state;
	char *text = NULL;
	int r = -ENOMEM;

	record_boot_id(boot);
	pthread_mutex_lock(&g->lock);
	for (size_t i = 0; i < g->count; i++)
		json_array_append_new(boxes, box_save(g->boxes[i]));
	state = json_pack("{s:i,s:s,s:I,s:o,s:o}", "version", STATE_VERSION, "boot", boot, "seq",
			  (json_int_t)(g->feed.next - 1), "boxes", boxes, "figures",
			  figures_save(g->figures));
	pthread_mutex_unlock(&g->lock);
	if (state)
		text = json_dumps(state, JSON_COMPACT);
	json_decref(state);
	if (text)
		r = fd_write_file(g->feed.dir_fd, FEED_STATE, text, strlen(text), 0600, false);
	free(text);
	if (r == 0)
		g->kept_seq = g->feed.next - 1;
	g->kept_ms = g->mono_ms;
	return r;
}

/* ---- reading ---- */

static struct gather_box *box_of(const char *name, uint64_t created_ms, json_t *labels)
{
	struct gather_box *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->fd = -1;
	str_copy(b->name, sizeof(b->name), name);
	b->created_ms = created_ms;
	b->labels = json_is_object(labels) ? json_incref(labels) : NULL;
	b->has_row = true;
	return b;
}

static int box_load(struct api_gather *g, const json_t *o)
{
	const char *name = json_string_value(json_object_get(o, "name"));
	const char *log = json_string_value(json_object_get(o, "log"));
	struct gather_box *b;

	if (!name || gather_box_find(g, name))
		return 0;
	b = box_of(name, figures_number(o, "created_ms"), json_object_get(o, "labels"));
	if (!b)
		return -ENOMEM;
	b->ino = figures_number(o, "ino");
	b->birth_ns = figures_number(o, "birth_ns");
	b->one_shot = json_is_true(json_object_get(o, "one_shot"));
	b->seq = figures_number(o, "seq");
	b->log_ino = figures_number(o, "log_ino");
	b->at = figures_number(o, "at");
	if (log)
		str_copy(b->log, sizeof(b->log), log);
	b->door = (struct audit_cursor){figures_number(o, "segment"), figures_number(o, "door_at"),
					figures_number(o, "door_seq")};
	b->door_row = figures_number(o, "door_row");
	b->started_ms = figures_number(o, "started_ms");
	b->cpu_us = figures_number(o, "cpu_us");
	return gather_box_insert(g, b);
}

struct replay {
	struct api_gather *g;
	uint64_t until;
	int r;
};

static void replay_box(struct replay *p, struct gather_box *b, int type, const json_t *row)
{
	uint64_t seq = figures_number(row, "box_seq"), door = figures_number(row, "audit_seq");

	if (seq > b->seq)
		b->seq = seq;
	if (door > b->door_row)
		b->door_row = door;
	if (type == FEED_BOX_STARTED)
		b->started_ms = figures_number(row, "time_ms");
	if (type == FEED_BOX_STOPPED)
		b->started_ms = b->cpu_us = 0;
	if (type != FEED_BOX_REMOVED)
		return;
	/* What its door allowed is yet to be counted. */
	(void)gather_box_read(p->g, b);
	gather_box_drop(p->g, b);
}

static bool on_replayed(void *arg, uint64_t seq, char *text, size_t len)
{
	struct replay *p = arg;
	json_t *row = seq <= p->until ? json_loadb(text, len, 0, NULL) : NULL;
	const char *name = json_string_value(json_object_get(row, "box"));
	int type = gather_type(json_string_value(json_object_get(row, "type")));
	struct gather_box *b;

	if (name && type >= 0) {
		figures_event(p->g->figures, row);
		b = gather_box_find(p->g, name);
		if (!b && type != FEED_BOX_REMOVED) {
			b = box_of(name, figures_number(row, "created_ms"),
				   json_object_get(row, "labels"));
			p->r = b ? gather_box_insert(p->g, b) : -ENOMEM;
		}
		if (b && p->r == 0)
			replay_box(p, b, type, row);
	}
	json_decref(row);
	return seq < p->until && p->r == 0;
}

static int replay(struct api_gather *g, uint64_t after)
{
	struct replay p = {.g = g, .until = g->feed.next - 1};
	struct feed_reader reader;
	int n;

	feed_reader_init(&reader, g->st, after);
	do {
		n = after < p.until ? feed_read(&reader, on_replayed, &p) : 0;
	} while (n > 0 && p.r == 0 && reader.next <= p.until);
	feed_reader_done(&reader);
	return p.r < 0 ? p.r : n < 0 ? n : 0;
}

int gather_state_load(struct api_gather *g)
{
	char boot[RECORD_BOOT_LEN + 1];
	autofree char *text = NULL;
	json_t *state = NULL;
	const json_t *o;
	const char *old;
	uint64_t seq;
	size_t i;
	int r = fd_read_file(g->feed.dir_fd, FEED_STATE, GATHER_STATE_MAX, &text, NULL);

	if (r == 0)
		state = json_loads(text, 0, NULL);
	else if (r != -ENOENT)
		return r;
	/* One that cannot be read is made again from the rows. */
	if (figures_number(state, "version") != STATE_VERSION) {
		json_decref(state);
		state = NULL;
	}
	r = 0;
	g->is_fresh = !state && g->feed.next == 1;
	json_array_foreach(json_object_get(state, "boxes"), i, o) r = r == 0 ? box_load(g, o) : r;
	figures_load(g->figures, json_object_get(state, "figures"));
	seq = figures_number(state, "seq");
	if (r == 0)
		r = replay(g, seq);
	record_boot_id(boot);
	old = json_string_value(json_object_get(state, "boot"));
	/* Rows that were shown may be gone with the machine's memory, and the word of its boot. */
	if (g->feed.next > 1 && (!old || strcmp(old, boot) != 0))
		feed_skip(&g->feed,
			  (seq >= g->feed.next ? seq + 1 : g->feed.next) + FEED_CRASH_STEP);
	json_decref(state);
	return r;
}
