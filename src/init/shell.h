/* Persistent shells: what shell*.c share. shell.c says how they work. */
#pragma once

#include "base/err.h"
#include "base/limits.h"
#include "init/init.h"
#include "init/job.h"
#include "init/shell_files.h"
#include "init/spawn.h"
#include "init/stream.h"
#include "init/tree.h"
#include "init/usage.h"
#include "init/user.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	REPLY_KEEP = 64, /* bytes of the reply kept in case an end was cut in two */
};

/* What a line asks for. All owned. */
struct line_request {
	char *text, *cwd, *user;
	char *env;
	uint32_t env_bytes, env_count;
	bool login, merge;
};

struct line {
	struct init_job job;
	struct line *next;   /* in its shell's queue */
	struct shell *shell; /* NULL once it has ended */
	struct line_request ask;
	struct line_io
		*io;	/* owned; NULL while it waits. Its input is adopted when Ts was opened */
	bool mended;	/* nothing ran at the first try, and the shell was put right */
	bool rerun;	/* it goes to a second shell, after nothing ran in the first */
	bool restarted; /* what earlier lines did to the shell is lost */

	struct ev_timer step; /* of stopping */
	unsigned stop_round;  /* how often an end was asked for; 0 is the driver's own */
	bool stop_holding;    /* SIGSTOP was sent, and the shell has yet to stop */
	int stop_signal;
	bool stop_by_force, stop_killed;
	struct stop_seen *stop_seen; /* who was there to get the signal; owned */
	size_t stop_seen_count;
	uint64_t stop_until_ms;
};

/* What the shell was fed since the driver, to find out whether it reads. */
enum shell_probe { PROBE_NONE, PROBE_FED, PROBE_MENDED };

struct shell {
	struct shell *next;
	struct shell_table *table;
	char name[SHELL_NAME_MAX + 1];
	struct user user;
	bool alive, bash;
	struct line *starter;  /* the line it is being started for; NULL: gone, or not starting */
	const char *path;      /* of its program; static */
	bool used;	       /* a line has run in it */
	bool may_abort;	       /* one of its functions may end a text for an unset variable */
	bool lean;	       /* it may open so few files that none can be put aside */
	bool nounset, errexit; /* options, after the last line */
	bool traced;	       /* a text spoke of the DEBUG trap */
	bool plain; /* the prompt is out of init's hands (readonly PS1): ends are printed */
	bool login, login_due; /* it reads the profile, and has yet to */
	bool lost;	       /* it died between two lines: the next one has to say so */
	struct init_proc proc;
	int proc_fd;	    /* /proc/PID; owned */
	int feed_fd;	    /* owned */
	struct ev_io reply; /* fd owned */
	uint8_t kept[REPLY_KEEP];
	size_t kept_len;
	struct init_tree tree; /* the group it is in: the running line's, or the next one's */
	struct usage seen;     /* in that group, at the last look */
	bool ready;	       /* it was refreshed after the last line */
	unsigned status;       /* of the last line: what $? is to be */
	struct line *current;
	struct line *first, *last; /* waiting */
	unsigned queued;
	uint32_t remove_id;	 /* the request that it be ended; 0: none */
	struct line_io *premade; /* owned */
	struct ev_defer prepare;
	struct ev_timer watch;
	uint64_t watch_since_ms;
	unsigned looks;
	enum shell_probe probe;
};

struct shell_table {
	struct init *in;
	struct shell *shells;
	unsigned shell_count;
	char dir[SHELL_DIR_MAX + 1];
	int dir_fd;			 /* owned; -1 until the first line */
	bool sees_reads;		 /* the directory's filesystem keeps access times */
	char status_file[TOKEN_LEN + 2]; /* sourced with N it returns N */
	uint32_t groups;		 /* made so far, for their names */
};

/* shell.c: the table. */
void shell_next(struct shell *sh); /* runs the next line, or prepares for it; may free sh */
void shell_queue_first(struct shell *sh, struct line *l);
static inline struct line *line_of(struct init_job *j)
{
	return container(j, struct line, job);
}

/* shell_proc.c: the process. */
/* Starts it for a line, which waits; shell_on_started comes when it runs, or why it does not. */
int shell_start(struct shell *sh, struct line *l, struct err *e);
bool shell_is_starting(const struct shell *sh);
/* After a line, before the next: puts the shell into a new group, or notes who is below it now. One
 * in which no line can run any more is dropped. */
int shell_refresh(struct shell *sh, struct err *e);
void shell_feed(struct shell *sh, const char *sentence);
int shell_unread(const struct shell *sh); /* bytes of the feed that it has not read */
/* Reads what the shell said. True if that was an end of the current line. */
bool shell_listen(struct shell *sh, unsigned *ret_round, unsigned *ret_status);
void shell_signal(struct shell *sh, int sig);
bool shell_is_stopped(const struct shell *sh);
char *shell_cwd(const struct shell *sh);	/* owned; NULL if it cannot be found */
bool shell_is_replaced(const struct shell *sh); /* it has become another program */
void shell_drop(struct shell *sh);		/* ends the process if it lives and lets go of it */

/* shell_line.c: one line from its start to its end. */
int line_begin(struct line *l, struct err *e); /* in a shell that lives */
void line_end(struct line *l, enum wire_shell_state state, const char *cause);
void line_end_waiting(struct line *l, int sig); /* its turn is not to come: nothing of it ran */
/* Adds what was used in the shell's group since the last look. Before that is gone. */
void line_measure(struct line *l);
void line_on_started(struct ev_io *io, uint32_t events);
void line_ask_end(struct line *l, unsigned round); /* feeds an end of its own */
void line_find_end(struct line *l); /* the same for one whose end was lost, whatever the prompt */
void shell_on_started(struct shell *sh, const struct err *e);
void shell_on_end(struct shell *sh, unsigned round, unsigned status);
void shell_on_death(struct shell *sh, int wait_status);

bool line_has_run(const struct line *l); /* anything of it */
void line_run_again(struct line *l);	 /* nothing did; but only once */

/* shell_list.c: ends it, where that was asked for and no line runs in it. */
void shell_remove_if_asked(struct shell *sh);

/* shell_watch.c: looking after a running line. */
void shell_watch(struct shell *sh);
void shell_on_watch(struct ev_timer *t);
void shell_on_noise(struct shell *sh); /* it said something that is no end */

/* shell_stop.c: ending a line that does not end. */
void line_on_step(struct ev_timer *t);
void line_stop(struct init_job *j, int sig, bool tree);
/* The shell said an end while the line was being stopped. */
void line_heard(struct line *l, unsigned round, unsigned status);
void line_stopped_by_death(struct line *l); /* the shell's, while it was being stopped */
