/*
 * Runs after kill -9, errors of the disk and losses of power, checked against a model.
 *
 * How it works: a program makes runs whose steps have an effect each, a token that is counted in
 * `world`, outside of the disk. It is stopped at a call of the disk (rails_disk.h), by its end, an
 * error, or a loss of power; then another process goes on with the same runs to their end. Then
 *
 *	lost        a START or DONE that was acknowledged is not there
 *	twice       a step starts whose effect was there already
 *	phantom     a result is there whose effect was not, or another's result
 *
 * must not have happened. The same with fsync taken away has to be caught.
 */
#include "rails_disk.h"
#include "store_home.h"
#include "tap.h"

#include "rails/run.h"
#include "rails/values.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>

enum { RUNS = 3, STEPS = 6, LOG_BYTES = 2048, LARGE = RAILS_INLINE_MAX + 1000 };

enum note { NOTE_CREATED, NOTE_STARTED, NOTE_EFFECT, NOTE_DONE, NOTE_ENDED };

struct world {
	bool created[RUNS], ended[RUNS];
	uint8_t started[RUNS][STEPS], effects[RUNS][STEPS], done[RUNS][STEPS];
	unsigned notes;
	char broken[160];
};

static struct world *world;
static struct err e;
static uint64_t now_ms = 1;

static uint64_t on_now(void *arg)
{
	return now_ms;
}

static const struct rails_options small = {.now_ms = on_now, .log_bytes = LOG_BYTES};

__attribute__((format(printf, 1, 2))) static bool broken(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	if (!world->broken[0])
		vsnprintf(world->broken, sizeof(world->broken), fmt, args);
	va_end(args);
	return false;
}

static void world_add(struct world *w, enum note what, unsigned run, unsigned step)
{
	w->notes++;
	switch (what) {
	case NOTE_CREATED:
		w->created[run] = true;
		break;
	case NOTE_STARTED:
		w->started[run][step]++;
		break;
	case NOTE_EFFECT:
		w->effects[run][step]++;
		break;
	case NOTE_DONE:
		w->done[run][step]++;
		break;
	case NOTE_ENDED:
		w->ended[run] = true;
		break;
	}
}

static void note(enum note what, unsigned run, unsigned step)
{
	world_add(world, what, run, step);
	disk_note((struct disk_note){what, run, step});
}

static void world_make(void)
{
	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(world != MAP_FAILED);
}

/* ---- the program ---- */

/* A result of another length for each step, and one that is a blob. Owned. */
static char *result_of(unsigned run, unsigned step, size_t *ret_len)
{
	size_t more = run == 1 && step == 2 ? LARGE : (run * 7 + step * 13) % 5 * 90, n;
	char *text = malloc(more + 64);

	n = (size_t)snprintf(text, 64, "token %u.%u ", run, step);
	memset(text + n, 'x', more);
	*ret_len = n + more;
	return text;
}

static bool must_be_stored(const struct run_begin *b, unsigned run, unsigned step)
{
	autofree char *want = NULL;
	size_t n;

	if (b->is_skipped)
		return world->done[run][step] == 0 || broken("lost: DONE %u.%u", run, step);
	if (world->effects[run][step] != 1)
		return broken("phantom: %u.%u with %u effects", run, step,
			      world->effects[run][step]);
	want = result_of(run, step, &n);
	if (b->result.len != n || memcmp(b->result.p, want, n) != 0)
		return broken("phantom: another result at %u.%u", run, step);
	return true;
}

/* False: an error, or something is broken. */
static bool cause_effect(struct rails *l, const struct run_handle *h, unsigned run, unsigned step,
			 const char *position, uint32_t attempt)
{
	size_t n;
	autofree char *text = result_of(run, step, &n);
	struct run_step_end end = {.result = {text, n, 0}};

	if (world->started[run][step])
		return broken("lost: START %u.%u", run, step);
	if (world->effects[run][step])
		return broken("twice: %u.%u", run, step);
	note(NOTE_STARTED, run, step);
	note(NOTE_EFFECT, run, step);
	if (run_step_done(l, h->id, h->fence, position, attempt, &end, &e) < 0)
		return false;
	note(NOTE_DONE, run, step);
	return true;
}

static bool one_step(struct rails *l, const struct run_handle *h, unsigned run, unsigned step)
{
	char position[8];
	struct run_step_spec spec = {.position = position, .kind = "tool", .name = "effect"};
	struct run_begin b;
	bool good;

	snprintf(position, sizeof(position), "%u", step);
	if (run_step_begin(l, h->id, h->fence, &spec, &b, &e) < 0)
		return false;
	switch (b.begun) {
	case RUN_BEGUN_STARTED:
		good = cause_effect(l, h, run, step, position, b.attempt);
		break;
	case RUN_BEGUN_STORED:
		good = must_be_stored(&b, run, step);
		break;
	case RUN_BEGUN_INTERRUPTED:
		good = world->done[run][step]
			       ? broken("lost: DONE %u.%u", run, step)
			       : run_step_resolve(l, h->id, 0, position, RUN_RESOLVE_SKIP, "ann",
						  NULL, NULL, &e) == 0;
		break;
	default:
		good = broken("step %u.%u is of state %d", run, step, b.begun);
	}
	run_begin_done(&b);
	return good;
}

static int create(struct rails *l, unsigned run, struct run_handle *ret)
{
	char key[16], holder[32];
	struct run_create_options o = {.holder = holder, .lease_ms = 1000, .key = key};

	snprintf(key, sizeof(key), "run %u", run);
	snprintf(holder, sizeof(holder), "at %llu", (unsigned long long)now_ms);
	return run_create(l, &o, ret, &e);
}

/* Steps from..to of all runs, in turn. */
static bool work(struct rails *l, unsigned from, unsigned to, bool end)
{
	struct run_handle h[RUNS];

	now_ms += 100000;
	for (unsigned run = 0; run < RUNS; run++) {
		if (create(l, run, &h[run]) < 0)
			return false;
		if (world->created[run] && h[run].is_new)
			return broken("lost: run %u", run);
		note(NOTE_CREATED, run, 0);
		if (world->ended[run] && h[run].status != RUN_COMPLETED)
			return broken("lost: the end of run %u", run);
	}
	for (unsigned step = from; step < to; step++)
		for (unsigned run = 0; run < RUNS; run++)
			if (h[run].status != RUN_COMPLETED && !one_step(l, &h[run], run, step))
				return false;
	for (unsigned run = 0; end && run < RUNS; run++) {
		if (h[run].status == RUN_COMPLETED)
			continue;
		if (run_end(l, h[run].id, h[run].fence, RUN_COMPLETED, NULL, NULL, NULL, &e) < 0)
			return false;
		note(NOTE_ENDED, run, 0);
	}
	return true;
}

/* Two processes, one after the other and then in turn, and the removal of a run between. */
static bool program(struct state *st)
{
	struct rails *l = NULL, *other = NULL;
	struct run_create_options o = {.holder = "x", .lease_ms = 1};
	struct run_handle gone;
	struct run_data value = {"value", 5, 0};
	bool good = rails_open(&l, st, &small, &e) == 0 && work(l, 0, 2, false) &&
		    run_create(l, &o, &gone, &e) == 0 && rails_open(&other, st, &small, &e) == 0 &&
		    work(other, 0, 4, false);

	now_ms += 10;
	good = good && run_remove(l, gone.id, &e) == 0 &&
	       run_save(other, "scope", "name", NULL, &value, NULL, &e) == 0 &&
	       work(l, 0, 5, false) && work(other, 0, STEPS, true);
	rails_close(l);
	rails_close(other);
	return good;
}

/* Whoever comes next brings all to its end, and finds it so again. */
static void check_goes_on(struct state *st, struct rails *l)
{
	struct rails *own = NULL;

	if (!l && rails_open(&own, st, &small, &e) < 0) {
		broken("cannot be opened: %s", e.msg);
		return;
	}
	for (int i = 0; i < 2 && !world->broken[0]; i++)
		if (!work(l ? l : own, 0, STEPS, true))
			broken("does not go on: %s", e.msg);
	rails_close(own);
	for (unsigned run = 0; run < RUNS; run++)
		for (unsigned step = 0; step < STEPS; step++)
			if (world->effects[run][step] > 1)
				broken("twice: %u.%u", run, step);
}

static void must_be_well(const char *what, unsigned at)
{
	if (!world->broken[0])
		return;
	printf("# %s at %u: %s\n", what, at, world->broken);
	FAIL("the model is broken");
}

/* ---- kill -9 at every call ---- */

static unsigned counted_calls(struct state *st)
{
	disk_arm(DISK_NOSPC, UINT32_MAX);
	CHECK(program(st));
	return disk_calls();
}

static void home_again(struct state *st)
{
	autoclose int fd = -1;

	state_close(st);
	fd = open(home_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	disk_arm(DISK_WELL, 0);
	CHECK_EQ(tree_remove(fd, "rails", NULL), 0);
	if (state_open(st, NULL, true, &e) < 0)
		FAIL(e.msg);
	memset(world, 0, sizeof(*world));
}

static void open_home(struct state *st)
{
	home_in_memory();
	world_make();
	home_open(st);
}

TEST(kill_at_every_call)
{
	struct state st;
	unsigned calls;

	open_home(&st);
	calls = counted_calls(&st);
	CHECK(calls > 300);
	for (unsigned at = 1; at <= calls; at++) {
		struct rails *alive = NULL;
		pid_t pid;

		home_again(&st);
		/* Now and then there is a process that lives on. */
		if (at % 3 == 0)
			CHECK_EQ(rails_open(&alive, &st, &small, &e), 0);
		if (at % 6 == 0)
			CHECK(work(alive, 0, 1, false));
		pid = fork();
		if (pid == 0) {
			disk_arm(DISK_DIES, at);
			program(&st);
			_exit(0);
		}
		CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
		now_ms += 1000000;
		/* So is at times who takes up what it left. */
		pid = at % 2 ? fork() : -1;
		if (pid == 0) {
			disk_arm(DISK_DIES, 1 + at % 13);
			check_goes_on(&st, NULL);
			_exit(0);
		}
		CHECK(pid < 0 || waitpid(pid, NULL, 0) == pid);
		now_ms += 1000000;
		check_goes_on(&st, alive);
		rails_close(alive);
		must_be_well("killed", at);
	}
	state_close(&st);
}

/* ---- errors at every call ---- */

static void fail_everywhere(enum disk_fault fault)
{
	struct state st;
	unsigned calls;

	open_home(&st);
	calls = counted_calls(&st);
	for (unsigned at = 1; at <= calls; at++) {
		home_again(&st);
		disk_arm(fault, at);
		program(&st);
		must_be_well("error", at);
		disk_arm(DISK_WELL, 0);
		now_ms += 1000000;
		check_goes_on(&st, NULL);
		must_be_well("after an error", at);
	}
	state_close(&st);
}

TEST(no_room_at_every_call)
{
	fail_everywhere(DISK_NOSPC);
}

TEST(an_error_at_every_call)
{
	fail_everywhere(DISK_IO);
}

/* Without room the same ledger goes on when there is some. */
TEST(no_room_is_no_end)
{
	unsigned stopped = 0, tried = 0;
	bool has_failed = true;
	struct rails *l;
	struct state st;

	open_home(&st);
	for (unsigned at = 1; has_failed; at++, tried++) {
		home_again(&st);
		CHECK_EQ(rails_open(&l, &st, &small, &e), 0);
		disk_arm(DISK_NOSPC, at);
		work(l, 0, STEPS, true);
		has_failed = disk_has_failed();
		disk_arm(DISK_WELL, 0);
		now_ms += 1000000;
		if (!work(l, 0, STEPS, true))
			stopped++;
		must_be_well("no room", at);
		rails_close(l);
	}
	/* Only where the disk said so of what it had: an fsync, a journal, the mark. */
	CHECK(tried > 100 && stopped > 0 && stopped < tried - 20);
	state_close(&st);
}

/* ---- loss of power at every call ---- */

static void record(struct state *st)
{
	open_home(st);
	disk_record(st->home_fd);
	CHECK(program(st));
	disk_record_stop();
	CHECK(disk_ops() >= 300);
}

static void world_at(unsigned ops)
{
	memset(world, 0, sizeof(*world));
	for (unsigned i = 0; i < ops; i++) {
		const struct disk_note *n = disk_note_at(i);

		if (n)
			world_add(world, (enum note)n->what, n->run, n->step);
	}
}

static void check_loss(int base_fd, unsigned ops, enum disk_loss loss, uint64_t seed)
{
	char name[32], path[128];
	struct state copy;

	snprintf(name, sizeof(name), "lost-%u-%u-%llu", ops, loss, (unsigned long long)seed);
	disk_make(base_fd, name, ops, loss, seed);
	/* What was made of it before is another machine's start. */
	snprintf(path, sizeof(path), "%s/%s", home_path, name);
	CHECK_EQ(state_open(&copy, path, true, &e), 0);
	world_at(ops);
	now_ms += 1000000;
	check_goes_on(&copy, NULL);
	state_close(&copy);
	CHECK_EQ(tree_remove(base_fd, name, NULL), 0);
}

/* How many of those states were broken. */
static unsigned lose_everywhere(struct state *st, unsigned seeds, bool stop)
{
	autoclose int base_fd = open(home_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned count = 0;

	CHECK(base_fd >= 0);
	for (unsigned at = 1; at <= disk_ops(); at++) {
		if (at < disk_ops() && disk_note_at(at))
			continue;
		for (unsigned k = 0; k < seeds + 2; k++) {
			check_loss(base_fd, at,
				   k < seeds ? DISK_LOSES_SOME : (enum disk_loss)(k - seeds), k);
			if (stop)
				must_be_well("power lost", at);
			count += world->broken[0] != 0;
		}
	}
	return count;
}

TEST(power_lost_at_every_call)
{
	struct state st;

	record(&st);
	CHECK_EQ(lose_everywhere(&st, 3, true), 0);
	state_close(&st);
}

TEST(a_missing_fsync_is_caught)
{
	struct state st;

	disk_forget_syncs(true);
	record(&st);
	disk_forget_syncs(false);
	CHECK(lose_everywhere(&st, 1, false) > 50);
	state_close(&st);
}

/* ---- kill -9 at random moments, with threads ---- */

static void *one_run(void *arg)
{
	unsigned run = *(const unsigned *)arg;
	extern struct rails *threads_rails;
	struct run_handle h;

	if (create(threads_rails, run, &h) < 0)
		return NULL;
	note(NOTE_CREATED, run, 0);
	for (unsigned step = 0; step < STEPS; step++)
		if (!one_step(threads_rails, &h, run, step))
			break;
	return NULL;
}

struct rails *threads_rails;

static void run_threads(struct state *st)
{
	static unsigned numbers[RUNS];
	pthread_t threads[RUNS];

	if (rails_open(&threads_rails, st, &small, &e) < 0)
		_exit(1);
	for (unsigned i = 0; i < RUNS; i++) {
		numbers[i] = i;
		pthread_create(&threads[i], NULL, one_run, &numbers[i]);
	}
	for (unsigned i = 0; i < RUNS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

TEST(kill_at_random_moments)
{
	const char *many = getenv("COVE_TEST_KILLS");
	unsigned kills = many ? (unsigned)atoi(many) : 200;
	uint64_t dice = 88172645463325252u;
	struct state st;

	open_home(&st);
	for (unsigned i = 0; i < kills; i++) {
		volatile unsigned *notes = &world->notes;
		unsigned stop;
		pid_t pid;
		int status;

		home_again(&st);
		dice ^= dice << 13, dice ^= dice >> 7, dice ^= dice << 17;
		stop = (unsigned)(dice % (RUNS * STEPS * 3));
		now_ms += 1000000;
		pid = fork();
		if (pid == 0)
			run_threads(&st);
		while (*notes < stop && waitpid(pid, &status, WNOHANG) == 0)
			;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		now_ms += 1000000;
		check_goes_on(&st, NULL);
		must_be_well("killed", i);
	}
	state_close(&st);
}

TAP_MAIN
