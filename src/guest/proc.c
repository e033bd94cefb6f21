/* /proc and /sys of a box; see guest.h. */
#include "base/fd.h"
#include "guest/guest.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* What tells about the host or reaches into its kernel; those that do not exist are passed over.
 * ps, top, free, df and libraries that count processors read none of them (vmstat stays: top and
 * free ask for it, and it counts pages only). */
static const char *const masked[] = {
	/* directories */
	"acpi",
	"asound",
	"bus",
	"driver",
	"fs",
	"irq",
	"pressure",
	"scsi",
	/* files */
	"buddyinfo",
	"cmdline",
	"config.gz",
	"consoles",
	"crypto",
	"diskstats",
	"dma",
	"execdomains",
	"fb",
	"interrupts",
	"iomem",
	"ioports",
	"kallsyms",
	"kcore",
	"key-users",
	"keys",
	"kmsg",
	"kpagecgroup",
	"kpagecount",
	"kpageflags",
	"latency_stats",
	"locks",
	"mdstat",
	"misc",
	"modules",
	"mtrr",
	"pagetypeinfo",
	"partitions",
	"sched_debug",
	"schedstat",
	"slabinfo",
	"softirqs",
	"swaps",
	"sysrq-trigger",
	"timer_list",
	"timer_stats",
	"vmallocinfo",
	"zoneinfo",
};

enum { MASKED_DIRS = 8 };

/* 1 is init: in-box root owns its files there, and could make it the first to be killed. */
const char *const guest_proc_read_only_paths[] = {"sys", "1", NULL};

int guest_proc_make(struct guest *g)
{
	autoclose int file = -1;
	int r;

	if (mkdir("covers", 0755) < 0 || mkdir("covers/empty", 0555) < 0)
		return -errno;
	file = openat(g->scratch, "covers/nothing", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	if (file < 0)
		return -errno;
	r = mount_here("proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	if (r < 0)
		return r;
	g->proc = openat(g->scratch, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return g->proc < 0 ? -errno : 0;
}

int guest_covers_hold(void)
{
	return mount_read_only_here("covers");
}

/* Both are on the scratch, where no other process writes: names can be used. */
static int cover(const char *with, const char *name)
{
	char from[64], path[64];

	snprintf(from, sizeof(from), "covers/%s", with);
	snprintf(path, sizeof(path), "proc/%s", name);
	return mount(from, path, NULL, MS_BIND, NULL) < 0 && errno != ENOENT ? -errno : 0;
}

int guest_proc_cover(const char *name)
{
	return cover(name, name);
}

/* An empty read-only file or directory over it, or the other where a kernel has it otherwise. */
static int mask(const char *name)
{
	for (size_t i = 0; i < sizeof(masked) / sizeof(masked[0]); i++) {
		bool is_dir = i < MASKED_DIRS;
		int r;

		if (strcmp(name, masked[i]) != 0)
			continue;
		r = cover(is_dir ? "empty" : "nothing", name);
		return r == -ENOTDIR ? cover(is_dir ? "nothing" : "empty", name) : r;
	}
	return 0;
}

/* What is there is listed: each kernel has only some of them. */
int guest_proc_mask(struct guest *g)
{
	char names[4096] __attribute__((aligned(8)));
	int r = 0;
	long n;

	while (r == 0 && (n = syscall(SYS_getdents64, g->proc, names, sizeof(names))) != 0) {
		const struct fd_dirent *d;

		if (n < 0)
			return -errno;
		for (long at = 0; at < n && r == 0; at += d->reclen) {
			d = (const void *)(names + at);
			r = mask(d->name);
		}
	}
	return r;
}

int guest_proc_read_only(struct guest *g, const char *path)
{
	char place[64];
	int r;

	snprintf(place, sizeof(place), "proc/%s", path);
	r = mount_read_only_here(place);
	return r == -ENOENT ? 0 : r;
}

int guest_sys_make(struct guest *g)
{
	int fd;

	if (mkdir("sys", 0555) < 0 || mount("sys", "sys", NULL, MS_BIND, NULL) < 0 ||
	    mkdir("sys/fs", 0555) < 0 || mkdir("sys/fs/cgroup", 0555) < 0)
		return -errno;
	fd = openat(g->scratch, "sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int guest_proc_show(struct guest *g)
{
	return guest_attach(g, g->proc, "/proc", true);
}
