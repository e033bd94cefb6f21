/*
 * Signals as something to poll: INT, TERM, HUP, QUIT, WINCH and TSTP arrive on a descriptor.
 *
 * Handlers and a pipe, not a signal mask: handlers end at execve, so a keeper that is started
 * meanwhile inherits nothing.
 */
#pragma once

#include <stdbool.h>

/* Starts catching; idempotent. SIGPIPE becomes an error of write(2). */
int signals_catch(void);
/* Readable when signals_next has one; -1 before signals_catch. */
int signals_fd(void);
/* The next signal caught, or 0. */
int signals_next(void);
/* The next one that asks us to end, or 0; the others are dropped. */
int signals_next_end(void);
/* 0 when that time has passed, or the signal that asked us to end. */
int signals_wait_ms(int ms);
/* SIGPIPE: a closed reader is an error of write(2), not the end. SIGCHLD: where a caller ignores
 * it, we could not wait for a child. */
void signals_at_start(void);
