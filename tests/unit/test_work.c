/* Worker threads: every job runs once and comes back once, with a state of its thread alone. */
#include "tap.h"

#include "ev/work.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { JOBS = 200, THREADS = 4 };

static atomic_int states, running, most, ran;

static void *state_new(void *arg)
{
	atomic_fetch_add(&states, 1);
	return calloc(1, sizeof(int));
}

static void state_free(void *state)
{
	atomic_fetch_sub(&states, 1);
	free(state);
}

struct test_job {
	struct ev_job job;
	struct ev *ev;
	int *left;
	int runs, dones;
	pthread_mutex_t *gate; /* it waits for this; NULL: for nothing */
};

static void on_run(struct ev_job *j, void *state)
{
	struct test_job *t = container(j, struct test_job, job);
	int now = atomic_fetch_add(&running, 1) + 1, before = atomic_load(&most);

	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		;
	++*(int *)state;
	t->runs++;
	if (t->gate) {
		pthread_mutex_lock(t->gate);
		pthread_mutex_unlock(t->gate);
	}
	atomic_fetch_add(&ran, 1);
	atomic_fetch_sub(&running, 1);
}

static void on_done(struct ev_job *j)
{
	struct test_job *t = container(j, struct test_job, job);

	t->dones++;
	if (--*t->left == 0)
		ev_quit(t->ev);
}

static struct ev_work *work_of(struct ev *ev, unsigned queue_max)
{
	struct ev_work *w = NULL;

	CHECK(ev_work_new(ev,
			  &(struct ev_work_options){.threads_max = THREADS,
						    .threads_kept = 1,
						    .queue_max = queue_max,
						    .idle_ms = 50,
						    .state_new = state_new,
						    .state_free = state_free},
			  &w) == 0);
	return w;
}

TEST(every_job_runs_once_and_comes_back_once)
{
	static struct test_job jobs[JOBS];
	struct ev *ev;
	struct ev_work *w;
	int left = JOBS;

	CHECK(ev_new(&ev) == 0);
	w = work_of(ev, JOBS);
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct test_job){
			.job = {.on_run = on_run, .on_done = on_done}, .ev = ev, .left = &left};
		CHECK(ev_work_push(w, &jobs[i].job) == 0);
	}
	CHECK(ev_work_count(w) == JOBS);
	CHECK(ev_run(ev) == 0);
	for (int i = 0; i < JOBS; i++)
		CHECK(jobs[i].runs == 1 && jobs[i].dones == 1);
	CHECK(ev_work_count(w) == 0 && atomic_load(&most) < THREADS);
	ev_work_free(w);
	CHECK(atomic_load(&states) == 0);
	ev_free(ev);
}

TEST(a_queue_that_is_full_takes_no_more)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct test_job jobs[THREADS + 4] = {0};
	int left = 0, taken = 0;
	struct ev *ev;
	struct ev_work *w;

	CHECK(ev_new(&ev) == 0);
	w = work_of(ev, 2);
	pthread_mutex_lock(&gate);
	/* Those that run have left the queue; how fast is the threads' own affair. */
	for (int i = 0; i < THREADS + 4; i++) {
		jobs[i] = (struct test_job){.job = {.on_run = on_run, .on_done = on_done},
					    .ev = ev,
					    .left = &left,
					    .gate = &gate};
		if (ev_work_push(w, &jobs[i].job) == 0)
			taken++;
	}
	CHECK(taken >= 2 && taken <= THREADS + 2);
	left = taken;
	pthread_mutex_unlock(&gate);
	CHECK(ev_run(ev) == 0);
	ev_work_free(w);
	ev_free(ev);
}

/* The others hold all threads that they may have, and more of them wait. */
TEST(what_is_urgent_has_a_thread)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct test_job jobs[JOBS] = {0}, urgent = {0};
	int left = 1;
	struct ev *ev;
	struct ev_work *w;

	CHECK(ev_new(&ev) == 0);
	w = work_of(ev, JOBS + 1);
	pthread_mutex_lock(&gate);
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct test_job){.job = {.on_run = on_run, .on_done = on_done},
					    .ev = ev,
					    .left = &left,
					    .gate = &gate};
		CHECK(ev_work_push(w, &jobs[i].job) == 0);
	}
	urgent = (struct test_job){.job = {.on_run = on_run, .on_done = on_done, .urgent = true},
				   .ev = ev,
				   .left = &left};
	CHECK(ev_work_push(w, &urgent.job) == 0);
	CHECK(ev_run(ev) == 0);
	CHECK(urgent.dones == 1 && ev_work_count(w) == JOBS);
	left = JOBS;
	pthread_mutex_unlock(&gate);
	CHECK(ev_run(ev) == 0);
	for (int i = 0; i < JOBS; i++)
		CHECK(jobs[i].runs == 1 && jobs[i].dones == 1);
	ev_work_free(w);
	ev_free(ev);
}

TEST(its_end_waits_for_what_runs_and_drops_what_waits)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct test_job jobs[JOBS] = {0};
	int left = JOBS, runs = 0;
	struct ev *ev;
	struct ev_work *w;

	CHECK(ev_new(&ev) == 0);
	w = work_of(ev, JOBS);
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct test_job){.job = {.on_run = on_run, .on_done = on_done},
					    .ev = ev,
					    .left = &left,
					    .gate = &gate};
		CHECK(ev_work_push(w, &jobs[i].job) == 0);
	}
	ev_work_free(w);
	for (int i = 0; i < JOBS; i++)
		runs += jobs[i].runs;
	CHECK(runs == atomic_load(&ran) && atomic_load(&running) == 0);
	CHECK(atomic_load(&states) == 0 && left == JOBS);
	ev_work_free(NULL);
	ev_free(ev);
}

TAP_MAIN
