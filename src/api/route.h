/* One row of the table of what can be asked; see api.h. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct api_call;
struct cove;

enum api_body {
	API_BODY_NONE,
	API_BODY_JSON,	 /* c->body; {} where none came */
	API_BODY_BYTES,	 /* work only: c->body_fd reads them */
	API_BODY_STREAM, /* now only: c->on_body takes them */
};
enum {
	API_JSON_MAX = 1 << 20, /* of a body, unless the route says otherwise */
	API_PARAMS_MAX = 4,
	API_FIELDS_MAX = 6,
	API_PATH_MAX = 8192,
};

struct api_route {
	const char *method;
	/* "/v1/boxes/{box}/execs/{exec}": {name} is a segment that is not empty, {name*}, at the
	 * end, all the rest, as it was sent. */
	const char *pattern;
	const char *id; /* operationId in docs/api/openapi.yaml */
	unsigned scope; /* 0: anybody, without a key */
	enum api_body body;
	size_t body_max; /* JSON: 0 is API_JSON_MAX; bytes: that are JSON, held in memory */
	/* now, with JSON: of it what takes long, in a thread where the body is; not an answer. */
	int (*take)(struct api_call *c, struct err *e);
	int (*now)(struct api_call *c, struct err *e);
	int (*work)(struct api_call *c, struct cove *cove, struct err *e);
	bool streams; /* work: the answer may be a stream */
	bool cancels; /* work: it asks for api_cancel_fd; so may all that streams */
	bool socket;  /* now: it may be asked for as a WebSocket */
	/* work: it lasts as its caller likes, or works on whole trees; so may all that streams. */
	bool lasts;
	/* A value that is to stay secret is in the request or the answer: what holds them is locked
	 * memory, and wiped. */
	bool secret;
	bool head;    /* GET: HEAD is answered, too */
	bool resumes; /* its stream can be asked for again from where it was cut */
};

/* Tables of routes, each ends with a row without a method; NULL ends the list. */
extern const struct api_route *const api_routes[];
