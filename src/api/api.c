/* The API of one server: what all its calls share. */
#include "api/call.h"
#include "api/gather.h"
#include "api/handlers.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/locked.h"
#include "core/core.h"
#include "core/walls.h"
#include "core/warm.h"

#include <errno.h>
#include <stdlib.h>

enum { THREAD_IDLE_MS = 10000 };

/* In a thread. */
static void *state_new(void *arg)
{
	struct api *a = arg;
	/* The options' text may have gone with a reload; the place is the same. */
	struct cove_options options = {.size = sizeof(options), .home = a->cove->state.home};
	struct cove *cove = NULL;

	if (cove_new(&cove, &options, NULL) < 0)
		return NULL;
	cove->admission = a->admission;
	cove->warm = a->warm;
	return cove;
}

static void state_free(void *state)
{
	cove_free(state);
}

int api_new(struct ev *ev, const struct api_options *options, struct api **ret, struct err *e)
{
	struct api *a = calloc(1, sizeof(*a));
	struct cove_error err;
	int r;

	if (!a)
		return err_errno(e, ENOMEM, "begin to serve");
	a->ev = ev;
	a->options = *options;
	a->started_ms = ev_now(ev);
	a->started_mono_ms = clock_mono_ms();
	a->quotas = api_quotas_new();
	a->repeats = api_repeats_new();
	a->admission = core_admission_new(&options->admission);
	if (!a->quotas || !a->repeats || !a->admission) {
		api_quotas_free(a->quotas);
		api_repeats_free(a->repeats);
		core_admission_free(a->admission);
		free(a);
		return err_errno(e, ENOMEM, "begin to serve");
	}
	r = cove_new(
		&a->cove,
		&(struct cove_options){.size = sizeof(struct cove_options), .home = options->home},
		&err);
	if (r < 0)
		r = api_failed(r, &err, e);
	if (r == 0) {
		r = core_client_new(a->cove, ev, &a->client);
		if (r == 0)
			r = ev_work_new(
				ev,
				&(struct ev_work_options){
					.threads_max = options->threads_max,
					.threads_kept = api_threads_kept(options->threads_max),
					.queue_max = options->queue_max,
					.idle_ms = THREAD_IDLE_MS,
					.state_new = state_new,
					.state_free = state_free,
					.arg = a},
				&a->work);
		if (r < 0)
			err_errno(e, -r, "begin to serve");
	}
	if (r == 0)
		r = state_make(&a->cove->state, e);
	if (r == 0)
		r = api_revoker_new(a, e);
	if (r == 0 && options->reaps && (r = api_reaper_start(a)) < 0)
		err_errno(e, -r, "begin to look after boxes");
	if (r == 0 && ((r = api_trail_new(a)) < 0 || (r = api_gather_start(a)) < 0))
		err_errno(e, -r, "begin to follow what happens");
	if (r == 0 && options->reaps) {
		r = core_warm_new(&a->warm);
		a->cove->warm = a->warm;
		if (r == 0)
			r = api_filler_start(a);
		if (r < 0)
			err_errno(e, -r, "begin to fill pools");
	}
	if (r < 0) {
		api_free(a);
		return r;
	}
	*ret = a;
	return 0;
}

int api_options_check(const struct api_options *options, struct err *e)
{
	const char *w = options->min_wall;

	if (w && wall_is_weaker(w, w))
		return err_set(e, ERR_INVALID, EINVAL,
			       "min-wall is a wall, not '%.40s': `cove wall ls` shows them", w);
	return 0;
}

void api_set(struct api *a, const struct api_options *options)
{
	a->options.min_wall = options->min_wall;
	a->options.admission_wait_ms = options->admission_wait_ms;
	a->options.domain = options->domain;
	a->options.domain_scheme = options->domain_scheme;
	a->options.domain_port = options->domain_port;
	core_admission_set(a->admission, &options->admission);
}

void api_free(struct api *a)
{
	struct api_call *next;

	if (!a)
		return;
	for (struct api_call *c = a->calls; c; c = next) {
		next = c->next;
		atomic_store(&c->gone, true);
		if (c->job.on_run)
			api_work_gone(c);
	}
	if (a->warm)
		core_warm_stop(a->warm);
	ev_work_free(a->work);
	for (struct api_call *c = a->calls; c; c = next) {
		next = c->next;
		c->job.on_run = NULL;
		if (c->on_gone)
			c->on_gone(c);
		api_call_free(c);
	}
	api_reaper_free(a->reaper);
	api_revoker_free(a);
	api_events_free(a->events);
	api_gather_free(a->gather);
	api_trail_free(a->trail);
	api_filler_free(a->filler);
	core_warm_free(a->warm, a->cove);
	core_client_free(a->client);
	locked_free(a->seal);
	api_quotas_free(a->quotas);
	api_repeats_free(a->repeats);
	core_admission_free(a->admission);
	cove_free(a->cove);
	free(a);
}
