/*
 * The text format of Prometheus, version 0.0.4: HELP and TYPE once before the samples of a metric,
 * names of ours, values of labels escaped.
 */
#pragma once

#include "base/buf.h"

#include <stdint.h>

#define PROM_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct prom {
	struct buf *out; /* borrowed */
	const char *name;
	int error;
};
struct prom_label {
	const char *name, *value; /* a name of NULL ends them */
};

/* type: counter, gauge or histogram. */
void prom_metric(struct prom *p, const char *name, const char *type, const char *help);
/* One sample; labels may be NULL. */
void prom_u64(struct prom *p, const struct prom_label *labels, uint64_t value);
void prom_seconds(struct prom *p, const struct prom_label *labels, uint64_t value, uint64_t unit);

/* Times in steps that fit a microsecond and half an hour. */
enum { PROM_STEPS = 18 };
struct prom_times {
	uint64_t counts[PROM_STEPS + 1]; /* the last is +Inf's; each for itself */
	uint64_t sum_us;
};
void prom_times_add(struct prom_times *t, uint64_t us);
void prom_times_write(struct prom *p, const struct prom_label *labels, const struct prom_times *t);
