/*
 * cove stats: what running boxes use, once or again and again.
 *
 * A share of the processor is the difference of two looks, so there are always two: without --watch
 * a short while apart, with it each second against the one before. Boxes that come and go while all
 * of them are watched are simply there or not; one that was named and has ended is an error.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "cli/list.h"
#include "cli/signals.h"
#include "core/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_LOOK_MS = 200, EVERY_MS = 1000 };

struct sample {
	char name[64];
	struct cove_stats now;
	uint64_t at_us;
	uint64_t cpu_milli; /* since the last look; thousandths of a processor */
	uint64_t helpers_milli;
};

struct look {
	struct sample *boxes; /* owned */
	size_t count;
};

static const char *counted(char text[SIZE_TEXT], uint64_t bytes)
{
	return bytes == COVE_UNKNOWN ? "-" : size_format(text, bytes);
}

/* Of what every box has some. */
static uint64_t if_any(uint64_t n)
{
	return n ? n : COVE_UNKNOWN;
}

/* Hundredths of a processor; "-" where there is nothing to tell it from. */
static const char *share(char text[SIZE_TEXT], uint64_t milli, uint64_t used_us)
{
	if (!used_us)
		return "-";
	snprintf(text, SIZE_TEXT, "%llu.%llu", (unsigned long long)(milli / 10),
		 (unsigned long long)(milli % 10));
	return text;
}

static void pids_cell(struct table *t, const struct cove_stats *n)
{
	char used[24] = "-", limit[24] = "-";

	if (n->pids)
		snprintf(used, sizeof(used), "%llu", (unsigned long long)n->pids);
	if (n->pids_limit)
		snprintf(limit, sizeof(limit), "%llu", (unsigned long long)n->pids_limit);
	table_cellf(t, "%s / %s", used, limit);
}

static void size_cell(struct table *t, uint64_t used, uint64_t limit)
{
	char a[SIZE_TEXT], b[SIZE_TEXT];

	table_cellf(t, "%s / %s", counted(a, used), limit ? size_format(b, limit) : "-");
}

static void row(struct table *t, const void *item)
{
	const struct sample *s = item;
	const struct cove_stats *n = &s->now;
	char a[SIZE_TEXT], b[SIZE_TEXT];

	table_cell(t, s->name);
	if (n->paused)
		table_cell(t, "paused");
	else
		table_cell(t, share(a, s->cpu_milli, n->cpu_us));
	size_cell(t, if_any(n->mem_bytes), n->mem_limit_bytes);
	pids_cell(t, n);
	size_cell(t, n->disk_bytes, n->disk_limit_bytes);
	table_cellf(t, "%s / %s", counted(a, n->io_read_bytes), counted(b, n->io_write_bytes));
	table_cellf(t, "%s / %s", counted(a, n->net_up_bytes), counted(b, n->net_down_bytes));
	table_cellf(t, "%llu", (unsigned long long)n->net_conns);
	table_cellf(t, "%s / %s", share(a, s->helpers_milli, n->keeper_cpu_us + n->door_cpu_us),
		    counted(b, if_any(n->keeper_mem_bytes + n->door_mem_bytes)));
	table_cell(t, text_duration(a, n->uptime_ms));
}

static int print_json(struct cli *c, const struct look *l)
{
	struct list_rows rows = {.c = c, .as_lines = c->o.watch};
	struct buf b;
	int r = 0;

	buf_init(&b, TABLE_BYTES_MAX);
	for (size_t i = 0; i < l->count && r == 0; i++) {
		struct json j;

		buf_clear(&b);
		json_init(&j, &b);
		json_object_begin(&j);
		json_kv_str(&j, "name", l->boxes[i].name);
		json_key(&j, "cpu_milli");
		if (l->boxes[i].now.cpu_us)
			json_u64(&j, l->boxes[i].cpu_milli);
		else
			json_nil(&j);
		wire_fields_json(&j, view_stats_fields, &l->boxes[i].now);
		json_object_end(&j);
		r = j.error ? cli_error(c, COVE_FULL, "out of memory")
			    : list_rows_add(&rows, buf_cstr(&b));
	}
	buf_done(&b);
	return r ? r : list_rows_end(&rows);
}

static const struct list_form form = {
	.titles = {"NAME", "CPU%", "MEM/LIMIT", "PIDS/LIMIT", "DISK/LIMIT", "IO R/W", "NET UP/DOWN",
		   "CONNS", "HELPERS CPU%/MEM", "UPTIME"},
	.right = 1 << 1,
	.whole = ~1u,
	.optional = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8,
	.size = sizeof(struct sample),
	.row = row,
};

static void take(const char *name, const struct cove_stats *stats, const struct look *last,
		 struct look *l)
{
	struct sample *s = &l->boxes[l->count++];
	uint64_t helpers, before, passed;

	*s = (struct sample){.now = *stats, .at_us = clock_mono_ns() / 1000};
	snprintf(s->name, sizeof(s->name), "%s", name);
	helpers = s->now.keeper_cpu_us + s->now.door_cpu_us;
	/* Against the look before, if the box was there and has not been started anew since. */
	for (size_t i = 0; i < last->count; i++) {
		const struct sample *was = &last->boxes[i];

		if (strcmp(was->name, name) != 0 || s->at_us <= was->at_us)
			continue;
		passed = s->at_us - was->at_us;
		before = was->now.keeper_cpu_us + was->now.door_cpu_us;
		if (s->now.cpu_us >= was->now.cpu_us)
			s->cpu_milli = (s->now.cpu_us - was->now.cpu_us) * 1000 / passed;
		if (helpers >= before)
			s->helpers_milli = (helpers - before) * 1000 / passed;
	}
}

/* The boxes that were named: what fails is said, and the others are shown all the same. Otherwise
 * every running one; what ends this very moment is left out. */
static int look(struct cli *c, const struct look *last, struct look *ret)
{
	autofree struct cove_box_info *infos = NULL;
	autofree struct cove_stats *stats = NULL;
	autofree struct cove_error *errs = NULL;
	autofree const char **names = NULL;
	struct cove_error err;
	size_t named = c->o.arg_count, count = 0;
	int status = 0, found = named ? 0 : cove_list(c->cove, &infos, &err);

	*ret = (struct look){0};
	if (found < 0)
		return cli_fail(c, &err);
	names = calloc(named + (size_t)found + 1, sizeof(*names));
	stats = calloc(named + (size_t)found + 1, sizeof(*stats));
	errs = calloc(named + (size_t)found + 1, sizeof(*errs));
	ret->boxes = calloc(named + (size_t)found + 1, sizeof(*ret->boxes));
	if (!names || !stats || !errs || !ret->boxes)
		return cli_error(c, COVE_FULL, "out of memory");
	for (size_t i = 0; i < named; i++)
		names[count++] = c->o.args[i];
	for (int i = 0; i < found; i++)
		if (strcmp(infos[i].state, "running") == 0 || strcmp(infos[i].state, "paused") == 0)
			names[count++] = infos[i].name;
	if (cove_stats_of(c->cove, names, count, stats, errs, &err) < 0)
		return cli_fail(c, &err);
	for (size_t i = 0; i < count; i++) {
		if (errs[i].kind == COVE_OK)
			take(names[i], &stats[i], last, ret);
		else if (named || errs[i].kind == COVE_TIMEOUT)
			status = cli_fail(c, &errs[i]);
	}
	return status;
}

/* Prints looks until something ends it. *last is the look before the first one printed. */
static int show(struct cli *c, struct look *last)
{
	bool redraw = c->o.watch && isatty(STDOUT_FILENO), first = true;
	int wait = FIRST_LOOK_MS, status;

	do {
		struct look now = {0};
		int r = signals_wait_ms(wait);

		if (r)
			return EXIT_SIGNAL + r;
		status = look(c, last, &now);
		/* On a terminal the table stays where it is; into a pipe its title comes once. */
		r = c->o.json ? print_json(c, &now)
			      : list_print_table(c, &form, now.boxes, now.count, redraw,
						 redraw || first);
		free(last->boxes);
		*last = now;
		status = r ? r : status;
		wait = EVERY_MS;
		first = false;
	} while (c->o.watch && status == 0);
	return status;
}

static int run(struct cli *c)
{
	struct look last = {0};
	int r;

	if (signals_catch() < 0)
		return cli_error(c, COVE_INTERNAL, "cannot catch signals");
	r = look(c, &(struct look){0}, &last);
	if (r == 0 && last.count == 0 && !c->o.watch) {
		r = c->o.json ? print_json(c, &last)
			      : list_print_table(c, &form, last.boxes, 0, false, true);
		if (!c->o.json)
			cli_note("no running boxes; `cove ls` lists all");
	} else if (r == 0) {
		r = show(c, &last);
	}
	free(last.boxes);
	return r;
}

const struct verb verb_stats = {
	.name = "stats",
	.synopsis = "stats [--watch] [--json] [BOX...]",
	.summary = "what running boxes use, and may",
	.help = "All running boxes, or those named: share of one processor, and memory,\n"
		"processes and disk beside their limits; `-` is none, or not counted. The box's\n"
		"own writes and its named workspace have a limit of --disk each: DISK is both.\n"
		"NET is what went through its door since it started, CONNS how many connections\n"
		"there are now. HELPERS are its keeper and its door on the host, which are not\n"
		"in the other numbers and have shares of their own. A narrow terminal shows\n"
		"what it has room for, a pipe all columns. --watch goes on until Ctrl-C.\n"
		"With --json one array (with --watch one object per box and line), null for what\n"
		"is not counted; cpu_milli there is thousandths of a processor.\n"
		"\n"
		"Examples\n"
		"  cove stats\n"
		"  cove stats --watch dev\n"
		"  cove stats --json | jq '.[] | select(.mem_bytes > 1e9) | .name'\n",
	.options = (const enum opt_id[]){OPT_WATCH, OPTS_COMMON, OPT_END},
	.args = {0, -1},
	.run = run,
};
