/* What web.c, web_move.c and web_request.c share. */
#pragma once

#include "base/limits.h"
#include "door/ask.h"
#include "door/dial.h"
#include "door/inflate.h"
#include "door/inject.h"
#include "door/web.h"
#include "http/http.h"
#include "http/ws.h"

enum web_state {
	WEB_HEAD,     /* the head of the next request is awaited */
	WEB_DECIDE,   /* a person, the broker's secrets, the row: nothing moves */
	WEB_DIAL,     /* the upstream is on its way */
	WEB_MOVE,     /* request and answer flow */
	WEB_SWITCHED, /* WebSocket: frames flow */
	WEB_CLOSE,    /* the last bytes for the box go out, then it ends */
	WEB_OVER,     /* on_done was called, or is about to be */
};

enum { WEB_OUT_MAX = 2 * DOOR_BUFFER_MAX + DOOR_HEAD_MAX };

/* One end: what was read and not yet looked at, what is to be written. */
struct web_side {
	struct channel *channel; /* owned; NULL: none */
	struct buf in, out;
	bool ended;	   /* it said all that it had to say */
	bool is_broken;	   /* and that was not its own will: error says why */
	bool write_closed; /* it takes nothing more */
	bool finishing;	   /* the end was said to it, or is on its way */
	bool finished;
	bool is_busy; /* its last read filled the buffer */
	struct err error;
};

/* Where the messages of an upstream are searched; see web_frames.c. */
struct web_frames {
	struct ws_frame frame; /* under way */
	bool in_frame;
	bool is_cut;	    /* the message goes on in other frames than it came in */
	bool owes_last;	    /* its end came: the piece that ends it is not written yet */
	uint8_t op;	    /* of the next piece */
	struct buf control; /* the payload of a control frame */
};

/* One request, from its head to its last row; reset by assignment. */
struct web_request {
	struct http_head head;
	struct http_body body;
	enum http_framing framing; /* as it is written */
	bool is_there;
	bool is_sent;	     /* all of it is in the upstream's out, or gone */
	char *path, *query;  /* owned: as recorded */
	char *normal;	     /* owned: as rules see it; NULL: it has no one form */
	bool websocket;	     /* it asks to become one */
	bool has_fetch_body; /* a GET or HEAD with a body */
	bool is_last;	     /* on its upstream connection */
	struct verdict verdict;
	bool was_asked;
	uint64_t asked_until_ms;     /* as in web_config */
	bool is_stripped;	     /* the box's own credentials were removed, */
	size_t kept_count;	     /* but for so many that the rule lists */
	struct injection *injection; /* owned */
	unsigned denied; /* not 0: the row that is being written says no; the status to answer */
	enum denial why;
	struct err denial;
	uint64_t seq, started_ms, bytes_up, bytes_down;
	unsigned interims; /* answers of 1xx */
	bool is_stale;	   /* a kept upstream closed instead of answering: so do we */
};

/* Its answer; reset with it. */
struct web_response {
	struct http_head head;
	struct http_body body;
	enum http_framing framing;
	bool is_there, is_sent, redacts;
	struct inflater *inflater; /* owned; NULL: its content is plain, or nobody searches it */
	struct buf packed;	   /* content that is not inflated yet */
	bool has_more;		   /* the inflater has more to say */
	struct buf held;	   /* content that is searched before it goes on */
	size_t held_safe;	   /* bytes of it that were */
	struct ws_relay from_box, from_up;
	struct web_frames frames;
};

/* The connection to the upstream, which may serve more than one request; reset by assignment when
 * it is dropped. */
struct web_upstream {
	struct web_side side;
	struct dial dial;  /* of it */
	bool keeps;	   /* its last answer says that it stays open */
	bool was_used;	   /* it gave an answer before */
	bool private;	   /* how it was dialled */
	bool has_identity; /* and with which certificate: not kept for another request */
	bool injects;	   /* what went there had a credential: others do not go the same way */
	bool holds_secret; /* side.out has a credential: nothing is added to it */
	char rule[POLICY_NAME_MAX + 1]; /* by which rule */
	size_t head_left;		/* bytes of the request's head that are still in side.out */
};

/* The connection of the box. */
struct web {
	struct web_config config;
	enum web_state state;
	struct web_side box;
	struct web_upstream up;
	struct web_request req;
	struct web_response resp;
	bool had_request; /* this one, or one before */
	bool keep_box;	  /* the box may send another on this connection */
	char address[64]; /* of the last upstream */
	/* Armed for the limit or earlier: it looks when it fires, and is rarely set anew. */
	struct ev_timer timer;
	uint64_t limit_ms, moved_ms; /* limit 0: none */
	struct ask_wait wait;
	struct broker_call call;
	struct ev_defer run;
	struct ev_defer done;
	bool is_running; /* web_run is on the stack */
};

/* web_move.c: reads, moves and writes what can be. 1: something moved; 0: not; negative: broken, *e
 * says which side and why. */
int web_read(struct web *w);
/* The upstream that was kept is still there, and has sent nothing unasked. */
bool web_is_up_quiet(struct web *w);
int web_move_request(struct web *w, struct err *e);
int web_move_response(struct web *w, struct err *e);
int web_move_frames(struct web *w, struct err *e); /* web_frames.c */
int web_write(struct web *w, struct err *e);
/* The end is said to this side. 1: now; 0: it was, or it waits; negative: broken. */
int web_finish_side(struct web *w, struct web_side *s, struct err *e);
void web_want(struct web *w);
/* Counts bytes of a message that are about to go. Negative: they may not. */
int web_count(struct web *w, uint64_t up, uint64_t down, struct err *e);
bool web_has_room(const struct web_side *s);
/* A credential is in the request, and may come back in the answer. */
bool web_has_secret(const struct web *w);

/* web_request.c */
/* The next head of the box. 1: there was one, and it is decided or being decided; 0: not yet;
 * negative: all is over. */
int web_read_request(struct web *w);
void web_judge(struct web *w, const char *query);
/* It has a body where the rule that allows it means to fetch, not to send; or a path that no rule
 * can judge, and there are rules about paths. */
bool web_is_unfit(const struct web *w);
/* Decides whether the upstream is used again after this request; the request says so if not. */
int web_choose_reuse(struct web *w, struct err *e);
/* Allowed by a rule, and by a person where the rule wants one: what is needed to send it. */
void web_allowed(struct web *w);
/* The request was allowed and did not work: a 502, or where the answer has begun a cut. */
void web_fail(struct web *w, const struct err *e);
void web_on_recorded(struct broker_call *c, int r, struct err *e);
void web_on_answer(struct ask_wait *wait, bool is_allowed, const char *by);

/* web.c */
void web_run(struct web *w);
void web_next(struct web *w); /* ready for the next request, or for the last bytes */
void web_cut(struct web *w, const struct err *e);
void web_send_request(struct web *w);
void web_limit(struct web *w, uint64_t ms); /* from now on; 0: none */
/* A row about it, to be filled further. */
struct audit_row web_row(const struct web *w, const char *kind, const char *verdict,
			 const char *reason);
void web_record_end(struct web *w, const char *verdict, const char *reason);
/* The answer's head is there: what becomes of it. */
int web_take_response(struct web *w, struct err *e);
