/*
 * The protocol core of cove-keeper: what init says, what clients say, and what it means. It starts
 * and ends nothing: life.c gives it a link to init and clients, and is told when the box must end.
 * So the same code is driven by tests and fuzzers over plain socket pairs.
 *
 *	clients.c  a client's frames -> execs.c   EXEC, SIGNAL, RESIZE; repeat.c, sync.c: tokens
 *	                             -> exec_list.c EXECS
 *	                             -> input.c   DATA, EOF to a command's stdin
 *	                             -> follow.c  ATTACH, CREDIT
 *	                             -> relay.c   FILE, PORT and what belongs to them
 *	                             -> door.c    DOOR -> relay.c
 *	                             -> subscribe.c SUBSCRIBE
 *	                             -> state.c   STATUS, STATS, PAUSE, TIMES, STOP
 *	core.c     init's frames     -> execs.c   QUEUED, STARTED, DATA, EOF, EXIT
 *	                                          -> output.c, follow.c
 *	                             -> relay.c   (ids with KEEPER_REQUEST_BIT or WIRE_NET_BIT)
 *	                             -> ctl.c     CTL: what the box asks for itself
 *	door.c     the door's frames -> relay.c; it is started by launcher.c
 *
 * Who is believed: init is the box, and the box is hostile. A frame that an honest init cannot
 * send ends the box ("init broke the protocol"); counts are our own; strings are cut and made
 * printable. A client is the owner, but may be broken: a frame that breaks a rule ends its
 * connection, a request that cannot be served gets an ERROR, and frames for a request that is over
 * are dropped.
 *
 * Flow control: a stream of a command may be WIRE_WINDOW bytes ahead of what paces it. A
 * foreground client does: init gets credit only as that client gives it, so what the command
 * prints always fits the client's own credit and nothing is lost past the end of the log. Without
 * one, output is taken as fast as the log takes it.
 *
 * Nothing is freed under a caller's feet: a client that ends in the middle of something is marked
 * closing, and freed by a deferred call; and what the owner does in on_end touches the tables only
 * in a later turn.
 */
#pragma once

#include "ev/ev.h"
#include "keeper/events.h"
#include "keeper/gate.h"
#include "keeper/hold.h"
#include "keeper/journal.h"
#include "keeper/output.h"
#include "keeper/relay.h"
#include "keeper/state.h"
#include "wire/hello.h"
#include "wire/link.h"

#include <stdbool.h>

#define KEEPER_REQUEST_BIT 0x80000000u /* in ids of init and the door: what a client asks of them */

struct keeper_exec;
struct keeper_follow;
struct keeper_subscription;
struct keeper_door;
struct keeper_ctl;
struct keeper;

/* Why the box must end. */
struct keeper_end {
	const char *cause, *by;
	uint64_t grace_ms; /* SIGTERM first, then so long */
	bool remove;	   /* and be deleted */
	bool is_ordered;   /* somebody wants it, or its time is over: no failure */
};

struct keeper_client {
	struct keeper *k;
	struct keeper_client *next;
	struct wire_link link;
	struct keeper_gate gate;
	struct keeper_hold hold;
	struct keeper_follow *follows;		   /* owned */
	struct keeper_relay *relays;		   /* owned by the keeper's table */
	struct keeper_subscription *subscriptions; /* owned */
	unsigned request_count;
	uint32_t stop_id;
	bool first;    /* the one the keeper was born with */
	bool stopping; /* waits for the answer to STOP */
	bool closing;
	struct wire_peer peer; /* as it said in its HELLO; all zero: it said none */
};

struct keeper {
	struct ev *ev;			 /* borrowed */
	const char *name;		 /* borrowed */
	uint64_t timeout_ms;		 /* for commands that give none */
	bool quiet;			 /* a one-shot box: no journal, event or output is kept */
	void (*on_up)(struct keeper *k); /* init said HELLO */
	void (*on_lost)(struct keeper *k, int error); /* init's link ended; it is closed already */
	void (*on_end)(struct keeper *k, const struct keeper_end *end);
	void (*on_first_gone)(struct keeper *k);
	void (*on_room)(struct keeper *k); /* a client left */
	void (*on_idle)(struct keeper *k); /* the last running command ended */
	void (*on_exec)(struct keeper *k); /* a command is about to be given to init */
	/* A command has ended, and this is what it used. */
	void (*on_used)(struct keeper *k, const struct exec_record *r);
	/* NULL: init knows it of each command. Else: has the box lost a process to want of memory
	 * since the last call; is its disk full, or its workspace's? */
	bool (*ran_out)(struct keeper *k), (*disk_full)(struct keeper *k);
	/* How much a limit of the box is (exec_limit); 0: not known. May be NULL. */
	uint64_t (*limit_of)(struct keeper *k, const char *limit);
	/* Freezes or thaws the box; a refusal changes nothing. */
	int (*on_freeze)(struct keeper *k, bool on, struct err *e);
	void (*on_pause)(struct keeper *k); /* `paused` has changed */
	/* From now on, and kept; 0: as it is, WIRE_TIMES_NONE: no end. */
	int (*on_times)(struct keeper *k, const struct wire_times *m, struct err *e);
	/* Adds what the host knows of the box. */
	void (*on_stats)(struct keeper *k, struct wire_stats *m);

	struct wire_link init;
	struct wire_peer init_peer;
	uint64_t unknown_frames; /* of init's, of types that this Cove does not know */
	bool linked, up, stale;	 /* stale: init broke the protocol and is not heard any more */
	bool ending;		 /* no new requests; set by the owner */
	bool paused;		 /* by a person, or asleep */
	const char *asleep;	 /* static: the time that was over, "ttl" or "idle"; or NULL */
	unsigned holds;		 /* clients that it is frozen for */
	uint64_t frozen_ms;	 /* monotonic: since when it is */
	const char *end_cause;	 /* of the box, where commands that it ends have the same */
	uint64_t active_ms;	 /* ev_now: the last request, or the end of the last command */
	pid_t init_pid;		 /* for STATUS */
	uint64_t init_revision;	 /* the same; 0 until it said HELLO */
	/* For STATUS: static, NULL before they are known. */
	const char *ids, *storage, *network;
	const char *walls; /* borrowed; lines */
	struct buf pinned; /* lines: what of shared directories is read-only in the box */
	bool io_unknown;   /* no group counts a command's I/O */
	uint64_t started_ms;
	struct buf notes; /* lines, each once: what the box could not have */

	struct keeper_logs logs;
	struct journal journal;
	struct token_set tokens; /* of all commands that there were */
	struct ev_child syncer;	 /* of the journal; see sync.c */
	bool syncing;
	struct keeper_events events;

	struct keeper_exec **execs; /* owned, sorted by id */
	size_t exec_count, exec_cap;
	uint32_t next_exec;
	size_t damaged_lines;	/* of their list, when it was read */
	unsigned open_execs;	/* asked for and not yet closed by init */
	unsigned running_execs; /* of them: not yet ended */
	uint32_t own_exec;	/* what it runs at its start; 0: nothing */
	uint64_t oom_execs;	/* ended by want of memory, in this life of the box */
	uint64_t pids_execs;	/* by want of processes */

	struct keeper_client *clients; /* owned */
	unsigned client_count;
	bool ends_with_first; /* a one-shot box, or a visit */
	int held_fd;	      /* owned, -1: the end of that first client, closed last of all */
	struct keeper_relays relays;
	unsigned blocking; /* how many hold init */
	/* Borrowed; NULL: the box has no network; it may not ask for itself. */
	struct keeper_door *door;
	struct keeper_ctl *ctl;
	struct ev_defer reap;
};

/* core.c. Set ev, name and the callbacks first; box_fd is borrowed. keeper_load reads what an
 * earlier keeper of this box left. */
void keeper_init(struct keeper *k, int box_fd);
void keeper_done(struct keeper *k);
int keeper_load(struct keeper *k, struct err *e);
int keeper_connect(struct keeper *k, int rfd, int wfd); /* takes them: the link to init */
void keeper_disconnect(struct keeper *k);
void keeper_note(struct keeper *k, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The link holds WIRE_OUT_MAX: init that lets it fill up is unresponsive. */
void keeper_send_init(struct keeper *k, enum wire_type type, uint8_t stream, uint32_t id,
		      const void *p, size_t n);
/* After an encode into the init link's queue: r is what the encoder returned. */
void keeper_sent_init(struct keeper *k, int r);
void keeper_credit_init(struct keeper *k, uint32_t id, uint8_t stream, uint64_t bytes);
void keeper_broken(struct keeper *k, const char *what); /* init broke the protocol */
/* Into the box's own log, which a one-shot box has not. */
void keeper_event(struct keeper *k, const struct event *event);
/* Text from the box, safe to print, cut to fit. */
void keeper_safe_text(char *dst, size_t size, const char *text);
/* An ERROR of init's as one of ours: known kind, safe sentence. */
void keeper_error_from_box(const struct wire_error *m, struct err *ret);

/* clients.c. keeper_add_client takes fd, answers HELLO and reads requests. */
int keeper_add_client(struct keeper *k, int fd, bool first);
void keeper_client_send(struct keeper_client *c, enum wire_type type, uint8_t stream, uint32_t id,
			const void *p, size_t n);
/* After an encode into the client's queue: flushes, or closes a client that let it fill up. */
void keeper_client_sent(struct keeper_client *c, int r);
void keeper_client_credit(struct keeper_client *c, uint32_t id, uint8_t stream, uint64_t bytes);
void keeper_client_fail(struct keeper_client *c, uint32_t id, const struct err *e);
void keeper_client_fail_with(struct keeper_client *c, uint32_t id, enum err_kind kind,
			     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* It broke the protocol: says so and ends the connection. */
void keeper_client_break(struct keeper_client *c, const char *what);
/* After an uncredited frame was queued for a client: stops reading init if the client is behind. */
void keeper_client_check_queue(struct keeper_client *c);
void keeper_answer_stops(struct keeper *k, const struct err *e); /* the box is gone */
/* Writes what is queued for clients, waiting for slow ones at most so long. For the very end. */
void keeper_flush(struct keeper *k, unsigned timeout_ms);
void keeper_clients_free(struct keeper *k);
