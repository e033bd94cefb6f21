/*
 * A keeper for tests of commands: starts the cove-init named by COVE_INIT, on a socketpair or on
 * two pipes, and follows any number of commands at once. Every wait is bounded; a failure ends the
 * test.
 */
#pragma once

#include "init_spawn.h"

#include "base/buf.h"
#include "wire/link.h"
#include "wire/msg.h"

#include <stdbool.h>
#include <sys/types.h>

enum { CLIENT_RUNS_MAX = 2048 };

/* One command as it was seen so far. */
struct run {
	uint32_t id;
	bool queued, started, over; /* over: EXIT or ERROR came */
	bool hold_credit;	    /* give no credit for its output */
	bool eof[WIRE_STREAM_COUNT];
	struct buf out[WIRE_STREAM_COUNT];
	size_t out_at_exit[WIRE_STREAM_COUNT];
	struct wire_flow flow[WIRE_STREAM_COUNT];
	pid_t pid;
	struct exec_record exit; /* strings copied below */
	char cause[16], cwd[256];
	int code; /* of ERROR */
	char msg[256];
};

struct client {
	int rfd, wfd; /* owned */
	pid_t pid;    /* of init */
	bool closed;  /* init hung up */
	char notes[1024];
	struct wire_decoder decoder;
	struct buf out; /* not yet written */
	bool sending;
	struct run *runs[CLIENT_RUNS_MAX]; /* owned */
	uint32_t count;
};

/* args after the program's name, NULL-terminated. Skips the test where there is no COVE_INIT. */
struct client *client_start(bool pipes, const char *const args[]);
struct client *client_start_with(const struct inherited *inherited, bool pipes,
				 const char *const args[]);
/* With a cgroup directory as descriptor 3. */
struct client *client_start_in(int group_fd, bool pipes, const char *const args[]);
/* Hangs up, waits for the end of init and returns its wait status. */
int client_stop(struct client *c);

/* Reads what there is, waiting for something if wait is set. False once init hung up. */
bool client_pump(struct client *c, bool wait);

struct run *run_start(struct client *c, const struct wire_exec *m);
struct run *run_line(struct client *c, const char *line);
void run_wait(struct client *c, struct run *r); /* until it is over */
void run_wait_started(struct client *c, struct run *r);
void run_wait_queued(struct client *c, struct run *r);
void run_wait_eof(struct client *c, struct run *r); /* until both streams ended */
void run_wait_text(struct client *c, struct run *r, const char *text); /* until stdout holds it */
const char *run_out(struct run *r);
const char *run_err(struct run *r);

void run_send(struct client *c, struct run *r, const void *p, size_t n); /* within credit */
void run_send_eof(struct client *c, struct run *r);
void run_signal(struct client *c, struct run *r, int sig, bool tree);
void run_credit(struct client *c, struct run *r, uint8_t stream, uint64_t bytes);
void client_send(struct client *c, const void *p, size_t n);
void client_flush(struct client *c); /* sends what was encoded into out */

/* Runs a line to its end. */
struct run *run_finished(struct client *c, const char *line);
/* It started and ended by itself with this code. */
void run_check_exit(const struct run *r, int code);

/* A zombie is not alive, whoever has yet to reap it. */
bool is_alive(pid_t pid);
void wait_until_dead(pid_t pid);

/* A group for the test with an `init` below it, as the wall makes it; or the test is skipped. */
int group_make(char *ret_path, size_t size);
void group_remove(int fd, const char *path);
