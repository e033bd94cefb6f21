/*
 * Programs for the host's side of the suite.
 *
 *	--swap DIR COUNT	swaps DIR/x (a directory) and DIR/y (a link) COUNT times, then says
 *				how many swaps were made; ends when DIR/stop appears, and
 *				keeps count in the file $SWAP_COUNT, if there is one
 *	--peek PATH		status 1 if PATH is the canary
 *	--status WHAT		one line per thing that every process of a box must share
 *	--grow FILE		a file that grows for ever (until it is removed)
 *	--flicker FILE COUNT	a file that shrinks and grows
 *	--bytes COUNT		COUNT bytes, 0 to 255 in turn, on stdout
 *	--spin SECONDS		keeps every processor busy
 *	--hold SECONDS TAG	a daemon of its own session that holds the streams, prints late
 *	--deep DIR COUNT	that many directories in each other
 *	--vfork SECONDS TAG	a parent that waits in vfork for a child that sleeps
 *	--die SIGNAL		dies by that signal
 *	--eat MIB		takes that much memory, in one process
 *	--forks COUNT		forks until it is refused, then exits with 1
 *	--touch NAME		makes /tmp/executed: for programs that must never run
 *	--listen NAME SECONDS	an abstract socket, and a System V segment with that key
 *	--reach NAME		status 1 if either can be found
 *	--take, --try		see counters.c
 */
#include "helpers.h"

#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int swap_once(const char *x, const char *y)
{
	return (int)syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, y, 2 /* RENAME_EXCHANGE */);
}

/* Where the filesystem cannot exchange, three renames are one swap. */
static int swap_slowly(const char *x, const char *y, const char *aside)
{
	return rename(x, aside) < 0 || rename(y, x) < 0 || rename(aside, y) < 0 ? -1 : 0;
}

/* Eight bytes that whoever shares the file can watch. */
static volatile long *shared_counter(void)
{
	static volatile long own;
	const char *path = getenv("SWAP_COUNT");
	int fd = path ? open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(long)) == 0)
		at = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? &own : at;
}

static int helper_peek(int count, char **args)
{
	return has_canary(AT_FDCWD, args[0]) ? broke("read the canary") : held("not there");
}

static int helper_swap(int count, char **args)
{
	volatile long *shown = shared_counter();
	char x[512], y[512], aside[512], stop[512];
	long want = count > 1 ? strtol(args[1], NULL, 10) : 1000, done = 0;
	bool exchange = true;

	snprintf(x, sizeof(x), "%s/x", args[0]);
	snprintf(y, sizeof(y), "%s/y", args[0]);
	snprintf(aside, sizeof(aside), "%s/aside", args[0]);
	snprintf(stop, sizeof(stop), "%s/stop", args[0]);
	while (done < want && (done % 64 || access(stop, F_OK) < 0)) {
		if (exchange && swap_once(x, y) < 0) {
			if (errno != EINVAL && errno != ENOSYS && errno != EPERM)
				break;
			exchange = false;
		}
		if (!exchange && swap_slowly(x, y, aside) < 0)
			break;
		*shown = ++done;
	}
	printf("%ld swaps by %s%s%s\n", done, exchange ? "exchange" : "rename",
	       done < want && access(stop, F_OK) < 0 ? ", ended: " : "",
	       done < want && access(stop, F_OK) < 0 ? strerror(errno) : "");
	return 0;
}

static void print_link(const char *name)
{
	char path[64], target[256] = "";

	snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	if (readlink(path, target, sizeof(target) - 1) < 0)
		snprintf(target, sizeof(target), "?");
	printf("%s %s\n", name, target);
}

static int helper_status(int count, char **args)
{
	static const char *const keys[] = {"CapInh",	       "CapBnd",  "CapAmb",
					   "NoNewPrivs",       "Seccomp", "Seccomp_filters",
					   "Cpus_allowed_list"};
	static const char *const names[] = {"mnt", "cgroup", "uts", "ipc", "user", "pid", "net"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		printf("%s %llx\n", keys[i], status_number(keys[i], 16));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		print_link(names[i]);
	printf("open files:");
	for (int fd = 0; fd < 256; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf(" %d", fd);
	printf("\n");
	return 0;
}

static int helper_grow(int count, char **args)
{
	static char block[65536];
	int fd = open(args[0], O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0644);
	struct stat st;

	memset(block, 'g', sizeof(block));
	/* Grows by what is read of it, and never beyond 8 MiB that the reader has not seen: the
	 * front is given back to the disk. */
	for (long i = 0; i < 200000 && fstat(fd, &st) == 0 && st.st_nlink > 0; i++)
		if (write(fd, block, sizeof(block)) < 0 && errno != ENOSPC && errno != EDQUOT)
			break;
	return 0;
}

static int helper_flicker(int count, char **args)
{
	static char block[65536];
	int fd = open(args[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	long want = count > 1 ? strtol(args[1], NULL, 10) : 1000;

	for (long i = 0; i < want; i++) {
		if (pwrite(fd, block, sizeof(block), (i % 8) * 65536) < 0)
			break;
		if (i % 8 == 7 && ftruncate(fd, (i / 8) % 3 * 1000) < 0)
			break;
	}
	return 0;
}

static int helper_bytes(int count, char **args)
{
	static unsigned char block[65536];
	long long left = strtoll(args[0], NULL, 10);

	for (size_t i = 0; i < sizeof(block); i++)
		block[i] = (unsigned char)i;
	while (left > 0) {
		size_t part = left < (long long)sizeof(block) ? (size_t)left : sizeof(block);
		ssize_t n = write(1, block, part);

		if (n <= 0)
			return 1;
		/* A short write goes on where it stopped, so that every byte is its own number. */
		if ((size_t)n < part && write(1, block + n, part - (size_t)n) < 0)
			return 1;
		left -= (long long)part;
	}
	return 0;
}

static int helper_spin(int count, char **args)
{
	time_t end = time(NULL) + strtol(args[0], NULL, 10);
	volatile unsigned long n = 0;

	for (long i = sysconf(_SC_NPROCESSORS_ONLN); i > 1; i--)
		if (fork() == 0)
			break;
	while (time(NULL) < end)
		for (int i = 0; i < 1000000; i++)
			n++;
	return 0;
}

static int helper_hold(int count, char **args)
{
	unsigned seconds = (unsigned)strtol(args[0], NULL, 10);

	if (fork() != 0)
		return 0;
	setsid();
	if (fork() != 0)
		return 0;
	signal(SIGHUP, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	printf("daemon %d\n", getpid());
	fflush(stdout);
	for (unsigned i = 0; i < seconds * 10; i++) {
		usleep(100000);
		if (write(1, "late\n", 5) < 0)
			break;
	}
	return 0;
}

static int helper_deep(int count, char **args)
{
	long want = count > 1 ? strtol(args[1], NULL, 10) : 100;
	int fd = AT_FDCWD;

	for (long i = 0; i < want; i++) {
		const char *name = i ? "d" : args[0];
		int next;

		if (mkdirat(fd, name, 0755) < 0)
			return 1;
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0)
			close(fd);
		fd = next;
	}
	return 0;
}

static int helper_vfork(int count, char **args)
{
	if (vfork() == 0) {
		sleep((unsigned)strtol(args[0], NULL, 10));
		_exit(0);
	}
	return 0;
}

static int helper_die(int count, char **args)
{
	int sig = (int)strtol(args[0], NULL, 10);

	signal(sig, SIG_DFL);
	syscall(SYS_tgkill, getpid(), getpid(), sig); /* musl's raise refuses its own two */
	sleep(5);
	return 0;
}

static int helper_eat(int count, char **args)
{
	long mib = strtol(args[0], NULL, 10);

	for (long i = 0; i < mib; i++) {
		char *p = malloc(1 << 20);

		if (!p)
			return 1;
		memset(p, 1, 1 << 20);
	}
	return 0;
}

static int helper_forks(int count, char **args)
{
	for (long i = strtol(args[0], NULL, 10); i > 0; i--) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			sleep(2);
			_exit(0);
		}
	}
	return 0;
}

static int helper_touch(int count, char **args)
{
	close(open("/tmp/executed", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
	return 0;
}

static socklen_t abstract(struct sockaddr_un *address, const char *name)
{
	address->sun_family = AF_UNIX;
	snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1, "%s", name);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

static int helper_listen(int count, char **args)
{
	struct sockaddr_un address = {0};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = abstract(&address, args[0]);

	if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 8) < 0)
		return 3;
	if (shmget((key_t)strtol(args[0], NULL, 10), 4096, 0666 | IPC_CREAT) < 0)
		return 4;
	printf("ready\n");
	fflush(stdout);
	sleep((unsigned)strtol(count > 1 ? args[1] : "30", NULL, 10));
	return 0;
}

static int helper_reach(int count, char **args)
{
	struct sockaddr_un address = {0};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = abstract(&address, args[0]);

	if (connect(fd, (struct sockaddr *)&address, len) == 0)
		return broke("reached the other box's abstract socket");
	if (shmget((key_t)strtol(args[0], NULL, 10), 0, 0) >= 0)
		return broke("found the other box's System V segment");
	return held("neither");
}

int helper_run(const char *name, int count, char **args)
{
	static const struct {
		const char *name;
		int (*run)(int, char **);
	} helpers[] = {
		{"swap", helper_swap},	     {"status", helper_status}, {"grow", helper_grow},
		{"flicker", helper_flicker}, {"bytes", helper_bytes},	{"spin", helper_spin},
		{"hold", helper_hold},	     {"touch", helper_touch},	{"listen", helper_listen},
		{"reach", helper_reach},     {"peek", helper_peek},	{"deep", helper_deep},
		{"vfork", helper_vfork},     {"die", helper_die},	{"eat", helper_eat},
		{"forks", helper_forks},     {"inject", helper_inject}, {"take", helper_take},
		{"try", helper_try}};

	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++)
		if (strcmp(helpers[i].name, name) == 0)
			return helpers[i].run(count, args);
	fprintf(stderr, "attack: no helper '%s'\n", name);
	return 64;
}
