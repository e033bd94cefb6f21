/* /dev of a box; see guest.h. */
#include "base/fd.h"
#include "guest/guest.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

const struct guest_device guest_devices[GUEST_DEVICES] = {
	{"null", 0x103},   {"zero", 0x105},    {"full", 0x107},
	{"random", 0x108}, {"urandom", 0x109}, {"tty", 0x500},
};

static int make_nodes(int scratch, const char *dir, mode_t mode)
{
	int r = mkdirat(scratch, dir, mode) < 0 ? -errno : 0;

	for (size_t i = 0; i < GUEST_DEVICES && r == 0; i++) {
		uint32_t number = guest_devices[i].number;
		char path[32];

		snprintf(path, sizeof(path), "%s/%s", dir, guest_devices[i].name);
		if (mknodat(scratch, path, S_IFCHR | 0666, makedev(number >> 8, number & 0xff)) < 0)
			r = -errno;
	}
	if (r < 0)
		(void)unlinkat(scratch, dir, AT_REMOVEDIR);
	return r;
}

int guest_dev_nodes(int scratch, gid_t gid)
{
	mode_t mask = umask(0);
	int r = gid == GUEST_OWN_GID ? make_nodes(scratch, "nodes", 0755)
				     : make_nodes(scratch, "dev", 01775);

	umask(mask);
	if (r == 0 && gid != GUEST_OWN_GID && fchownat(scratch, "dev", (uid_t)-1, gid, 0) < 0)
		r = -errno;
	return r;
}

static int put_links(int dev)
{
	static const char *const links[][2] = {
		{"fd", "/proc/self/fd"},       {"stdin", "/proc/self/fd/0"},
		{"stdout", "/proc/self/fd/1"}, {"stderr", "/proc/self/fd/2"},
		{"ptmx", "pts/ptmx"},
	};

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (symlinkat(links[i][1], dev, links[i][0]) < 0)
			return -errno;
	return 0;
}

static int hold_no_devices(const char *place)
{
	return mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		     NULL);
}

/* Nodes of the box's own are bound as others would be, so that root inside cannot put something
 * else in their place; or they are in /dev already (guest_dev_nodes), where he cannot either. They
 * are the only devices on the scratch. */
static int put_nodes(struct guest *g, const struct guest_dev *d)
{
	int r = 0;

	if (g->has_dev)
		return hold_no_devices(".") < 0 ? -errno : 0;
	for (int i = 0; i < GUEST_DEVICES && r == 0; i++) {
		const char *name = guest_devices[i].name;
		char from[32], to[32];

		if (mknodat(g->dev, name, S_IFREG | 0644, 0) < 0)
			return -errno;
		if (!d->has_nodes) {
			r = mount_attach(d->devices[i], g->dev, name);
			continue;
		}
		snprintf(from, sizeof(from), "nodes/%s", name);
		snprintf(to, sizeof(to), "dev/%s", name);
		r = mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
	}
	if (r == 0 && d->has_nodes && (hold_no_devices(".") < 0 || hold_no_devices("dev") < 0))
		r = -errno;
	return r;
}

static int put_mount(const char *place, const char *type, const char *options)
{
	unsigned long flags = MS_NOSUID | MS_NOEXEC | (type[0] == 't' ? MS_NODEV : 0);

	return mkdir(place, 0755) < 0 ? -errno : mount_here(type, place, flags, options);
}

/* Where shell lines pass through: a mount point, so that root inside cannot put something else in
 * its place. */
static int put_shells(void)
{
	static const char dir[] = "dev/cove";

	if (mkdir(dir, 0700) < 0 || chmod(dir, 01733) < 0 ||
	    mount(dir, dir, NULL, MS_BIND, NULL) < 0 || hold_no_devices(dir) < 0)
		return -errno;
	return 0;
}

/* /dev and the shells' directory are of the scratch's file system. Each one more costs the whole
 * machine: a memory group that goes walks over all of them, and every group has room for each. */
int guest_dev_make(struct guest *g, const struct guest_dev *d)
{
	const char *pts = d->single ? "ptmxmode=0666,mode=0620,max=256"
				    : "ptmxmode=0666,mode=0620,gid=5,max=256";
	char shm[80] = "mode=1777,nr_inodes=65536"; /* half of the machine's, as everywhere */
	int r = mount("dev", "dev", NULL, MS_BIND, NULL) < 0 ? -errno : 0;

	if (d->mem_bytes / 2 > 0)
		snprintf(shm, sizeof(shm), "mode=1777,nr_inodes=65536,size=%llu",
			 (unsigned long long)d->mem_bytes / 2);
	if (r < 0)
		return r;
	g->dev = openat(g->scratch, "dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = g->dev < 0 ? -errno : put_nodes(g, d);
	if (r == 0)
		r = put_links(g->dev);
	if (r == 0)
		r = put_mount("dev/pts", "devpts", pts);
	if (r == 0)
		r = put_mount("dev/shm", "tmpfs", shm);
	if (r == 0)
		r = put_shells();
	return r;
}

int guest_dev_resize(struct guest *g, uint64_t mem_bytes)
{
	enum { SET_STRING = 1, RECONFIGURE = 7, PICK_CLOEXEC = 1, PICK_NOFOLLOW = 2 };
	char size[24];
	autoclose int fd = (int)syscall(SYS_fspick, g->dev, "shm", PICK_CLOEXEC | PICK_NOFOLLOW);

	snprintf(size, sizeof(size), "%llu", (unsigned long long)mem_bytes / 2);
	return fd < 0 || syscall(SYS_fsconfig, fd, SET_STRING, "size", size, 0) < 0 ||
			       syscall(SYS_fsconfig, fd, RECONFIGURE, NULL, NULL, 0) < 0
		       ? -errno
		       : 0;
}

int guest_dev_show(struct guest *g)
{
	return guest_attach(g, g->dev, "/dev", true);
}
