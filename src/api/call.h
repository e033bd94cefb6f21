/* What the files of a call share; see api.h. */
#pragma once

#include "api/api.h"

enum {
	API_OUT_MAX = 64 << 20, /* of an answer that is not a stream */
	API_PIPE_BYTES = 256 << 10,
};

/* ---- route.c ---- */

/* Sets route, path, query and params. ERR_NOT_FOUND; EPROTONOSUPPORT (405) where the path is there
 * with another method. */
int api_route_find(struct api_call *c, struct err *e);

/* ---- error.c ---- */

/* The status and the one shape of an error, in place of what the handler may have begun. */
void api_error(struct api_call *c, const struct err *e);

/* ---- call.c ---- */

/* The thread that worked for a client that has gone is done: what is known now is logged, and the
 * call freed. */
void api_call_gone_ends(struct api_call *c);

/* The body's text into c->body, and what the route takes of it; in a thread, or in the loop. */
int api_call_decode(struct api_call *c, struct err *e);
/* That was done in a thread: 0 in c->result, or why not in c->error. */
void api_call_decoded(struct api_call *c);

/* ---- work.c ---- */

bool api_same_key(const struct api_call *a, const struct api_call *b);
/* Of so many threads, those that are for the operator and for the server's own work alone. */
unsigned api_threads_kept(unsigned threads_max);
/* api_call_decode, in a thread. */
int api_work_decode(struct api_call *c, struct err *e);
int api_work_start(struct api_call *c, struct err *e);
size_t api_work_feed(struct api_call *c, const void *p, size_t n);
void api_work_end_body(struct api_call *c);
/* The client has room: reads on. */
void api_work_read(struct api_call *c);
void api_work_gone(struct api_call *c);
void api_work_done(struct api_call *c);

/* ---- reap.c ---- */

int api_reaper_start(struct api *a);
void api_reaper_free(struct api_reaper *r); /* after the threads; NULL is fine */

/* ---- revoke.c ---- */

/* The server's home is made before. */
int api_revoker_new(struct api *a, struct err *e);
void api_revoker_free(struct api *a);

/* ---- trail.c: who did what ---- */

int api_trail_new(struct api *a);
void api_trail_free(struct api_trail *t); /* NULL is fine */
void api_trail_note(struct api_call *c);  /* in the loop; once, however often it is called */
/* In the thread of a call that went well: what is to be durable before its answer is, or its answer
 * is this error. */
int api_trail_before_reply(struct api_call *c, struct err *e);
int api_trail_sync(struct api *a); /* in a thread */

/* ---- metrics.c ---- */

void api_call_count(const struct api_call *c); /* it is over */
struct api_load api_load_now(const struct api *a);

/* ---- events.c ---- */

void api_events_wake(struct api *a); /* there may be new ones */
void api_events_free(struct api_events *e);

/* ---- fill.c ---- */

int api_filler_start(struct api *a);	    /* a->warm is there */
void api_filler_free(struct api_filler *f); /* after the threads; NULL is fine */

/* ---- repeats.c ---- */

struct api_repeats *api_repeats_new(void);
void api_repeats_free(struct api_repeats *s); /* after the threads; NULL is fine */

/* ---- quota.c ---- */

struct api_quotas *api_quotas_new(void);
void api_quotas_free(struct api_quotas *q);
/* cove.on_making: a box that the call holds room for has a name now, and soon a record. */
void api_quota_name(void *call, const struct spec *spec);
