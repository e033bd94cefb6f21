/* The box's own /proc: what it says, that it keeps its length, and that nothing is left of it. */
#include "base/clock.h"
#include "base/fd.h"
#include "keeper/proc_files.h"
#include "keeper_rig.h"
#include "tap.h"
#include "wall/host.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

struct place {
	char path[64];
	int run_fd;
	struct proc_files t;
};

static void place_init(struct place *p, uint64_t mem_bytes, unsigned cpus)
{
	int fds[PROC_FILES_COUNT];

	strcpy(p->path, "/tmp/cove-proc-XXXXXX");
	CHECK(mkdtemp(p->path));
	p->run_fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < PROC_FILES_COUNT; i++) {
		fds[i] = openat(p->run_fd, wall_proc_names[i], O_RDWR | O_CREAT | O_CLOEXEC, 0444);
		CHECK(fds[i] >= 0);
	}
	CHECK_EQ(proc_files_open(&p->t, fds, mem_bytes, mem_bytes > 0, cpus, false, NULL), 0);
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		CHECK_EQ(fds[i], -1);
}

static void place_done(struct place *p)
{
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		close(p->t.fd[i]);
	close(p->run_fd);
	remove_temporary(p->path);
}

static char *text_of(struct place *p, const char *name)
{
	static char *text; /* static: of a local one GCC 12 believes that it may point to itself */
	int r = fd_read_file(p->run_fd, name, 16 << 20, &text, NULL);

	CHECK_EQ(r, 0);
	return text;
}

static unsigned long long number_after(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	CHECK(at != NULL);
	return strtoull(at + strlen(key), NULL, 10);
}

static unsigned count_lines(const char *text, const char *start)
{
	unsigned n = 0;

	while (*text) {
		n += strncmp(text, start, strlen(start)) == 0;
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return n;
}

TEST(memory_is_the_boxs)
{
	struct cgroup_stats now = {.mem_bytes = 24 << 20, .mem_cache_bytes = 8 << 20};
	struct place p;
	char *text;

	place_init(&p, 64 << 20, 1);
	text = text_of(&p, "meminfo");
	CHECK_EQ(number_after(text, "MemTotal:"), 65536);
	CHECK_EQ(number_after(text, "MemFree:"), 65536);
	free(text);
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + 50, &now, 1), 0);
	text = text_of(&p, "meminfo");
	CHECK_EQ(number_after(text, "MemTotal:"), 65536);
	CHECK_EQ(number_after(text, "MemFree:"), 40960);
	CHECK_EQ(number_after(text, "MemAvailable:"), 49152);
	CHECK_EQ(number_after(text, "SwapTotal:"), 0);
	free(text);
	/* The reserve that is init's can make it use more than its limit. */
	now.mem_bytes = 80 << 20;
	now.mem_cache_bytes = 90 << 20;
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + 60, &now, 1), 0);
	text = text_of(&p, "meminfo");
	CHECK_EQ(number_after(text, "MemFree:"), 0);
	CHECK_EQ(number_after(text, "MemAvailable:"), 65536);
	free(text);
	place_done(&p);
}

TEST(without_a_limit_the_hosts)
{
	autofree char *host = NULL;
	struct place p;
	char *text;

	CHECK_EQ(fd_read_file(AT_FDCWD, "/proc/meminfo", 65536, &host, NULL), 0);
	place_init(&p, 0, 1);
	text = text_of(&p, "meminfo");
	CHECK_EQ(number_after(text, "MemTotal:"), number_after(host, "MemTotal:"));
	free(text);
	place_done(&p);
	/* More than there is cannot be had. */
	place_init(&p, 1ull << 50, 1);
	text = text_of(&p, "meminfo");
	CHECK_EQ(number_after(text, "MemTotal:"), number_after(host, "MemTotal:"));
	free(text);
	place_done(&p);
}

TEST(processors_are_the_boxs)
{
	struct place p;
	char *text;

	place_init(&p, 0, 1);
	text = text_of(&p, "cpuinfo");
	CHECK_EQ(count_lines(text, "processor"), 1);
	CHECK_EQ(number_after(strstr(text, "processor"), ": "), 0);
	free(text);
	text = text_of(&p, "stat");
	CHECK_EQ(count_lines(text, "cpu"), 2);
	CHECK_EQ(count_lines(text, "cpu0 "), 1);
	free(text);
	place_done(&p);
}

TEST(time_is_the_machines_and_its_use_the_boxs)
{
	struct cgroup_stats now = {.cpu_us = 3500000, .pids = 7};
	double up, idle, asleep = (double)(clock_boot_ms() - clock_mono_ms()) / 1000;
	unsigned long long booted = (clock_wall_ms() - clock_boot_ms()) / 1000;
	struct place p;
	char *text;

	place_init(&p, 0, 2);
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + 12340, &now, 2), 0);
	text = text_of(&p, "uptime");
	CHECK_EQ(sscanf(text, "%lf %lf", &up, &idle), 2);
	CHECK(up - asleep > (double)p.t.started_ms / 1000 + 12.3 &&
	      up - asleep < (double)p.t.started_ms / 1000 + 14.4);
	CHECK(idle > 21.17 && idle < 21.19);
	free(text);
	text = text_of(&p, "stat");
	CHECK_EQ(number_after(text, "cpu  "), 350);
	CHECK(number_after(text, "btime ") + 1 - booted <= 2);
	free(text);
	text = text_of(&p, "loadavg");
	CHECK(strstr(text, " 2/7 ") != NULL);
	free(text);
	place_done(&p);
}

/* One processor busy for ten minutes: a load of one for the last, and less for the longer ones. */
TEST(load)
{
	struct cgroup_stats now = {0};
	struct place p;

	place_init(&p, 0, 2);
	for (uint64_t s = 1; s <= 600; s++) {
		now.cpu_us = s * 1000000;
		CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + s * 1000, &now, 1), 0);
	}
	CHECK(p.t.load[0] > 0.99 && p.t.load[0] < 1.01);
	CHECK(p.t.load[1] > 0.8 && p.t.load[1] < 0.93);
	CHECK(p.t.load[2] > 0.4 && p.t.load[2] < 0.55);
	/* Then nothing for an hour, seen only at its end. */
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + 4200000, &now, 1), 0);
	CHECK(p.t.load[0] < 0.01 && p.t.load[2] < 0.1);
	/* Numbers that go back are a group that was made anew. */
	now.cpu_us = 5;
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + 4201000, &now, 1), 0);
	CHECK(p.t.load[0] >= 0);
	place_done(&p);
}

TEST(no_file_changes_its_length)
{
	struct cgroup_stats huge = {.cpu_us = UINT64_MAX / 2,
				    .mem_bytes = UINT64_MAX,
				    .mem_cache_bytes = 1,
				    .pids = UINT64_MAX / 2};
	struct stat before[5], after;
	struct place p;

	place_init(&p, 2ull << 30, 2);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(fstatat(p.run_fd, wall_proc_names[i], &before[i], 0), 0);
	}
	CHECK_EQ(proc_files_write(&p.t, p.t.started_ms + (1ull << 40), &huge, UINT32_MAX), 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(fstatat(p.run_fd, wall_proc_names[i], &after, 0), 0);
		CHECK_EQ(after.st_size, before[i].st_size);
		CHECK(after.st_size > 20);
	}
	place_done(&p);
}

/* A file that cannot be written is an error at the start, and later one that is told. */
TEST(a_file_that_cannot_be_written)
{
	int fds[PROC_FILES_COUNT] = {-1, -1, -1, -1, -1};
	struct proc_files t;
	struct err e = {0};

	CHECK_EQ(proc_files_open(&t, fds, 0, false, 1, false, &e), 0);
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		fds[i] = open("/dev/full", O_RDWR | O_CLOEXEC);
	CHECK_EQ(proc_files_open(&t, fds, 0, false, 1, false, &e), -ENOSPC);
	CHECK_EQ(proc_files_write(&t, 1, &(struct cgroup_stats){0}, 0), -ENOSPC);
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		close(t.fd[i]);
}

TEST(age)
{
	struct proc_files none = PROC_FILES_NONE;
	struct place p;

	CHECK(!proc_files_is_old(&none, 1000, 0));
	CHECK_EQ(proc_files_write(&none, 5, &(struct cgroup_stats){0}, 0), 0);
	place_init(&p, 0, 1);
	CHECK(!proc_files_is_old(&p.t, p.t.written_ms + 99, 100));
	CHECK(proc_files_is_old(&p.t, p.t.written_ms + 100, 100));
	place_done(&p);
}

TAP_MAIN
