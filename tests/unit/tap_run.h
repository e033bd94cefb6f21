/* The runner's half of tap.h, which includes it. */
#pragma once

#include "tap.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

/* Kills and reaps whatever the test left. Orphans become our children as their parents go, so this
 * is repeated until there is none. */
static inline void tap_sweep(void)
{
	char pid[16];

	for (;;) {
		FILE *f = fopen("/proc/thread-self/children", "re");
		int n = f ? fscanf(f, "%15s", pid) : 0;

		if (f)
			fclose(f);
		if (n != 1)
			return;
		kill(atoi(pid), SIGKILL);
		waitpid(atoi(pid), NULL, 0);
	}
}

/* Takes orphans that ended while the test runs: to the test they must be gone, as with any init. */
static inline void tap_reap(pid_t but)
{
	siginfo_t info = {0};

	while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
	       info.si_pid != but) {
		waitpid(info.si_pid, NULL, 0);
		info.si_pid = 0;
	}
}

/* SIGCHLD is blocked in the runner and comes through sigchld_fd. */
static inline int tap_wait(pid_t pid, int sigchld_fd, int timeout_s)
{
	struct pollfd p[2] = {{.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN},
			      {.fd = sigchld_fd, .events = POLLIN}};
	time_t end = time(NULL) + timeout_s;
	struct signalfd_siginfo info;
	int status = 0;

	while (time(NULL) <= end && !(p[0].revents & POLLIN)) {
		if (poll(p, 2, 1000) > 0 && (p[1].revents & POLLIN) &&
		    read(sigchld_fd, &info, sizeof(info)) > 0)
			tap_reap(pid);
	}
	if (p[0].fd >= 0)
		close(p[0].fd);
	if (!(p[0].revents & POLLIN))
		printf("# no end after %d s, killed\n", timeout_s);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	tap_sweep();
	return status;
}

/* However the runner was started, a test starts like a login shell's child: nothing is ignored
 * (nohup) or blocked, 0 to 2 are open, files get the usual mode. */
static inline void tap_plain_start(void)
{
	sigset_t none;
	int fd;

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	umask(022);
	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= 2);
	close(fd);
}

static inline void tap_child(const struct tap_test *t)
{
	tap_plain_start();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	t->run();
	if (tap_state.at_end)
		tap_state.at_end();
	exit(0); /* not _exit: this is when a leak checker looks */
}

static inline void tap_run_one(const struct tap_test *t, int number)
{
	const char *limit = getenv("TAP_TIMEOUT_S");
	sigset_t chld, before;
	int status, fd;
	pid_t pid;

	tap_state.skip[0] = '\0';
	fflush(NULL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &before);
	fd = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
	pid = fork();
	if (pid == 0) {
		close(fd);
		tap_child(t);
	}
	if (pid < 0) {
		printf("not ok %d - %s # fork: %s\n", number, t->name, strerror(errno));
		tap_state.failed++;
		return;
	}
	status = tap_wait(pid, fd, limit ? atoi(limit) : 120);
	close(fd);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_EXIT_SKIP) {
		printf("ok %d - %s # SKIP %s\n", number, t->name, tap_state.skip);
		return;
	}
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	else if (status != 0)
		printf("# exit status %d\n", WEXITSTATUS(status));
	printf("%s %d - %s\n", status == 0 ? "ok" : "not ok", number, t->name);
	tap_state.failed += status != 0;
}

/* Whether a test is in test_FILE.c. */
static inline int tap_is_in(const struct tap_test *t, const char *file)
{
	const char *base = strrchr(t->file, '/');
	size_t n = strlen(file);

	base = base ? base + 1 : t->file;
	return strncmp(base, "test_", 5) == 0 && strncmp(base + 5, file, n) == 0 &&
	       strcmp(base + 5 + n, ".c") == 0;
}

/* Makes a tree of process numbers with a /proc of its own, and is its first process: true there.
 * Not everybody may. */
static inline bool tap_enter_pids(void)
{
	pid_t pid;
	int status;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS) < 0)
		_exit(TAP_EXIT_SKIP);
	pid = fork();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pid == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0)
		return true;
	if (pid <= 0 || waitpid(pid, &status, 0) < 0)
		_exit(TAP_EXIT_SKIP);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* An init that is tested without a box walks /proc, and a busy machine's is long: TAP_OWN_PIDS asks
 * for one that shows the test alone. Returns the result of the tests that ran there, or -1: they
 * run in this process. */
static inline int tap_own_pids(void)
{
	int status;
	pid_t pid;

	if (!getenv("TAP_OWN_PIDS"))
		return -1;
	pid = fork();
	if (pid == 0 && tap_enter_pids())
		return -1;
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return 1;
	return WEXITSTATUS(status) == TAP_EXIT_SKIP ? -1 : WEXITSTATUS(status);
}

static inline int tap_main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : NULL;
	const char *file = argc > 2 && strcmp(only, "--file") == 0 ? argv[2] : NULL;
	int count = 0, r;

	/* Whoever ignores it waits in vain. */
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	r = tap_own_pids();
	if (r >= 0)
		return r;
	tap_state.skip = mmap(NULL, TAP_SKIP_BYTES, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_state.skip == MAP_FAILED || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
		return 1;
	for (const struct tap_test *t = tap_state.first; t; t = t->next) {
		if (only && strcmp(only, "--list") == 0)
			puts(t->name);
		else if (file ? tap_is_in(t, file) : !only || strcmp(only, t->name) == 0)
			tap_run_one(t, ++count);
	}
	if (only && strcmp(only, "--list") == 0)
		return 0;
	printf("1..%d\n", count);
	if (count == 0)
		fprintf(stderr, "no test of '%s'\n", file ? file : only ? only : "");
	return tap_state.failed > 0 || count == 0;
}
