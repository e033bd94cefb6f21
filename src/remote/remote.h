/*
 * The calls of cove.h, answered by a server (cove-remote, when COVE_HOST is set). The files beside
 * this one are grouped as the server's routes are; each call is a request, its answer decoded by
 * the tables that libcove writes such answers with (core/view.h). What is not asked of a server is
 * ERR_UNSUPPORTED (absent.c): nothing is ever done on this machine instead.
 *
 * Blocking, one thread. A connection waits in an event loop of its owner's: a struct cove has one
 * for its requests, one after another; each command has its own, so that a caller can poll it.
 *
 * Lost connections: what may be repeated (a GET, and what a token or the nature of it makes so) is
 * repeated, at most REMOTE_REPEATS times. A server that answered before may be away for
 * REMOTE_AWAY_MS, as while it is restarted.
 */
#pragma once

#include "base/buf.h"
#include "base/json.h"
#include "core/plain.h"
#include "ev/ev.h"
#include "http/http.h"
#include "net/channel.h"
#include "net/tls.h"
#include "remote/host.h"
#include "remote/take.h"

enum {
	REMOTE_CONNECT_MS = 10000,
	REMOTE_HEAD_MS = 600000, /* until an answer begins; what is asked for may take its time */
	REMOTE_STALL_MS = 60000, /* without a byte, of what is sent and of an answer that began */
	REMOTE_AWAY_MS = 20000,
	REMOTE_REPEATS = 2,
	REMOTE_IN_MAX = 256 << 10,
	REMOTE_ANSWER_MAX = 80 << 20, /* of an answer that is kept whole */
	REMOTE_ERROR_MAX = 64 << 10,
	REMOTE_EVENT_MAX = 4 << 20,
	REMOTE_ROWS_MAX = 1 << 20, /* of a list */
	REMOTE_TOKEN_BYTES = 16,   /* of what names one request */
};

struct cove {
	struct remote_host host;
	char *key;		  /* owned, wiped; NULL: none */
	struct tls *tls;	  /* owned; NULL until it is needed */
	struct ev *ev;		  /* owned */
	struct remote_conn *idle; /* owned; or NULL */
	bool reached;		  /* it answered before */
	void (*on_event)(void *arg, const char *line, const char *json);
	void *arg;
};

struct cove_box {
	struct cove *cove; /* borrowed */
	char name[64];
	bool one_shot;
};

/* ---- conn.c ---- */

struct remote_conn {
	struct ev *ev; /* borrowed */
	struct channel *channel;
	struct buf in;
	struct buf *out; /* borrowed: what is sent while it waits; NULL */
	unsigned ready;	 /* CHANNEL_* that came since the wait began */
	bool ended;
	bool was_idle; /* it may have been closed since */
};

/* timeout_ms: for the connection alone; -1: until a server that was reached is back. */
int remote_conn_open(struct cove *cove, struct ev *ev, int timeout_ms, struct remote_conn **ret,
		     struct err *e);
void remote_conn_free(struct remote_conn *c); /* NULL is fine */
/* What comes is appended to c->in. How many bytes; 0: the end; -EAGAIN: not within timeout_ms (-1:
 * for ever; 0: what is there now), or cancel_fd (0: none) is readable, or c->out was sent. */
ssize_t remote_conn_read(struct remote_conn *c, int timeout_ms, int cancel_fd, struct err *e);
/* All of it. */
int remote_conn_write(struct remote_conn *c, const void *p, size_t n, struct err *e);
/* What goes out now of a queue; the rest waits. 0, or why not. */
int remote_conn_flush(struct remote_conn *c, struct buf *out);
/* Was it lost, and not refused? */
bool remote_is_lost(int r);
/* Waits in the loop, and is called by it; -EAGAIN: it is over. */
int remote_wait(struct ev *ev, int timeout_ms, int cancel_fd);
/* "the server at ..." */
const char *remote_name(const struct cove *cove, char ret[300]);

/* ---- request.c ---- */

/* A request under way: begun, filled in, then one of the calls below, each of which frees it. */
struct remote_request {
	struct cove *cove;
	const char *method;
	struct buf path, body;
	struct json json; /* into body; of what begins with remote_json_begin */
	const char *accept;
	bool has_query, has_json, repeats; /* repeats: it may be done twice */
	bool is_secret;			   /* its body is wiped */
	bool keeps_details;		   /* a conflict that says what about is an answer */
	json_t **ret_details;
	bool waits;	/* its answer may take as long as it likes */
	int connect_ms; /* 0: until a server that was reached is back */
	int head_ms;	/* 0: REMOTE_HEAD_MS */
	int cancel_fd;	/* 0: none */
	int error;
	bool uploads;			 /* its body comes piece by piece */
	const struct http_field *fields; /* further ones */
	size_t field_count;
};

/* "{}" in the path is the next of the texts, as one segment. */
void remote_begin(struct remote_request *q, struct cove *cove, const char *method, const char *path,
		  ...);
void remote_query(struct remote_request *q, const char *name, const char *value);  /* NULL: not */
void remote_query_u64(struct remote_request *q, const char *name, uint64_t value); /* 0: not */
void remote_query_bool(struct remote_request *q, const char *name, bool value);	   /* false: not */
/* The body is an object, of which the members are written; remote_* ends it. */
struct json *remote_object(struct remote_request *q);
/* key: [texts]; NULL: not at all. */
void remote_put_list(struct json *j, const char *key, const char *const *list);
/* Members that are left out where they are not set. COVE_UNLIMITED is -1. */
void remote_put_str(struct json *j, const char *key, const char *s);
void remote_put_amount(struct json *j, const char *key, uint64_t v);
void remote_put_bool(struct json *j, const char *key, bool v);
/* Why it cannot be sent: r below 0. The first is kept, so that what is said later hides none. */
void remote_note(struct remote_request *q, int r);

struct remote_answer {
	struct cove *cove;
	struct remote_conn *conn;
	struct http_head head;
	struct http_body body;
	bool ended, has_body;
	int cancel_fd;
	size_t used; /* of conn->in, that the caller has in its hands */
};
/* Up to the head of a good answer; a bad one is the error. ev NULL: that of the cove. */
int remote_open(struct remote_request *q, struct ev *ev, struct remote_answer *ret, struct err *e);
/* 1: a piece, until the next call; 0: the end; -EAGAIN: not within timeout_ms. */
int remote_answer_next(struct remote_answer *a, int timeout_ms, const void **p, size_t *n,
		       struct err *e);
/* Keeps the connection for the next request if nothing more can come. */
void remote_answer_done(struct remote_answer *a);
/* All of it as an object, owned by the caller; ends the answer. */
int remote_answer_json(struct remote_answer *a, json_t **ret, struct err *e);

/* A request whose body is sent as it is made. begin takes q; then pieces; then end or drop. */
struct remote_upload {
	struct remote_request q;
	struct remote_conn *conn;
	struct buf out;
	bool answered; /* before all was sent: the end says what */
};
int remote_upload_begin(struct remote_request *q, struct remote_upload *ret, struct err *e);
/* 1: the server takes no more. */
int remote_upload_piece(struct remote_upload *u, const void *p, size_t n, struct err *e);
int remote_upload_end(struct remote_upload *u, struct remote_answer *ret, struct err *e);
void remote_upload_drop(struct remote_upload *u);

/* What an error's body says, or else the status. */
int remote_error(const struct cove *cove, unsigned status, const void *p, size_t n, struct err *e);

/* The answer as an object, owned by the caller. ret NULL: it does not matter. */
int remote_call(struct remote_request *q, json_t **ret, struct err *e);
/* The same as a text on one line; owned. */
int remote_call_text(struct remote_request *q, char **ret, struct err *e);
/* Its events, until the answer ends, on_event returns false or cancel_fd is readable. An event
 * "error" is the error. */
typedef bool remote_on_event(void *arg, const char *name, const char *data, size_t len);
int remote_call_events(struct remote_request *q, remote_on_event *on_event, void *arg,
		       struct err *e);

/* The end of every call. */
int remote_return(int r, const struct err *e, struct cove_error *err);
/* ERR_UNSUPPORTED: `what` works on the server's machine only. */
int remote_absent(struct err *e, const char *what);

/* boxes.c: a command as the API's object has it, into j. exec.c uses it too. */
int remote_put_command(struct json *j, const struct cove_command *command, const char *token,
		       struct err *e);
