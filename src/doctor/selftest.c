/*
 * The test in a box of `cove doctor`: a one-shot box with small limits, looked at from within by
 * cove-probe. Every verdict is something that was seen: a process and a file of the host are made
 * for the box not to see, and limits are run into.
 *
 * It runs in a child that reports through shared memory, so that a box which hangs costs a few
 * seconds and nothing more: when the child is killed, its box goes with it. Where there is no state
 * directory yet the box lives in a temporary one beside its place.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/spawn.h"
#include "doctor/checks.h"
#include "storage/tree.h"
#include "store/image.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	TEST_MS = 20000,       /* all of it */
	COMMAND_MS = 5000,     /* one command */
	LINGER_MS = 500,       /* the one that has to be ended */
	MEM_BYTES = 128 << 20, /* with less a kernel holds up whoever fills a disk */
	DISK_BYTES = 32 << 20,
	PIDS = 32,
	PROBE_BYTES_MAX = 8 << 20,
	REMOVE_TRIES = 50,
};
#define PROBE_PATH "/tmp/cove-probe"

struct selftest {
	struct doctor_report *report; /* in shared memory */
	struct cove *cove;
	struct cove_box *box;
	char *probe; /* owned; the program's bytes */
	size_t probe_len;
	bool has_root; /* inside */
	char word[16]; /* what the host's process is named */
	pid_t witness; /* that process */
	char canary[64];
};

static void say(struct selftest *s, const char *name, enum doctor_verdict verdict, const char *fmt,
		...) __attribute__((format(printf, 4, 5)));

static void say(struct selftest *s, const char *name, enum doctor_verdict verdict, const char *fmt,
		...)
{
	struct doctor_report *r = s->report;
	struct doctor_test *t = &r->tests[r->test_count];
	va_list args;

	ASSERT(r->test_count < DOCTOR_TESTS_MAX);
	t->name = name;
	t->verdict = verdict;
	va_start(args, fmt);
	vsnprintf(t->saw, sizeof(t->saw), fmt, args);
	va_end(args);
	r->test_count++;
}

static bool check_is_ok(const struct selftest *s, const char *name)
{
	for (size_t i = 0; i < s->report->count; i++) {
		if (strcmp(s->report->checks[i].name, name) == 0)
			return s->report->checks[i].status == DOCTOR_OK;
	}
	return false;
}

/* Says that a limit's test is skipped where the host does not offer the limit. */
static bool skip_limit(struct selftest *s, const char *name, const char *check)
{
	if (check_is_ok(s, check))
		return false;
	say(s, name, DOCTOR_SKIPPED, "%s is not limited here, see above", check);
	return true;
}

/* Runs the probe with these arguments; the caller frees the result. */
static int probe(struct selftest *s, const char *const *args, uint64_t timeout_ms,
		 struct cove_result *ret, struct cove_error *err)
{
	const char *argv[8] = {PROBE_PATH};
	struct cove_command command = {.size = sizeof(command),
				       .argv = argv,
				       .cwd = "/tmp",
				       .user = s->has_root ? "root" : NULL,
				       .timeout_ms = timeout_ms};

	for (size_t i = 0; args[i]; i++) {
		ASSERT(i + 2 < sizeof(argv) / sizeof(argv[0]));
		argv[i + 1] = args[i];
	}
	memset(ret, 0, sizeof(*ret));
	return cove_run(s->box, &command, ret, err);
}

/* The number after the word in the probe's output; -1 if it is not there. */
static long long seen(const struct cove_result *result, const char *word, long long *ret_second)
{
	const char *line = result->out ? result->out : "";
	size_t len = strlen(word);

	for (; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		long long first = -1, second = 0;

		if (strncmp(line, word, len) != 0 || line[len] != ' ')
			continue;
		sscanf(line + len, "%lld %lld", &first, &second);
		if (ret_second)
			*ret_second = second;
		return first;
	}
	return -1;
}

#define PROBE(s, result, err, ...) \
	probe(s, (const char *const[]){__VA_ARGS__, NULL}, COMMAND_MS, result, err)

/* The same for the one command of a test: says that the test failed where it cannot be run. */
static bool can_probe(struct selftest *s, const char *name, const char *const *args,
		      struct cove_result *ret)
{
	struct cove_error err = {0};

	if (probe(s, args, COMMAND_MS, ret, &err) == 0)
		return true;
	say(s, name, DOCTOR_FAILED, "%.110s", err.message);
	return false;
}
#define CAN_PROBE(s, name, result, ...) \
	can_probe(s, name, (const char *const[]){__VA_ARGS__, NULL}, result)

static void test_refused(struct selftest *s, const char *name, const char *word)
{
	struct cove_result result;
	long long code;

	if (!CAN_PROBE(s, name, &result, word))
		return;
	code = seen(&result, word, NULL);
	if (code > 0)
		say(s, name, DOCTOR_HELD, "%s", strerror((int)code));
	else
		say(s, name, DOCTOR_FAILED, code == 0 ? "it was allowed" : "the probe did not say");
	cove_result_free(&result);
}

static void test_filter(struct selftest *s)
{
	static const char name[] = "vsock and io_uring are refused";
	struct cove_result result;
	long long vsock, uring, mode;

	if (!CAN_PROBE(s, name, &result, "seccomp", "vsock", "uring"))
		return;
	mode = seen(&result, "seccomp", NULL);
	vsock = seen(&result, "vsock", NULL);
	uring = seen(&result, "uring", NULL);
	if (vsock <= 0 || uring <= 0)
		say(s, name, DOCTOR_FAILED, "%s allowed", vsock <= 0 ? "vsock is" : "io_uring is");
	else if (mode != 2)
		say(s, name, DOCTOR_FAILED, "commands run without a system call filter");
	else
		say(s, name, DOCTOR_HELD, "%s; %s", strerror((int)vsock), strerror((int)uring));
	cove_result_free(&result);
}

static void test_processes(struct selftest *s)
{
	static const char name[] = "processes of the host are hidden";
	char find[32], path[40], comm[32];
	autofree char *host = NULL;
	struct cove_result result;
	long long count;

	snprintf(find, sizeof(find), "find=%s", s->word);
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)s->witness);
	snprintf(comm, sizeof(comm), "%s\n", s->word);
	if (s->witness <= 0 || fd_read_file(AT_FDCWD, path, 64, &host, NULL) < 0 ||
	    strcmp(host, comm) != 0) {
		say(s, name, DOCTOR_SKIPPED, "no process could be made to look for");
		return;
	}
	if (!CAN_PROBE(s, name, &result, find))
		return;
	count = seen(&result, "find", NULL);
	if (count == 0)
		say(s, name, DOCTOR_HELD, "one that runs outside is not in its /proc");
	else
		say(s, name, DOCTOR_FAILED, "a process of the host is in its /proc");
	cove_result_free(&result);
}

static void test_canary(struct selftest *s)
{
	static const char name[] = "files of the host are hidden";
	char direct[80], through[100];
	struct cove_result result;
	int failures = 0;

	if (!s->canary[0]) {
		say(s, name, DOCTOR_SKIPPED, "no file could be made in /tmp to look for");
		return;
	}
	snprintf(direct, sizeof(direct), "read=%s", s->canary);
	snprintf(through, sizeof(through), "read=/proc/1/root%s", s->canary);
	if (!CAN_PROBE(s, name, &result, direct, through))
		return;
	for (const char *at = result.out; (at = strstr(at, "read ")); at++)
		failures += atoi(at + strlen("read ")) > 0;
	if (failures == 2)
		say(s, name, DOCTOR_HELD, "a file outside cannot be read");
	else
		say(s, name, DOCTOR_FAILED, "a file of the host was read");
	cove_result_free(&result);
}

static void test_memory(struct selftest *s)
{
	static const char name[] = "the memory limit holds";
	struct cove_error err = {0};
	struct cove_result result, next;
	char hog[40];
	bool killed, goes_on;

	if (skip_limit(s, name, "memory"))
		return;
	/* Twice the limit, and no more where nothing stops it. */
	snprintf(hog, sizeof(hog), "hog=%u", 2u * MEM_BYTES);
	if (!CAN_PROBE(s, name, &result, hog))
		return;
	killed = result.oom_killed;
	goes_on = PROBE(s, &next, &err, "seccomp") == 0 && next.has_exit && next.exit_code == 0;
	if (killed && goes_on)
		say(s, name, DOCTOR_HELD, "a hog was killed at %u MiB: oom; the next command ran",
		    MEM_BYTES >> 20);
	else if (killed)
		say(s, name, DOCTOR_FAILED, "the box did not survive it: %.80s", err.message);
	else
		say(s, name, DOCTOR_FAILED,
		    seen(&result, "hog", NULL) > 0 ? "twice as much could be used"
						   : "the end was not reported as oom");
	cove_result_free(&next);
	cove_result_free(&result);
}

static void test_pids(struct selftest *s)
{
	static const char name[] = "the process limit holds";
	struct cove_result result;
	long long count, code = 0;
	char pids[32];

	if (skip_limit(s, name, "pids"))
		return;
	snprintf(pids, sizeof(pids), "pids=%d", 2 * PIDS);
	if (!CAN_PROBE(s, name, &result, pids))
		return;
	count = seen(&result, "pids", &code);
	if (count >= 0 && count < PIDS && code > 0)
		say(s, name, DOCTOR_HELD, "%lld children of %d, then: %s", count, PIDS,
		    strerror((int)code));
	else
		say(s, name, DOCTOR_FAILED, "%lld children where %d processes are the limit", count,
		    PIDS);
	cove_result_free(&result);
}

static void test_disk(struct selftest *s)
{
	static const char name[] = "the disk limit holds";
	struct cove_result result;
	long long bytes, code = 0;
	char disk[40];

	if (skip_limit(s, name, "disk"))
		return;
	snprintf(disk, sizeof(disk), "disk=%u", DISK_BYTES + DISK_BYTES / 2);
	if (!CAN_PROBE(s, name, &result, disk))
		return;
	bytes = seen(&result, "disk", &code);
	if (result.timed_out)
		say(s, name, DOCTOR_SKIPPED, "this disk is too slow to fill one in %d s",
		    COMMAND_MS / 1000);
	else if (bytes >= 0 && bytes <= DISK_BYTES && (code == ENOSPC || code == EDQUOT))
		say(s, name, DOCTOR_HELD, "full after %lld MiB of %u: %s", bytes >> 20,
		    DISK_BYTES >> 20, strerror((int)code));
	else
		say(s, name, DOCTOR_FAILED, "%lld MiB were written where %u are the limit, end: %s",
		    bytes >> 20, DISK_BYTES >> 20, result.cause);
	cove_result_free(&result);
}

static void test_timeout(struct selftest *s)
{
	static const char name[] = "a timeout ends a whole tree";
	char linger[40], find[40], word[16];
	struct cove_error err = {0};
	struct cove_result result, after;
	long long left = -1;

	str_copy(word, sizeof(word), s->word);
	word[0] = 'l';
	snprintf(linger, sizeof(linger), "linger=%s", word);
	snprintf(find, sizeof(find), "find=%s", word);
	if (probe(s, (const char *const[]){linger, NULL}, LINGER_MS, &result, &err) < 0) {
		say(s, name, DOCTOR_FAILED, "%.110s", err.message);
		return;
	}
	if (PROBE(s, &after, &err, find) == 0)
		left = seen(&after, "find", NULL);
	if (!result.timed_out)
		say(s, name, DOCTOR_FAILED, "the command was not ended");
	else if (seen(&result, "linger", NULL) < 0)
		say(s, name, DOCTOR_SKIPPED, "this host was too busy to start it in time");
	else if (left == 0)
		say(s, name, DOCTOR_HELD, "also a child in a session of its own");
	else
		say(s, name, DOCTOR_FAILED,
		    left > 0 ? "%lld of its processes are left" : "the box does not say (%lld)",
		    left);
	cove_result_free(&after);
	cove_result_free(&result);
}

/* ---- the box and what surrounds it ---- */

static int open_box(struct selftest *s, const char *home, struct cove_error *err)
{
	struct cove_options options = {.size = sizeof(options), .home = home};
	struct cove_box_options box = {.size = sizeof(box), .one_shot = true};
	struct image image;
	struct err e = {0};
	int r = cove_new(&s->cove, &options, err);

	if (r < 0)
		return r;
	if (image_find(&s->cove->state, IMAGE_DEFAULT, &image, &e) < 0)
		box.image = "host";
	image_done(&image);
	if (core_ids(s->cove, &e) == 0)
		s->has_root = s->cove->ids.kind != IDS_SINGLE;
	if (check_is_ok(s, "memory"))
		box.mem_bytes = MEM_BYTES;
	if (check_is_ok(s, "pids"))
		box.pids = PIDS;
	if (check_is_ok(s, "disk"))
		box.disk_bytes = DISK_BYTES;
	r = cove_create(s->cove, &box, &s->box, err);
	return r < 0 ? r : cove_put_data(s->box, PROBE_PATH, s->probe, s->probe_len, 0755, err);
}

static void test_run(struct selftest *s, const char *home)
{
	static const char name[] = "a command runs in a box";
	struct cove_error err = {0};
	struct cove_result result = {0};
	uint64_t start = clock_mono_ms();
	int r = open_box(s, home, &err);

	if (r == 0)
		r = PROBE(s, &result, &err, "seccomp");
	if (r < 0) {
		s->report->can_run = false;
		say(s, name, DOCTOR_FAILED, "%.110s", err.message);
	} else if (!result.has_exit || result.exit_code != 0) {
		s->report->can_run = false;
		say(s, name, DOCTOR_FAILED, "it did not end well: %.80s",
		    result.err_out ? result.err_out : "");
	} else {
		say(s, name, DOCTOR_HELD, "%llu ms after it was asked for",
		    (unsigned long long)(clock_mono_ms() - start));
	}
	cove_result_free(&result);
}

/* A process for the box not to see. It ends with us. */
static void make_witness(struct selftest *s)
{
	char token[9];
	int ready[2];

	rand_hex(token, 4);
	snprintf(s->word, sizeof(s->word), "cove-%s", token);
	if (pipe2(ready, O_CLOEXEC) < 0)
		return;
	s->witness = fork();
	if (s->witness == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, s->word);
		close(ready[0]);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (s->witness > 0 && read(ready[0], token, 1) < 0)
		s->witness = -1;
	close(ready[0]);
}

static void make_canary(struct selftest *s)
{
	autoclose int fd = -1;

	str_copy(s->canary, sizeof(s->canary), "/tmp/cove-canary-XXXXXX");
	fd = mkostemp(s->canary, O_CLOEXEC);
	if (fd < 0)
		s->canary[0] = 0;
	else if (fchmod(fd, 0644) < 0 || fd_write_full(fd, "canary\n", 7) < 0)
		unlink(s->canary);
}

/* The keeper of a box that went may still be deleting: both get there. */
static void remove_home(struct doctor *d, const char *home)
{
	struct err e = {0};

	for (int i = 0; i < REMOVE_TRIES; i++) {
		if (core_ids(&d->cove, &e) == 0 &&
		    tree_remove_as(&d->cove.ids, d->place_fd, path_base(home), &e) == 0)
			return;
		poll(NULL, 0, 20);
	}
}

/* Lets the child go on for so long and not longer. */
static void await(pid_t pid, struct doctor_report *report)
{
	autoclose int pidfd = sys_pidfd_open(pid);
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	int status = 0;

	if (pidfd < 0 || poll(&p, 1, TEST_MS) <= 0) {
		kill(pid, SIGKILL);
		snprintf(report->not_tested, sizeof(report->not_tested),
			 "given up after %d s: the box does not answer", TEST_MS / 1000);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!report->not_tested[0] && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
		snprintf(report->not_tested, sizeof(report->not_tested),
			 "the test itself ended early (status %d)", status);
	if (report->not_tested[0] && report->test_count == 0)
		report->can_run = false;
}

static void run_in_child(struct selftest *s, const char *home, const sigset_t *mask)
{
	pid_t pid = fork();

	if (pid == 0) {
		sigprocmask(SIG_SETMASK, mask, NULL);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		make_witness(s);
		test_run(s, home);
		if (s->report->can_run) {
			test_processes(s);
			test_canary(s);
			test_refused(s, "mounting is refused", "mount");
			test_refused(s, "a user namespace is refused", "userns");
			test_filter(s);
			test_memory(s);
			test_pids(s);
			test_disk(s);
			test_timeout(s);
		}
		cove_box_free(s->box);
		cove_free(s->cove);
		if (s->witness > 0) {
			kill(s->witness, SIGKILL);
			waitpid(s->witness, NULL, 0);
		}
		_exit(0);
	}
	if (pid < 0)
		snprintf(s->report->not_tested, sizeof(s->report->not_tested), "fork: %s",
			 strerror(errno));
	else
		await(pid, s->report);
}

static int load_probe(struct selftest *s, char *why, size_t size)
{
	struct err e = {0};
	char path[512];

	if (spawn_find_program("cove-probe", path, sizeof(path), &e) < 0) {
		str_copy(why, size, e.msg);
		return -ENOENT;
	}
	if (fd_read_file(AT_FDCWD, path, PROBE_BYTES_MAX, &s->probe, &s->probe_len) < 0) {
		snprintf(why, size, "%.150s cannot be read", path);
		return -EIO;
	}
	return 0;
}

void doctor_selftest(struct doctor *d, const char *home, struct doctor_report *report)
{
	char temp[sizeof(d->place) + 32] = "";
	struct selftest s = {0};
	sigset_t held, mask;
	int r = 0;

	if (!report->can_run) {
		str_copy(report->not_tested, sizeof(report->not_tested),
			 "something that a box needs is missing, see above");
		return;
	}
	if (load_probe(&s, report->not_tested, sizeof(report->not_tested)) < 0)
		return;
	s.report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	/* What ends a program by hand ends the child; we clean up after it and then go too. */
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, &mask);
	/* Beside where the state directory will be, so that the same filesystem is tried. */
	if (d->cove.state.home_fd < 0)
		r = !path_join(temp, sizeof(temp), d->place, ".cove-doctor-XXXXXX") ? -ENAMETOOLONG
		    : mkdtemp(temp)						    ? 0
										    : -errno;
	if (s.report == MAP_FAILED || r < 0) {
		snprintf(report->not_tested, sizeof(report->not_tested), "no place for it: %s",
			 strerror(r < 0 ? -r : errno));
	} else {
		*s.report = *report;
		make_canary(&s);
		run_in_child(&s, temp[0] ? temp : home, &mask);
		*report = *s.report;
	}
	if (s.canary[0])
		unlink(s.canary);
	if (temp[0])
		remove_home(d, temp);
	if (s.report != MAP_FAILED)
		munmap(s.report, sizeof(*report));
	free(s.probe);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}
