/*
 * What is counted for /metrics, for each owner (a key's id; "" is the operator) by itself, so that
 * a confined key is shown its own.
 *
 *	of events    figures_event: a row of the host's events is counted once, when it gets its
 *	             number. These, and the doors' verdicts, are kept over restarts of the server:
 *	             figures_save goes with the place up to which events were counted (gather.c)
 *	of requests  figures_request, ...: since this server started
 *
 * The caller has gather's lock. Owners, values of labels and pairs of route and status have a
 * maximum; what is beyond it is counted together, under "(other)".
 */
#pragma once

#include "base/buf.h"
#include "cove.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	FIGURES_OWNERS_MAX = 512,
	FIGURES_GROUPS_MAX = 2048, /* keys, and values of labels of each */
	FIGURES_VALUES_MAX = 64,   /* of one label and owner */
	FIGURES_REQUESTS_MAX = 1024,
	FIGURES_LABELS_MAX = 16,
};

struct figures;

/* labels: names of those whose values are shown apart. NULL without memory. */
struct figures *figures_new(const char *const *labels, size_t label_count);
void figures_free(struct figures *f);

/* The owner of a box, from its name. */
void figures_owner_of(const char *box, char ret[9]);

/* ---- of events ---- */

void figures_event(struct figures *f, const json_t *row);
/* One row of a door: name, connect or request. */
void figures_verdict(struct figures *f, const char *box, const char *kind, const char *verdict,
		     const char *why, uint64_t count);
json_t *figures_save(const struct figures *f); /* NULL without memory */
void figures_load(struct figures *f, const json_t *saved);

/* ---- of requests ---- */

struct api_route;
/* One that is over; route NULL: there was none. */
void figures_request(struct figures *f, const char *owner, const struct api_route *route,
		     unsigned status, uint64_t ns);

/* ---- showing ---- */

/* What is only known at the moment: added to what is counted. labels is the box's object, or
 * NULL. figures_now_clear begins anew. */
void figures_now_clear(struct figures *f);
void figures_now_add(struct figures *f, const char *owner, const json_t *labels, uint64_t alive_ms,
		     uint64_t cpu_us);

/* owner NULL: all of them. */
int figures_write(const struct figures *f, const char *owner, struct buf *out);

/* A row's number; 0 where there is none, and of one below 0. */
uint64_t figures_number(const json_t *object, const char *key);
