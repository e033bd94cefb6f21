/*
 * GET /metrics, for Prometheus: what figures.h counts, and what is so at the moment. No keeper is
 * asked: states are in the boxes' records, processor time is in their groups. A confined key is
 * shown what is its own; one with the scope metrics, and the operator, all of it.
 */
#include "api/call.h"
#include "api/figures.h"
#include "api/gather.h"
#include "api/handlers.h"
#include "api/prom.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cgroup/reader.h"
#include "core/core.h"

#include <errno.h>
#include <stdio.h>

/* A box that runs. */
struct running {
	char name[BOX_NAME_MAX + 1];
	uint64_t started_ms, cpu_us;
};

void api_call_count(const struct api_call *c)
{
	struct api_gather *g = c->api->gather;
	/* Whoever made up a token made up its id, too. */
	bool is_key = c->who.key && !c->who.is_operator && c->status != 401;
	const char *owner = is_key ? c->who.key->id : "";

	if (!g)
		return;
	pthread_mutex_lock(&g->lock);
	figures_request(g->figures, owner, c->route, c->status, clock_mono_ns() - c->began_ns);
	pthread_mutex_unlock(&g->lock);
	/* What changes nothing gives no event. */
	if (c->route && strcmp(c->method, "GET") != 0)
		api_gather_soon(c->api);
}

struct api_load api_load_now(const struct api *a)
{
	return (struct api_load){
		.connections =
			a->options.on_connections ? a->options.on_connections(a->options.arg) : 0,
		.streams = a->streams,
		.sockets = a->sockets,
		.jobs = ev_work_count(a->work),
	};
}

static bool sees_all(const struct api_call *c)
{
	return c->who.is_operator || key_may(c->who.key, KEY_METRICS);
}

/* ---- the machine ---- */

static uint64_t start_time_ms(const struct api_call *c)
{
	return clock_wall_ms() - (clock_mono_ms() - c->api->started_mono_ms);
}

static void write_server(const struct api_call *c, struct prom *p)
{
	const struct api_load *l = &c->load;

	prom_metric(p, "cove_build_info", "gauge", "Which Cove this is; always 1.");
	prom_u64(p, (struct prom_label[]){{"version", cove_version()}, {0}}, 1);
	prom_metric(p, "cove_start_time_seconds", "gauge",
		    "When the server started, in seconds since 1970.");
	prom_seconds(p, NULL, start_time_ms(c), 1000);
	if (!sees_all(c))
		return;
	prom_metric(p, "cove_http_connections", "gauge", "Connections that are open.");
	prom_u64(p, NULL, l->connections);
	prom_metric(p, "cove_http_streams", "gauge", "Answers that are being streamed.");
	prom_u64(p, NULL, l->streams);
	prom_metric(p, "cove_http_websockets", "gauge", "WebSockets that are open.");
	prom_u64(p, NULL, l->sockets);
	prom_metric(p, "cove_threads_max", "gauge", "Threads for calls that block, at most.");
	prom_u64(p, NULL, c->api->options.threads_max);
	prom_metric(p, "cove_calls", "gauge",
		    "Calls that block: under way, or waiting for a thread.");
	prom_u64(p, NULL, l->jobs);
}

static int write_boxes(struct api_call *c, struct cove *cove, struct prom *p, struct err *e)
{
	static const char *const states[] = {"created", "running", "paused",
					     "stopped", "damaged", "unknown"};
	enum { STATES = sizeof(states) / sizeof(states[0]) };
	uint64_t counts[STATES] = {0};
	struct cove_box_info *infos = NULL;
	struct cove_error err;
	int count = cove_list(cove, &infos, &err);

	if (count < 0)
		return api_failed(count, &err, e);
	for (int i = 0; i < count; i++)
		for (int s = 0; s < STATES; s++)
			if (strcmp(infos[i].state, states[s]) == 0 &&
			    (sees_all(c) || api_name_shown(c, KEY_OF_BOX, infos[i].name, NULL)))
				counts[s]++;
	free(infos);
	prom_metric(p, "cove_boxes", "gauge", "Boxes that there are, by state.");
	for (int s = 0; s < STATES; s++)
		prom_u64(p, (struct prom_label[]){{"state", states[s]}, {0}}, counts[s]);
	return 0;
}

/* ---- keys ---- */

static int write_keys(struct api_call *c, struct cove *cove, struct prom *p, struct err *e)
{
	struct cove_key_info *keys = NULL;
	struct cove_error err;
	int count = cove_keys(cove, &keys, &err);

	if (count < 0)
		return api_failed(count, &err, e);
	prom_metric(p, "cove_key_info", "gauge",
		    "What the keys of other metrics are called; always 1.");
	for (int i = 0; i < count; i++)
		if (keys[i].revoked_ms == 0 &&
		    (sees_all(c) || strcmp(keys[i].id, c->who.key->id) == 0))
			prom_u64(p,
				 (struct prom_label[]){
					 {"key", keys[i].id}, {"name", keys[i].name}, {0}},
				 1);
	free(keys);
	return 0;
}

/* ---- what runs ---- */

static struct running *running_list(struct api_gather *g, const char *owner, size_t *ret_count)
{
	struct running *list;
	size_t n = 0;

	pthread_mutex_lock(&g->lock);
	list = calloc(g->count + 1, sizeof(*list));
	for (size_t i = 0; list && i < g->count; i++) {
		const struct gather_box *b = g->boxes[i];
		char id[9];

		figures_owner_of(b->name, id);
		if (!b->started_ms || (owner && strcmp(id, owner) != 0))
			continue;
		str_copy(list[n].name, sizeof(list[n].name), b->name);
		list[n].started_ms = b->started_ms;
		list[n++].cpu_us = b->cpu_us;
	}
	pthread_mutex_unlock(&g->lock);
	*ret_count = n;
	return list;
}

static void read_groups(struct cove *cove, struct running *list, size_t count)
{
	struct cgroup_reader *groups = NULL;
	char group[BOX_NAME_MAX + 16];
	uint64_t cpu_us;

	if (cgroup_reader_new(&groups) < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		snprintf(group, sizeof(group), "%s-%s", cove->state.tag, list[i].name);
		if (cgroup_reader_cpu_us(groups, group, &cpu_us) == 0 && cpu_us > list[i].cpu_us)
			list[i].cpu_us = cpu_us;
	}
	cgroup_reader_free(groups);
}

static int write_figures(struct api_gather *g, const char *owner, const struct running *list,
			 size_t count, struct buf *out)
{
	uint64_t now_ms = clock_wall_ms();
	int r;

	pthread_mutex_lock(&g->lock);
	figures_now_clear(g->figures);
	for (size_t i = 0; i < count; i++) {
		struct gather_box *b = gather_box_find(g, list[i].name);
		char id[9];

		/* One that ended meanwhile is counted already. */
		if (!b || b->started_ms != list[i].started_ms)
			continue;
		if (list[i].cpu_us > b->cpu_us)
			b->cpu_us = list[i].cpu_us;
		figures_owner_of(b->name, id);
		figures_now_add(g->figures, id, b->labels,
				now_ms > b->started_ms ? now_ms - b->started_ms : 0, b->cpu_us);
	}
	r = figures_write(g->figures, owner, out);
	pthread_mutex_unlock(&g->lock);
	return r;
}

static int metrics(struct api_call *c, struct cove *cove, struct err *e)
{
	struct api_gather *g = c->api->gather;
	struct prom p = {.out = &c->out};
	const char *owner = sees_all(c) ? NULL : c->who.key->id;
	autofree struct running *list = NULL;
	size_t count;
	int r;

	write_server(c, &p);
	r = write_boxes(c, cove, &p, e);
	if (r == 0)
		r = write_keys(c, cove, &p, e);
	if (r < 0)
		return r;
	list = running_list(g, owner, &count);
	if (!list)
		return err_errno(e, ENOMEM, "list the boxes that run");
	read_groups(cove, list, count);
	if (sees_all(c) && c->api->options.on_metrics)
		c->api->options.on_metrics(c->api->options.arg, &c->out);
	r = p.error ? p.error : write_figures(g, owner, list, count, &c->out);
	if (r < 0)
		return err_errno(e, -r, "write the figures");
	c->status = 200;
	c->type = PROM_TYPE;
	c->is_exact = true;
	return 0;
}

/* clang-format off */
const struct api_route api_metrics_routes[] = {
	{"GET", "/metrics", "getMetrics", KEY_METRICS, .work = metrics},
	{0}};
/* clang-format on */
