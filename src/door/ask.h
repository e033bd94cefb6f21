/*
 * A request that a person must decide. It is held; `cove asks` shows it, `cove answer` decides it,
 * and after its time it is denied. Who said what and when is recorded. Requests that are the same
 * (rule, host, port, and method, path and query where they were looked at) share one ask; an answer
 * that holds for a time is for the same but for the query, and when its time is over what it let in
 * is judged again.
 */
#pragma once

#include "door/door.h"

#define ASK_GAVE_UP "the box gave it up"
#define ASK_ENDED   "the client ended its side before a person allowed it"
#define ASK_DECIDED "the policy decides it now"

struct ask_wait {
	/* Once, never from within ask_start. by is NULL when the time was over. */
	void (*on_answer)(struct ask_wait *w, bool allowed, const char *by);
	struct door_ask *ask;
	struct ask_wait *next;
	uint64_t until_ms; /* with the answer: how long it holds, wall clock; 0: for this one */
};

/* It was allowed by a person, and that still holds. */
bool ask_holds(bool was_asked, uint64_t until_ms);

struct ask_what {
	const char *host;
	uint16_t port;
	const char *method, *path, *query; /* NULL for a connection */
	const struct rule *rule;
	uint64_t exec_id;
	uint64_t timeout_ms;
};

/* -ENOBUFS beyond DOOR_ASKS_MAX: deny. */
int ask_start(struct door *d, struct ask_wait *w, const struct ask_what *what);
/* It does not wait any more, and why (ASK_...). The last one takes the ask with it. Not waiting:
 * fine. */
void ask_cancel(struct ask_wait *w, const char *why);
/* for_ms: the answer also holds for the same requests that long (0: for those that wait now). */
int ask_answer(struct door *d, uint64_t id, bool allow, uint64_t for_ms, const char *by,
	       struct err *e);
/* One that waits. -ENOENT if there is none. */
typedef int ask_on_shown(void *arg, const struct wire_ask *ask);
int ask_show(struct door *d, uint64_t id, ask_on_shown *on_ask, void *arg);
/* The first moment after after_ms when an answer ends; 0: none does. */
uint64_t asks_next_end(const struct door *d, uint64_t after_ms);
/* All that wait, in order. What is long is cut, and ends with "...". */
int asks_list(struct door *d, ask_on_shown *on_ask, void *arg);
unsigned asks_count(const struct door *d);
void asks_free(struct door *d);
