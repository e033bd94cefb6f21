/*
 * Commands of a box: the table (execs.c), their stdin (input.c), and who follows their output
 * (follow.c).
 *
 *	asked -> started -> exited -> closed
 *	  |  \-> queued: a line waits for its shell; then started, or exited without having run
 *	  |        |  output: log first, then every follower; credit back to init
 *	  |        EXIT: journal, event, EXIT to each follower once it has all the bytes before it
 *	  ERROR: it ends as failed to start
 *
 * exited but not closed: a background child still holds a stream, and late output goes on under
 * this id; it does not count as running. closed: only the record and the log files are left, until
 * the table needs the place.
 */
#pragma once

#include "keeper/keeper.h"

enum keeper_run_state { RUN_ASKED, RUN_QUEUED, RUN_STARTED, RUN_EXITED };

/* stdin on its way from the client that feeds it to init. The client may send what init may be
 * sent; only after another client took over can there be more, and that waits here. */
struct keeper_exec_input {
	struct keeper_follow *feeder; /* borrowed, may be NULL */
	uint64_t to_init;	      /* credit init gave us */
	uint64_t from_client;	      /* credit we gave the feeder */
	uint64_t received;	      /* bytes of stdin that came from feeders so far */
	struct buf waiting;	      /* taken from a feeder, beyond init's credit */
	bool open;		      /* EOF was not sent */
	bool end_waiting;	      /* EOF comes after what waits */
};

/* Of its start on the disk; see sync.c. */
enum keeper_run_sync { SYNC_NONE, SYNC_WAITS, SYNC_RUNS };

struct keeper_run {
	enum keeper_run_state state;
	enum keeper_run_sync sync;
	struct buf unsynced;		/* frames for init that wait for the sync */
	uint64_t granted[OUTPUT_COUNT]; /* bytes of a stream that init may have sent so far */
	struct keeper_exec_input input;
	struct ev_timer backstop;
	struct keeper_exec *exec;
	uint64_t given_ms;	   /* the time it was given; 0: no end */
	uint64_t timeout_ms;	   /* with its grace */
	uint64_t began_ms;	   /* by the loop's clock: nobody can set that back */
	uint64_t backstop_left_ms; /* while the box is frozen */
	bool told_to_end;	   /* it got the signal with which its box ends */
};

struct keeper_exec {
	struct keeper *k;
	struct exec_record rec;
	struct keeper_output out[OUTPUT_COUNT];
	struct keeper_follow *followers; /* owned by their clients */
	struct keeper_run *run;		 /* owned; NULL once closed */
	char *cwd;			 /* owned, may be NULL */
	struct buf denied;		 /* behind rec.denied */
};

struct keeper_follow_stream {
	uint64_t pos;  /* next byte to send */
	uint64_t end;  /* stop here: the end of the command, or of what there was */
	uint64_t stop; /* stop here: as many as the client wants inline */
	struct wire_flow flow;
};

/* One client's view of one command: an EXEC or an ATTACH. */
struct keeper_follow {
	struct keeper_client *client;
	struct keeper_exec *exec;
	struct keeper_follow *next_of_client, *next_of_exec;
	uint32_t id;
	struct keeper_follow_stream s[OUTPUT_COUNT];
	uint64_t skip;	 /* bytes of stdin that this client sends again, and the command has */
	bool paces_init; /* back-pressure: init gets no more credit than this client gives */
	bool stays;	 /* until the command ends, then EXIT; otherwise OK */
	bool mute;	 /* background: it feeds stdin and gets no output */
	bool lost;	 /* some bytes were not kept and could not be sent */
	bool starter;	 /* asked for the command: gets STARTED */
};

/* execs.c, from clients. */
void keeper_exec_ask(struct keeper_client *c, uint32_t id, const struct wire_exec *m);
int keeper_exec_signal(struct keeper *k, uint32_t exec_id, const struct wire_signal *m,
		       struct err *e);
struct keeper_exec *keeper_exec_find(struct keeper *k, uint64_t id);
/* The box is frozen, or goes on: so do the timers of its commands. */
void keeper_execs_pause(struct keeper *k, bool on);
/* The box begins to end: sends a signal to every running command. */
void keeper_execs_tell_end(struct keeper *k, int sig);
/* The box is ending: whatever runs is interrupted, and its followers are told. */
void keeper_execs_interrupt(struct keeper *k);
/* A command that no client asked for, in the background and without end to its time. It is in
 * init's queue before whatever a client asks for from now on. */
int keeper_exec_run_own(struct keeper *k, const struct wire_exec *m, uint32_t *ret_id,
			struct err *e);
/* The table's new last one: ids grow. NULL without memory. */
struct keeper_exec *keeper_exec_add(struct keeper *k, const struct exec_record *rec);
/* Lines of its record into the journal (enum journal_lines), of a box that has one. */
int keeper_exec_journal(struct keeper_exec *x, unsigned lines);
/* exec_load.c */
int keeper_execs_load(struct keeper *k, struct err *e);
/* Writes the file of all commands anew. */
int keeper_journal_rewrite(struct keeper *k);
/* The same of an older or damaged file, once all is loaded that it had. A damaged one is kept, for
 * whoever wants to look. Where it cannot be written, the next lines are appended as ever. */
void keeper_journal_renew(struct keeper *k);
void keeper_execs_free(struct keeper *k);
/* execs.c, from init. */
void keeper_exec_frame(struct keeper *k, const struct wire_frame *f);
/* Gives init the credit that it may have now. */
void keeper_exec_grant(struct keeper_exec *x);
/* cause.c. Why a command has ended, of which init's m says so: only words that we know; in place of
 * any other the one that the numbers say. What a box's end ended, or what exits after it was told
 * to end with the box, has the box's cause. */
const char *keeper_exec_cause(const struct keeper_exec *x, const struct exec_record *m);
/* How much the limit is that it met, if it met one: never what init says of it. */
uint64_t keeper_exec_limit(const struct keeper_exec *x);
/* How long it has been running, by a clock that nobody sets; 0 before that. */
uint64_t keeper_exec_duration(const struct keeper_exec *x);

/* A frame of a command that runs, for init. */
void keeper_exec_send(struct keeper_exec *x, enum wire_type type, uint8_t stream, const void *p,
		      size_t n);
/* Its start is on the disk, or r says why not: it is passed to init, or refused. */
void keeper_exec_synced(struct keeper_exec *x, int r);

/* sync.c. keeper_exec_wait, after something was sent to a command on a client's behalf: that is not
 * read if init, or what waits for a sync, is behind. */
void keeper_exec_wait(const struct keeper_exec *x, struct keeper_gate *g);
void keeper_sync_begin(struct keeper *k);
void keeper_sync_done(struct keeper *k);

/* denied.c: for the commands that run now. */
void keeper_denied(struct keeper *k, const struct wire_denied *m);

/* repeat.c: tokens. keeper_token_check: 0, and the command with this token if there is one; an
 * error where the token cannot be used. */
int keeper_token_check(struct keeper *k, const struct wire_exec *m, struct keeper_exec **ret,
		       struct err *e);
/* Answers as if this client had asked for the command. */
void keeper_exec_repeat(struct keeper_client *c, uint32_t id, struct keeper_exec *x,
			const struct wire_exec *m);

/* exec_list.c. The text is the first line of the command, cut where a character begins. */
void keeper_command_text(const struct wire_exec *m, char *dst, size_t size);
void keeper_exec_list(struct keeper_client *c, const struct wire_frame *f);

/* input.c */
void keeper_input_init(struct keeper_exec_input *in, bool open);
void keeper_input_done(struct keeper_exec_input *in);
void keeper_input_data(struct keeper_follow *f, const struct wire_frame *frame);
void keeper_input_eof(struct keeper_follow *f);
void keeper_input_credit(struct keeper_exec *x, uint64_t bytes);
/* f feeds from now on. */
int keeper_input_attach(struct keeper_follow *f, struct err *e);

/* follow.c */
struct keeper_follow *keeper_follow_new(struct keeper_client *c, uint32_t id, struct keeper_exec *x,
					uint64_t inline_max);
void keeper_follow_free(struct keeper_follow *f);
void keeper_follow_attach(struct keeper_client *c, uint32_t id, const struct wire_attach *m);
/* n bytes of a stream just came, the first of them at offset at. */
void keeper_follow_live(struct keeper_follow *f, unsigned s, uint64_t at, const uint8_t *p,
			size_t n);
/* Sends from the log what the client can take, and the end if all was sent. May free f. */
void keeper_follow_serve(struct keeper_follow *f);
/* The command ended with these counts. May free f. */
void keeper_follow_ended(struct keeper_follow *f);
/* Does a client that paces init get these bytes as they come? */
bool keeper_follow_gets(const struct keeper_follow *list, unsigned s, uint64_t at, size_t n);
/* Up to which offset this client lets init go. */
uint64_t keeper_follow_allows(const struct keeper_follow *f, unsigned s);
void keeper_follow_credit(struct keeper_follow *f, unsigned s, uint64_t bytes);
struct keeper_follow *keeper_follow_find(struct keeper_client *c, uint32_t id);

/* subscribe.c: the box's events for clients. */
void keeper_subscribe(struct keeper_client *c, uint32_t id, const struct wire_subscribe *m);
bool keeper_subscription_has(const struct keeper_client *c, uint32_t id);
/* False if there is none of that id. */
bool keeper_subscription_cancel(struct keeper_client *c, uint32_t id);
void keeper_subscriptions_free(struct keeper_client *c);
/* The client has room again. */
void keeper_subscriptions_serve(struct keeper_client *c);
/* A row has just been numbered. */
void keeper_subscriptions_row(struct keeper *k, const char *row);
/* After the last row. */
void keeper_subscriptions_end(struct keeper *k);
bool keeper_has_subscribers(const struct keeper *k);
