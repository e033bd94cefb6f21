/*
 * cove-probe: what `cove doctor` runs inside a box, to see the walls and limits from within. Static
 * and without libraries, so that it runs in any image. Each argument is one thing to try:
 *
 *	mount userns vsock uring	prints "<name> <errno>", 0 where it was allowed
 *	seccomp				prints "seccomp <mode>" of this process
 *	read=PATH			prints "read <errno>", 0 where PATH could be read
 *	find=WORD			prints "find <count>" of processes whose name is WORD
 *	pids=MAX			prints "pids <count> <errno>": children until fork fails
 *	disk=BYTES			prints "disk <bytes> <errno>": written until it fails
 *	hog=BYTES			touches memory, then prints "hog <bytes>"
 *	linger=WORD			a child in a session of its own, both named WORD, for ever;
 *					the child prints "linger <pid>" when it is there
 *
 * Whatever it makes is bounded by its argument, so that a host without limits suffers nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIDS_MAX = 4096, CHUNK = 1 << 20, FAMILY_VSOCK = 40, NAME_BYTES = 16 };

static int try_mount(void)
{
	return mount("none", "/tmp", "tmpfs", 0, NULL) < 0 ? errno : 0;
}

/* In a child: a namespace that was allowed must not be ours for what is tried next. */
static int try_userns(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return EIO;
	return WEXITSTATUS(status);
}

static int try_vsock(void)
{
	return socket(FAMILY_VSOCK, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int try_uring(void)
{
	char params[120] = {0};

	return syscall(SYS_io_uring_setup, 1, params) < 0 ? errno : 0;
}

static void print_seccomp(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	int mode = -1;

	while (f && mode < 0 && fgets(line, sizeof(line), f))
		sscanf(line, "Seccomp: %d", &mode);
	printf("seccomp %d\n", mode);
	if (f)
		fclose(f);
}

static void print_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;
	int code = fd < 0 || read(fd, &byte, 1) < 0 ? errno : 0;

	if (fd >= 0)
		close(fd);
	printf("read %d\n", code);
}

static int is_named(const char *pid, const char *word)
{
	char path[300], name[NAME_BYTES + 1] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(name, sizeof(name), f))
		name[0] = 0;
	fclose(f);
	name[strcspn(name, "\n")] = 0;
	return strcmp(name, word) == 0;
}

static void print_find(const char *word)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int found = 0;

	while (dir && (d = readdir(dir)))
		found += d->d_name[0] >= '0' && d->d_name[0] <= '9' && is_named(d->d_name, word);
	printf("find %d\n", dir ? found : -1);
	if (dir)
		closedir(dir);
}

static void print_pids(long max)
{
	static pid_t children[PIDS_MAX];
	long count = 0;
	int code = 0;

	while (count < max && count < PIDS_MAX) {
		pid_t pid = fork();

		if (pid == 0)
			pause();
		if (pid <= 0) {
			code = errno;
			break;
		}
		children[count++] = pid;
	}
	for (long i = 0; i < count; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	printf("pids %ld %d\n", count, code);
}

static void print_disk(long long max)
{
	static const char name[] = ".cove-probe-disk";
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	char *chunk = calloc(1, CHUNK);
	long long done = 0;
	int code = fd < 0 || !chunk ? errno : 0;

	while (code == 0 && done < max) {
		ssize_t n = write(fd, chunk, CHUNK);

		if (n < 0)
			code = errno;
		else
			done += n;
	}
	/* A filesystem that allocates late says here that it is full. */
	if (code == 0 && fsync(fd) < 0)
		code = errno;
	if (fd >= 0) {
		close(fd);
		unlink(name);
	}
	free(chunk);
	printf("disk %lld %d\n", done, code);
}

static void print_hog(long long max)
{
	for (long long done = 0; done < max; done += CHUNK) {
		void *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED)
			break;
		memset(p, 1, CHUNK);
	}
	printf("hog %lld\n", max);
}

static void linger(const char *word)
{
	pid_t pid = fork();

	prctl(PR_SET_NAME, word);
	if (pid == 0 && setsid() >= 0) {
		printf("linger %d\n", (int)getpid());
		fflush(stdout);
	}
	for (;;)
		pause();
}

static const struct {
	const char *name;
	int (*run)(void);
} tries[] = {
	{"mount", try_mount}, {"userns", try_userns}, {"vsock", try_vsock}, {"uring", try_uring}};

static int try_named(const char *name)
{
	for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		if (strcmp(name, tries[i].name) == 0) {
			printf("%s %d\n", name, tries[i].run());
			return 1;
		}
	}
	return 0;
}

static int run(const char *arg)
{
	const char *value = strchr(arg, '=');

	value = value ? value + 1 : "";
	if (strcmp(arg, "seccomp") == 0)
		print_seccomp();
	else if (strncmp(arg, "read=", 5) == 0)
		print_read(value);
	else if (strncmp(arg, "find=", 5) == 0)
		print_find(value);
	else if (strncmp(arg, "pids=", 5) == 0)
		print_pids(atol(value));
	else if (strncmp(arg, "disk=", 5) == 0)
		print_disk(atoll(value));
	else if (strncmp(arg, "hog=", 4) == 0)
		print_hog(atoll(value));
	else if (strncmp(arg, "linger=", 7) == 0)
		linger(value);
	else
		return try_named(arg);
	return 1;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!run(argv[i])) {
			fprintf(stderr, "cove-probe: cannot try '%s'\n", argv[i]);
			return 2;
		}
		fflush(stdout);
	}
	return 0;
}
