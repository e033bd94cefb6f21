/*
 * Opening what a box names or brings, and closing what it must not have, on kernels that lack the
 * calls for it: a wall may bring a kernel of its own (gVisor says that it is Linux 4.19).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* As fd_openat2, and where there is no openat2 a walk with the same answer: FD_BENEATH (which then
 * refuses every `..`), FD_IN_ROOT (-ENOSYS unless that is the caller's own root), FD_NO_SYMLINKS,
 * FD_NO_MAGICLINKS (which is then always on), and FD_NO_XDEV. */
int guest_open_at(int dir_fd, const char *path, int flags, uint64_t resolve);

/* Closes every descriptor from that one on. */
int guest_close_from(unsigned first);

/* Adds to notes, in lines, what is weaker without them. */
void guest_open_check(char *notes, size_t size);
