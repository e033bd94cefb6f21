/* The text format of Prometheus; see prom.h. */
#include "api/prom.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const struct {
	uint64_t us;
	const char *text;
} steps[PROM_STEPS] = {
	{500, "0.0005"},    {1000, "0.001"},	  {2500, "0.0025"}, {5000, "0.005"},
	{10000, "0.01"},    {25000, "0.025"},	  {50000, "0.05"},  {100000, "0.1"},
	{250000, "0.25"},   {500000, "0.5"},	  {1000000, "1"},   {2500000, "2.5"},
	{5000000, "5"},	    {10000000, "10"},	  {30000000, "30"}, {60000000, "60"},
	{300000000, "300"}, {1800000000, "1800"},
};

static void note(struct prom *p, int r)
{
	if (p->error == 0)
		p->error = r;
}

void prom_metric(struct prom *p, const char *name, const char *type, const char *help)
{
	p->name = name;
	note(p, buf_printf(p->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type));
}

/* A backslash, a quote and a newline have escapes; everything else is as it is. */
static void put_value(struct prom *p, const char *s)
{
	for (; *s; s++) {
		if (*s == '\n')
			note(p, buf_append_str(p->out, "\\n"));
		else if (*s == '\\' || *s == '"')
			note(p, buf_printf(p->out, "\\%c", *s));
		else
			note(p, buf_append(p->out, s, 1));
	}
}

static void put_name(struct prom *p, const char *suffix, const struct prom_label *labels,
		     const char *le)
{
	bool any = false;

	note(p, buf_printf(p->out, "%s%s", p->name, suffix));
	for (; labels && labels->name; labels++) {
		note(p, buf_printf(p->out, "%s%s=\"", any ? "," : "{", labels->name));
		put_value(p, labels->value ? labels->value : "");
		note(p, buf_append_str(p->out, "\""));
		any = true;
	}
	if (le)
		note(p, buf_printf(p->out, "%sle=\"%s\"", any ? "," : "{", le));
	note(p, buf_append_str(p->out, any || le ? "} " : " "));
}

void prom_u64(struct prom *p, const struct prom_label *labels, uint64_t value)
{
	put_name(p, "", labels, NULL);
	note(p, buf_printf(p->out, "%" PRIu64 "\n", value));
}

static void put_seconds(struct prom *p, uint64_t value, uint64_t unit)
{
	uint64_t us = value % unit * (1000000 / unit);

	note(p, buf_printf(p->out, "%" PRIu64 ".%06" PRIu64 "\n", value / unit, us));
}

void prom_seconds(struct prom *p, const struct prom_label *labels, uint64_t value, uint64_t unit)
{
	put_name(p, "", labels, NULL);
	put_seconds(p, value, unit);
}

void prom_times_add(struct prom_times *t, uint64_t us)
{
	size_t i = 0;

	while (i < PROM_STEPS && us > steps[i].us)
		i++;
	t->counts[i]++;
	t->sum_us += us;
}

void prom_times_write(struct prom *p, const struct prom_label *labels, const struct prom_times *t)
{
	uint64_t count = 0;

	for (size_t i = 0; i <= PROM_STEPS; i++) {
		count += t->counts[i];
		put_name(p, "_bucket", labels, i < PROM_STEPS ? steps[i].text : "+Inf");
		note(p, buf_printf(p->out, "%" PRIu64 "\n", count));
	}
	put_name(p, "_sum", labels, NULL);
	put_seconds(p, t->sum_us, 1000000);
	put_name(p, "_count", labels, NULL);
	note(p, buf_printf(p->out, "%" PRIu64 "\n", count));
}
