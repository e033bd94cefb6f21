/*
 * cove asks: requests of boxes that wait for a person.
 *
 * --watch looks every second. On a terminal the table stays where it is; into a pipe, and with
 * --json, each request is printed once, when it is first seen.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/door.h"
#include "cli/list.h"
#include "cli/request.h"
#include "cli/signals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVERY_MS = 1000, WHAT_MAX = 2048 };

struct ask {
	struct cove_ask ask; /* its numbers; the texts were valid for the call */
	char box[BOX_NAME_MAX + 1];
	char *rule, *what, *json; /* owned */
};

struct asks {
	struct ask *items; /* owned */
	size_t count;
	bool failed; /* no memory */
};

static void asks_done(struct asks *a)
{
	for (size_t i = 0; i < a->count; i++) {
		free(a->items[i].rule);
		free(a->items[i].what);
		free(a->items[i].json);
	}
	free(a->items);
	*a = (struct asks){0};
}

static bool on_ask(void *arg, const struct cove_ask *ask)
{
	struct asks *a = arg;
	struct ask *items = realloc(a->items, (a->count + 1) * sizeof(*items)), *item;
	char what[WHAT_MAX];

	a->failed = !items;
	if (!items)
		return false;
	a->items = items;
	item = &items[a->count++];
	door_request(ask, what, sizeof(what));
	*item = (struct ask){.ask = *ask,
			     .rule = strdup(ask->rule ? ask->rule : ""),
			     .what = strdup(what),
			     .json = cove_ask_json(ask)};
	str_copy(item->box, sizeof(item->box), ask->box);
	a->failed = !item->rule || !item->what || !item->json;
	return !a->failed;
}

static void row(struct table *t, const void *item)
{
	const struct ask *a = item;
	char time[16];

	table_cell(t, a->box);
	table_cellf(t, "%llu", (unsigned long long)a->ask.id);
	table_cell(t, a->rule);
	table_cell(t, text_duration(time, clock_wall_since_ms(a->ask.since_ms)));
	table_cell(t, text_duration(time, a->ask.left_ms));
	table_cellf(t, "%llu", (unsigned long long)a->ask.requests);
	table_cell(t, a->what);
}

static const struct list_form form = {
	.titles = {"BOX", "ID", "RULE", "SINCE", "LEFT", "WAITING", "REQUEST"},
	.right = 1 << 1 | 1 << 5,
	.size = sizeof(struct ask),
	.row = row,
};

static int print_table(struct cli *c, const struct asks *a, bool redraw, bool title)
{
	return list_print_table(c, &form, a->items, a->count, redraw, title);
}

static int print_json(struct cli *c, const struct asks *a)
{
	struct list_rows rows = {.c = c, .as_lines = c->o.watch};
	int r = 0;

	for (size_t i = 0; i < a->count && r == 0; i++)
		r = list_rows_add(&rows, a->items[i].json);
	return r ? r : list_rows_end(&rows);
}

/* Boxes answer in any order. */
static int compare(const void *a, const void *b)
{
	const struct ask *x = a, *y = b;
	int r = strcmp(x->box, y->box);

	return r ? r : (x->ask.id > y->ask.id) - (x->ask.id < y->ask.id);
}

/* What has come is in *ret whatever is returned. A box that does not answer is no end of a watch
 * over all of them: it is said once. */
static int look(struct cli *c, struct asks *ret, char *said, size_t said_size)
{
	const char *box = c->o.arg_count ? c->o.args[0] : NULL;
	struct cove_error err;
	int r;

	*ret = (struct asks){0};
	r = cove_asks(c->cove, box, on_ask, ret, &err);
	if (ret->count)
		qsort(ret->items, ret->count, sizeof(*ret->items), compare);
	if (ret->failed)
		return cli_error(c, COVE_FULL, "out of memory");
	if (r == 0)
		said[0] = 0;
	if (r == 0 || (c->o.watch && !box && strcmp(said, err.message) == 0))
		return 0;
	str_copy(said, said_size, err.message);
	r = cli_fail(c, &err);
	return c->o.watch && !box ? 0 : r;
}

/* A view of what is new; the texts stay with now. */
static int pick_new(struct cli *c, const struct asks *last, const struct asks *now,
		    struct asks *ret)
{
	*ret = (struct asks){.items = calloc(now->count + 1, sizeof(*ret->items))};
	if (!ret->items)
		return cli_error(c, COVE_FULL, "out of memory");
	for (size_t i = 0; i < now->count; i++) {
		const struct ask *a = &now->items[i], *b = last->items;
		size_t left = last->count;

		for (; left && (b->ask.id != a->ask.id || strcmp(b->box, a->box) != 0); left--)
			b++;
		if (left == 0)
			ret->items[ret->count++] = *a;
	}
	return 0;
}

static int watch(struct cli *c)
{
	bool redraw = isatty(STDOUT_FILENO) && !c->o.json, title = true;
	struct asks last = {0}, now, fresh;
	char said[sizeof(((struct cove_error *)0)->message)] = "";
	int r = signals_catch() < 0 ? cli_error(c, COVE_INTERNAL, "cannot catch signals") : 0, sig;

	while (r == 0) {
		r = look(c, &now, said, sizeof(said));
		if (r == 0 && redraw) {
			r = print_table(c, &now, true, true);
		} else if (r == 0) {
			r = pick_new(c, &last, &now, &fresh);
			if (r == 0 && c->o.json)
				r = print_json(c, &fresh);
			else if (r == 0 && fresh.count)
				r = print_table(c, &fresh, false, title);
			title = title && (r || fresh.count == 0);
			free(fresh.items);
		}
		asks_done(&last);
		last = now;
		sig = r == 0 ? signals_wait_ms(EVERY_MS) : 0;
		if (sig)
			r = EXIT_SIGNAL + sig;
	}
	asks_done(&last);
	return r;
}

static int run(struct cli *c)
{
	char said[sizeof(((struct cove_error *)0)->message)] = "";
	struct asks asks = {0};
	int r, printed = 0;

	if (c->o.watch)
		return watch(c);
	r = look(c, &asks, said, sizeof(said));
	if (c->o.json && (r == 0 || asks.count))
		printed = print_json(c, &asks);
	else if (asks.count || r == 0)
		printed = print_table(c, &asks, false, true);
	if (r == 0 && !c->o.json && !asks.count)
		cli_note("nothing waits for an answer");
	asks_done(&asks);
	return r ? r : printed;
}

const struct verb verb_asks = {
	.name = "asks",
	.synopsis = "asks [BOX] [--watch] [--json]",
	.summary = "requests that wait for a person",
	.help = "A rule of a policy that says `ask` holds a connection until somebody answers\n"
		"(`cove answer`), or its time is over and it is denied. WAITING is how many wait\n"
		"for the same answer. With --json one array; with --watch one object per line,\n"
		"and in a pipe each request comes once.\n"
		"\n"
		"Examples\n"
		"  cove asks\n"
		"  cove asks --watch --json | while read -r ask; do ...; done\n",
	.options = (const enum opt_id[]){OPT_WATCH, OPTS_COMMON, OPT_END},
	.args = {0, 1},
	.run = run,
};
