/*
 * The proxy confines itself before it hears the first word of its box: no new privileges, no
 * capability, no file, no port to listen on, no signal to others, and a system-call allowlist of
 * its own (src/filter/door.syscalls): no program, no process, TCP and UDP sockets only.
 */
#pragma once

#include "base/err.h"

/* 0, or 1 where the kernel truly has no Landlock: a note is in *e, and all else holds. What fails
 * otherwise is an error, and the door must not go on. */
int confine_door(struct err *e);
