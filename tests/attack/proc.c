/* B14, B15: kernel knobs, and what /proc and /sys tell of the host. Knobs are never written. */
#include "attack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <unistd.h>

static int knob(const char *path)
{
	if (can_write(path))
		return broke("%s opens for writing", path);
	return held("%s: %s", path, strerror(errno));
}

#define KNOB(id, path)                                                       \
	CASE(B14_##id, "B14", AS_BOTH, path " cannot be opened for writing") \
	{                                                                    \
		return knob(path);                                           \
	}

KNOB(core_pattern, "/proc/sys/kernel/core_pattern")
KNOB(modprobe_path, "/proc/sys/kernel/modprobe")
KNOB(binfmt_misc_register, "/proc/sys/fs/binfmt_misc/register")
KNOB(uevent_helper, "/sys/kernel/uevent_helper")
KNOB(release_agent, "/sys/fs/cgroup/memory/release_agent")
KNOB(devices_allow, "/sys/fs/cgroup/devices/devices.allow")
KNOB(irq_affinity, "/proc/irq/default_smp_affinity")
KNOB(drop_caches, "/proc/sys/vm/drop_caches")
KNOB(ns_last_pid, "/proc/sys/kernel/ns_last_pid")

/* The mask is the null device, which opens; what counts is that no byte can reach the kernel. */
CASE(B14_sysrq_trigger, "B14", AS_BOTH, "/proc/sysrq-trigger is not the kernel's")
{
	struct stat st;

	if (stat("/proc/sysrq-trigger", &st) < 0)
		return held("not there");
	if (S_ISCHR(st.st_mode))
		return held("the null device");
	return knob("/proc/sysrq-trigger");
}

static unsigned writable_below(const char *dir, int depth, char *first, size_t size)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned found = 0;

	while (d && (e = readdir(d))) {
		char path[512];

		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_type == DT_DIR && depth < 8)
			found += writable_below(path, depth + 1, first, size);
		else if (e->d_type == DT_REG && can_write(path)) {
			if (found++ == 0 && !first[0])
				snprintf(first, size, "%s", path);
		}
	}
	if (d)
		closedir(d);
	return found;
}

CASE(B14_every_sysctl, "B14", AS_BOTH, "not one file below /proc/sys opens for writing")
{
	char first[512] = "";
	unsigned found = writable_below("/proc/sys", 0, first, sizeof(first));

	return found ? broke("%u files, %s", found, first) : held("none");
}

CASE(B14_every_file_of_sysfs, "B14", AS_BOTH, "not one file below /sys opens for writing")
{
	char first[512] = "";
	unsigned found = writable_below("/sys", 0, first, sizeof(first));

	return found ? broke("%u files, %s", found, first) : held("none");
}

CASE(B14_own_oom_score_below_zero, "B14", AS_BOTH,
     "a command cannot make itself the last one that memory pressure takes")
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return held("open: %s", strerror(errno));
	return failed("write -1000", write(fd, "-1000", 5));
}

/* Nothing to read, or not there. */
static int silent(const char *path)
{
	char text[256];
	ssize_t n = slurp(path, text, sizeof(text));

	if (n > 0)
		return broke("%s tells %zd bytes and more", path, n);
	return held("%s: %s", path, n < 0 ? strerror((int)-n) : "empty");
}

#define SILENT(id, path)                                      \
	CASE(B15_##id, "B15", AS_BOTH, path " tells nothing") \
	{                                                     \
		return silent(path);                          \
	}

SILENT(kcore, "/proc/kcore")
SILENT(keys, "/proc/keys")
SILENT(kallsyms, "/proc/kallsyms")
SILENT(timer_list, "/proc/timer_list")
SILENT(interrupts, "/proc/interrupts")
SILENT(sched_debug, "/proc/sched_debug")
SILENT(kmsg, "/proc/kmsg")
SILENT(command_line, "/proc/cmdline")
SILENT(config_gz, "/proc/config.gz")
SILENT(slabinfo, "/proc/slabinfo")
SILENT(vmallocinfo, "/proc/vmallocinfo")
SILENT(firmware, "/sys/firmware/efi/systab")
SILENT(dmi, "/sys/class/dmi/id/product_uuid")
SILENT(powercap, "/sys/devices/virtual/powercap/intel-rapl/intel-rapl:0/energy_uj")
SILENT(thermal_throttle, "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count")
SILENT(dev_kmsg, "/dev/kmsg")
SILENT(dev_mem, "/dev/mem")
SILENT(debugfs, "/sys/kernel/debug/sched/features")
SILENT(init_environment, "/proc/1/environ")
SILENT(init_maps, "/proc/1/maps")
SILENT(init_registers, "/proc/1/syscall")
SILENT(init_stack, "/proc/1/stack")
SILENT(init_auxv, "/proc/1/auxv")
SILENT(page_map_of_init, "/proc/1/pagemap")

CASE(B15_kernel_addresses, "B15", AS_BOTH, "/proc/self/stack and modules show no kernel address")
{
	static char text[1 << 16];

	if (slurp("/proc/self/stack", text, sizeof(text)) > 0 && strstr(text, "ffffffff"))
		return broke("/proc/self/stack has addresses");
	if (slurp("/proc/modules", text, sizeof(text)) > 0 && strstr(text, "0xffffffff"))
		return broke("/proc/modules has addresses");
	return held("none");
}

CASE(B15_dmesg, "B15", AS_BOTH, "syslog(2) does not read the kernel's log")
{
	char text[256];

	return refused("syslog", klogctl(3, text, sizeof(text)));
}

CASE(B15_no_host_process, "B15", AS_BOTH, "/proc holds no process of the host")
{
	char path[64], comm[64];
	long pid = canary_number("CANARY_PID");
	DIR *proc = opendir("/proc");
	struct dirent *d;
	unsigned count = 0;

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	if (slurp(path, comm, sizeof(comm)) > 0 &&
	    strncmp(comm, canary_text("CANARY_COMM"), strlen(canary_text("CANARY_COMM"))) == 0)
		return broke("the host's process %ld is there", pid);
	while (proc && (d = readdir(proc)))
		count += d->d_name[0] >= '0' && d->d_name[0] <= '9';
	return count && count < 64 ? held("%u processes", count) : broke("%u processes", count);
}

CASE(B15_host_paths_in_mounts, "B15", AS_BOTH, "mountinfo names nothing of Cove's state directory")
{
	static char text[1 << 18];
	static const char *const files[] = {"/proc/self/mountinfo", "/proc/self/mounts",
					    "/proc/1/mountinfo", "/proc/self/mountstats"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (slurp(files[i], text, sizeof(text)) > 0 &&
		    strstr(text, canary_text("CANARY_HOME")))
			return broke("%s names the state directory", files[i]);
	return held("not named");
}

CASE(B15_cgroup_paths, "B15", AS_BOTH, "/proc/self/cgroup shows paths from the box's own root")
{
	char text[4096];
	ssize_t n = slurp("/proc/self/cgroup", text, sizeof(text));

	if (n <= 0)
		return held("nothing to see");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		char *path = strrchr(line, ':');

		if (path && (strstr(path, "cove") || strstr(path, "user.slice") ||
			     strstr(path, "system.slice")))
			return broke("%s", line);
	}
	return held("from its own root");
}

/* Of the groups that are shown: a file that only the top of a whole tree has, or a group or process
 * that is not the box's. Whole lines, as they are in mountinfo. */
static int foreign_group(char *line)
{
	char root[256], point[256], path[512];

	if (!strstr(line, " - cgroup") || sscanf(line, "%*s %*s %*s %255s %255s", root, point) != 2)
		return 0;
	if (!strstr(line, " ro,"))
		return broke("%s can be written to", point);
	if (strstr(root, "cove") || strstr(root, ".slice"))
		return broke("%s names %s", point, root);
	snprintf(path, sizeof(path), "%s/release_agent", point);
	if (access(path, F_OK) == 0)
		return broke("%s is the top of a tree", point);
	snprintf(path, sizeof(path), "%s/cove", point);
	if (access(path, F_OK) == 0)
		return broke("%s holds all boxes", point);
	return 0;
}

CASE(B15_no_cgroup_tree, "B15", AS_BOTH,
     "no cgroup filesystem of the host is visible: only the box's own groups are, read-only")
{
	char text[65536], *at = text, *line;
	int r = 0;

	if (slurp("/proc/self/mountinfo", text, sizeof(text)) <= 0)
		return broke("no mountinfo");
	while (r == 0 && (line = strsep(&at, "\n")))
		r = foreign_group(line);
	return r ? r : held("only its own");
}

CASE(B14_every_group_knob, "B14", AS_BOTH,
     "in-box root makes, removes and changes no group that it is shown")
{
	static const char *const tops[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory",
					   "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/pids"};
	char path[128];

	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
		snprintf(path, sizeof(path), "%s/attack", tops[i]);
		if (mkdir(path, 0755) == 0)
			return broke("%s was made", path);
		if (chmod(tops[i], 0777) == 0 || rmdir(tops[i]) == 0)
			return broke("%s was changed", tops[i]);
	}
	return held("%s", strerror(errno));
}

CASE(B15_host_devices, "B15", AS_BOTH, "only loopback is in /proc/net/dev")
{
	char text[4096];
	unsigned names = 0;

	if (slurp("/proc/net/dev", text, sizeof(text)) <= 0)
		return held("nothing to see");
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		names += strchr(line, ':') != NULL && !strstr(line, "lo:");
	return names ? broke("%u other devices", names) : held("lo");
}

CASE(B15_memory_truth, "B15", AS_USER | SMALL | NEEDS_MEM,
     "/proc/meminfo tells the box's limit, not the host's memory")
{
	char text[4096];
	long long kib;

	if (slurp("/proc/meminfo", text, sizeof(text)) <= 0 || strncmp(text, "MemTotal:", 9) != 0)
		return broke("no MemTotal");
	kib = strtoll(text + 9, NULL, 10);
	return kib <= canary_number("BOX_MEM_MIB") * 1024 ? held("%lld KiB", kib)
							  : broke("%lld KiB", kib);
}

CASE(B15_processor_truth, "B15", AS_USER | SMALL,
     "as many processors are in /proc/cpuinfo as sched_getaffinity allows")
{
	static char text[1 << 18];
	long online = sysconf(_SC_NPROCESSORS_ONLN), listed = 0;
	char *at = text;

	if (slurp("/proc/cpuinfo", text, sizeof(text)) <= 0)
		return broke("no cpuinfo");
	while ((at = strstr(at, "processor"))) {
		listed++;
		at++;
	}
	return listed == online ? held("%ld", listed)
				: broke("%ld listed, %ld usable", listed, online);
}

CASE(B15_proc_write_self, "B14", AS_BOTH,
     "uid_map, gid_map, setgroups and loginuid of a running command cannot be changed")
{
	static const char *const files[] = {"/proc/self/uid_map", "/proc/self/gid_map",
					    "/proc/self/setgroups", "/proc/self/loginuid"};

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = open(files[i], O_WRONLY | O_CLOEXEC);

		if (fd >= 0 && write(fd, "0 0 1\n", 6) == 6)
			return broke("%s took a line", files[i]);
		if (fd >= 0)
			close(fd);
	}
	return held("%s", strerror(errno));
}
