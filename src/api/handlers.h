/*
 * What handlers use, and what the files of routes share. Each of these has one table (routes.c
 * lists them) and its handlers.
 */
#pragma once

#include "api/api.h"
#include "base/str.h"

#include <stdlib.h>
#include <string.h>

/* ---- for handlers ---- */

const char *api_param(const struct api_call *c, const char *name);
/* From the query, decoded; NULL: it is not there. ret is in the call's memory. */
int api_query(struct api_call *c, const char *name, const char **ret, struct err *e);
int api_query_u64(struct api_call *c, const char *name, uint64_t otherwise, uint64_t *ret,
		  struct err *e);
int api_query_bool(struct api_call *c, const char *name, bool *ret, struct err *e);

/* Begins the answer, and a JSON value in it. */
struct json *api_json(struct api_call *c, unsigned status);
/* The answer is this JSON text, which is freed; NULL: no memory. */
int api_json_take(struct api_call *c, unsigned status, char *text, struct err *e);
int api_no_content(struct api_call *c);
void api_field(struct api_call *c, const char *name, const char *value); /* borrowed */

/* now: an answer that comes later, in parts. api_reply ends a call that returned API_LATER. */
enum { API_LATER = 1 };
void api_reply(struct api_call *c, int r, const struct err *e);
void api_begin(struct api_call *c, unsigned status, const char *type);
bool api_bytes(struct api_call *c, const void *p, size_t n);
void api_body_room(struct api_call *c); /* more of the request's body is taken again */
void api_end(struct api_call *c, bool cut);
/* now, of a route with `socket`: was it asked for? Then it becomes one, or the call fails. */
bool api_wants_socket(const struct api_call *c);
int api_socket(struct api_call *c, struct err *e);
bool api_message(struct api_call *c, bool is_text, const void *p, size_t n);
void api_socket_room(struct api_call *c); /* is_full no longer holds */
void api_socket_end(struct api_call *c, unsigned code, const char *reason);
/* One event of SSE (http/sse.h). */
bool api_event(struct api_call *c, const char *event, const char *id, const char *data);

/* work: an answer in parts. Once c->type and c->length are set, a descriptor to write to, which
 * blocks while the client is slow and fails with EPIPE when it has gone. Status 200 unless set. */
int api_stream_open(struct api_call *c, int *ret_fd, struct err *e);
/* For progress callbacks: should it go on? And a descriptor that is readable when not. */
bool api_goes_on(const struct api_call *c);
int api_cancel_fd(struct api_call *c, int *ret_fd, struct err *e);

/* Turns a libcove call's error into ours. */
int api_failed(int r, const struct cove_error *err, struct err *e);

/* ---- routes and what they share ---- */

extern const struct api_route api_audit_routes[], api_box_routes[], api_build_routes[],
	api_change_routes[], api_event_routes[], api_exec_routes[], api_execs_routes[],
	api_file_routes[], api_image_routes[], api_machine_routes[], api_metrics_routes[],
	api_network_routes[], api_parcel_routes[], api_policy_routes[], api_pool_routes[],
	api_port_routes[], api_run_routes[], api_session_routes[], api_snapshot_routes[],
	api_system_routes[], api_tool_routes[], api_webhook_routes[];

/* in_box.c: a box's options (also of a session), and a command. */
extern const struct api_in_field api_box_fields[], api_command_fields[];

/* A command as a request has it. */
struct api_command {
	struct cove_command c;
	const char *input;	  /* text */
	const char *input_base64; /* or bytes */
	uint64_t max_output;
};
/* Fills command->c from a JSON object; the call's memory has what it points to. */
int api_command_take(struct api_call *c, json_t *object, struct api_command *ret, struct err *e);
/* The caller's names become this machine's, and what it may not ask for is refused. */
int api_box_options_check(struct api_call *c, struct cove *cove, struct cove_box_options *o,
			  struct err *e);

/* A key that says 'trust_dir': -EACCES. */
int api_not_trusted(struct err *e);
/* An image that the caller may use: its own, or else one of the operator's, which all share. */
int api_image(struct api_call *c, struct cove *cove, const char *name, const char **ret,
	      struct err *e);
/* images.c: one of the caller's own, which is to be made, named anew or removed. */
int api_own_image(struct api_call *c, const char *name, const char **ret, struct err *e);
/* The request's `tag`: another name, as the caller wrote it. */
int api_tag_take(struct api_call *c, const char **ret, struct err *e);
/* As the caller knows it. */
const char *api_image_shown(const struct api_call *c, const char *name);
/* network.c: what a key may let its boxes reach is the public network, never this machine or what
 * only this machine can reach. text is a pattern or a whole policy; where it may be read otherwise
 * it is refused, so that nothing has to be parsed twice. */
int api_may_reach(const struct api_call *c, const char *text, bool is_policy, struct err *e);
/* A file of this text, to be removed after the call that reads it. */
int api_policy_file(struct cove *cove, const char *text, char path[600], struct err *e);
/* The path parameter {box}, as its name on this machine. */
int api_box(struct api_call *c, const char **ret, struct err *e);
/* boxes.c: the members of a box's object, without asking its keeper. */
int api_put_box(struct api_call *c, struct cove *cove, const char *name, struct err *e);
/* files.c: the box, up for its files alone if it is stopped, and the query's `path`. */
int api_visit(struct api_call *c, struct cove *cove, struct cove_box **ret, const char **ret_path,
	      struct err *e);
/* A running box for blocking calls. */
int api_box_find(struct api_call *c, struct cove *cove, struct cove_box **ret, struct err *e);

/* work.c: how long a request waits for room on this host, if it says so. */
#define API_WAIT_DEFAULT UINT64_MAX
int api_patience(struct api_call *c, struct cove *cove, uint64_t wait_ms, struct err *e);

/* repeats.c: requests with an Idempotency-Key. The label that a box of such a request has; NULL: no
 * memory, and *e. */
const char *api_repeat_label(struct api_call *c, const char *key, const char *body, struct err *e);
/* Before that box is made, with its name on this machine: -EEXIST where the caller's key has made
 * another one, or makes it now. Ends when it was made, or could not be. */
int api_repeat_begin(struct api_call *c, struct cove *cove, const char *label, const char *box,
		     struct err *e);
void api_repeat_end(struct api_call *c, const char *label, const char *box);
/* Is there such a box, made by this very request? */
bool api_repeat_made(struct cove *cove, const char *box, const char *label);
int api_repeat_conflict(struct err *e);

/* execs.c: what a command printed, as the member "text", or "base64" where it is none. */
void api_put_output(struct json *j, const void *data, size_t len);
/* The same as its event has it: {"offset", "text" or "base64"}. */
int api_output_json(struct buf *out, uint64_t offset, const void *data, size_t len);
/* execs.c: one event into a stream's descriptor; -EPIPE: the client has gone. */
int api_send_event(int fd, const char *name, const char *id, const char *data);
/* error.c: an error as the answer of a call that has not failed: what else is to be known of it is
 * in `details`, a JSON value. Always 0. And its JSON alone. */
int api_error_with(struct api_call *c, const struct err *e, const char *details);
int api_error_json(const struct api_call *c, const struct err *e, struct buf *out);

/*
 * rows.c: {"<key>": [...], "next"} of what libcove listed. A cursor says where a row stands, by the
 * order of its bytes, and false for one that is not the caller's to see; with one the query's
 * `limit` and `after` choose a page, and "next" is the `after` of the page that follows, or null.
 * Without one all rows are there, as they are.
 */
enum { API_CURSOR_SIZE = 320, API_ROWS_MAX = 1000 };
struct wire_named_field;
struct api_rows {
	const char *key;
	const struct wire_named_field *fields;
	void *rows; /* owned: freed by api_put_rows */
	size_t size;
	int count; /* may be libcove's error */
	bool (*cursor)(const struct api_call *c, const void *row, char ret[API_CURSOR_SIZE]);
	void (*more)(struct json *j, const void *row); /* further members; may be NULL */
};
int api_put_rows(struct api_call *c, const struct api_rows *rows, const struct cove_error *err,
		 struct err *e);
/* The query's `limit` (1 to max, which it is unless said otherwise) and `after` (may be NULL). */
int api_query_page(struct api_call *c, uint64_t max, uint64_t *ret_limit, const char **ret_after,
		   struct err *e);

/*
 * progress.c, work of a route that streams: what takes long and says how far it is. With "Accept:
 * text/event-stream" there are events, and a last one, `result` or `error`; else the answer is the
 * result alone. What fails before the first event is an answer as any other.
 */
struct api_progress {
	struct api_call *c;
	int fd;	       /* borrowed; -1: no events were asked for */
	int cancel_fd; /* borrowed; for libcove's calls */
	bool began;
	struct buf out; /* of the event, or the result, that is written now */
	struct json json;
};
int api_progress_begin(struct api_call *c, struct api_progress *p, struct err *e);
/* Begins an event's data, or the result's. */
struct json *api_progress_json(struct api_progress *p);
/* False: the client has gone. */
bool api_progress_tell(struct api_progress *p, const char *event);
/* r and *e: how it ended; the result, where it is a success, is in the JSON. Returns what the
 * handler returns. */
int api_progress_end(struct api_progress *p, unsigned status, int r, struct err *e);
