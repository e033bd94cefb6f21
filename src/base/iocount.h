/*
 * How much a group read and wrote: one rule for a command's group (init) and the box's (cgroup).
 *
 *	v2	"MAJOR:MINOR rbytes=N wbytes=N ..." a line per device
 *	v1	"MAJOR:MINOR Read N", "MAJOR:MINOR Write N", and others that are not looked at
 *
 * What goes through a loop device may be counted there and once more where its file is; so the sum
 * of those devices and the sum of the others are kept apart, and the higher one counts.
 */
#pragma once

#include <stdint.h>

void io_count(const char *text, uint64_t *ret_read, uint64_t *ret_write);
