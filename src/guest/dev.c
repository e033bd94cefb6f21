/* /dev of a box; see guest.h. */
#include "base/fd.h"
#include "guest/guest.h"
#include "guest/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

const struct guest_device guest_devices[GUEST_DEVICES] = {
	{"null", 0x103},   {"zero", 0x105},    {"full", 0x107},
	{"random", 0x108}, {"urandom", 0x109}, {"tty", 0x500},
};

int guest_dev_nodes(int *ret_fd)
{
	static const char *const options[] = {"size", "4k",   "nr_inodes", "16",
					      "mode", "0755", NULL};
	autoclose int fd = mount_new("tmpfs", options, MA_NOSUID | MA_NOEXEC);
	mode_t mask = umask(0);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; i < GUEST_DEVICES && r == 0; i++) {
		uint32_t number = guest_devices[i].number;

		if (mknodat(fd, guest_devices[i].name, S_IFCHR | 0666,
			    makedev(number >> 8, number & 0xff)) < 0)
			r = -errno;
	}
	umask(mask);
	if (r == 0)
		*ret_fd = take_fd(fd);
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

/* Nodes of the box's own are bound as others would be, so that root inside cannot put something
 * else in their place. */
static int put_nodes(struct guest *g, const struct guest_dev *d)
{
	int r = 0;

	if (d->nodes >= 0)
		r = mkdir("nodes", 0700) < 0 ? -errno : mount_attach(d->nodes, AT_FDCWD, "nodes");
	for (int i = 0; i < GUEST_DEVICES && r == 0; i++) {
		const char *name = guest_devices[i].name;
		char from[32], to[32];

		if (mknodat(g->dev, name, S_IFREG | 0644, 0) < 0)
			return -errno;
		if (d->nodes < 0) {
			r = mount_attach(d->devices[i], g->dev, name);
			continue;
		}
		snprintf(from, sizeof(from), "nodes/%s", name);
		snprintf(to, sizeof(to), "dev/%s", name);
		r = mount(from, to, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
	}
	return r;
}

static int put_mount(int dev, const char *name, const char *type, const char *const *options)
{
	autoclose int fd = -1;

	if (mkdirat(dev, name, 0755) < 0)
		return -errno;
	fd = mount_new(type, options, MA_NOSUID | MA_NOEXEC | (type[0] == 't' ? MA_NODEV : 0));
	return fd < 0 ? fd : mount_attach(fd, dev, name);
}

int guest_dev_make(struct guest *g, const struct guest_dev *d)
{
	static const char *const dev[] = {"size", "64k", "nr_inodes", "64", "mode", "0755", NULL};
	static const char *const pts[] = {"ptmxmode", "0666", "mode", "0620", "gid",
					  "5",	      "max",  "256",  NULL};
	static const char *const pts_single[] = {"ptmxmode", "0666", "mode", "0620",
						 "max",	     "256",  NULL};
	static const char *const shells[] = {"size", "32m",  "nr_inodes", "16384",
					     "mode", "1733", NULL};
	char size[24];
	const char *shm[] = {"mode", "1777", "nr_inodes", "65536", "size", size, NULL};
	int r;

	snprintf(size, sizeof(size), "%llu", (unsigned long long)d->mem_bytes / 2);
	if (d->mem_bytes / 2 == 0)
		shm[4] = NULL; /* half of the machine's, as everywhere */
	g->dev = mount_new("tmpfs", dev, MA_NOSUID | MA_NOEXEC);
	r = g->dev < 0 ? g->dev : mount_attach(g->dev, g->scratch, "dev");
	if (r == 0)
		r = put_nodes(g, d);
	if (r == 0)
		r = put_links(g->dev);
	if (r == 0)
		r = put_mount(g->dev, "pts", "devpts", d->single ? pts_single : pts);
	if (r == 0)
		r = put_mount(g->dev, "shm", "tmpfs", shm);
	if (r == 0)
		r = put_mount(g->dev, "cove", "tmpfs", shells);
	return r;
}

int guest_dev_show(struct guest *g)
{
	return guest_attach(g, g->dev, "/dev", true);
}
