/*
 * What the kernel counts for a user, on the host and in every box of his or hers.
 *
 *	--take WHAT COUNT	takes of it until the kernel refuses, as COUNT ids where it may
 *				become others, says how many it has, and holds them
 *	--try WHAT		status 1 where not even a few can be had; timers count as signals
 */
#include "helpers.h"

#include "attack.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_ID = 3000, TAKE_MAX = 70000, SIGNALS = 2048, TRY = 4, SEGMENT = 256 << 10 };

static int one_inotify(void)
{
	return inotify_init1(IN_CLOEXEC) < 0 ? -1 : 0;
}

/* Blocked, so it stays pending. kill says nothing when one is one too many: so many are enough. */
static int one_signal(void)
{
	static int sent;

	return sent++ < SIGNALS ? kill(getpid(), SIGRTMIN + 1) : -1;
}

static int one_timer(void)
{
	struct sigevent by = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	timer_t timer;

	return timer_create(CLOCK_MONOTONIC, &by, &timer);
}

/* Shared memory that is locked is counted for the user, not for a process. */
static int one_locked(void)
{
	int id = shmget(IPC_PRIVATE, SEGMENT, 0600 | IPC_CREAT), r;
	void *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	r = at == (void *)-1 ? -1 : shmctl(id, SHM_LOCK, NULL);
	if (id >= 0)
		shmctl(id, IPC_RMID, NULL); /* it goes with this process */
	if (r < 0 && at != (void *)-1)
		shmdt(at);
	return r;
}

static const struct {
	const char *name;
	int (*one)(void);
} counters[] = {{"inotify", one_inotify},
		{"signals", one_signal},
		{"timers", one_timer},
		{"locked", one_locked}};

static int (*counter_find(const char *name))(void)
{
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
		if (strcmp(counters[i].name, name) == 0)
			return counters[i].one;
	return NULL;
}

static void prepare(void)
{
	struct rlimit files;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
}

/* Says how many it could have, and holds them. */
static void take_as(unsigned number, int (*one)(void), int out)
{
	int taken = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (geteuid() == 0 && setuid(FIRST_ID + number) < 0)
		taken = -errno;
	while (taken >= 0 && taken < TAKE_MAX && one() == 0)
		taken++;
	if (write(out, &taken, sizeof(taken)) == sizeof(taken))
		for (;;)
			pause();
	_exit(1);
}

int helper_take(int count, char **args)
{
	unsigned ids = count > 1 && geteuid() == 0 ? (unsigned)strtoul(args[1], NULL, 10) : 1;
	int (*one)(void) = counter_find(args[0]), pair[2], taken;
	long total = 0;

	if (!one || pipe(pair) < 0)
		return 64;
	prepare();
	for (unsigned i = 0; i < ids; i++) {
		pid_t pid = fork();

		if (pid == 0)
			take_as(i, one, pair[1]);
		if (pid < 0 || read(pair[0], &taken, sizeof(taken)) != sizeof(taken))
			return 65;
		if (taken < 0)
			return 66;
		total += taken;
	}
	printf("%ld\n", total);
	fflush(stdout);
	for (;;)
		pause();
}

int helper_try(int count, char **args)
{
	int (*one)(void) = counter_find(strcmp(args[0], "signals") == 0 ? "timers" : args[0]);

	prepare();
	for (int i = 0; i < TRY; i++)
		if (!one || one() < 0)
			return broke("%s: %s", args[0], strerror(errno));
	return held("%d of %s", TRY, args[0]);
}
