/* The program: list the cases, run one, and the small things that all of them use. */
#include "attack.h"

#include "helpers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct attack_case *const __start_attack_cases[];
extern const struct attack_case *const __stop_attack_cases[];

static int answer(const char *word, int status, const char *fmt, va_list args)
{
	printf("%s ", word);
	vprintf(fmt, args);
	printf("\n");
	fflush(stdout);
	return status;
}

int held(const char *fmt, ...)
{
	va_list args;
	int status;

	va_start(args, fmt);
	status = answer("HELD", HELD_STATUS, fmt, args);
	va_end(args);
	return status;
}

int broke(const char *fmt, ...)
{
	va_list args;
	int status;

	va_start(args, fmt);
	status = answer("BROKE", BROKE_STATUS, fmt, args);
	va_end(args);
	return status;
}

int not_applicable(const char *fmt, ...)
{
	va_list args;
	int status;

	va_start(args, fmt);
	status = answer("NA", NA_STATUS, fmt, args);
	va_end(args);
	return status;
}

bool is_refusal(int code)
{
	return code == EPERM || code == EACCES || code == ENOSYS;
}

int refused(const char *what, long result)
{
	int code = errno;

	if (result >= 0)
		return broke("%s succeeded (%ld)", what, result);
	if (!is_refusal(code))
		return broke("%s reached the kernel's own checks: %s", what, strerror(code));
	return held("%s: %s", what, strerror(code));
}

int failed(const char *what, long result)
{
	if (result >= 0)
		return broke("%s succeeded (%ld)", what, result);
	return held("%s: %s", what, strerror(errno));
}

const char *canary_text(const char *name)
{
	const char *text = getenv(name);

	return text ? text : "";
}

const char *canary_path(void)
{
	return canary_text("CANARY_PATH");
}

const char *canary_mark(void)
{
	return canary_text("CANARY_MARK");
}

long canary_number(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 10) : -1;
}

bool has_canary(int dir_fd, const char *path)
{
	char text[256] = "";
	size_t want = strlen(canary_mark());
	int fd = openat(dir_fd, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	return want > 0 && n >= (ssize_t)want && memcmp(text, canary_mark(), want) == 0;
}

bool can_write(const char *path)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

ssize_t slurp(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t have = 0;
	ssize_t n = 0;

	text[0] = 0;
	if (fd < 0)
		return -errno;
	while (have < size - 1 && (n = read(fd, text + have, size - 1 - have)) > 0)
		have += (size_t)n;
	n = n < 0 && have == 0 ? -errno : (ssize_t)have;
	close(fd);
	text[have] = 0;
	return n;
}

long long status_number(const char *key, int base)
{
	char text[8192], want[64];
	char *at;

	if (slurp("/proc/self/status", text, sizeof(text)) <= 0)
		return -1;
	snprintf(want, sizeof(want), "\n%s:", key);
	at = strstr(text, want);
	return at ? (long long)strtoull(at + strlen(want), NULL, base) : -1;
}

int in_child(int (*work)(void *), void *arg, unsigned seconds)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -1;
	if (pid == 0)
		_exit(work(arg) & 0xff);
	for (unsigned waited = 0, step = 50; waited < seconds * 1000000; waited += step) {
		pid_t done = waitpid(pid, &status, WNOHANG);

		if (done == pid)
			return status;
		if (done < 0 && errno != EINTR)
			return -1;
		usleep(step);
		step = step < 10000 ? step * 2 : step;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return -1;
}

/* The letter that /proc gives a process: R, S, T, Z; 0 where it is not to be seen. */
static char state_of(pid_t pid)
{
	char path[64], text[512];
	char *at;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (slurp(path, text, sizeof(text)) <= 0)
		return 0;
	at = strrchr(text, ')');
	return at && at[1] == ' ' ? at[2] : 0;
}

/* A process whose parent is gone, and which has ended: init's to reap. */
static pid_t make_orphan(void)
{
	pid_t child, orphan = -1;
	int p[2];

	if (pipe(p) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		orphan = fork();
		if (orphan == 0)
			_exit(0);
		_exit(write(p[1], &orphan, sizeof(orphan)) != sizeof(orphan));
	}
	close(p[1]);
	if (child > 0)
		waitpid(child, NULL, 0);
	if (child < 0 || read(p[0], &orphan, sizeof(orphan)) != sizeof(orphan))
		orphan = -1;
	close(p[0]);
	return orphan;
}

int held_by_init(const char *text)
{
	pid_t orphan;
	char state = state_of(1);

	/* Without cgroups a command's first process, which this is, gets its tree's orphans. */
	prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
	orphan = make_orphan();
	if (state != 'R' && state != 'S' && state != 'D')
		return broke("%s, and init's state is '%c'", text, state ? state : '?');
	if (orphan <= 0)
		return broke("%s, and no process can be made: %s", text, strerror(errno));
	for (int i = 0; i < 1000; i++) {
		if (kill(orphan, 0) < 0 && errno == ESRCH)
			return held("%s; init runs and reaps", text);
		usleep(10000);
	}
	return broke("%s, and init leaves an orphan unreaped", text);
}

const char *scratch_dir(void)
{
	return access("/tmp", W_OK) == 0 ? "/tmp" : getenv("HOME");
}

static int list(void)
{
	for (const struct attack_case *const *c = __start_attack_cases; c < __stop_attack_cases;
	     c++)
		printf("%s\t%s\t%u\t%s\n", (*c)->name, (*c)->line, (*c)->flags, (*c)->held);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--list") == 0)
		return list();
	if (argc >= 3 && strncmp(argv[1], "--", 2) == 0)
		return helper_run(argv[1] + 2, argc - 2, argv + 2);
	for (const struct attack_case *const *c = __start_attack_cases;
	     argc == 2 && c < __stop_attack_cases; c++)
		if (strcmp((*c)->name, argv[1]) == 0)
			return (*c)->run();
	fprintf(stderr, "usage: attack --list | NAME | --HELPER ARG...\n");
	return 64;
}
