/* The checks of `cove doctor`, between the files that make them; see doctor.h. */
#pragma once

#include "cgroup/cgroup.h"
#include "core/core.h"
#include "core/doctor.h"

struct doctor {
	struct cove cove; /* the state directory, where it can be opened */
	struct err state_error;
	int place_fd; /* owned; the state directory, or before it is made what is above it; or -1 */
	char place[sizeof(((struct state *)0)->home)]; /* its path */
	struct cgroup_offer offer;
};

void doctor_set(struct doctor_check *c, enum doctor_status status, const char *consequence,
		const char *remedy);
/* What was found, cut where it does not fit. */
void doctor_found(struct doctor_check *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Runs try() in a child: what it enters and mounts ends with it. Its 0 or -errno. */
int doctor_probe(int (*try)(void));
/* A user namespace with ourselves as its root. */
int doctor_enter_user_ns(void);
/* Does that file begin with value? */
bool doctor_file_is(const char *path, const char *value);

/* Where a program is in PATH or in the places of root's; NULL if nowhere. */
const char *doctor_find_program(const char *name, char *ret, size_t size);

typedef void doctor_check_fn(struct doctor *d, struct doctor_check *c);

/* doctor_kernel.c */
doctor_check_fn check_kernel, check_calls, check_user_ns, check_namespaces, check_ids, check_caps,
	check_overlay, check_idmap, check_seccomp, check_landlock, check_nftables, check_bpf,
	check_core_dumps;
/* doctor_limits.c; the cgroup ones want d->offer */
doctor_check_fn check_cgroup, check_memory, check_cpus, check_pids, check_io, check_disk,
	check_tmpfs;
/* doctor_host.c */
doctor_check_fn check_state, check_image, check_boxes, check_programs, check_door, check_kvm,
	check_gvisor, check_docker;

/* doctor_selftest.c: fills the report's tests. */
void doctor_selftest(struct doctor *d, const char *home, struct doctor_report *report);
