/* The trace that a request belongs to, as W3C's Trace Context says it in `traceparent`. */
#pragma once

#include <stdbool.h>

struct api_trace {
	char trace[33], parent[17]; /* of the caller; "": it sent none */
	char span[17];		    /* this request's own */
	char flags[3];
};

enum { API_TRACEPARENT_SIZE = 56 };
/* Of the field's value, which may be NULL; what is not right counts as none. */
void api_trace_take(struct api_trace *ret, const char *value);
/* What is passed on: the request's span as the parent. */
void api_trace_format(const struct api_trace *t, char ret[API_TRACEPARENT_SIZE]);
