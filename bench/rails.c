/*
 * How many durable steps a second: `rails DIR WRITERS STEPS [BYTES]`. Every writer is a thread with
 * a run of its own, and a step is START and DONE, each durable before the next. DIR is on the disk
 * that is measured. Prints steps a second, and percentiles of one durable call; then how long it
 * takes to come back to one of those runs, and to be given one of its steps again.
 *
 * `rails sqlite DIR WRITERS STEPS [BYTES]`: what SQLite does with the same rows, synchronous=FULL,
 * one commit a call.
 */
#include "rails/run.h"

#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct writer {
	struct rails *l;
	struct run_handle h;
	unsigned number, steps;
	size_t bytes;
	uint64_t *ns; /* owned: of 2 calls a step */
	struct err e;
	int r;
};

static int one_step(struct writer *w, const struct run_handle *h, unsigned i, const char *result)
{
	char position[16];
	struct run_step_spec spec = {.position = position, .kind = "tool", .name = "bench"};
	struct run_step_end end = {.result = {result, w->bytes, 0}};
	struct run_begin b;
	uint64_t start = clock_mono_ns(), middle;
	int r;

	snprintf(position, sizeof(position), "%u", i);
	r = run_step_begin(w->l, h->id, h->fence, &spec, &b, &w->e);
	middle = clock_mono_ns();
	if (r < 0)
		return r;
	run_begin_done(&b);
	r = run_step_done(w->l, h->id, h->fence, position, 1, &end, &w->e);
	w->ns[2 * i] = middle - start;
	w->ns[2 * i + 1] = clock_mono_ns() - middle;
	return r;
}

static void *write_steps(void *arg)
{
	struct writer *w = arg;
	struct run_create_options o = {.holder = "bench", .lease_ms = 3600000};
	char *result = calloc(1, w->bytes + 1);

	memset(result, 'x', w->bytes);
	w->r = run_create(w->l, &o, &w->h, &w->e);
	for (unsigned i = 0; w->r == 0 && i < w->steps; i++)
		w->r = one_step(w, &w->h, i, result);
	free(result);
	return NULL;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void report(struct writer *writers, unsigned count, unsigned steps, uint64_t took_ns)
{
	size_t n = 2 * (size_t)steps * count, at = 0;
	uint64_t *all = malloc(n * sizeof(*all));

	for (unsigned i = 0; i < count; i++, at += 2 * (size_t)steps)
		memcpy(all + at, writers[i].ns, 2 * (size_t)steps * sizeof(*all));
	qsort(all, n, sizeof(*all), by_size);
	printf("writers %u steps/s %.0f p50_us %.0f p99_us %.0f max_us %.0f\n", count,
	       (double)steps * count * 1e9 / (double)took_ns, (double)all[n / 2] / 1e3,
	       (double)all[n * 99 / 100] / 1e3, (double)all[n - 1] / 1e3);
	free(all);
}

/* One of the steps that are done, asked for again. */
static int ask_again(struct rails *l, const struct run_handle *h, unsigned i, struct err *e)
{
	char position[16];
	struct run_step_spec spec = {.position = position, .kind = "tool", .name = "bench"};
	struct run_begin b;
	int r;

	snprintf(position, sizeof(position), "%u", i);
	r = run_step_begin(l, h->id, h->fence, &spec, &b, e);
	if (r == 0)
		run_begin_done(&b);
	return r;
}

/* What one who comes back sees: the opening, a run of so many steps, its cached steps. */
static int come_back(struct state *st, const struct run_handle *h, unsigned steps, struct err *e)
{
	uint64_t *ns = calloc(steps, sizeof(*ns)), start = clock_mono_ns();
	struct run_state state;
	struct rails *l;
	int r = rails_open(&l, st, NULL, e);

	if (r == 0)
		r = run_load(l, h->id, &state, e);
	if (r < 0)
		return r;
	printf("open and read a run of %u steps: ms %.2f\n", state.step_count,
	       (double)(clock_mono_ns() - start) / 1e6);
	run_state_done(&state);
	for (unsigned i = 0; r == 0 && i < steps; i++) {
		start = clock_mono_ns();
		r = ask_again(l, h, i, e);
		ns[i] = clock_mono_ns() - start;
	}
	qsort(ns, steps, sizeof(*ns), by_size);
	if (r == 0)
		printf("cached step p50_us %.1f\n", (double)ns[steps / 2] / 1e3);
	free(ns);
	rails_close(l);
	return r;
}

/* ---- SQLite ---- */

/* One connection for all: of several, each waits for the others by sleeping. */
static sqlite3 *db;
static sqlite3_stmt *insert;
static pthread_mutex_t db_mutex = PTHREAD_MUTEX_INITIALIZER;

static int sqlite_begin(const char *dir)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/steps.db", dir);
	if (sqlite3_open(path, &db) != SQLITE_OK ||
	    sqlite3_exec(db,
			 "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
			 "CREATE TABLE step (run INTEGER, number INTEGER, state INTEGER, data BLOB,"
			 " PRIMARY KEY (run, number, state)) WITHOUT ROWID",
			 NULL, NULL, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(db, "INSERT INTO step VALUES (?, ?, ?, ?)", -1, &insert, NULL) !=
		    SQLITE_OK)
		return -EIO;
	return 0;
}

static uint64_t sqlite_call(const struct writer *w, unsigned step, int state, const char *data)
{
	uint64_t start = clock_mono_ns();

	pthread_mutex_lock(&db_mutex);
	sqlite3_bind_int64(insert, 1, w->number);
	sqlite3_bind_int64(insert, 2, step);
	sqlite3_bind_int(insert, 3, state);
	sqlite3_bind_blob(insert, 4, data, state ? (int)w->bytes : 64, SQLITE_STATIC);
	if (sqlite3_step(insert) != SQLITE_DONE)
		fprintf(stderr, "rails: %s\n", sqlite3_errmsg(db));
	sqlite3_reset(insert);
	pthread_mutex_unlock(&db_mutex);
	return clock_mono_ns() - start;
}

static void *sqlite_steps(void *arg)
{
	struct writer *w = arg;
	char *data = calloc(1, w->bytes + 64);

	for (unsigned i = 0; i < w->steps; i++) {
		w->ns[2 * i] = sqlite_call(w, i, 0, data);
		w->ns[2 * i + 1] = sqlite_call(w, i, 1, data);
	}
	free(data);
	return NULL;
}

/* ---- all of it ---- */

static int run_writers(struct writer *writers, unsigned count, void *(*run)(void *), struct err *e)
{
	pthread_t *threads = calloc(count, sizeof(*threads));
	uint64_t start = clock_mono_ns();
	int r = 0;

	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, run, &writers[i]) != 0)
			abort();
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	start = clock_mono_ns() - start;
	for (unsigned i = 0; r == 0 && i < count; i++) {
		r = writers[i].r;
		*e = writers[i].e;
	}
	if (r == 0)
		report(writers, count, writers[0].steps, start);
	free(threads);
	return r;
}

static int run_rails(const char *dir, struct writer *writers, unsigned count, struct err *e)
{
	struct state st;
	struct rails *l;
	int r = state_open(&st, dir, true, e);

	if (r == 0)
		r = rails_open(&l, &st, NULL, e);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < count; i++)
		writers[i].l = l;
	r = run_writers(writers, count, write_steps, e);
	rails_close(l);
	return r < 0 ? r : come_back(&st, &writers[0].h, writers[0].steps, e);
}

int main(int argc, char **argv)
{
	int is_sqlite = argc > 1 && strcmp(argv[1], "sqlite") == 0, r;
	char **args = argv + 1 + is_sqlite;
	unsigned count = argc - is_sqlite > 3 ? (unsigned)atoi(args[1]) : 0;
	unsigned steps = argc - is_sqlite > 3 ? (unsigned)atoi(args[2]) : 0;
	struct writer *writers = calloc(count + 1, sizeof(*writers));
	struct err e = {0};

	if (!count || !steps || steps > RUN_STEPS_MAX) {
		fprintf(stderr, "usage: rails [sqlite] DIR WRITERS STEPS [BYTES]\n");
		return 2;
	}
	for (unsigned i = 0; i < count; i++)
		writers[i] =
			(struct writer){.number = i,
					.steps = steps,
					.bytes = argc - is_sqlite > 4 ? (size_t)atoi(args[3]) : 64,
					.ns = calloc(2 * (size_t)steps, 8)};
	if (is_sqlite)
		r = sqlite_begin(args[0]) < 0
			    ? err_set(&e, ERR_INTERNAL, 0, "%s", sqlite3_errmsg(db))
			    : run_writers(writers, count, sqlite_steps, &e);
	else
		r = run_rails(args[0], writers, count, &e);
	if (r < 0)
		fprintf(stderr, "rails: %s\n", e.msg);
	return r < 0;
}
