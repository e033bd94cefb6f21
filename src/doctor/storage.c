/* The pool of a state directory, made and taken away by `cove doctor`; see doctor.h. */
#include "base/size.h"
#include "core/core.h"
#include "doctor/doctor.h"
#include "storage/pool.h"

#include <stdio.h>

int doctor_storage_setup(const char *home, uint64_t bytes, char ret_said[DOCTOR_SAID],
			 struct err *e)
{
	struct state s = {0};
	struct pool_info info;
	char all[SIZE_TEXT], free[SIZE_TEXT];
	int r = state_open(&s, home, true, e);

	if (r == 0)
		r = pool_setup(s.home_fd, bytes, e);
	if (r == 0)
		r = pool_look(s.home_fd, &info, e);
	if (r == 0)
		snprintf(ret_said, DOCTOR_SAID,
			 "the pool is ready: %s, %s free, %s; new boxes use it",
			 size_format(all, info.bytes), size_format(free, info.free),
			 info.is_file ? "in pool.img of the state directory" : "on its btrfs");
	state_close(&s);
	return r;
}

int doctor_storage_remove(const char *home, char ret_said[DOCTOR_SAID], struct err *e)
{
	const struct ids ids = {.kind = IDS_RANGE};
	struct state s = {0};
	int r = state_open(&s, home, false, e);

	if (r == 0 && s.home_fd >= 0) {
		/* What a deletion by other means left behind is in no one's way. */
		(void)pool_sweep(s.home_fd, s.boxes_fd, s.workspaces_fd, &ids, NULL);
		r = pool_teardown(s.home_fd, e);
	}
	if (r == 0)
		snprintf(ret_said, DOCTOR_SAID, "there is no pool any more");
	state_close(&s);
	return r;
}
