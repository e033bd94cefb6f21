/* What boxes' groups say, by the boxes' names: for a process that only looks. */
#pragma once

#include <stdint.h>

struct cgroup_reader;

/* Finds where groups are, once. */
int cgroup_reader_new(struct cgroup_reader **ret);
void cgroup_reader_free(struct cgroup_reader *r); /* NULL is fine */
/* The processor time of a box's group, named as for cgroup_make. -ENOENT where there is none. */
int cgroup_reader_cpu_us(const struct cgroup_reader *r, const char *box, uint64_t *ret);
