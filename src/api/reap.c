/*
 * The reaper: passes of cove_reap in a thread, one after the other, each when the one before said
 * that there will be something to do, and at least every REAP_MOST_MS: boxes are also made and
 * ended by others.
 */
#include "api/call.h"
#include "api/handlers.h"

#include <errno.h>

enum { REAP_LEAST_MS = 200, REAP_MOST_MS = 5000 };

struct api_reaper {
	struct api *api;
	struct ev_timer timer;
	struct ev_job job;
	bool runs, has_run;
	uint64_t next_ms;
};

/* In the thread. */
static void on_action(void *arg, const char *action, const char *box, const char *cause)
{
	const struct api_options *o = &((struct api_reaper *)arg)->api->options;

	if (o->on_reaped)
		o->on_reaped(o->arg, action, box, cause);
}

static void on_reap(struct ev_job *j, void *state)
{
	struct api_reaper *r = container(j, struct api_reaper, job);
	const struct cove_reap_options o = {
		.size = sizeof(o), .sweep = !r->has_run, .on_action = on_action, .arg = r};
	struct cove_reaped done = {0};

	/* What fails now is tried in the next pass. */
	r->next_ms = state && cove_reap(state, &o, &done, NULL) == 0 ? done.next_ms : REAP_MOST_MS;
	r->has_run = true;
}

static void on_reap_done(struct ev_job *j)
{
	struct api_reaper *r = container(j, struct api_reaper, job);
	uint64_t in = r->next_ms < REAP_LEAST_MS ? REAP_LEAST_MS : r->next_ms;

	r->runs = false;
	ev_timer_set(r->api->ev, &r->timer, in < REAP_MOST_MS ? in : REAP_MOST_MS);
}

static void on_reap_time(struct ev_timer *t)
{
	struct api_reaper *r = container(t, struct api_reaper, timer);

	r->runs = ev_work_push(r->api->work, &r->job) == 0;
	if (!r->runs)
		ev_timer_set(r->api->ev, t, REAP_MOST_MS);
}

int api_reaper_start(struct api *a)
{
	struct api_reaper *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->api = a;
	r->timer.on_timer = on_reap_time;
	r->job = (struct ev_job){.on_run = on_reap, .on_done = on_reap_done, .urgent = true};
	a->reaper = r;
	ev_timer_set(a->ev, &r->timer, 0);
	return 0;
}

void api_reaper_free(struct api_reaper *r)
{
	if (!r)
		return;
	ev_timer_stop(r->api->ev, &r->timer);
	free(r);
}
