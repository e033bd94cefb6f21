/*
 * Starting a keeper.
 *
 * How: two vfork-like clones that share our memory. The first child starts the second and ends, so
 * that the keeper belongs to the machine's init and the program that uses libcove never sees a
 * child, a SIGCHLD or a zombie. The cove program has no such wishes, so there the first is left out
 * and the keeper is its child for as long as it runs. Sharing memory makes it cost the same from a
 * program of any size, and lets the children leave the errno of a failure where we can read it.
 * They call nothing that allocates.
 */
#include "core/spawn.h"

#include "base/child.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/path.h"
#include "base/str.h"
#include "cgroup/helper.h"
#include "core/core.h"
#include "keeper/config.h"
#include "store/premade.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The children run on stacks of their own and never return from them; address checks do not know
 * about such stacks. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined"), noinline))

enum { CHILD_STACK = 16 << 10 };

struct launch {
	const char *path;
	char *const *argv;
	char *const *envp;
	int fd3, fd4;
	int group_fd;	  /* v2: where the program is born; -1: where we are */
	uint64_t ignored; /* signals that are; bit 0 is signal 1 */
	int error;	  /* positive errno of the step that failed */
	char outer_stack[CHILD_STACK] __attribute__((aligned(16)));
	char inner_stack[CHILD_STACK] __attribute__((aligned(16)));
};

/* Puts fd3 and fd4 at 3 and 4 whatever their numbers. The keeper closes all others, and 0 to 2,
 * before it does anything else. */
static IN_CHILD int place_fds(const struct launch *l)
{
	int low3 = fcntl(l->fd3, F_DUPFD, 5);
	int low4 = fcntl(l->fd4, F_DUPFD, 5);

	return low3 < 0 || low4 < 0 || dup2(low3, KEEPER_CONFIG_FD) < 0 ||
			       dup2(low4, KEEPER_CLIENT_FD) < 0
		       ? -1
		       : 0;
}

static IN_CHILD int inner_child(void *arg)
{
	struct launch *l = arg;

	if (setsid() >= 0 && place_fds(l) == 0) {
		child_reset_signals(l->ignored);
		execve(l->path, l->argv, l->envp);
	}
	l->error = errno;
	_exit(127);
}

/* clone3 as vfork does it: the child goes on in this very frame, below which it may write what it
 * likes, and never returns. No library has that call, and a function of its own could not return
 * twice on one stack. -ENOSYS on machines that it is not written for. */
static inline __attribute__((always_inline)) long clone3_here(const struct kernel_clone_args *args)
{
#if defined(__x86_64__)
	long r = SYS_clone3;

	__asm__ volatile("syscall"
			 : "+a"(r)
			 : "D"(args), "S"(sizeof(*args))
			 : "rcx", "r11", "memory");
	return r;
#elif defined(__aarch64__)
	register long x0 __asm__("x0") = (long)args;
	register long x1 __asm__("x1") = (long)sizeof(*args);
	register long x8 __asm__("x8") = SYS_clone3;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x1), "r"(x8) : "memory");
	return x0;
#else
	(void)args;
	return -ENOSYS;
#endif
}

/* False: it could not be, and the usual way is left. */
static IN_CHILD bool born_in_group(struct launch *l)
{
	const struct kernel_clone_args args = {
		.flags = CLONE_VM | CLONE_VFORK | KERNEL_CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)l->group_fd,
	};
	long r = l->group_fd < 0 ? -ENOSYS : clone3_here(&args);

	if (r == 0)
		inner_child(l);
	return r > 0;
}

static IN_CHILD void start_inner(struct launch *l)
{
	if (!born_in_group(l) && clone(inner_child, l->inner_stack + CHILD_STACK,
				       CLONE_VM | CLONE_VFORK | SIGCHLD, l) < 0)
		l->error = errno;
}

static IN_CHILD int outer_child(void *arg)
{
	start_inner(arg);
	_exit(0);
}

void spawn_as_children(struct cove *cove)
{
	cove->parents_keepers = true;
}

/* as_child: of the calling process, which does not wait for it. */
static int launch(const char *path, const int fds[2], int group_fd, bool as_child, struct err *e)
{
	autofree struct launch *l = malloc(sizeof(*l));
	const char *env[CHILD_ENV_MAX + 1];
	const char *argv[] = {path_base(path), NULL};
	sigset_t all, old;
	pid_t pid;
	int failed;

	if (!l)
		return err_errno(e, errno, "prepare to start '%s'", path);
	child_env(env, true);
	l->path = path;
	l->argv = (char *const *)(uintptr_t)argv;
	l->envp = (char *const *)(uintptr_t)env;
	l->fd3 = fds[0];
	l->fd4 = fds[1];
	l->group_fd = group_fd;
	l->ignored = child_ignored_signals();
	l->error = 0;
	/* No handler of the caller's may run in a child that shares its memory. */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	if (as_child)
		start_inner(l);
	pid = as_child
		      ? 0
		      : clone(outer_child, l->outer_stack + CHILD_STACK, CLONE_VM | CLONE_VFORK, l);
	failed = pid < 0 ? errno : 0;
	while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (failed || l->error)
		return err_errno(e, failed ? failed : l->error, "start '%s'", path);
	return 0;
}

int spawn_find_programs(struct cove *cove, struct err *e)
{
	int r = 0;

	if (!cove->keeper_path[0])
		r = spawn_find_program("cove-keeper", cove->keeper_path, sizeof(cove->keeper_path),
				       e);
	if (r == 0 && !cove->init_path[0])
		r = spawn_find_program("cove-init", cove->init_path, sizeof(cove->init_path), e);
	/* Whoever needs one that is missing says so: a box without a network does not. */
	if (r == 0 && !cove->door_path[0])
		(void)spawn_find_program("cove-door", cove->door_path, sizeof(cove->door_path),
					 NULL);
	return r;
}

int spawn_find_door(struct cove *cove, struct err *e)
{
	int r;

	if (cove->door_path[0])
		return 0;
	r = spawn_find_program("cove-door", cove->door_path, sizeof(cove->door_path), e);
	if (r < 0)
		err_prefix(e, "a box without --net closed needs cove-door");
	return r;
}

int spawn_find_ctl(struct cove *cove, bool saves, struct err *e)
{
	int r = 0;

	if (!cove->ctl_path[0])
		r = spawn_find_program("cove-ctl", cove->ctl_path, sizeof(cove->ctl_path), e);
	if (r == 0 && saves && !cove->save_path[0])
		r = spawn_find_program("cove-save", cove->save_path, sizeof(cove->save_path), e);
	return r;
}

int spawn_keeper(struct cove *cove, const struct keeper_config *config, int *ret_fd, struct err *e)
{
	autoclose int config_fd = -1, ours = -1, theirs = -1, group_fd = -1;
	struct cgroup_limits limits = {.mem_bytes = config->spec.limits[LIMIT_MEM],
				       .cpu_milli = config->spec.limits[LIMIT_CPUS]};
	char group[BOX_NAME_MAX + 12], premade[PREMADE_NAME_SIZE];
	int pair[2], r;

	r = keeper_config_write(config, &config_fd, e);
	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(e, errno, "make a socket for the keeper");
	ours = pair[0];
	theirs = pair[1];
	if (config->premade)
		premade_name(config->premade, premade);
	snprintf(group, sizeof(group), "%s-%s", cove->state.tag,
		 config->premade ? premade : config->spec.name);
	group_fd = cgroup_helper_cradle(group, &limits);
	r = launch(cove->keeper_path, (int[]){config_fd, theirs}, group_fd, cove->parents_keepers,
		   e);
	if (r < 0 && group_fd >= 0)
		cgroup_remove(group, NULL);
	if (r < 0)
		return r;
	*ret_fd = take_fd(ours);
	return 0;
}
