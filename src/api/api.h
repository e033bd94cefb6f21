/*
 * The API: what can be asked over HTTP, by whom, and how it is answered. Sans-I/O towards the
 * client: a server (src/server) has the connections and calls in here; tests do the same.
 *
 *	head --> api_call_new: route, key, scope, host --> want_body?
 *	body --> api_call_body ... api_call_end_body --> the handler runs --> the sink
 *
 * A route is one row of a table (api_route). Its handler is one of two:
 *
 *	now    in the loop. It never blocks: it answers before it returns, or later, from requests
 *	       to keepers (core/client.h).
 *	work   in a thread (ev/work.h), with a struct cove of that thread: any blocking call of
 *	       libcove. Bytes of the request come through a pipe, and what it streams leaves through
 *	       one, so a slow client slows it down and nothing is held in memory.
 *
 * Either returns 0 with c->status and the JSON in c->out, or negative with *e, which api_error
 * turns into the one shape of an error. A handler decodes, calls libcove, and replies. What is
 * decided in here is what a key may: {caller,quota,work,bodies,network,images,changes}.c.
 */
#pragma once

#include "api/caller.h"
#include "api/in.h"
#include "api/route.h"
#include "api/sink.h"
#include "api/trace.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "core/admission.h"
#include "core/client.h"
#include "cove.h"
#include "ev/ev.h"
#include "ev/work.h"
#include "http/http.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct audit_row;
/* ---- the API of one server ---- */

struct api_options {
	const char *home; /* NULL: the usual place */
	unsigned threads_max, queue_max;
	const char *min_wall; /* that boxes have; NULL: any */
	struct core_admission_options admission;
	uint64_t admission_wait_ms; /* of requests that do not say it themselves */
	/* Ports of boxes are <port>-<box>.<domain>; NULL: they have no names. Their addresses begin
	 * with domain_scheme ("https") and end in domain_port, unless that is 0. */
	const char *domain, *domain_scheme;
	unsigned domain_port;
	bool reaps; /* boxes whose time is over, and those that are to be started again */
	void (*on_log)(void *arg, const struct api_call *c); /* each call's end; may be NULL */
	void (*on_reaped)(void *arg, const char *action, const char *box, const char *cause);
	/* From a thread: a row of a door's audit log, once; and what goes wrong beside requests. */
	void (*on_door_row)(void *arg, const char *box, const struct audit_row *row);
	void (*on_trouble)(void *arg, const char *what, int code);
	void (*on_events)(void *arg);			/* in the loop: there may be new ones */
	unsigned (*on_connections)(void *arg);		/* how many there are, for /metrics */
	void (*on_metrics)(void *arg, struct buf *out); /* in a thread: further ones */
	const char *const *labels; /* of boxes, whose values /metrics shows apart */
	size_t label_count;
	/* Warm pools, which are kept full where boxes are reaped. why: what failed, or "". */
	void (*on_filled)(void *arg, uint64_t made, uint64_t dropped, const char *why);
	void *arg;
};
struct api {
	struct ev *ev;
	struct cove *cove; /* the loop's own */
	struct core_client *client;
	struct ev_work *work;
	struct api_quotas *quotas;
	struct api_repeats *repeats;
	struct core_admission *admission; /* of all boxes that begin by us */
	struct api_revoker *revoker;
	struct api_reaper *reaper; /* NULL: none was asked for */
	struct core_warm *warm;	   /* the same */
	struct api_filler *filler;
	struct api_gather *gather;
	struct api_trail *trail;
	struct api_events *events; /* those who follow them */
	unsigned streams, sockets; /* answers that are under way */
	uint8_t *seal;		   /* owned; NULL: no link to a port was made or shown yet */
	struct api_options options;
	struct api_call *calls; /* all that are under way */
	struct api_accounts accounts;
	uint64_t started_ms, started_mono_ms;
};
int api_new(struct ev *ev, const struct api_options *options, struct api **ret, struct err *e);
int api_options_check(const struct api_options *options, struct err *e); /* is it known? */
/* Of what the options were, that which may change while it runs: from the next request on. */
void api_set(struct api *a, const struct api_options *options);
void api_free(struct api *a); /* ends all calls; waits for work that runs; NULL is fine */

/* ---- one request ---- */

/* What is under way, as it was when the call began. */
struct api_load {
	unsigned connections, streams, sockets, jobs, event_streams;
};

enum api_state { API_READS, API_RUNS, API_STREAMS, API_SOCKET, API_OVER };

struct api_param {
	const char *name, *value; /* value: decoded; in c->memory */
	size_t name_len;
};

struct api_call {
	struct api *api;
	struct api_sink *sink; /* NULL: the client has gone */
	struct api_call *next, **at;
	enum api_state state;
	char id[20];			       /* of the request, for logs */
	uint64_t began_ms, began_ns;	       /* on the loop's clock; on the monotonic one */
	const struct api_route *route, *asked; /* asked: also where it may not */
	struct http_head head;		       /* owned: a thread reads it, too */
	const char *method, *path, *query;     /* in memory; query may be NULL */
	struct api_param params[API_PARAMS_MAX];
	size_t param_count;
	struct api_caller who;
	struct api_memory memory;
	struct api_client_info client; /* its address is in memory */

	struct buf text;	  /* of a JSON body so far */
	json_t *body;		  /* owned */
	struct api_charge charge; /* its body's, in the account of who asks */

	/* The answer. */
	unsigned status;
	const char *type;			  /* NULL: application/json */
	struct http_field fields[API_FIELDS_MAX]; /* further ones; in memory or constant */
	size_t field_count;
	uint64_t length;	   /* of a stream; API_LENGTH_UNKNOWN */
	struct http_head trailers; /* owned; of one of unknown length */
	uint64_t left_out;	   /* files.c: of a directory, what could not be read */
	struct buf out;
	struct json json; /* writes into out */

	/* An answer's head with fields of its own; borrowed for on_begin. With status 101 the parts
	 * are bytes of another protocol, both ways. */
	const struct http_head *answer;

	/* A body's owner (now, API_BODY_STREAM): how many bytes it takes; their end. */
	size_t (*on_body)(struct api_call *c, const void *p, size_t n);
	void (*on_body_end)(struct api_call *c);
	bool wants_body;	   /* it is of use to send it */
	struct api_port_ask *port; /* in memory: of a request to a port (ports.h) */

	/* A stream's or a socket's owner (now): room again, a message, the client has gone. */
	void (*on_room)(struct api_call *c);
	void (*on_message)(struct api_call *c, bool is_text, const void *p, size_t n);
	void (*on_gone)(struct api_call *c);
	bool is_exact; /* the answer holds what a box printed: no name is taken out of it */
	bool is_full;  /* a socket's messages wait (api_socket_room) */
	void (*on_decoded)(struct api_call *c); /* a socket's text was; or the client has gone */
	void *arg;

	/* Work. Only the thread touches the call while it runs, but for what is atomic. */
	struct ev_job job;
	uint64_t wait_ms;     /* for room on this host */
	const char *min_wall; /* api_options'; a reload does not change it under way */
	int result;
	struct err error;
	struct api_hold *hold; /* quota.c */
	struct api_load load;
	struct api_trace trace;
	bool is_noted;		     /* in the audit log of requests */
	bool has_begun;		     /* a status went to the client, before the end */
	char made[BOX_NAME_MAX + 1]; /* a box, by this call */
	atomic_bool gone;	     /* the client is: give up */
	int cancel_fd; /* readable then; -1 unless the handler asked (api_cancel_fd) */
	int body_fd;   /* the thread's end: read it; -1: there is no body */
	int stream_fd; /* the thread's end: api_stream_open gives it */
	bool streams;  /* and it did */
	struct api_pipe *body_pipe, *stream_pipe; /* the loop's ends; owned */
};
#define API_LENGTH_UNKNOWN UINT64_MAX

/* Answers come through sink, also before this returns; sink is kept until the call is over. */
struct api_call *api_call_new(struct api *a, struct api_sink *sink, struct http_head *head_take,
			      const struct api_client_info *client);
/* Is this host a port's? Then who may ask, and from where, is judged by the call. */
bool api_host_is_port(const struct api *a, const char *host);
/* False: it was answered already, and what comes of the body is dropped. */
bool api_call_wants_body(const struct api_call *c);
/* Eats bytes of the body; how many. Fewer than n: until on_body_room. */
size_t api_call_body(struct api_call *c, const void *p, size_t n);
void api_call_end_body(struct api_call *c);
void api_call_has_room(struct api_call *c); /* the sink takes more */
/* A message came over its socket. */
void api_call_message(struct api_call *c, bool is_text, const void *p, size_t n);
/* The client has gone: the sink is called no more. A thread that works is logged at its end. */
void api_call_gone(struct api_call *c);
/* After on_reply, on_end, on_socket_end: the sink has what it needs. */
void api_call_free(struct api_call *c);
