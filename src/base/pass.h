/* Descriptors over a socket, between two processes of ours. */
#pragma once

#include <stddef.h>

enum { PASS_MAX = 8 };

/* All of them with one byte. 0 or -errno; -EPIPE where the other side is gone. */
int pass_send(int sock, const int *fds, size_t count);
/* Exactly so many, closed on exec; waits for them. -EPIPE where the other side is gone or sent
 * something else. */
int pass_receive(int sock, int *ret_fds, size_t count);
