/* Helper programs; see child.h. */
#include "base/child.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* <linux/futex.h>, which not every libc comes with */
#ifndef FUTEX_WAIT
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#endif

extern char **environ;

void child_env(const char *env[CHILD_ENV_MAX + 1], bool with_cove)
{
	static const char *const wanted[] = {
		"COVE_",	 "PATH=",	  "LANG=",	    "SSL_CERT_FILE=",
		"SSL_CERT_DIR=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "LSAN_OPTIONS="};
	size_t n = 0;

	for (char **v = environ; v && *v && n < CHILD_ENV_MAX; v++) {
		for (size_t i = with_cove ? 0 : 1; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			if (str_starts(*v, wanted[i])) {
				env[n++] = *v;
				break;
			}
		}
	}
	env[n] = NULL;
}

uint64_t child_ignored_signals(void)
{
	static const char title[] = "\nSigIgn:";
	autoclose int fd = fd_open("/proc/self/status", O_RDONLY);
	char text[4096];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	const char *at;

	text[n > 0 ? n : 0] = 0;
	at = strstr(text, title);
	return at ? strtoull(at + strlen(title), NULL, 16) : UINT64_MAX;
}

__attribute__((no_sanitize("address", "undefined"))) void child_reset_signals(uint64_t ignored)
{
	struct sigaction dfl = {.sa_handler = SIG_DFL};
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		if (ignored >> (sig - 1) & 1)
			sigaction(sig, &dfl, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int child_close_but(unsigned first, const int *keep, size_t count)
{
	unsigned next = first;
	int r = 0;

	for (; next != ~0u && r == 0; first = next + 1) {
		next = ~0u;
		for (size_t i = 0; i < count; i++)
			if (keep[i] >= 0 && (unsigned)keep[i] >= first && (unsigned)keep[i] < next)
				next = (unsigned)keep[i];
		if (next > first)
			r = syscall(SYS_close_range, first, next - (next != ~0u), 0u) < 0 ? -errno
											  : 0;
	}
	return r;
}

static int status_of(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

/* In the process between: nothing here allocates, another thread may have held the heap's lock. */
static void stand_between(const char *program, char *const argv[], char *const env[],
			  const int *fds, size_t count)
{
	posix_spawnattr_t attr;
	sigset_t all, none;
	int status = 0;
	pid_t pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL); /* ignored, no child could be waited for */
	/* First out of the way of each other. */
	int moved[CHILD_FDS_MAX];
	for (size_t i = 0; i < count; i++)
		moved[i] = fds[i] < 0 ? -1 : fcntl(fds[i], F_DUPFD, (int)count);
	for (size_t i = 0; i < count; i++)
		if (fds[i] >= 0 && (moved[i] < 0 || dup2(moved[i], (int)i) < 0))
			_exit(127);
	syscall(SYS_close_range, (unsigned)count, ~0u, 0u);
	sigfillset(&all);
	sigemptyset(&none);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
	if (posix_spawnp(&pid, program, NULL, &attr, argv, env) != 0)
		_exit(127);
	/* The program's end of a pipe is to be the last one. */
	syscall(SYS_close_range, 0u, ~0u, 0u);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(127);
	_exit(status_of(status));
}

int child_start(const char *program, char *const argv[], const int fds[3], pid_t *ret_pid)
{
	return child_start_fds(program, argv, fds, 3, ret_pid);
}

int child_start_fds(const char *program, char *const argv[], const int *fds, size_t count,
		    pid_t *ret_pid)
{
	const char *env[CHILD_ENV_MAX + 1];
	sigset_t all, old;
	long pid;
	int code;

	if (count < 3 || count > CHILD_FDS_MAX)
		return -EINVAL;
	child_env(env, true);
	/* No handler of the caller's may run in the process between. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	pid = syscall(SYS_clone, 0, NULL, NULL, NULL, 0);
	code = errno;
	if (pid == 0)
		stand_between(program, argv, (char *const *)(void *)env, fds, count);
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return -code;
	*ret_pid = (pid_t)pid;
	return 0;
}

int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			return -errno;
	return status_of(status);
}

/* The one between ends by itself then, with its status. */
static void kill_program(pid_t between)
{
	char path[64], text[32] = "";
	autoclose int fd = -1;
	int pid;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)between, (int)between);
	fd = fd_open(path, O_RDONLY);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || (pid = atoi(text)) <= 1)
		pid = between; /* it has none yet, or this kernel does not tell */
	kill(pid, SIGKILL);
}

void child_end(pid_t pid)
{
	kill_program(pid);
	child_wait(pid);
}

int child_wait_for(pid_t pid, int ms)
{
	autoclose int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do {
		r = fd < 0 ? 1 : poll(&p, 1, ms);
	} while (r < 0 && errno == EINTR);
	if (r != 0)
		return child_wait(pid);
	child_end(pid);
	return -ETIMEDOUT;
}

/* ---- a function in a process of its own ---- */

enum {
	HOLDER_WORKS = 1, /* any other number than what the kernel leaves at its end, 0 */
	HOLDER_FORKED = 2,
	FORKED_STACK_BYTES = 8 << 20, /* as much as a program's own; only what is used costs */
};

/* At the low end of the stack that the holder runs on. */
struct holder {
	_Atomic(int) state;
	int (*fn)(void *arg);
	void *arg;
	pid_t caller, self, pid;
	int error;
};

/* As _exit. That is known not to return, which sanitizers take for the moment to clear the thread's
 * stack, and here another one is in use. */
static void leave(int code)
{
	syscall(SYS_exit_group, code);
}

void child_end_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		leave(127);
}

#ifdef __SANITIZE_ADDRESS__
/* gcc's runtime does not know about fork(), as libc's heap does: another thread may hold a lock of
 * its heap, which would stay shut in the child. It has these for other systems' forks. */
void sanitizer_heap_lock(void) __asm__("_ZN6__asan18asan_mz_force_lockEv");
void sanitizer_heap_unlock(void) __asm__("_ZN6__asan20asan_mz_force_unlockEv");
void sanitizer_stacks_lock(void) __asm__("_ZN11__sanitizer17StackDepotLockAllEv");
void sanitizer_stacks_unlock(void) __asm__("_ZN11__sanitizer19StackDepotUnlockAllEv");
/* A library's runtime is its program's, where they may be out of reach. */
#pragma weak sanitizer_heap_lock
#pragma weak sanitizer_heap_unlock
#pragma weak sanitizer_stacks_lock
#pragma weak sanitizer_stacks_unlock

static pid_t fork_known(void)
{
	bool has_locks = sanitizer_heap_lock && sanitizer_heap_unlock && sanitizer_stacks_lock &&
			 sanitizer_stacks_unlock;
	pid_t pid;

	if (has_locks) {
		sanitizer_heap_lock();
		sanitizer_stacks_lock();
	}
	pid = fork();
	if (has_locks) {
		sanitizer_stacks_unlock();
		sanitizer_heap_unlock();
	}
	return pid;
}
#else
static pid_t fork_known(void)
{
	return fork();
}
#endif

/*
 * The process between. It has the caller's memory and thread pointer, and the caller's thread waits
 * in the kernel until HOLDER_FORKED: until then it may do what that thread may, fork() with all its
 * locks among it. After that errno is the caller's again, so only system calls that do not fail are
 * left.
 */
static int hold(void *arg)
{
	struct holder *h = arg;
	int status = 127 << 8;

	/* Not by a flag of clone(), which musl refuses from 1.2.5 on. */
	syscall(SYS_set_tid_address, &h->state);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != h->caller)
		leave(127); /* it was killed before it could be asked for */
	signal(SIGCHLD, SIG_DFL);
	h->self = getpid();
	h->pid = fork_known();
	if (h->pid == 0) {
		child_end_with(h->self);
		leave(h->fn(h->arg));
	}
	h->error = h->pid < 0 ? errno : 0;
	syscall(SYS_close_range, 0u, ~0u, 0u);
	pid_t pid = h->pid;
	atomic_store(&h->state, HOLDER_FORKED);
	syscall(SYS_futex, &h->state, FUTEX_WAKE, 1, NULL, NULL, 0);
	if (pid > 0)
		syscall(SYS_wait4, pid, &status, 0, NULL);
	leave(status_of(status));
	return 0;
}

static bool has_ended(pid_t pid)
{
	siginfo_t end = {0};

	return waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT | __WALL) == 0 &&
	       end.si_pid == pid;
}

int child_fork(int (*fn)(void *arg), void *arg, struct child_forked *ret)
{
	const struct timespec look = {.tv_sec = 1};
	char *stack = mmap(NULL, FORKED_STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct holder *h = (void *)stack;
	sigset_t all, old;
	int between, r;

	if (stack == MAP_FAILED)
		return -errno;
	mprotect(stack + page, page, PROT_NONE); /* between the holder's words and its stack */
	*h = (struct holder){.state = HOLDER_WORKS, .fn = fn, .arg = arg, .caller = getpid()};
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	between = clone(hold, stack + FORKED_STACK_BYTES, CLONE_VM, h);
	r = between < 0 ? -errno : 0;
	/* The kernel wakes us, too, if it is killed, but not before it said where. */
	while (r == 0 && atomic_load(&h->state) == HOLDER_WORKS) {
		syscall(SYS_futex, &h->state, FUTEX_WAIT, HOLDER_WORKS, &look, NULL, 0);
		if (atomic_load(&h->state) == HOLDER_WORKS && has_ended(between))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	*ret = (struct child_forked){.pid = h->pid, .between = between, .stack = stack};
	if (r == 0 && h->pid <= 0) {
		r = h->error ? -h->error : -EINTR;
		child_forked_wait(ret);
	} else if (r < 0) {
		munmap(stack, FORKED_STACK_BYTES);
	}
	return r;
}

int child_forked_wait(struct child_forked *c)
{
	int status = child_wait(c->between);

	munmap(c->stack, FORKED_STACK_BYTES);
	return status;
}
