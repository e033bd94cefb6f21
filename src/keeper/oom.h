/* The score by which the kernel chooses whom it kills for lack of memory. */
#pragma once

#include <stdbool.h>

/* A caller whom the kernel never kills does not hand that on: neither as the score that keeper and
 * box begin with, nor as the lowest that they may go back to. fd is the process's oom_score_adj.
 * *ret_lower: the latter could not be had, and they may lower it. 0 or -errno. */
int oom_reset(int fd, bool *ret_lower);
