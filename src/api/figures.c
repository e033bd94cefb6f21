/* What is counted; see figures.h. */
#include "api/figures.h"

#include "api/api.h"
#include "api/gather.h"
#include "api/prom.h"
#include "base/str.h"
#include "store/denial.h"

#include <stdlib.h>
#include <string.h>

#define OTHER "(other)"

enum { KINDS = 3, VERDICTS = 3, LIMITS = 6, OPERATIONS = 3, VALUE_MAX = 128 };
static const char *const kinds[KINDS] = {"name", "connect", "request"};
static const char *const verdicts[VERDICTS] = {"allow", "deny", "ask"};
static const char *const limits[LIMITS] = {"timeout", "oom", "pids", "disk", "ttl", "idle"};
/* Those whose times are shown: what somebody waits for. */
static const char *const operations[OPERATIONS] = {"createBox", "fork", "runCommand"};

struct figures_owner {
	char id[9];
	uint64_t events[GATHER_TYPES_MAX], verdicts[KINDS][VERDICTS][DENIAL_COUNT + 1];
	uint64_t limits[LIMITS];
	struct prom_times execs, requests[OPERATIONS];
};

/* What a key's boxes, or those of one label's value, had of the machine. */
struct figures_group {
	char owner[9], *label, *value; /* owned; label NULL: all boxes of the owner */
	uint64_t alive_ms, cpu_us, now_alive_ms, now_cpu_us;
};

struct figures_requests {
	char owner[9];
	const struct api_route *route;
	unsigned status;
	uint64_t count;
};

struct figures {
	char *labels[FIGURES_LABELS_MAX]; /* owned */
	size_t label_count;
	struct figures_owner *owners[FIGURES_OWNERS_MAX]; /* owned */
	struct figures_group *groups[FIGURES_GROUPS_MAX]; /* owned */
	struct figures_requests requests[FIGURES_REQUESTS_MAX];
	size_t owner_count, group_count, request_count;
};

struct figures *figures_new(const char *const *labels, size_t label_count)
{
	struct figures *f = calloc(1, sizeof(*f));

	for (size_t i = 0; f && i < label_count && i < FIGURES_LABELS_MAX; i++)
		if ((f->labels[f->label_count] = strdup(labels[i])))
			f->label_count++;
	return f;
}

static void group_free(struct figures_group *g)
{
	if (!g)
		return;
	free(g->label);
	free(g->value);
	free(g);
}

void figures_free(struct figures *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->owner_count; i++)
		free(f->owners[i]);
	for (size_t i = 0; i < f->group_count; i++)
		group_free(f->groups[i]);
	for (size_t i = 0; i < f->label_count; i++)
		free(f->labels[i]);
	free(f);
}

void figures_owner_of(const char *box, char ret[9])
{
	const char *plain = str_plain_name(box);

	ret[0] = 0;
	if (plain != box)
		snprintf(ret, 9, "%.8s", box);
}

static int index_of(const char *const *words, int count, const char *word)
{
	for (int i = 0; word && i < count; i++)
		if (strcmp(words[i], word) == 0)
			return i;
	return -1;
}

static struct figures_owner *owner_get(struct figures *f, const char *id)
{
	struct figures_owner *o;

	for (size_t i = 0; i < f->owner_count; i++)
		if (strcmp(f->owners[i]->id, id) == 0)
			return f->owners[i];
	if (f->owner_count == FIGURES_OWNERS_MAX - 1)
		id = OTHER;
	if (f->owner_count == FIGURES_OWNERS_MAX)
		return f->owners[f->owner_count - 1];
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	str_copy(o->id, sizeof(o->id), id);
	f->owners[f->owner_count++] = o;
	return o;
}

/* ---- groups ---- */

static struct figures_group *group_find(struct figures *f, const char *owner, const char *label,
					const char *value, size_t *ret_values)
{
	*ret_values = 0;
	for (size_t i = 0; i < f->group_count; i++) {
		struct figures_group *g = f->groups[i];

		if (strcmp(g->owner, owner) != 0 || !g->label != !label ||
		    (label && strcmp(g->label, label) != 0))
			continue;
		if (strcmp(g->value, value) == 0)
			return g;
		++*ret_values;
	}
	return NULL;
}

static struct figures_group *group_get(struct figures *f, const char *owner, const char *label,
				       const char *value)
{
	size_t values;
	struct figures_group *g = group_find(f, owner, label, value, &values);

	if (!g && label && values >= FIGURES_VALUES_MAX) {
		value = OTHER;
		g = group_find(f, owner, label, value, &values);
	}
	if (g || f->group_count == FIGURES_GROUPS_MAX)
		return g;
	g = calloc(1, sizeof(*g));
	if (!g)
		return NULL;
	str_copy(g->owner, sizeof(g->owner), owner);
	g->label = label ? strdup(label) : NULL;
	g->value = strndup(value, VALUE_MAX);
	if (!g->value || (label && !g->label)) {
		group_free(g);
		return NULL;
	}
	f->groups[f->group_count++] = g;
	return g;
}

static void group_add(struct figures_group *g, bool now, uint64_t alive_ms, uint64_t cpu_us)
{
	if (!g)
		return;
	*(now ? &g->now_alive_ms : &g->alive_ms) += alive_ms;
	*(now ? &g->now_cpu_us : &g->cpu_us) += cpu_us;
}

static void use_add(struct figures *f, bool now, const char *owner, const json_t *labels,
		    uint64_t alive_ms, uint64_t cpu_us)
{
	group_add(group_get(f, owner, NULL, ""), now, alive_ms, cpu_us);
	for (size_t i = 0; i < f->label_count; i++) {
		const char *value = json_string_value(json_object_get(labels, f->labels[i]));

		if (value)
			group_add(group_get(f, owner, f->labels[i], value), now, alive_ms, cpu_us);
	}
}

void figures_now_clear(struct figures *f)
{
	for (size_t i = 0; i < f->group_count; i++)
		f->groups[i]->now_alive_ms = f->groups[i]->now_cpu_us = 0;
}

void figures_now_add(struct figures *f, const char *owner, const json_t *labels, uint64_t alive_ms,
		     uint64_t cpu_us)
{
	use_add(f, true, owner, labels, alive_ms, cpu_us);
}

/* ---- counting ---- */

uint64_t figures_number(const json_t *object, const char *key)
{
	json_int_t v = json_integer_value(json_object_get(object, key));

	return v > 0 ? (uint64_t)v : 0;
}

void figures_event(struct figures *f, const json_t *row)
{
	const char *type = json_string_value(json_object_get(row, "type"));
	const char *box = json_string_value(json_object_get(row, "box"));
	const json_t *data = json_object_get(row, "data");
	int at = gather_type(type), limit;
	struct figures_owner *o;
	char id[9];

	if (at < 0)
		return;
	figures_owner_of(box ? box : "", id);
	o = owner_get(f, id);
	if (!o)
		return;
	o->events[at]++;
	if (at == FEED_EXEC_ENDED)
		prom_times_add(&o->execs, figures_number(data, "duration_ms") * 1000);
	limit = at == FEED_LIMIT_HIT ? index_of(limits, LIMITS,
						json_string_value(json_object_get(data, "limit")))
				     : -1;
	if (limit >= 0)
		o->limits[limit]++;
	if (at == FEED_BOX_STOPPED || at == FEED_BOX_REMOVED)
		use_add(f, false, o->id, json_object_get(row, "labels"),
			figures_number(data, "alive_ms"), figures_number(data, "cpu_us"));
}

static void verdict_add(struct figures *f, const char *owner, const char *kind, const char *verdict,
			const char *why, uint64_t count)
{
	int k = index_of(kinds, KINDS, kind), v = index_of(verdicts, VERDICTS, verdict);
	enum denial d = DENIAL_COUNT;
	struct figures_owner *o = k < 0 || v < 0 ? NULL : owner_get(f, owner);

	if (why && !denial_parse(why, &d))
		d = DENIAL_COUNT;
	if (o)
		o->verdicts[k][v][d] += count ? count : 1;
}

void figures_verdict(struct figures *f, const char *box, const char *kind, const char *verdict,
		     const char *why, uint64_t count)
{
	char id[9];

	figures_owner_of(box, id);
	verdict_add(f, id, kind, verdict, why, count);
}

void figures_request(struct figures *f, const char *owner, const struct api_route *route,
		     unsigned status, uint64_t ns)
{
	struct figures_owner *o = owner_get(f, owner);
	int op = route ? index_of(operations, OPERATIONS, route->id) : -1;
	struct figures_requests *r;
	size_t i = 0;

	if (!o)
		return;
	if (op >= 0 && status < 300)
		prom_times_add(&o->requests[op], ns / 1000);
	for (; i < f->request_count; i++) {
		r = &f->requests[i];
		if (r->route == route && r->status == status && strcmp(r->owner, o->id) == 0)
			break;
	}
	/* The last one is for whatever has no room. */
	if (i == FIGURES_REQUESTS_MAX)
		i--;
	r = &f->requests[i];
	if (i == f->request_count) {
		f->request_count++;
		r->route = i < FIGURES_REQUESTS_MAX - 1 ? route : NULL;
		r->status = i < FIGURES_REQUESTS_MAX - 1 ? status : 0;
		str_copy(r->owner, sizeof(r->owner), i < FIGURES_REQUESTS_MAX - 1 ? o->id : OTHER);
	}
	r->count++;
}

/* ---- keeping ---- */

static json_t *numbers_save(const uint64_t *n, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_integer((json_int_t)n[i]));
	return list;
}

static void numbers_load(uint64_t *n, size_t count, const json_t *list)
{
	for (size_t i = 0; i < count; i++) {
		json_int_t v = json_integer_value(json_array_get(list, i));

		n[i] = v > 0 ? (uint64_t)v : 0;
	}
}

/* Words with their counts, so that another Cove may know more or fewer of them. */
static json_t *events_save(const struct figures_owner *o)
{
	json_t *object = json_object();

	for (int i = 0; gather_type_name(i); i++)
		if (o->events[i])
			json_object_set_new(object, gather_type_name(i),
					    json_integer((json_int_t)o->events[i]));
	return object;
}

static json_t *verdicts_save(const struct figures_owner *o)
{
	json_t *object = json_object();

	for (int k = 0; k < KINDS; k++)
		for (int v = 0; v < VERDICTS; v++)
			for (int d = 0; d <= DENIAL_COUNT; d++) {
				char key[80];

				if (!o->verdicts[k][v][d])
					continue;
				snprintf(key, sizeof(key), "%s %s %s", kinds[k], verdicts[v],
					 d < DENIAL_COUNT ? denial_word((enum denial)d) : "-");
				json_object_set_new(object, key,
						    json_integer((json_int_t)o->verdicts[k][v][d]));
			}
	return object;
}

static void verdicts_load(struct figures *f, const char *owner, const json_t *saved)
{
	const json_t *n;
	const char *key;

	json_object_foreach((json_t *)(uintptr_t)saved, key, n)
	{
		char kind[16], verdict[16], why[40];

		if (sscanf(key, "%15s %15s %39s", kind, verdict, why) == 3)
			verdict_add(f, owner, kind, verdict, why, (uint64_t)json_integer_value(n));
	}
}

json_t *figures_save(const struct figures *f)
{
	json_t *owners = json_array(), *groups = json_array();

	for (size_t i = 0; i < f->owner_count; i++) {
		const struct figures_owner *o = f->owners[i];

		json_array_append_new(owners,
				      json_pack("{s:s,s:o,s:o,s:o,s:o,s:I}", "id", o->id, "events",
						events_save(o), "verdicts", verdicts_save(o),
						"limits", numbers_save(o->limits, LIMITS), "execs",
						numbers_save(o->execs.counts, PROM_STEPS + 1),
						"execs_us", (json_int_t)o->execs.sum_us));
	}
	for (size_t i = 0; i < f->group_count; i++) {
		const struct figures_group *g = f->groups[i];

		json_array_append_new(groups, json_pack("{s:s,s:s?,s:s,s:I,s:I}", "owner", g->owner,
							"label", g->label, "value", g->value,
							"alive_ms", (json_int_t)g->alive_ms,
							"cpu_us", (json_int_t)g->cpu_us));
	}
	return json_pack("{s:o,s:o}", "owners", owners, "groups", groups);
}

void figures_load(struct figures *f, const json_t *saved)
{
	const json_t *at, *n;
	const char *word;
	size_t i;

	json_array_foreach(json_object_get(saved, "owners"), i, at)
	{
		struct figures_owner *o =
			owner_get(f, json_string_value(json_object_get(at, "id")) ?: "");

		if (!o)
			return;
		json_object_foreach((json_t *)(uintptr_t)json_object_get(at, "events"), word,
				    n) if (gather_type(word) >= 0) o->events[gather_type(word)] =
			(uint64_t)json_integer_value(n);
		verdicts_load(f, o->id, json_object_get(at, "verdicts"));
		numbers_load(o->limits, LIMITS, json_object_get(at, "limits"));
		numbers_load(o->execs.counts, PROM_STEPS + 1, json_object_get(at, "execs"));
		o->execs.sum_us = figures_number(at, "execs_us");
	}
	json_array_foreach(json_object_get(saved, "groups"), i, at)
	{
		const char *owner = json_string_value(json_object_get(at, "owner"));
		const char *value = json_string_value(json_object_get(at, "value"));

		if (owner && value)
			group_add(group_get(f, owner,
					    json_string_value(json_object_get(at, "label")), value),
				  false, figures_number(at, "alive_ms"),
				  figures_number(at, "cpu_us"));
	}
}

/* ---- showing ---- */

static bool is_shown(const char *owner, const char *id)
{
	return !owner || strcmp(owner, id) == 0;
}

/* All that are shown, added up. */
static void sum_owners(const struct figures *f, const char *owner, struct figures_owner *ret)
{
	for (size_t i = 0; i < f->owner_count; i++) {
		const uint64_t *from = (const uint64_t *)f->owners[i]->events;
		uint64_t *to = ret->events;
		size_t n =
			(sizeof(*ret) - offsetof(struct figures_owner, events)) / sizeof(uint64_t);

		for (size_t k = 0; is_shown(owner, f->owners[i]->id) && k < n; k++)
			to[k] += from[k];
	}
}

static void write_counts(struct prom *p, const struct figures_owner *o)
{
	prom_metric(p, "cove_events_total", "counter", "Events of boxes, by type.");
	for (int i = 0; gather_type_name(i); i++)
		prom_u64(p, (struct prom_label[]){{"type", gather_type_name(i)}, {0}},
			 o->events[i]);
	prom_metric(p, "cove_limits_hit_total", "counter",
		    "Commands and boxes that met a limit, by limit.");
	for (int i = 0; i < LIMITS; i++)
		prom_u64(p, (struct prom_label[]){{"limit", limits[i]}, {0}}, o->limits[i]);
	prom_metric(p, "cove_door_verdicts_total", "counter",
		    "What doors decided: about a name, a connection or a request; and why not.");
	for (int k = 0; k < KINDS; k++)
		for (int v = 0; v < VERDICTS; v++)
			for (int d = 0; d <= DENIAL_COUNT; d++)
				if (o->verdicts[k][v][d])
					prom_u64(p,
						 (struct prom_label[]){
							 {"kind", kinds[k]},
							 {"verdict", verdicts[v]},
							 {"why",
							  d < DENIAL_COUNT
								  ? denial_word((enum denial)d)
								  : ""},
							 {0}},
						 o->verdicts[k][v][d]);
}

static void write_times(struct prom *p, const struct figures_owner *o)
{
	prom_metric(p, "cove_exec_duration_seconds", "histogram",
		    "How long commands ran, of all callers, from the boxes' journals.");
	prom_times_write(p, NULL, &o->execs);
	prom_metric(p, "cove_request_duration_seconds", "histogram",
		    "From a request to the end of its answer, since the server started.");
	for (int i = 0; i < OPERATIONS; i++)
		prom_times_write(p, (struct prom_label[]){{"operation", operations[i]}, {0}},
				 &o->requests[i]);
}

static void write_groups(const struct figures *f, const char *owner, struct prom *p, bool cpu,
			 bool by_label)
{
	for (size_t i = 0; i < f->group_count; i++) {
		const struct figures_group *g = f->groups[i];
		const struct prom_label labels[] = {{"key", g->owner},
						    {by_label ? "label" : NULL, g->label},
						    {"value", g->value},
						    {0}};

		if (!is_shown(owner, g->owner) || !g->label == by_label)
			continue;
		prom_seconds(p, labels,
			     cpu ? g->cpu_us + g->now_cpu_us : g->alive_ms + g->now_alive_ms,
			     cpu ? 1000000 : 1000);
	}
}

static void write_uses(const struct figures *f, const char *owner, struct prom *p)
{
	prom_metric(p, "cove_alive_seconds_total", "counter",
		    "How long boxes of a key were up; without a key: the operator's.");
	write_groups(f, owner, p, false, false);
	prom_metric(p, "cove_cpu_seconds_total", "counter", "Processor time of a key's boxes.");
	write_groups(f, owner, p, true, false);
	prom_metric(p, "cove_label_alive_seconds_total", "counter",
		    "How long boxes with a label were up (cove serve --metrics-label).");
	write_groups(f, owner, p, false, true);
	prom_metric(p, "cove_label_cpu_seconds_total", "counter",
		    "Processor time of boxes with a label.");
	write_groups(f, owner, p, true, true);
}

static void write_requests(const struct figures *f, const char *owner, struct prom *p)
{
	prom_metric(p, "cove_http_requests_total", "counter",
		    "Requests that are over, since the server started.");
	for (size_t i = 0; i < f->request_count; i++) {
		const struct figures_requests *r = &f->requests[i];
		uint64_t count = r->count;
		char status[16];
		size_t k = 0;

		/* Of several keys that are shown together the first stands for all. */
		for (; k < i; k++)
			if (f->requests[k].route == r->route &&
			    f->requests[k].status == r->status &&
			    is_shown(owner, f->requests[k].owner))
				break;
		if (k < i || !is_shown(owner, r->owner))
			continue;
		for (k = i + 1; k < f->request_count; k++)
			if (f->requests[k].route == r->route &&
			    f->requests[k].status == r->status &&
			    is_shown(owner, f->requests[k].owner))
				count += f->requests[k].count;
		snprintf(status, sizeof(status), "%u", r->status);
		prom_u64(p,
			 (struct prom_label[]){{"operation", r->route ? r->route->id : "none"},
					       {"method", r->route ? r->route->method : ""},
					       {"route", r->route ? r->route->pattern : ""},
					       {"status", status},
					       {0}},
			 count);
	}
}

int figures_write(const struct figures *f, const char *owner, struct buf *out)
{
	struct prom p = {.out = out};
	struct figures_owner all = {0};

	sum_owners(f, owner, &all);
	write_counts(&p, &all);
	write_times(&p, &all);
	write_uses(f, owner, &p);
	write_requests(f, owner, &p);
	return p.error;
}
