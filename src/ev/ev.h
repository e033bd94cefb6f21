/*
 * The event loop: one epoll, one thread.
 *
 * Sources are plain structs embedded in their owner; the loop borrows them while they are added.
 * A callback may remove any source, itself included, and may free its owner: the loop never touches
 * a source after its callback returned, and events for a source removed in the same turn are
 * dropped. Deferred calls run at the end of the turn, before the loop sleeps; one queued by a
 * deferred call runs in the next turn.
 *
 *	one turn: epoll_wait -> io, child and signal callbacks -> due timers -> deferred calls
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

/* The owner of an embedded source, link or stream. */
#define container(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

struct ev;

struct ev_io {
	void (*on_event)(struct ev_io *io,
			 uint32_t events); /* EPOLLIN | EPOLLOUT | EPOLLHUP | EPOLLERR */
	int fd;				   /* borrowed */
	uint32_t events;
	bool added;
};

struct ev_timer {
	void (*on_timer)(struct ev_timer *t);
	uint64_t at_ms, order; /* order: of those due at once the first set comes first */
	struct ev_timer *child, *next, *before; /* the loop's heap */
	bool armed;
};

struct ev_child {
	void (*on_exit)(struct ev_child *c, int wait_status);
	pid_t pid;
	struct ev_io io; /* the pidfd, owned */
	struct ev *ev;
};

struct ev_defer {
	void (*on_defer)(struct ev_defer *d);
	struct ev_defer *next;
	bool queued;
};

struct ev_signals {
	void (*on_signal)(struct ev_signals *s, int sig);
	struct ev_io io; /* the signalfd, owned */
};

int ev_new(struct ev **ret);
void ev_free(struct ev *ev);

/* Runs until ev_quit. Returns 0, or -errno if epoll itself failed. */
int ev_run(struct ev *ev);
void ev_quit(struct ev *ev);

/* The only clock: milliseconds, refreshed once per turn. Tests may set it. A timer runs when it is
 * due and the descriptors have been looked at since. */
uint64_t ev_now(const struct ev *ev);
/* Refreshes it, where something was waited for outside of the loop. */
void ev_look(struct ev *ev);

/* Readable while a watched descriptor is ready, so that another loop can wait for this one. It says
 * nothing of timers and deferred calls. */
int ev_fd(const struct ev *ev);
void ev_set_clock(struct ev *ev, uint64_t (*now_ms)(void *arg), void *arg);

/* Set io->fd, io->on_event first. ev_io_set changes what is waited for (0 keeps only HUP/ERR).
 * A regular file cannot be watched: -EPERM. */
int ev_io_add(struct ev *ev, struct ev_io *io, uint32_t events);
int ev_io_set(struct ev *ev, struct ev_io *io, uint32_t events);
void ev_io_remove(struct ev *ev, struct ev_io *io); /* not added: fine */

/* Arms or re-arms. */
void ev_timer_set(struct ev *ev, struct ev_timer *t, uint64_t in_ms);
void ev_timer_stop(struct ev *ev, struct ev_timer *t);

/* Watches a child of this process through a pidfd and reaps it. If pidfd is negative one is opened;
 * otherwise it is taken. After on_exit, or after ev_child_remove, the pidfd is closed. */
int ev_child_add(struct ev *ev, struct ev_child *c, pid_t pid, int pidfd);
void ev_child_remove(struct ev *ev, struct ev_child *c);

void ev_defer(struct ev *ev, struct ev_defer *d);
void ev_defer_cancel(struct ev *ev, struct ev_defer *d);

/* Blocks the signals and delivers them as events. */
int ev_signals_add(struct ev *ev, struct ev_signals *s, const sigset_t *set);
void ev_signals_remove(struct ev *ev, struct ev_signals *s);
