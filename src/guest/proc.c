/* /proc of a box; see guest.h. */
#include "base/fd.h"
#include "guest/guest.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>

/* What tells about the host or reaches into its kernel; those that do not exist are passed over.
 * ps, top, free, df and libraries that count processors read none of them (vmstat stays: top and
 * free ask for it, and it counts pages only). */
static const char *const masked_dirs[] = {
	"acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi",
};

static const char *const masked_files[] = {
	"buddyinfo",	 "cmdline",	"config.gz",
	"consoles",	 "crypto",	"diskstats",
	"dma",		 "execdomains", "fb",
	"interrupts",	 "iomem",	"ioports",
	"kallsyms",	 "kcore",	"key-users",
	"keys",		 "kmsg",	"kpagecgroup",
	"kpagecount",	 "kpageflags",	"latency_stats",
	"locks",	 "mdstat",	"misc",
	"modules",	 "mtrr",	"pagetypeinfo",
	"partitions",	 "sched_debug", "schedstat",
	"slabinfo",	 "softirqs",	"swaps",
	"sysrq-trigger", "timer_list",	"timer_stats",
	"vmallocinfo",	 "zoneinfo",
};

/* 1 is init: in-box root owns its files there, and could make it the first to be killed. */
const char *const guest_proc_read_only_paths[] = {"sys", "1", NULL};

static int make_covers(int scratch)
{
	static const char *const covers[] = {"nothing", "empty"};
	autoclose int file =
		openat(scratch, "nothing", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
	int r = file < 0 ? -errno : 0;

	for (size_t i = 0; i < sizeof(covers) / sizeof(covers[0]) && r == 0; i++) {
		autoclose int copy = mount_clone(scratch, covers[i], false);

		r = copy < 0 ? copy
			     : mount_set(copy, MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
		if (r == 0)
			r = mount_attach(copy, scratch, covers[i]);
	}
	return r;
}

int guest_proc_make(struct guest *g)
{
	int r = make_covers(g->scratch);

	g->proc = r < 0 ? r : mount_new("proc", NULL, MA_NOSUID | MA_NODEV | MA_NOEXEC);
	return g->proc < 0 ? g->proc : mount_attach(g->proc, g->scratch, "proc");
}

/* An empty read-only file or directory over it: cover, or the other one where a kernel has it
 * otherwise. Both are on the scratch, where no other process writes, and so is this /proc: names
 * can be used. */
static int mask(const char *name, const char *cover, const char *other)
{
	char path[64];

	snprintf(path, sizeof(path), "proc/%s", name);
	if (mount(cover, path, NULL, MS_BIND, NULL) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR && mount(other, path, NULL, MS_BIND, NULL) == 0)
		return 0;
	return -errno;
}

int guest_proc_mask(struct guest *g)
{
	int r = 0;

	for (size_t i = 0; i < sizeof(masked_dirs) / sizeof(masked_dirs[0]) && r == 0; i++)
		r = mask(masked_dirs[i], "empty", "nothing");
	for (size_t i = 0; i < sizeof(masked_files) / sizeof(masked_files[0]) && r == 0; i++)
		r = mask(masked_files[i], "nothing", "empty");
	return r;
}

int guest_proc_read_only(struct guest *g, const char *path)
{
	autoclose int copy = mount_clone(g->proc, path, true);
	int r;

	if (copy < 0)
		return copy == -ENOENT ? 0 : copy;
	r = mount_set(copy, MA_RDONLY, -1);
	return r < 0 ? r : mount_attach(copy, g->proc, path);
}

int guest_proc_show(struct guest *g)
{
	return guest_attach(g, g->proc, "/proc", true);
}
