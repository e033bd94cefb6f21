/*
 * /proc as it is for the box; see proc_files.h.
 *
 * Numbers grow while a file must keep its length, so every line is filled up with spaces at its
 * end, where all who split it into words pass over them. What a file has and cannot be known
 * from outside (interrupts, context switches) is 0; how many processes were ever made is left out.
 */
#include "keeper/proc_files.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

/* The order of wall_proc_names. */
enum { CPUINFO, LOADAVG, MEMINFO, STAT, UPTIME };

enum {
	TICKS_PER_S = 100, /* USER_HZ, the same on every machine */
	LINE_WIDTH = 63,
	STAT_WIDTH = 127,
	AHEAD_MS = 1000, /* uptime is written anew after that, while a command runs */
};

/* One line of a fixed length. */
__attribute__((format(printf, 3, 4))) static void put_line(struct buf *b, int width,
							   const char *fmt, ...)
{
	char line[STAT_WIDTH + 1];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, (size_t)width + 1, fmt, ap);
	va_end(ap);
	buf_printf(b, "%-*s\n", width, line);
}

/* ---- memory ---- */

struct memory {
	uint64_t total, free, available, cached; /* kB */
};

static uint64_t meminfo_number(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void host_memory(struct memory *m)
{
	autofree char *text = NULL;

	*m = (struct memory){0};
	if (fd_read_file(AT_FDCWD, "/proc/meminfo", PROC_FILES_HOST_MAX, &text, NULL) < 0)
		return;
	m->total = meminfo_number(text, "MemTotal:");
	m->free = meminfo_number(text, "MemFree:");
	m->available = meminfo_number(text, "MemAvailable:");
	m->cached = meminfo_number(text, "\nCached:");
}

static void box_memory(struct memory *m, uint64_t total, const struct cgroup_stats *now)
{
	uint64_t used = now->mem_bytes / 1024, cached = now->mem_cache_bytes / 1024;

	if (used > total)
		used = total;
	if (cached > used)
		cached = used;
	*m = (struct memory){.total = total,
			     .free = total - used,
			     .available = total - used + cached,
			     .cached = cached};
}

static void put_meminfo(struct proc_files *t, struct buf *b, const struct cgroup_stats *now)
{
	struct memory m;
	char digits[24];
	int width;

	if (t->mem_kb)
		box_memory(&m, t->mem_kb, now);
	else
		host_memory(&m);
	/* As the kernel does it, eight digits; no number is above the total. */
	width = snprintf(digits, sizeof(digits), "%" PRIu64, m.total);
	if (width < 8)
		width = 8;
	const struct {
		const char *key;
		uint64_t kb;
	} rows[] = {
		{"MemTotal:", m.total}, {"MemFree:", m.free},  {"MemAvailable:", m.available},
		{"Buffers:", 0},	{"Cached:", m.cached}, {"SwapCached:", 0},
		{"Active:", 0},		{"Inactive:", 0},      {"Unevictable:", 0},
		{"Mlocked:", 0},	{"SwapTotal:", 0},     {"SwapFree:", 0},
		{"Dirty:", 0},		{"Writeback:", 0},     {"AnonPages:", 0},
		{"Mapped:", 0},		{"Shmem:", 0},	       {"KReclaimable:", 0},
		{"Slab:", 0},		{"SReclaimable:", 0},  {"SUnreclaim:", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		buf_printf(b, "%-15s %*" PRIu64 " kB\n", rows[i].key, width, rows[i].kb);
}

/* ---- processors ---- */

static bool is_row(const char *line, const char *key)
{
	size_t n = strlen(key);

	return strncmp(line, key, n) == 0 && (line[n] == '\t' || line[n] == ' ' || line[n] == ':');
}

/* One row of the host's: its own number, and no more cores than the box has. */
static void put_cpu_row(struct buf *b, const char *line, size_t len, unsigned number, unsigned cpus)
{
	const char *colon = memchr(line, ':', len);
	unsigned n;

	if (colon && is_row(line, "processor"))
		n = number;
	else if (colon && (is_row(line, "siblings") || is_row(line, "cpu cores")) &&
		 strtoul(colon + 1, NULL, 10) > cpus)
		n = cpus;
	else {
		buf_append(b, line, len);
		return;
	}
	buf_append(b, line, (size_t)(colon - line));
	buf_printf(b, ": %u\n", n);
}

/* The first of the host's processors; whatever stands after the last of them is left out. */
static void put_cpuinfo(struct buf *b, const char *host, unsigned cpus)
{
	unsigned seen = 0;

	while (*host) {
		size_t len = strcspn(host, "\n");

		len += host[len] == '\n';
		if (is_row(host, "processor") && ++seen > cpus)
			break;
		put_cpu_row(b, host, len, seen ? seen - 1 : 0, cpus);
		host += len;
	}
}

static void put_stat(struct proc_files *t, struct buf *b, const struct cgroup_stats *now,
		     uint64_t up_ms, unsigned running)
{
	uint64_t busy = now->cpu_us / (1000000 / TICKS_PER_S);
	uint64_t all = up_ms * t->cpus / (1000 / TICKS_PER_S);
	uint64_t idle = all > busy ? all - busy : 0;

	put_line(b, STAT_WIDTH, "cpu  %" PRIu64 " 0 0 %" PRIu64 " 0 0 0 0 0 0", busy, idle);
	for (unsigned i = 0; i < t->cpus; i++)
		put_line(b, STAT_WIDTH, "cpu%u %" PRIu64 " 0 0 %" PRIu64 " 0 0 0 0 0 0", i,
			 busy / t->cpus, idle / t->cpus);
	buf_printf(b, "intr 0\nctxt 0\n");
	put_line(b, LINE_WIDTH, "btime %" PRIu64,
		 (clock_wall_ms() - clock_boot_ms() + t->booted_ms) / 1000);
	put_line(b, LINE_WIDTH, "procs_running %u", running ? running : 1);
	buf_printf(b, "procs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n");
}

/* ---- load and time ---- */

static void average(struct proc_files *t, uint64_t now_ms, uint64_t cpu_us)
{
	static const double minutes[] = {1, 5, 15};
	uint64_t since = t->written_ms ? t->written_ms : t->started_ms;
	double passed = now_ms > since ? (double)(now_ms - since) : 0, busy;

	if (passed <= 0)
		return;
	busy = cpu_us > t->cpu_us ? (double)(cpu_us - t->cpu_us) / 1000 / passed : 0;
	t->cpu_us = cpu_us;
	for (size_t i = 0; i < 3; i++) {
		/* 1/e for x = 1, close enough for any x, without libm. */
		double x = passed / (minutes[i] * 60000);
		double left = 1 / (1 + x + x * x / 2 + x * x * x / 6 + x * x * x * x / 24);

		t->load[i] = t->load[i] * left + busy * (1 - left);
	}
}

/* ---- the files ---- */

static int write_file(int fd, struct buf *b)
{
	ssize_t n;

	do {
		n = pwrite(fd, buf_data(b), buf_len(b), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == buf_len(b) ? 0 : -ENOSPC;
}

bool proc_files_is_old(const struct proc_files *t, uint64_t now_ms, uint64_t max_age_ms)
{
	return t->fd[0] >= 0 && (t->written_ms == 0 || now_ms >= t->written_ms + max_age_ms);
}

int proc_files_write(struct proc_files *t, uint64_t now_ms, const struct cgroup_stats *now,
		     unsigned running)
{
	uint64_t up_ms = now_ms > t->started_ms ? now_ms - t->started_ms : 0;
	uint64_t pids = now->pids > running ? now->pids : running + 1;
	uint64_t all_ms = up_ms * t->cpus, busy_ms = now->cpu_us / 1000;
	uint64_t idle_ms = all_ms > busy_ms ? all_ms - busy_ms : 0;
	uint64_t boot_ms = now_ms + clock_boot_ms() - clock_mono_ms() - t->booted_ms + AHEAD_MS;
	struct buf b;
	int first = 0;

	if (t->fd[0] < 0)
		return 0;
	average(t, now_ms, now->cpu_us);
	t->written_ms = now_ms;
	buf_init(&b, PROC_FILES_CPUINFO_MAX);
	for (int i = 0; i < PROC_FILES_COUNT; i++) {
		int r;

		if (i == CPUINFO)
			continue;
		if (i == MEMINFO)
			put_meminfo(t, &b, now);
		else if (i == LOADAVG)
			put_line(&b, LINE_WIDTH, "%.2f %.2f %.2f %u/%" PRIu64 " %" PRIu64,
				 t->load[0], t->load[1], t->load[2], running, pids, pids);
		else if (i == UPTIME)
			put_line(&b, LINE_WIDTH, "%" PRIu64 ".%02" PRIu64 " %" PRIu64 ".%02" PRIu64,
				 boot_ms / 1000, boot_ms % 1000 / 10, idle_ms / 1000,
				 idle_ms % 1000 / 10);
		else
			put_stat(t, &b, now, up_ms, running);
		r = write_file(t->fd[i], &b);
		if (r < 0 && first == 0)
			first = r;
		buf_consume(&b, buf_len(&b));
	}
	buf_done(&b);
	return first;
}

static int write_cpuinfo(struct proc_files *t)
{
	autofree char *text = NULL;
	struct buf b;
	int r = fd_read_file(AT_FDCWD, "/proc/cpuinfo", PROC_FILES_CPUINFO_MAX, &text, NULL);

	if (r < 0)
		return r;
	buf_init(&b, PROC_FILES_CPUINFO_MAX);
	put_cpuinfo(&b, text, t->cpus);
	r = write_file(t->fd[CPUINFO], &b);
	buf_done(&b);
	return r;
}

static void set_numbers(struct proc_files *t, uint64_t mem_bytes, bool mem_asked, unsigned cpus)
{
	struct sysinfo info;
	uint64_t have = 0;

	/* The kernel looks at every block device for its answer: a default is known to fit. */
	if (mem_asked && sysinfo(&info) == 0)
		have = (uint64_t)info.totalram * info.mem_unit;
	/* No more than the limit, nor than the machine has. */
	t->mem_kb = (have > 0 && have < mem_bytes ? have : mem_bytes) / 1024;
	t->cpus = cpus;
	t->started_ms = clock_mono_ms();
}

static int write_first(struct proc_files *t, bool with_cpus, struct err *e)
{
	struct cgroup_stats nothing = {0};
	int r = with_cpus ? write_cpuinfo(t) : 0;

	if (r == 0)
		r = proc_files_write(t, t->started_ms, &nothing, 0);
	return r < 0 ? err_errno(e, -r, "write the box's own files in /proc") : 0;
}

int proc_files_open(struct proc_files *t, int *fds, uint64_t mem_bytes, bool mem_asked,
		    unsigned cpus, bool own_kernel, struct err *e)
{
	*t = PROC_FILES_NONE;
	t->booted_ms = own_kernel ? clock_boot_ms() : 0;
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		t->fd[i] = take_fd(fds[i]);
	set_numbers(t, mem_bytes, mem_asked, cpus);
	return t->fd[0] < 0 ? 0 : write_first(t, true, e);
}

int proc_files_again(struct proc_files *t, uint64_t mem_bytes, bool mem_asked, unsigned cpus,
		     struct err *e)
{
	bool others = cpus != t->cpus;

	if (t->fd[0] < 0)
		return 0;
	set_numbers(t, mem_bytes, mem_asked, cpus);
	t->cpu_us = 0;
	memset(t->load, 0, sizeof(t->load));
	t->written_ms = 0;
	/* No program has read them yet, so they may change their length. */
	for (int i = 0; i < PROC_FILES_COUNT; i++)
		if ((i != CPUINFO || others) && ftruncate(t->fd[i], 0) < 0)
			return err_errno(e, errno, "write the box's own files in /proc");
	return write_first(t, others, e);
}
