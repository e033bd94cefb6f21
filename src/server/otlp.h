/*
 * Traces for OpenTelemetry: a span for each request that makes a box, runs a command or works on
 * files, and for each request of a box at its door, sent in batches as OTLP over HTTP in its JSON
 * form.
 *
 * A request that comes with `traceparent` has its span in that trace, and its command finds it as
 * TRACEPARENT; others begin one. Spans wait in a queue with a maximum, and a thread of its own
 * sends them: a collector that is slow or gone costs spans, which are counted, and no request
 * anything.
 */
#pragma once

#include "api/api.h"

#include <stdbool.h>

enum {
	OTLP_SPANS_MAX = 4096, /* that wait */
	OTLP_BATCH = 512,
	OTLP_EVERY_MS = 1000,
	OTLP_SPAN_BYTES = 4096, /* of one */
	OTLP_HEADERS_MAX = 8 << 10,
	OTLP_URL_MAX = 1024,
};

struct otlp;
/* url: of the collector, or of what takes traces there ("/v1/traces" is added where it has no
 * path). headers_file: lines "Name: value"; NULL: none. */
int otlp_new(struct otlp **ret, struct ev *ev, const char *url, const char *headers_file,
	     struct err *e);
/* What waits is sent, if the collector takes it at once. NULL is fine. */
void otlp_free(struct otlp *o);
/* NULL is fine. In the loop; and in a thread. */
void otlp_call(struct otlp *o, const struct api_call *c);
void otlp_door(struct otlp *o, const char *box, const struct audit_row *row);
/* Spans that were sent, and dropped, so far. */
void otlp_counts(struct otlp *o, uint64_t *ret_sent, uint64_t *ret_dropped);
