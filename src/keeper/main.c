/*
 * cove-keeper: one small process per running box. Started by libcove with its configuration on
 * descriptor 3 and its first client on 4 (config.h), in a session of its own; never by a person.
 */
#include "base/fd.h"
#include "base/log.h"
#include "keeper/life.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Nothing of whoever started us is kept open, held busy or inherited by the box. stderr stays
 * where a developer asked for debug lines. */
static int leave_caller(void)
{
	int null = fd_open("/dev/null", O_RDWR);

	if (null < 0)
		return -errno;
	for (int fd = 0; fd <= 2; fd++)
		if ((fd < 2 || !log_is_debug()) && dup2(null, fd) < 0)
			return -errno;
	if (null > 2)
		close(null);
	else if (fcntl(null, F_SETFD, 0) < 0) /* it was closed, and is as the others now */
		return -errno;
	/* Our own files are made with their mode; directories for the box must be usable. */
	umask(022);
	signal(SIGPIPE, SIG_IGN);
	return chdir("/") < 0 ? -errno : sys_close_range(KEEPER_CLIENT_FD + 1, ~0u, 0);
}

/* The form of the first kernel that has the call; newer ones take it too. */
struct kernel_sched_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

enum { SLICE_NS = 100000, KERNEL_SCHED_RESET_ON_FORK = 1 };

/* Short turns: the keeper only ever has a little to do, and one that asks for short turns need not
 * wait for the end of another's long one. Not for the box: short turns of many, inside a group,
 * keep the kernel's own threads waiting. Linux 6.12 and newer; older ones ignore it. A caller's own
 * class (chrt --idle, say) stays. Best effort: all that depends on it is how soon one answers. */
static void take_short_turns(void)
{
	struct kernel_sched_attr attr = {.size = sizeof(attr)};

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) < 0 ||
	    (attr.policy != SCHED_OTHER && attr.policy != SCHED_BATCH))
		return;
	attr.runtime = SLICE_NS;
	attr.flags = KERNEL_SCHED_RESET_ON_FORK;
	if (syscall(SYS_sched_setattr, 0, &attr, 0) < 0)
		log_debug("keeper: short turns: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct keeper_config config;
	struct err e;
	int r;

	if (argc > 1 || fcntl(KEEPER_CONFIG_FD, F_SETFD, FD_CLOEXEC) < 0 ||
	    fcntl(KEEPER_CLIENT_FD, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "cove-keeper is started by cove and takes no arguments\n");
		return 2;
	}
	log_init();
	take_short_turns();
	r = leave_caller();
	if (r == 0)
		r = keeper_config_read(&config, KEEPER_CONFIG_FD, &e);
	else
		err_errno(&e, -r, "let go of what the caller had open");
	if (r < 0) {
		log_debug("keeper: %s", e.msg);
		return 1;
	}
	close(KEEPER_CONFIG_FD);
	return keeper_life_run(&config, KEEPER_CLIENT_FD);
}
