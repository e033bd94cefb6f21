/* What web.c and web_move.c share. */
#pragma once

#include "door/ask.h"
#include "door/inject.h"
#include "door/web.h"
#include "http/http.h"
#include "http/ws.h"

enum web_state {
	WEB_HEAD,     /* the head of the next request is awaited */
	WEB_DECIDE,   /* a person, the clerk's secrets, the row: nothing moves */
	WEB_DIAL,     /* the upstream is on its way */
	WEB_MOVE,     /* request and answer flow */
	WEB_SWITCHED, /* WebSocket: frames flow */
	WEB_CLOSE,    /* the last bytes for the box go out, then it ends */
	WEB_OVER,     /* on_done was called, or is about to be */
};

/* One end: what was read and not yet looked at, what is to be written. */
struct web_side {
	struct channel *channel; /* owned; NULL: none */
	struct buf in, out;
	bool ended;   /* it said all that it had to say */
	bool is_busy; /* its last read filled the buffer */
};

struct web {
	struct web_config config;
	enum web_state state;
	struct web_side box, up;
	struct ev_timer timer;
	struct ev_defer run;
	struct ev_defer done;
	bool is_running; /* web_run is on the stack */

	/* The request under way. */
	struct http_head request;
	struct http_body request_body;
	enum http_framing request_framing; /* as it is written */
	bool has_request, request_sent;	   /* all of it is in up.out or gone */
	bool keep_box;			   /* the box may send another on this connection */
	char *path, *query;		   /* owned: as judged and recorded */
	struct verdict verdict;
	bool was_asked;
	struct injection *injection; /* owned */
	struct ask_wait wait;
	struct clerk_call call;
	uint64_t seq, started_ms, bytes_up, bytes_down;

	/* Its answer. */
	struct http_head response;
	struct http_body response_body;
	enum http_framing response_framing;
	bool has_response, response_sent, keep_up, redacts;
	struct buf held; /* content that is searched before it goes on */
	struct ws_relay from_box, from_up;
	char address[64];
	bool up_once;	  /* it is told to close after this request */
	bool up_private;  /* how the upstream was dialled */
	bool up_identity; /* and with which certificate: not kept for another request */
};

/* web_move.c: reads, moves and writes what can be. 1: something moved; 0: not; negative: broken, *e
 * says which side and why. */
int web_read(struct web *w, struct err *e);
int web_move_request(struct web *w, struct err *e);
int web_move_response(struct web *w, struct err *e);
int web_move_frames(struct web *w, struct err *e);
int web_write(struct web *w, struct err *e);
void web_want(struct web *w);

/* web_request.c */
/* The next head of the box. 1: there was one, and it is decided or being decided; 0: not yet;
 * negative: all is over. */
int web_read_request(struct web *w);
enum action web_judge(struct web *w, const char *query);
/* An answer of our own, where the box has none yet; then the next request, or the end. */
void web_answer(struct web *w, unsigned status, const struct err *e);
/* The request was allowed and did not work: a 502, or where the answer has begun a cut. */
void web_fail(struct web *w, const struct err *e);
void web_on_recorded(struct clerk_call *c, int r, struct err *e);
void web_on_answer(struct ask_wait *wait, bool is_allowed, const char *by);

/* web.c */
void web_run(struct web *w);
void web_next(struct web *w); /* ready for the next request, or for the last bytes */
void web_cut(struct web *w, const struct err *e);
void web_send_request(struct web *w);
void web_record_end(struct web *w, const char *verdict, const char *reason);
/* The answer's head is there: what becomes of it. */
int web_take_response(struct web *w, struct err *e);
