/* Which limits can be kept here, asked of the modules that keep them; see doctor.h. */
#include "doctor/checks.h"

#include "base/size.h"
#include "storage/pool.h"
#include "storage/storage.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The module says "reason; remedy" in one sentence. */
static void not_kept(struct doctor_check *c, const char *why, const char *otherwise)
{
	const char *end = strstr(why, "; ");

	doctor_found(c, "%.*s", end ? (int)(end - why) : (int)strlen(why), why);
	doctor_set(c, DOCTOR_LIMITED, otherwise,
		   end		    ? end + 2
		   : geteuid() == 0 ? "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)"
				    : "systemd-run --user --scope -p Delegate=yes cove ...");
}

static void limit(struct doctor *d, struct doctor_check *c, enum cgroup_part part,
		  const char *holds, const char *otherwise)
{
	const char *why = d->offer.why[part];

	if (d->offer.can & 1u << part)
		doctor_found(c, "%s", holds);
	else
		not_kept(c, why[0] ? why : "there is no such controller here", otherwise);
}

void doctor_check_cgroup(struct doctor *d, struct doctor_check *c)
{
	char why[CGROUP_WHY_MAX + 16];

	if (d->offer.can & 1u << CGROUP_TREE) {
		doctor_found(c, "%s: a command's tree is frozen and killed as one",
			     d->offer.layout);
		return;
	}
	snprintf(why, sizeof(why), "%s: %s", d->offer.layout, d->offer.why[CGROUP_TREE]);
	not_kept(c, why,
		 "no pause; the end of a command's tree is found by walking its descendants, which "
		 "is not exact");
}

void doctor_check_memory(struct doctor *d, struct doctor_check *c)
{
	limit(d, c, CGROUP_MEMORY, "--mem holds; out of memory ends the command, not the box",
	      "a box can use all memory of this host");
}

void doctor_check_cpus(struct doctor *d, struct doctor_check *c)
{
	limit(d, c, CGROUP_CPU, "--cpus holds", "a box can use all processors it may run on");
}

void doctor_check_pids(struct doctor *d, struct doctor_check *c)
{
	limit(d, c, CGROUP_PIDS, "--pids holds", "a fork bomb in a box can fill this host");
}

void doctor_check_io(struct doctor *d, struct doctor_check *c)
{
	limit(d, c, CGROUP_IO, "--io holds", "a box can keep the disk busy");
	if (c->status == DOCTOR_OK && strcmp(d->offer.layout, "v2") != 0) {
		doctor_found(c, "cgroup v1 limits reads and direct writes");
		doctor_set(c, DOCTOR_LIMITED,
			   "buffered writes are not limited: --io needs --best-effort",
			   "boot with systemd.unified_cgroup_hierarchy=1 (cgroup v2)");
	}
}

static int check_storage(struct doctor *d, const char *name, struct err *e)
{
	const struct storage_ops *ops = storage_find(name);
	struct storage_place place = {.home_fd = d->place_fd, .dir_fd = d->place_fd};
	int r = core_ids(&d->cove, e);

	return r < 0 ? r : ops->check(&place, &d->cove.ids, e);
}

void doctor_check_disk(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (d->place_fd >= 0 && check_storage(d, "loop", &e) == 0) {
		doctor_found(c, "--disk holds: a disk in a file for each box (loop, ext4)");
		return;
	}
	doctor_found(c, "%.*s", (int)strcspn(e.msg, ":"), e.msg);
	if (d->place_fd < 0)
		doctor_found(c, "there is no place for boxes");
	doctor_set(c, DOCTOR_LIMITED, "a box can fill the disk that COVE_HOME is on",
		   geteuid() == 0 ? "apt install e2fsprogs; make /dev/loop-control usable "
				    "(modprobe loop)"
		   : check_storage(d, "tmpfs", &e) == 0
			   ? "cove create --storage tmpfs --disk SIZE, or run as root"
			   : "run as root");
}

void doctor_check_tmpfs(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (check_storage(d, "tmpfs", &e) == 0) {
		doctor_found(c, "--storage tmpfs: writes in memory, bounded by --disk");
		return;
	}
	doctor_found(c, "%.*s", (int)strcspn(e.msg, ":"), e.msg);
	doctor_set(c, DOCTOR_ABSENT, "no boxes that write to memory only",
		   "use Linux 6.6 or later");
}

/* Nothing is made or mounted to find out: what is missing is said by who sets it up. */
void doctor_check_pool(struct doctor *d, struct doctor_check *c)
{
	struct pool_info info;
	char all[SIZE_TEXT], room[SIZE_TEXT];
	struct err e = {0};

	if (geteuid() != 0) {
		doctor_found(c, "the pool is root's");
		doctor_set(c, DOCTOR_ABSENT, "no pool: snapshots copy what a box wrote",
			   "run as root");
		return;
	}
	if (d->place_fd >= 0 && pool_look(d->place_fd, &info, &e) == -EROFS) {
		doctor_found(c, "%.*s", (int)strcspn(e.msg, ":"), e.msg);
		doctor_set(c, DOCTOR_LIMITED, "no box that is in it can write",
			   "make room on the host's disk, cove stop BOX..., cove start BOX...");
		return;
	}
	if (d->place_fd < 0 || e.msg[0]) {
		doctor_found(c, "%.*s", (int)strcspn(e.msg, ":"),
			     e.msg[0] ? e.msg : "there is no place for boxes");
		doctor_set(c, DOCTOR_ABSENT, "no pool: snapshots copy what a box wrote",
			   "cove doctor --setup-storage");
		return;
	}
	doctor_found(c, "--storage pool, the default: %s, %s free, %llu volumes, %llu layers%s",
		     size_format(all, info.bytes), size_format(room, info.free),
		     (unsigned long long)info.volumes, (unsigned long long)info.layers,
		     info.is_file ? " (pool.img)" : "");
	if (pool_check_room(d->place_fd, &e) < 0)
		doctor_set(c, DOCTOR_LIMITED, "no new box is made until there is room",
			   "cove rm BOX..., cove snapshot rm NAME..., or make room on the disk");
}
