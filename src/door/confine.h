/*
 * The front confines itself before it hears the first word of its box: no new privileges, no
 * capability, no file, no port to listen on, no signal to others, and a system-call allowlist of
 * its own (src/filter/door.syscalls): no program, no process, TCP and UDP sockets only.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

/* 0, or what this kernel lacks: a note in *e, all else holds. Failing otherwise is in *ret_fatal:
 * the door must not go on. */
int confine_door(bool *ret_fatal, struct err *e);
