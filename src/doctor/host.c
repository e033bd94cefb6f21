/* What is on this machine around the kernel: places, programs, other walls; see doctor.h. */
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "core/door.h"
#include "doctor/checks.h"
#include "store/image.h"
#include "wall/info.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Filesystems that cannot hold the writable layer of an overlay. */
#define FS_OVERLAY 0x794c7630
#define FS_NFS	   0x6969
#define FS_FUSE	   0x65735546

/* Can something be written there? What is tried has no name and is gone when it is closed. */
static int try_write(int dir_fd)
{
	autoclose int fd = openat(dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd_write_full(fd, "x", 1);
	if (errno != EOPNOTSUPP)
		return -errno;
	return faccessat(dir_fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

void doctor_check_state(struct doctor *d, struct doctor_check *c)
{
	const struct state *s = &d->cove.state;
	struct statvfs space = {0};
	struct statfs fs = {0};
	int r;

	if (d->place_fd < 0 || fstatfs(d->place_fd, &fs) < 0 || fstatvfs(d->place_fd, &space) < 0) {
		doctor_found(c, "%s", d->state_error.msg);
		doctor_set(c, DOCTOR_MISSING, "there is no place to keep boxes",
			   "set COVE_HOME to a directory of your own on a local disk");
		return;
	}
	r = try_write(d->place_fd);
	if (r < 0) {
		doctor_found(c, "%.110s cannot be %s: %s", s->home,
			     s->home_fd < 0 ? "made" : "written to", strerror(-r));
		doctor_set(c, DOCTOR_MISSING, "boxes cannot be made or started",
			   "set COVE_HOME to a directory of your own on a local disk");
		return;
	}
	doctor_found(c, "%.110s%s, %llu MiB free", s->home, s->home_fd < 0 ? " (not made yet)" : "",
		     (unsigned long long)space.f_bavail * space.f_frsize >> 20);
	if (fs.f_type == FS_OVERLAY || fs.f_type == FS_NFS || fs.f_type == FS_FUSE)
		doctor_set(c, DOCTOR_MISSING,
			   "this kind of filesystem cannot hold the writable layer of a box",
			   "set COVE_HOME to a directory on ext4, XFS, btrfs or tmpfs");
	else if (space.f_bavail * space.f_frsize < (1ull << 30))
		doctor_set(c, DOCTOR_LIMITED, "boxes will soon run out of space",
			   "free some space, or set COVE_HOME to another disk");
}

void doctor_check_image(struct doctor *d, struct doctor_check *c)
{
	struct image image;
	struct err e = {0};

	if (d->place_fd >= 0 && image_find(&d->cove.state, IMAGE_DEFAULT, &image, &e) == 0) {
		doctor_found(c, "image '%s', %llu MiB", image.name,
			     (unsigned long long)image.bytes >> 20);
		image_done(&image);
		return;
	}
	doctor_found(c, "there is no image '" IMAGE_DEFAULT "'");
	doctor_set(c, DOCTOR_LIMITED,
		   "boxes can only use this machine's own programs (--image host)",
		   "cove image make");
}

void doctor_check_boxes(struct doctor *d, struct doctor_check *c)
{
	char names[96];
	int count = d->cove.state.boxes_fd < 0 ? 0 : list_outdated(&d->cove, names, sizeof(names));

	if (count == 0) {
		doctor_found(c, "none runs with an outdated init");
		return;
	}
	doctor_found(c, "%d with an init from before a security mend: %s%s", count, names,
		     strlen(names) == sizeof(names) - 1 ? "..." : "");
	doctor_set(c, DOCTOR_LIMITED,
		   "what runs in them may reach beyond the box as it could before the mend",
		   "cove stop NAME && cove start NAME, for each; cove ls shows them");
}

void doctor_check_programs(struct doctor *d, struct doctor_check *c)
{
	struct err e = {0};

	if (spawn_find_programs(&d->cove, &e) == 0) {
		doctor_found(c, "%.75s and %.75s", d->cove.keeper_path, d->cove.init_path);
		return;
	}
	doctor_found(c, "%s", e.msg);
	doctor_set(c, DOCTOR_MISSING, "boxes cannot be started",
		   "make or make install, or set COVE_LIBEXEC to where the programs are");
}

/* That it is there is not enough: it needs libraries, which may be missing or too old. */
void doctor_check_door(struct doctor *d, struct doctor_check *c)
{
	autofree char *text = NULL;
	struct err e = {0};

	if (net_preset_text(&d->cove, "closed", &text, &e) == 0) {
		doctor_found(c, "%.150s", d->cove.door_path);
		return;
	}
	if (d->cove.door_path[0])
		doctor_found(c, "%.120s does not run", d->cove.door_path);
	else
		doctor_found(c, "%s", e.msg);
	doctor_set(
		c, DOCTOR_LIMITED, "boxes start only with --net closed, which is not the default",
		d->cove.door_path[0]
			? "run `ldd` on it and install what is missing (OpenSSL 3, libyaml, zlib)"
			: "make or make install, or set COVE_LIBEXEC to where cove-door is");
}

/* ---- other walls; microVMs and engines are looked for, not used by this version ---- */

void doctor_check_kvm(struct doctor *d, struct doctor_check *c)
{
	autoclose int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int version = fd < 0 ? -1 : ioctl(fd, KVM_GET_API_VERSION, 0);

	if (version == KVM_API_VERSION) {
		doctor_found(c, "/dev/kvm opens");
		return;
	}
	doctor_found(c, "/dev/kvm: %s", fd < 0 ? strerror(errno) : "an interface not known here");
	doctor_set(c, DOCTOR_ABSENT, "no microVM walls later on",
		   fd < 0 && errno == EACCES ? "usermod -aG kvm $USER, and log in again"
					     : "switch virtualisation on; modprobe kvm-intel or "
					       "kvm-amd");
}

void doctor_check_gvisor(struct doctor *d, struct doctor_check *c)
{
	char program[BOX_PATH_MAX];
	struct err e = {0};

	if (wall_program_find(&wall_gvisor_info, d->place, program, &e) == 0) {
		doctor_found(c, "%.150s", program);
		if (wall_program_is_old(&wall_gvisor_info, program))
			doctor_set(c, DOCTOR_ABSENT, wall_gvisor_info.old,
				   "cove wall add gvisor, with Go installed");
		return;
	}
	doctor_found(c, "%s", e.msg);
	doctor_set(c, DOCTOR_ABSENT, "no boxes with --wall gvisor", "cove wall add gvisor");
}

/* Docker's own "are you there". */
static int ping_docker(const char *path)
{
	static const char ask[] = "GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n";
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = 1};
	char answer[64] = "";

	if (fd < 0 || !str_copy(addr.sun_path, sizeof(addr.sun_path), path))
		return fd < 0 ? -errno : -ENAMETOOLONG;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
	    connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    send(fd, ask, sizeof(ask) - 1, MSG_NOSIGNAL) < 0 ||
	    recv(fd, answer, sizeof(answer) - 1, 0) < 0)
		return -errno;
	return strstr(answer, " 200") ? 0 : -EPROTO;
}

void doctor_check_docker(struct doctor *d, struct doctor_check *c)
{
	const char *host = getenv("DOCKER_HOST");
	const char *path = host && str_starts(host, "unix://") ? host + strlen("unix://")
							       : "/var/run/docker.sock";
	int r = ping_docker(path);

	if (r == 0) {
		doctor_found(c, "%.120s answers", path);
		return;
	}
	doctor_found(c, "%.100s: %s", path, strerror(-r));
	doctor_set(c, DOCTOR_ABSENT, "no Docker walls later on",
		   r == -EACCES ? "usermod -aG docker $USER, and log in again"
				: "install docker.io and start it");
}
