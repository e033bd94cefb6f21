/*
 * The skeleton below --image host; see image.h.
 *
 * How it works
 *
 * A small root filesystem in layers/host-skeleton-<stamp>/rootfs: links and empty mount points for
 * the host's /usr and friends, a generated set of accounts, and copies from /etc of what programs
 * need to start (certificates, alternatives, the loader's cache, ...). Only files that everybody
 * may read are copied, only those named in the table, and nothing that could hold an account, a key
 * or a password; the rest of /etc does not exist for the box.
 *
 * The stamp holds the times of the host's files that make a copy stale, so looking for the right
 * skeleton costs a few stat calls. An old one is deleted once no box of the host image is left,
 * because a running box has it mounted.
 */
#include "store/image.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/inside.h"
#include "store/layer.h"
#include "store/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { SKELETON_VERSION = 2, COPY_DEPTH_MAX = 8, COPY_FILES_MAX = 20000, USER_ID = IDS_USER };

#define SKELETON_PREFIX "host-skeleton-"

/* What is copied from /etc. Left out on purpose: anything with accounts, keys, hosts or tokens
 * (passwd, shadow, ssh, gitconfig, pip.conf, npmrc, wgetrc, environment, profile.d, ...). */
static const char *const copied[] = {
	"alternatives",
	"bash.bashrc",
	"bash_completion",
	"bindresvport.blacklist",
	"ca-certificates",
	"ca-certificates.conf",
	"crypto-policies",
	"debian_version",
	"ethertypes",
	"fonts",
	"gai.conf",
	"host.conf",
	"inputrc",
	"issue",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"locale.alias",
	"locale.conf",
	"localtime",
	"login.defs",
	"lsb-release",
	"magic",
	"magic.mime",
	"mailcap",
	"manpath.config",
	"mime.types",
	"nanorc",
	"networks",
	"os-release",
	"perl",
	"pki/ca-trust/extracted",
	"pki/tls/certs",
	"pki/tls/cert.pem",
	"pki/tls/openssl.cnf",
	"profile",
	"protocols",
	"python",
	"python3",
	"python3.11",
	"python3.12",
	"python3.13",
	"rpc",
	"screenrc",
	"services",
	"shells",
	"ssl/certs",
	"ssl/cert.pem",
	"ssl/openssl.cnf",
	"terminfo",
	"timezone",
	"vim",
	"xattr.conf",
	"xdg",
	"xml",
};

static const struct {
	const char *path;
	mode_t mode;
	bool of_user;
} dirs[] = {
	{"usr", 0755, false},	    {"etc", 0755, false},      {"proc", 0555, false},
	{"sys", 0555, false},	    {"dev", 0755, false},      {"run", 0755, false},
	{"run/lock", 01777, false}, {"tmp", 01777, false},     {"var", 0755, false},
	{"var/tmp", 01777, false},  {"var/lib", 0755, false},  {"var/cache", 0755, false},
	{"var/log", 0755, false},   {"root", 0700, false},     {"home", 0755, false},
	{"home/user", 0755, true},  {"workspace", 0755, true}, {"mnt", 0755, false},
	{"media", 0755, false},	    {"opt", 0755, false},      {"srv", 0755, false},
};

/* What is a link to /usr on most hosts, and a directory on the others. */
static const char *const usr_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

struct skeleton_job {
	struct inside_job job;
	int layer_fd;
	bool single;
};

struct copier {
	uint64_t bytes_left;
	unsigned files_left;
};

static int write_text(int dir_fd, const char *name, const char *text, mode_t mode)
{
	autoclose int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);

	return fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));
}

/* ---- copies from /etc ---- */

static int copy_file(struct copier *c, int src_fd, int dst_dir, const char *name)
{
	char block[16 << 10];
	struct stat st;

	if (fstat(src_fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & S_IROTH))
		return 0;
	if ((uint64_t)st.st_size > c->bytes_left) {
		log_debug("host image: '%s' left out, the copies are too large", name);
		return 0;
	}
	autoclose int fd =
		openat(dst_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		       st.st_mode & 0755);
	if (fd < 0)
		return -errno;
	for (;;) {
		size_t want = c->bytes_left < sizeof(block) ? (size_t)c->bytes_left : sizeof(block);
		ssize_t n = fd_read_full(src_fd, block, want);
		int r = n > 0 ? fd_write_full(fd, block, (size_t)n) : (int)n;

		if (r < 0 || n == 0)
			return r;
		c->bytes_left -= (uint64_t)n;
	}
}

static int copy_link(int src_dir, int dst_dir, const char *name)
{
	char target[BOX_PATH_MAX];
	ssize_t n = readlinkat(src_dir, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = 0;
	return symlinkat(target, dst_dir, name) < 0 ? -errno : 0;
}

static int make_subdir(int dir_fd, const char *name)
{
	int fd;

	if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static int copy_entry(struct copier *c, int src_dir, int dst_dir, const char *name, int depth);

static int copy_dir(struct copier *c, int src_fd, int dst_dir, const char *name, int depth)
{
	autoclose int dst_fd = make_subdir(dst_dir, name);
	size_t count;
	char **names;
	int r = dst_fd < 0 ? dst_fd : state_all_names(src_fd, &names, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++)
		r = copy_entry(c, src_fd, dst_fd, names[i], depth + 1);
	state_names_free(names, count);
	return r;
}

/* What cannot be read, or is none of link, directory and file, is left out; so are keys. */
static int copy_entry(struct copier *c, int src_dir, int dst_dir, const char *name, int depth)
{
	size_t n = strlen(name);
	struct stat st;

	if (depth > COPY_DEPTH_MAX || c->files_left == 0 || strcmp(name, "private") == 0 ||
	    (n > 4 && strcmp(name + n - 4, ".key") == 0))
		return 0;
	if (fstatat(src_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	c->files_left--;
	if (S_ISLNK(st.st_mode))
		return copy_link(src_dir, dst_dir, name);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return 0;
	autoclose int fd = openat(src_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return 0;
	if (S_ISREG(st.st_mode))
		return copy_file(c, fd, dst_dir, name);
	if ((st.st_mode & 05) != 05)
		return 0;
	return copy_dir(c, fd, dst_dir, name, depth);
}

/* One entry of the table; "a/b" makes a first. */
static int copy_named(struct copier *c, int src_dir, int dst_dir, const char *path)
{
	const char *slash = strchr(path, '/');
	char part[64];

	if (!slash)
		return copy_entry(c, src_dir, dst_dir, path, 0);
	snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
	autoclose int src = openat(src_dir, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (src < 0)
		return 0;
	autoclose int dst = make_subdir(dst_dir, part);
	return dst < 0 ? dst : copy_named(c, src, dst, slash + 1);
}

/* ---- what is generated ---- */

/* What is generated in /etc. The PAM stacks are our own: the host's may ask a directory server or
 * a token. */
static const struct {
	const char *name, *text;
	mode_t mode;
	bool for_sudo;
} generated[] = {
	{"group", "root:x:0:\ntty:x:5:\nsudo:x:27:user\nnogroup:x:65534:\nuser:x:1000:\n", 0644,
	 false},
	{"shadow",
	 "root:*:19000:0:99999:7:::\nnobody:*:19000:0:99999:7:::\nuser:*:19000:0:99999:7:::\n",
	 0600, false},
	{"hostname", "box\n", 0644, false},
	{"hosts", "127.0.0.1\tlocalhost box\n::1\tlocalhost ip6-localhost ip6-loopback\n", 0644,
	 false},
	{"resolv.conf", "", 0644, false},
	{"nsswitch.conf",
	 "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n"
	 "protocols: files\nservices: files\nethers: files\nrpc: files\n",
	 0644, false},
	{"sudoers",
	 "Defaults env_reset, !fqdn, !pam_session, !pam_setcred\n"
	 "Defaults secure_path=\"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"\n"
	 "root ALL=(ALL:ALL) ALL\nuser ALL=(ALL:ALL) NOPASSWD: ALL\n",
	 0440, true},
	{"pam.d/other",
	 "auth required pam_deny.so\naccount required pam_permit.so\n"
	 "password required pam_deny.so\nsession required pam_permit.so\n",
	 0644, true},
	{"pam.d/sudo",
	 "auth required pam_permit.so\naccount required pam_permit.so\n"
	 "session required pam_permit.so\n",
	 0644, true},
	{"pam.d/su",
	 "auth sufficient pam_rootok.so\nauth required pam_deny.so\n"
	 "account required pam_permit.so\nsession required pam_permit.so\n",
	 0644, true},
};

static int generate_etc(int etc_fd)
{
	const char *shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
	bool sudo = access("/usr/bin/sudo", F_OK) == 0;
	char passwd[512];
	int r;

	snprintf(passwd, sizeof(passwd),
		 "root:x:0:0:root:/root:%s\n"
		 "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
		 "user:x:1000:1000:user:/home/user:%s\n",
		 shell, shell);
	r = write_text(etc_fd, "passwd", passwd, 0644);
	if (r == 0 && sudo && mkdirat(etc_fd, "pam.d", 0755) < 0)
		r = -errno;
	for (size_t i = 0; i < sizeof(generated) / sizeof(generated[0]) && r == 0; i++)
		if (sudo || !generated[i].for_sudo)
			r = write_text(etc_fd, generated[i].name, generated[i].text,
				       generated[i].mode);
	if (r == 0 && symlinkat("/proc/self/mounts", etc_fd, "mtab") < 0)
		r = -errno;
	return r;
}

static int make_dirs(int root_fd, bool single)
{
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		if (mkdirat(root_fd, dirs[i].path, 0755) < 0)
			return -errno;
		/* A single id has no root inside who could work in a directory its owner may
		 * not. */
		if (fchmodat(root_fd, dirs[i].path, single ? dirs[i].mode | 0700 : dirs[i].mode,
			     0) < 0)
			return -errno;
		if (dirs[i].of_user && !single &&
		    fchownat(root_fd, dirs[i].path, USER_ID, USER_ID, 0) < 0)
			return -errno;
	}
	return 0;
}

static int make_usr_links(int root_fd)
{
	autoclose int src = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (src < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(usr_links) / sizeof(usr_links[0]); i++) {
		struct stat st;
		int r = 0;

		if (fstatat(src, usr_links[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISLNK(st.st_mode))
			r = copy_link(src, root_fd, usr_links[i]);
		else if (S_ISDIR(st.st_mode) && mkdirat(root_fd, usr_links[i], 0755) < 0)
			r = -errno;
		if (r < 0)
			return r;
	}
	return 0;
}

static int fill_skeleton(int root_fd, bool single)
{
	struct copier c = {HOST_COPY_MAX, COPY_FILES_MAX};
	int r = make_dirs(root_fd, single);

	if (r == 0)
		r = make_usr_links(root_fd);
	autoclose int src = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	autoclose int etc_fd = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r == 0 && (src < 0 || etc_fd < 0))
		r = -errno;
	if (r == 0)
		r = generate_etc(etc_fd);
	for (size_t i = 0; i < sizeof(copied) / sizeof(copied[0]) && r == 0; i++)
		r = copy_named(&c, src, etc_fd, copied[i]);
	if (r == 0 && syncfs(root_fd) < 0)
		r = -errno;
	return r;
}

static int skeleton_inside(struct inside_job *job)
{
	struct skeleton_job *j = (struct skeleton_job *)(void *)job;
	int r;

	if (mkdirat(j->layer_fd, "rootfs", 0755) < 0)
		return err_errno(&job->err, errno, "make the skeleton of the host image");
	autoclose int root_fd = openat(j->layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = root_fd < 0 ? -errno : fill_skeleton(root_fd, j->single);
	return r < 0 ? err_errno(&job->err, -r, "make the skeleton of the host image") : 0;
}

/* ---- finding and keeping it ---- */

static void skeleton_name(const struct ids *ids, char ret[65])
{
	static const char *const watched[] = {"/etc/ld.so.cache", "/etc/alternatives",
					      "/etc/ssl/certs"};
	struct timespec times[sizeof(watched) / sizeof(watched[0])] = {0};
	char hex[65];

	for (size_t i = 0; i < sizeof(watched) / sizeof(watched[0]); i++) {
		struct stat st;

		if (stat(watched[i], &st) == 0)
			times[i] = st.st_mtim;
	}
	sha256_hex(times, sizeof(times), hex);
	snprintf(ret, 64, SKELETON_PREFIX "%d-%s-%.16s", SKELETON_VERSION,
		 ids->kind == IDS_SINGLE ? "single" : "full", hex);
}

static int make_skeleton(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	struct skeleton_job j = {.job.run = skeleton_inside, .single = ids->kind == IDS_SINGLE};
	struct layer_new layer = LAYER_NEW_NONE;
	int r = layers_new(s, &layer, e);

	j.layer_fd = layer.fd;
	if (r == 0)
		r = inside_run(ids, &j.job, sizeof(j), e);
	if (r == 0)
		r = layers_place(s, ids, &layer, name, NULL, e);
	layers_drop(s, ids, &layer);
	return r;
}

/* All skeletons but this one, which may be NULL. */
static int trash_skeletons(struct state *s, const char *keep)
{
	char **names, gone[32];
	size_t count;
	int r = state_names(s->layers_fd, &names, &count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count && r == 0; i++)
		if (str_starts(names[i], SKELETON_PREFIX) && (!keep || strcmp(names[i], keep) != 0))
			r = layers_trash(s, names[i], gone);
	state_names_free(names, count);
	return r;
}

int image_host_drop(struct state *s, const struct ids *ids, struct err *e)
{
	int r = trash_skeletons(s, NULL);

	if (r < 0)
		return state_error(s, -r, "remove the skeleton of the host image in", e);
	layers_sweep(s, ids);
	return 0;
}

int image_host_prepare(struct state *s, const struct ids *ids, struct image *ret, struct err *e)
{
	char path[80], box[BOX_NAME_MAX + 1];
	struct image im;
	int r = image_find(s, IMAGE_HOST, &im, e);

	if (r < 0)
		return r;
	skeleton_name(ids, im.id);
	snprintf(path, sizeof(path), "%s/rootfs", im.id);
	if (faccessat(s->layers_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		r = make_skeleton(s, ids, im.id, e);
		if (r < 0)
			return r;
		/* Old ones go when no box of the host image could have one mounted. One that stays
		 * costs disk space and nothing else. */
		if (record_find_user(s, IMAGE_HOST, NULL, NULL, box, NULL) == 0) {
			trash_skeletons(s, im.id);
			layers_sweep(s, ids);
		}
	}
	*ret = im;
	ret->layers[ret->layer_count++] = ret->id;
	return 0;
}
