/*
 * The rows of a journal, and what a run is by them. However the bytes are cut when they are read,
 * the state is the same, and so is the verdict; a row that was read is encoded to the same bytes;
 * what a state says holds together. The input is a journal as it is (first byte odd), or a list of
 * rows, which get a good head and number, so that it comes as far as the fold.
 */
#include "fuzz.h"

#include "rails/fold.h"

#include <errno.h>

#define ID "0123456789abcdef0123"

enum { JOURNAL_MAX = 1 << 18 };

static void check_state(const struct run_state *s)
{
	uint64_t waits = 0, started = 0, done = 0, failed = 0;

	for (uint32_t i = 0; i < s->step_count; i++) {
		const struct run_step *step = &s->steps[i];

		MUST(run_step_find(s, step->position) == step);
		MUST(step->first.offset + step->first.bytes <= s->bytes);
		MUST(step->last.offset + step->last.bytes <= s->bytes);
		MUST(step->fence <= s->fence);
		waits += step->state == RUN_STEP_WAITING;
		started += step->state == RUN_STEP_STARTED;
		done += step->state == RUN_STEP_DONE && !(step->flags & RUN_STEP_IS_WAIT);
		failed += step->state == RUN_STEP_FAILED;
	}
	MUST(waits == s->totals.waits_open && started == s->started);
	if (s->id.space == RAILS_RUNS)
		MUST(done == s->totals.steps_done && failed == s->totals.steps_failed);
	MUST(run_status_name(run_status_at(s, s->last_ms)) != NULL);
}

static void must_be_same(const struct run_state *a, const struct run_state *b)
{
	MUST(a->rows == b->rows && a->bytes == b->bytes && a->fence == b->fence &&
	     a->said == b->said && a->step_count == b->step_count &&
	     a->signal_count == b->signal_count && a->is_held == b->is_held &&
	     memcmp(&a->totals, &b->totals, sizeof(a->totals)) == 0);
	for (uint32_t i = 0; i < a->step_count; i++)
		MUST(memcmp(&a->steps[i].key, &b->steps[i].key, SHA256_BYTES) == 0 &&
		     a->steps[i].state == b->steps[i].state &&
		     a->steps[i].attempts == b->steps[i].attempts);
}

/* As it is read: so many bytes at a time, what is not a whole row comes again. */
static int fold_cut(struct run_state *s, const uint8_t *p, size_t n, size_t piece)
{
	size_t at = 0, have = 0;

	while (at + have < n) {
		uint8_t *copy;
		int64_t used;

		have += piece < n - at - have ? piece : n - at - have;
		copy = malloc(have);
		MUST(copy);
		memcpy(copy, p + at, have);
		used = run_fold_bytes(s, copy, have);
		free(copy);
		if (used < 0)
			return (int)used;
		at += (size_t)used;
		have -= (size_t)used;
	}
	return 0;
}

static void rows_encode_alike(const uint8_t *p, size_t n)
{
	static uint8_t again[RUN_ROW_MAX];
	struct run_row row;
	int bytes;

	while ((bytes = run_row_decode(&row, p, n)) > 0) {
		int r = run_row_encode(&row, again, sizeof(again));

		/* One with tags that this Cove does not know has more. */
		MUST(r > 0 && r <= bytes);
		MUST(r < bytes || memcmp(again, p, (size_t)bytes) == 0);
		MUST((size_t)bytes >= (size_t)r && run_row_room(&row) >= (size_t)r);
		p += bytes;
		n -= (size_t)bytes;
	}
}

static void check(const char *id, const uint8_t *p, size_t n)
{
	const size_t pieces[] = {1, 7, 64, 1000};
	struct run_state whole, part;
	int64_t r;

	run_state_init(&whole, id);
	r = run_fold_bytes(&whole, p, n);
	MUST(r <= (int64_t)n);
	check_state(&whole);
	for (unsigned i = n > 4096; i < 4; i++) {
		run_state_init(&part, id);
		MUST(fold_cut(&part, p, n, pieces[i]) == (r < 0 ? r : 0));
		must_be_same(&whole, &part);
		run_state_done(&part);
	}
	run_state_done(&whole);
	rows_encode_alike(p, n);
}

static struct rails_bytes few(struct input *in, size_t max)
{
	size_t n = input_byte(in) % (max + 1);
	struct rails_bytes b = {in->p, n < in->n ? n : in->n};

	in->p += b.len;
	in->n -= b.len;
	return b;
}

static struct run_row row_of(struct input *in)
{
	static const char *const positions[] = {"1", "2", "3", "4"};
	static const uint8_t keys[2][SHA256_BYTES] = {{1}, {2}};
	uint8_t how = input_byte(in), where = input_byte(in);

	return (struct run_row){
		.type = (enum run_row_type)(input_byte(in) % (RUN_ROW_TYPES + 1)),
		.time_ms = input_byte(in),
		.fence = input_byte(in) % 4,
		.ms = 1 + input_byte(in),
		.attempt = 1 + (uint64_t)(how >> 5),
		.flags = how >> 3,
		.how = how % 8,
		.until_ms = input_byte(in),
		.about = where % 16,
		.version = where >> 5,
		.id = {ID, sizeof(ID) - 1},
		.name = few(in, 3),
		.kind = {"tool", 4},
		.position = {positions[where % 4], 1},
		.key = {keys[where >> 7], SHA256_BYTES},
		.holder = few(in, 2),
		.text = few(in, 5),
		.result = {.bytes = few(in, 9)},
	};
}

/* Rows that cannot follow are left out, as a writer would: so the journal is a good one. */
static void check_made(struct input *in, const char *id)
{
	uint8_t *p = malloc(JOURNAL_MAX);
	struct run_state s;
	size_t n = 0;

	MUST(p);
	run_state_init(&s, id);
	while (in->n > 0 && n + RUN_ROW_MAX < JOURNAL_MAX) {
		struct run_row row = row_of(in);
		int bytes;

		row.number = s.rows + 1;
		bytes = run_row_encode(&row, p + n, JOURNAL_MAX - n);
		MUST(bytes > 0);
		if (run_fold(&s, &row, &(struct run_place){n, (uint32_t)bytes}) == 0)
			n += (size_t)bytes;
		check_state(&s);
	}
	MUST(s.bytes == n);
	run_state_done(&s);
	check(id, p, n);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t what = input_byte(&in);
	const char *id = what & 2 ? "e123456789abcdef0123" : ID;

	if (what & 1)
		check(id, in.p, in.n);
	else
		check_made(&in, id);
	return 0;
}
