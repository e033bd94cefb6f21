/*
 * Which box was made under which Idempotency-Key; see handlers.h.
 *
 * The truth is a label of each such box (CORE_REQUEST_LABEL): what was asked for, then the key and
 * whose it is, both as hashes. This is an index of those labels, read once, when the first such
 * request comes, so that making a box costs the same however many there are. A row says no more
 * than where to look: it holds while its box has that label, or while the box is being made.
 */
#include "api/call.h"
#include "api/handlers.h"

#include "base/sha.h"
#include "base/str.h"
#include "core/core.h"
#include "core/view.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HASH_HEX = 32, ROWS_LEAST = 1024 };
#define LABEL_PREFIX CORE_REQUEST_LABEL "="
#define LABEL_ASKED  (sizeof(LABEL_PREFIX) - 1 + HASH_HEX) /* up to the end of what was asked */

struct repeat_row {
	char label[LABEL_ASKED + HASH_HEX + 1];
	char box[BOX_NAME_MAX + 1];
	unsigned makers; /* calls that make it now */
};

struct api_repeats {
	pthread_mutex_t lock;
	struct repeat_row *rows; /* owned */
	size_t count, cap;
	bool is_read;
};

struct api_repeats *api_repeats_new(void)
{
	struct api_repeats *s = calloc(1, sizeof(*s));

	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

void api_repeats_free(struct api_repeats *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s->rows);
	free(s);
}

const char *api_repeat_label(struct api_call *c, const char *key, const char *body, struct err *e)
{
	const char *owner = api_owner(c), *label = NULL;
	char asked_hex[65], key_hex[65];
	char *asked = api_memory_printf(&c->memory, "%s\n%s", key, body);
	char *whose = api_memory_printf(&c->memory, "%s\n%s", owner ? owner : "", key);

	if (asked && whose) {
		sha256_hex(asked, strlen(asked), asked_hex);
		sha256_hex(whose, strlen(whose), key_hex);
		label = api_memory_printf(&c->memory, LABEL_PREFIX "%.*s%.*s", HASH_HEX, asked_hex,
					  HASH_HEX, key_hex);
	}
	if (!label)
		err_errno(e, ENOMEM, "read the request");
	return label;
}

static bool has_label(const struct spec *spec, const char *label)
{
	for (size_t i = 0; i < spec->label_count; i++)
		if (strncmp(spec->labels[i], label, LABEL_ASKED) == 0)
			return true;
	return false;
}

bool api_repeat_made(struct cove *cove, const char *box, const char *label)
{
	struct record record;
	bool has;

	if (record_load(&cove->state, box, &record, NULL) < 0)
		return false;
	has = has_label(&record.spec, label);
	record_done(&record);
	return has;
}

static bool row_holds(struct cove *cove, const struct repeat_row *row)
{
	return row->makers > 0 || api_repeat_made(cove, row->box, row->label);
}

/* Room for one more: first that of boxes that are gone. */
static int make_room(struct api_repeats *s, struct cove *cove)
{
	struct repeat_row *grown;
	size_t cap, kept = 0;

	if (s->count < s->cap)
		return 0;
	for (size_t i = 0; i < s->count; i++)
		if (row_holds(cove, &s->rows[i]))
			s->rows[kept++] = s->rows[i];
	s->count = kept;
	cap = 2 * kept > ROWS_LEAST ? 2 * kept : ROWS_LEAST;
	if (cap <= s->cap)
		return 0;
	grown = reallocarray(s->rows, cap, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->rows = grown;
	s->cap = cap;
	return 0;
}

static int add_row(struct api_repeats *s, struct cove *cove, const char *label, const char *box,
		   unsigned makers)
{
	struct repeat_row *row;
	int r = make_room(s, cove);

	if (r < 0)
		return r;
	row = &s->rows[s->count++];
	*row = (struct repeat_row){.makers = makers};
	str_copy(row->label, sizeof(row->label), label);
	str_copy(row->box, sizeof(row->box), box);
	return 0;
}

struct repeat_reading {
	struct api_repeats *s;
	struct cove *cove;
};

static int read_spec(void *arg, const struct spec *spec)
{
	const struct repeat_reading *rd = arg;
	int r = 0;

	for (size_t i = 0; i < spec->label_count && r == 0; i++)
		if (str_starts(spec->labels[i], LABEL_PREFIX) &&
		    strlen(spec->labels[i]) == LABEL_ASKED + HASH_HEX)
			r = add_row(rd->s, rd->cove, spec->labels[i], spec->name, 0);
	return r;
}

static int read_boxes(struct api_repeats *s, struct cove *cove, struct err *e)
{
	struct repeat_reading rd = {s, cove};
	int r;

	if (s->is_read)
		return 0;
	s->count = 0;
	r = record_each_spec(&cove->state, false, read_spec, &rd, e);
	if (r == -ENOMEM)
		err_errno(e, ENOMEM, "read what was asked for before");
	s->is_read = r == 0;
	return r;
}

int api_repeat_conflict(struct err *e)
{
	return err_set(e, ERR_CONFLICT, EEXIST,
		       "a request with this Idempotency-Key asked for another box");
}

/* The row of this very request, or NULL; -EEXIST where its key made another box. */
static int find_row(struct api_repeats *s, struct cove *cove, const char *label, const char *box,
		    struct repeat_row **ret, struct err *e)
{
	*ret = NULL;
	for (size_t i = 0; i < s->count; i++) {
		struct repeat_row *row = &s->rows[i];

		if (strcmp(row->label + LABEL_ASKED, label + LABEL_ASKED) != 0)
			continue;
		if (strcmp(row->label, label) == 0 && strcmp(row->box, box) == 0)
			*ret = row;
		else if (row_holds(cove, row))
			return api_repeat_conflict(e);
	}
	return 0;
}

int api_repeat_begin(struct api_call *c, struct cove *cove, const char *label, const char *box,
		     struct err *e)
{
	struct api_repeats *s = c->api->repeats;
	struct repeat_row *row;
	int r;

	pthread_mutex_lock(&s->lock);
	r = read_boxes(s, cove, e);
	if (r == 0)
		r = find_row(s, cove, label, box, &row, e);
	if (r == 0 && row)
		row->makers++;
	else if (r == 0 && add_row(s, cove, label, box, 1) < 0)
		r = err_errno(e, ENOMEM, "keep what was asked for");
	pthread_mutex_unlock(&s->lock);
	return r;
}

void api_repeat_end(struct api_call *c, const char *label, const char *box)
{
	struct api_repeats *s = c->api->repeats;

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < s->count; i++)
		if (strcmp(s->rows[i].label, label) == 0 && strcmp(s->rows[i].box, box) == 0 &&
		    s->rows[i].makers > 0) {
			s->rows[i].makers--;
			break;
		}
	pthread_mutex_unlock(&s->lock);
}
