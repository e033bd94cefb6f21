/* Groups of a box on this machine's real trees, and processes in them as wall and init do it. */
#pragma once

#include "cgroup/parts.h"

#define MB (1ull << 20)

/* An id that nobody has. */
enum { OWNER = 1900000001 };

extern char name[48];
extern struct layout host;

/* Runs below the host's whole layout, or below its v1 trees alone (or skips the test). */
void find_layout(bool only_v1);

/* Makes the groups of `name`; the test is skipped where there can be none. */
void make(struct cgroup *cg);
void make_for(struct cgroup *cg, const struct cgroup_limits *lim, uid_t owner);
/* Skipped also where that limit cannot be had. */
void make_limited(struct cgroup *cg, const struct cgroup_limits *lim, enum cgroup_part part);
void remove_all(struct cgroup *cg);
/* For cgroup_each: counts `name` in an int. */
void look_for_name(const char *box, void *arg);

void write_zero(int dir_fd, const char *file);
void join_box(const struct cgroup *cg);	 /* as the wall does it for the first process */
void join_work(const struct cgroup *cg); /* as init does it for a command */

/* Forks a process of the box that runs body, and returns once it is in its groups. */
pid_t run(const struct cgroup *cg, bool in_work, void (*body)(void *arg), void *arg);
/* One that waits for ever in that one group, and is in no other of the box. */
pid_t run_in_one(int dir_fd, const char *entry);
void wait_for_ever(void *arg);
/* Its status. */
int end_of(pid_t pid);
