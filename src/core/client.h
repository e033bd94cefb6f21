/*
 * What a server holds: the connections to the keepers of its boxes, and commands on them, all in
 * one loop. A box's requests share a connection; another is made only where one is full.
 */
#pragma once

#include "core/async.h"
#include "core/exec.h"

struct core_client;

int core_client_new(struct cove *cove, struct ev *ev, struct core_client **ret);
/* What is under way gets -ECANCELED. NULL is fine. */
void core_client_free(struct core_client *c);

/* A connection to the keeper of a box, for one more request; borrowed, and freed after its last
 * on_done. -ENOENT or -ECONNREFUSED at once where there is no keeper (core_up_start
 * gets one). */
int core_client_conn(struct core_client *c, const char *box, struct core_conn **ret, struct err *e);

/* The same for one that has said HELLO, so that it is known what its keeper can do. */
struct core_client_wait {
	/* Once, from the loop: it is there, borrowed, or why not. */
	void (*on_ready)(struct core_client_wait *w, struct core_conn *conn, int r,
			 const struct err *e);
	struct core_client_wait *next, **at; /* at: NULL when it does not wait */
};
/* Where there is no keeper at once: ERR_NOT_FOUND for a box that is not there, ERR_CONFLICT for one
 * that does not run. */
int core_client_await(struct core_client *c, const char *box, struct core_client_wait *w,
		      struct err *e);
void core_client_await_cancel(struct core_client_wait *w); /* not under way: fine */
/* The same for all that is queued on one of the client's connections to be written. A connection
 * that is lost drops it: its requests have an end of their own. */
void core_client_await_drained(struct core_conn *conn, struct core_client_wait *w);
/* How many connections there are. */
unsigned core_client_count(const struct core_client *c);

/* cove_events for who may be gone before the next row: goes_on is asked while there is none. */
struct core_watcher {
	cove_on_line *on_line;
	bool (*goes_on)(void *arg); /* NULL: it does */
	void *arg;
};
int core_events(struct cove *cove, const char *box, bool follow, const struct core_watcher *w,
		struct cove_error *err);

/* A command whose events come from the loop. */
struct core_async_exec {
	/* As cove_exec_next has them; EXIT is the last. Output is given back by
	 * core_async_exec_took when it was really consumed: at most WIRE_WINDOW of each stream
	 * comes without. It may cancel the command, and free it then. */
	void (*on_event)(struct core_async_exec *a, const struct cove_event *ev);
	/* Once: 0 after EXIT (a background command: after STARTED or QUEUED), or why not. */
	void (*on_done)(struct core_async_exec *a, int r, const struct err *e);
	/* stdin, which was full, may have room again; may be NULL. */
	void (*on_room)(struct core_async_exec *a);
	struct cove_exec x;
};

/* Set the callbacks first. command->input is at most WIRE_WINDOW; more comes as a stream. */
int core_async_exec_start(struct core_async_exec *a, struct core_conn *conn,
			  const struct cove_command *command, uint64_t inline_max, struct err *e);
/* Joins one that was begun before, in the same way. */
int core_async_exec_join(struct core_async_exec *a, struct core_conn *conn,
			 const struct wire_attach *m, struct err *e);
int core_async_exec_took(struct core_async_exec *a, enum wire_stream stream, size_t n);
/* As much of stdin as the command's window and the connection's queue take; the rest when a
 * further event or on_drained of the connection came. */
size_t core_async_exec_write(struct core_async_exec *a, const void *data, size_t len);
int core_async_exec_close_input(struct core_async_exec *a);
int core_async_exec_resize(struct core_async_exec *a, unsigned rows, unsigned cols);
/* To the command, SIGKILL to its whole tree. How that went is not reported. */
int core_async_exec_signal(struct core_async_exec *a, int sig);
/* No callback comes any more; the command goes on. After on_done: fine. */
void core_async_exec_cancel(struct core_async_exec *a);
