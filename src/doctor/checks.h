/* The checks of `cove doctor`, between the files that make them; see doctor.h. */
#pragma once

#include "cgroup/cgroup.h"
#include "core/core.h"
#include "doctor/doctor.h"

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

typedef void doctor_check_fn(struct doctor *d, struct doctor_check *c);

/* kernel.c */
doctor_check_fn doctor_check_kernel, doctor_check_calls, doctor_check_user_ns,
	doctor_check_namespaces, doctor_check_ids, doctor_check_caps, doctor_check_overlay,
	doctor_check_idmap, doctor_check_seccomp, doctor_check_landlock, doctor_check_nftables,
	doctor_check_bpf, doctor_check_core_dumps;
/* limits.c; the cgroup ones want d->offer */
doctor_check_fn doctor_check_cgroup, doctor_check_memory, doctor_check_cpus, doctor_check_pids,
	doctor_check_io, doctor_check_disk, doctor_check_tmpfs, doctor_check_pool;
/* host.c */
doctor_check_fn doctor_check_state, doctor_check_image, doctor_check_boxes, doctor_check_programs,
	doctor_check_door, doctor_check_kvm, doctor_check_gvisor, doctor_check_docker;

/* selftest.c: fills the report's tests. */
void doctor_selftest(struct doctor *d, const char *home, struct doctor_report *report);
