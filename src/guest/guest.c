/* The scratch, small files and the loopback of a box; see guest.h. */
#include "guest/guest.h"

#include "base/fd.h"
#include "guest/mount.h"
#include "guest/open.h"
#include "guest/target.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

int guest_scratch_new(uid_t uid, gid_t gid, bool *ret_has_nodes)
{
	enum { HELD = MA_NOSUID | MA_NODEV | MA_NOEXEC };
	char user[16], group[16];
	/* Most of the room is for shell lines. */
	const char *options[] = {"size", "64m", "nr_inodes", "16384", "mode", "0755",
				 "uid",	 user,	"gid",	     group,   NULL};
	autoclose int fd = -1;
	int r = 0;

	if (uid == GUEST_OWN_UID)
		options[6] = NULL;
	snprintf(user, sizeof(user), "%u", (unsigned)uid);
	snprintf(group, sizeof(group), "%u", (unsigned)gid);
	fd = mount_new("tmpfs", options, ret_has_nodes ? HELD & ~MA_NODEV : HELD);
	if (fd < 0)
		return fd;
	if (ret_has_nodes) {
		r = guest_dev_nodes(fd, uid == GUEST_OWN_UID ? GUEST_OWN_GID : gid);
		*ret_has_nodes = r == 0;
		if (r == -EPERM)
			r = mount_set(fd, HELD, -1);
	}
	return r < 0 ? r : take_fd(fd);
}

int guest_scratch_make(struct guest *g, int place)
{
	int r;

	if (g->scratch < 0)
		g->scratch = guest_scratch_new(GUEST_OWN_UID, 0, NULL);
	if (g->scratch < 0)
		return g->scratch;
	r = mount_attach(g->scratch, place, place == AT_FDCWD ? "/dev" : "");
	if (r == 0 && (fchdir(g->scratch) < 0 || mkdir("proc", 0555) < 0 ||
		       (!g->has_dev && mkdir("dev", 0755) < 0)))
		r = -errno;
	return r;
}

void guest_done(struct guest *g)
{
	fd_close(&g->scratch);
	fd_close(&g->root);
	fd_close(&g->proc);
	fd_close(&g->dev);
}

int guest_attach(struct guest *g, int mount, const char *path, bool is_dir)
{
	autoclose int place = guest_target_open(g->root, path, is_dir);

	return place < 0 ? place : mount_attach(mount, place, "");
}

static int remove_link(struct guest *g, const char *path)
{
	char dir[64];
	const char *name = strrchr(path, '/') + 1;
	autoclose int parent = -1;

	snprintf(dir, sizeof(dir), "%.*s", (int)(name - path), path);
	parent = guest_open_at(g->root, dir, O_PATH | O_DIRECTORY, FD_IN_ROOT | FD_NO_MAGICLINKS);
	return parent < 0 ? parent : unlinkat(parent, name, 0) < 0 ? -errno : 0;
}

int guest_put_file(struct guest *g, const char *path, const char *text)
{
	const char *name = strrchr(path, '/') + 1;
	autoclose int fd = openat(g->scratch, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
	autoclose int copy = -1;
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, strlen(text));
	if (r < 0)
		return r;
	copy = mount_clone(g->scratch, name, false);
	r = copy < 0 ? copy : guest_attach(g, copy, path, false);
	if (r == -ENOENT && copy >= 0 && remove_link(g, path) == 0)
		r = guest_attach(g, copy, path, false);
	return r;
}

int guest_change_file(struct guest *g, const char *path, const char *text)
{
	autoclose int fd = openat(g->scratch, strrchr(path, '/') + 1,
				  O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

int guest_put_secret(struct guest *g, int number, const struct guest_secret *s)
{
	autoclose int fd = -1, copy = -1;
	char name[32];
	int r;

	snprintf(name, sizeof(name), "secret-%d", number);
	fd = openat(g->scratch, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, s->data, s->len);
	/* Where only one id exists it is that one's. */
	if (r == 0 && fchown(fd, s->uid, s->gid) < 0 && errno != EINVAL && errno != EPERM)
		r = -errno;
	if (r == 0 && fchmod(fd, s->mode) < 0)
		r = -errno;
	if (r < 0)
		return r;
	copy = mount_clone(g->scratch, name, false);
	r = copy < 0 ? copy : mount_set(copy, MA_RDONLY | MA_NOSUID | MA_NODEV | MA_NOEXEC, -1);
	return r < 0 ? r : guest_attach(g, copy, s->path, false);
}

static int copy_program(const char *path, int program)
{
	autoclose int to = openat(AT_FDCWD, path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0555);
	off_t at = 0;
	ssize_t n;

	if (to < 0)
		return -errno;
	while ((n = sendfile(to, program, &at, 1 << 20)) > 0 || (n < 0 && errno == EINTR))
		;
	if (n < 0)
		return -errno;
	close(take_fd(to)); /* or the file system could not be made read-only */
	return 0;
}

int guest_put_program(const char *place, const char *name, int program, unsigned size_mib)
{
	enum { HELD = MS_NOSUID | MS_NODEV };
	char text[64];
	int r;

	if (mkdir(place, 0755) < 0)
		return -errno;
	snprintf(text, sizeof(text), "mode=0755,size=%um,nr_inodes=4", size_mib);
	r = mount_here("tmpfs", place, HELD, text);
	if (r < 0)
		return r;
	snprintf(text, sizeof(text), "%s/%s", place, name);
	r = copy_program(text, program);
	if (r == 0 && mount(NULL, place, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | HELD, NULL) < 0)
		r = -errno;
	return r;
}

void guest_format_hosts(char ret[GUEST_HOSTS_MAX], const char *name)
{
	snprintf(ret, GUEST_HOSTS_MAX, "127.0.0.1 localhost\n::1 localhost\n127.0.1.1 %s\n", name);
}

int guest_loopback_up(void)
{
	autoclose int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

	return sock < 0 || ioctl(sock, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}
