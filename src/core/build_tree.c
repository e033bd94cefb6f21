/*
 * Layers of COPY and WORKDIR; see build_tree.h.
 *
 * How it works
 *
 * The child takes the box's ids and a mount namespace of its own. A small tmpfs is mounted over the
 * new layer's own directory, where no other process looks; in it the layers are attached, the
 * overlay and, for COPY --from, a second one without an upper directory. Then it pivots there and
 * throws away the rest of the host's tree and all capabilities but those over files. What it still
 * has of the host is the descriptor of the context, beneath which it resolves what it reads.
 */
#include "core/build_tree.h"

#include "base/caps.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sha.h"
#include "core/build_copy.h"
#include "storage/tree.h"
#include "store/inside.h"
#include "store/layer_tar.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	CAPS_FILES = CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_DAC_READ_SEARCH) |
		     CAP_BIT(CAP_FOWNER) | CAP_BIT(CAP_FSETID),
	LAYERS_MAX = SPEC_LAYER_MAX,
};

struct tree_job {
	struct inside_job job;
	const struct build_tree *t;
	int layer_fd;
	const char *home, *layer_name;
	const char *lowers[LAYERS_MAX], *froms[LAYERS_MAX]; /* top first */
	size_t lower_count, from_count;
	bool single;
	struct layer_tar_result made;
};

/* ---- mounts ---- */

/* Attaches the trees as PREFIX0, PREFIX1, ... below the current directory and appends their
 * names. */
static int attach(const char *prefix, const char *const *paths, size_t count, struct buf *options)
{
	int r = buf_append_str(options, "lowerdir=");

	for (size_t i = 0; i < count && r == 0; i++) {
		char name[32];

		snprintf(name, sizeof(name), "%s%zu", prefix, i);
		if (mkdir(name, 0700) < 0 || mount(paths[i], name, NULL, MS_BIND, NULL) < 0)
			return -errno;
		r = buf_printf(options, "%s%s", i ? ":" : "", name);
	}
	/* One that stands on nothing stands on nothing's directory. */
	if (r == 0 && count == 0)
		r = mkdir("none", 0755) < 0 ? -errno : buf_append_str(options, "none");
	return r;
}

static int mount_overlay(const char *at, const char *prefix, const char *const *paths, size_t count,
			 const char *rest)
{
	struct buf options;
	int r;

	buf_init(&options, 4000); /* mount(2) takes a page */
	r = attach(prefix, paths, count, &options);
	if (r == 0)
		r = buf_append_str(&options, rest);
	if (r == 0 && mkdir(at, 0700) < 0)
		r = -errno;
	if (r == 0 && (!buf_cstr(&options) || mount("overlay", at, "overlay", MS_NODEV | MS_NOSUID,
						    buf_cstr(&options)) < 0))
		r = -errno;
	buf_done(&options);
	return r;
}

static int mount_from(const struct tree_job *j)
{
	if (j->from_count == 1) {
		if (mkdir("from", 0700) < 0 || mount(j->froms[0], "from", NULL, MS_BIND, NULL) < 0)
			return -errno;
		return 0;
	}
	return mount_overlay("from", "f", j->froms, j->from_count, ",userxattr");
}

/* As root is of the topmost layer below, so is it of this one. */
static int make_upper(const struct tree_job *j)
{
	struct timespec times[2];
	struct stat st;

	if (mkdirat(j->layer_fd, "rootfs", 0755) < 0 || mkdirat(j->layer_fd, "work", 0700) < 0)
		return -errno;
	if (j->lower_count == 0)
		return 0;
	autoclose int fd = openat(j->layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || stat(j->lowers[0], &st) < 0)
		return -errno;
	times[0] = times[1] = st.st_mtim;
	if ((!j->single && fchown(fd, st.st_uid, st.st_gid) < 0) ||
	    fchmod(fd, st.st_mode & 07777) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Descriptors from before are of the host's mounts, onto which nothing can be mounted here: the
 * directory is found again by its name, and is the same. */
static int enter_scratch(const struct tree_job *j)
{
	struct stat had, have;
	char self[40];

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    chdir(j->home) < 0 || chdir("layers") < 0)
		return -errno;
	autoclose int fd = open(j->layer_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &have) < 0 || fstat(j->layer_fd, &had) < 0)
		return -errno;
	if (had.st_ino != have.st_ino || had.st_dev != have.st_dev)
		return -ESTALE;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (mount("cove", j->layer_name, "tmpfs", MS_NODEV | MS_NOSUID, "mode=0700,size=1m") < 0 ||
	    chdir(j->layer_name) < 0 || mkdir("rw", 0700) < 0 ||
	    mount(self, "rw", NULL, MS_BIND, NULL) < 0)
		return -errno;
	return 0;
}

/* The host's tree goes, and what is not about files. */
static int leave_host(const struct tree_job *j)
{
	int r;

	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	r = j->single ? caps_keep(0, 0, NULL) : caps_keep(CAPS_FILES, 0, NULL);
	return r;
}

/* ---- the child ---- */

static int fail(struct err *e, int code, const char *what)
{
	if (code == EINVAL || code == EPERM || code == ENODEV)
		return err_set(e, ERR_UNSUPPORTED, code,
			       "%s: %s (a box's root is such an overlay, too: see `cove doctor`)",
			       what, strerror(code));
	return err_errno(e, code, "%s", what);
}

static int do_step(struct tree_job *j, struct err *e)
{
	const struct build_tree *t = j->t;
	autoclose int root = open("/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC), from = -1;
	struct build_copy c = {.step = t->step, .single = j->single, .bytes_max = t->bytes_max};

	if (root < 0)
		return err_errno(e, errno, "open what was built so far");
	if (t->from) {
		from = open("/from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (from < 0)
			return err_errno(e, errno, "open the stage");
	}
	c.root_fd = root;
	c.source.root_fd = t->from ? from : t->context_fd;
	c.source.ignore = t->from ? NULL : t->ignore;
	c.source.cancel_fd = t->cancel_fd;
	c.keeps_owners = t->from != NULL;
	c.expanded = t->expanded;
	c.expanded_count = t->expanded_count;
	return t->step->kind == STEP_WORKDIR ? build_copy_workdir(&c, t->user, e)
					     : build_copy_run(&c, e);
}

static int tree_inside(struct inside_job *job)
{
	struct tree_job *j = (struct tree_job *)(void *)job;
	const struct layer_tar_how how = {.bytes_max = j->t->bytes_max,
					  .cancel_fd = j->t->cancel_fd};
	struct err *e = &job->err;
	int r = make_upper(j);

	if (r < 0)
		return err_errno(e, -r, "make the new layer");
	r = enter_scratch(j);
	if (r == 0)
		r = mount_overlay("root", "l", j->lowers, j->lower_count,
				  ",upperdir=rw/rootfs,workdir=rw/work,userxattr");
	if (r == 0 && j->t->from)
		r = mount_from(j);
	if (r == 0)
		r = leave_host(j);
	if (r < 0)
		return fail(e, -r, "mount what was built so far");
	r = do_step(j, e);
	if (r < 0)
		return r;
	autoclose int rootfs = open("/rw/rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rootfs < 0)
		return err_errno(e, errno, "open the new layer");
	r = layer_tar_pack(rootfs, -1, &how, &j->made, e);
	if (r == 0 && syncfs(rootfs) < 0)
		r = err_errno(e, errno, "sync the new layer");
	return r;
}

/* ---- from outside ---- */

static int find_roots(struct cove *cove, const struct build_words *ids, const char **ret,
		      size_t *ret_count, struct err *e)
{
	for (size_t i = ids->count; i > 0; i--) {
		char path[BOX_PATH_MAX];
		int r = layer_root(&cove->state, ids->list[i - 1], path, sizeof(path));

		if (r < 0)
			return err_errno(e, -r, "find layer %.12s", ids->list[i - 1]);
		ret[*ret_count] = strdup(path);
		if (!ret[*ret_count])
			return err_errno(e, ENOMEM, "find a layer");
		++*ret_count;
	}
	return 0;
}

static void free_roots(const char **paths, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free((char *)(uintptr_t)paths[i]);
}

int build_layer_place(struct cove *cove, struct build_new *n, struct layer_pins *pins,
		      struct build_layer *ret, struct err *e)
{
	struct layer_meta meta = {.kind = LAYER_IMAGE,
				  .created_ms = clock_wall_ms(),
				  .bytes = n->made.bytes,
				  .files = n->made.files,
				  .diff_is_tree = true};
	autoclose int lock = -1;
	int r;

	memset(ret, 0, sizeof(*ret));
	/* Only the root itself. */
	if (n->made.files <= 1) {
		layers_drop(&cove->state, &cove->ids, &n->dir);
		return 0;
	}
	memcpy(meta.diff, n->made.diff, sizeof(meta.diff));
	if (cove->ids.kind == IDS_SINGLE)
		sha256_hex(n->made.diff, 64, ret->id);
	else
		memcpy(ret->id, n->made.diff, sizeof(ret->id));
	ret->bytes = n->made.bytes;
	r = layers_lock(&cove->state, &lock, e);
	if (r == 0)
		r = layers_place(&cove->state, &cove->ids, &n->dir, ret->id, &meta, e);
	if (r == 0)
		r = layer_pins_add(&cove->state, pins, ret->id, e);
	if (r < 0)
		layers_drop(&cove->state, &cove->ids, &n->dir);
	return r;
}

int build_tree_make(struct cove *cove, const struct build_tree *t, struct build_layer *ret,
		    struct err *e)
{
	struct tree_job j = {.job.run = tree_inside, .t = t, .home = cove->state.home};
	struct build_new n = {.dir = LAYER_NEW_NONE};
	int r = layers_new(&cove->state, &n.dir, e);

	if (r < 0)
		return r;
	j.layer_fd = n.dir.fd;
	j.layer_name = n.dir.name;
	j.single = cove->ids.kind == IDS_SINGLE;
	r = find_roots(cove, t->layers, j.lowers, &j.lower_count, e);
	if (r == 0 && t->from)
		r = find_roots(cove, t->from, j.froms, &j.from_count, e);
	if (r == 0)
		r = inside_run(&cove->ids, &j.job, sizeof(j), e);
	if (r == 0)
		r = tree_remove_as(&cove->ids, n.dir.fd, "work", e);
	free_roots(j.lowers, j.lower_count);
	free_roots(j.froms, j.from_count);
	if (r < 0) {
		layers_drop(&cove->state, &cove->ids, &n.dir);
		return r;
	}
	n.made = j.made;
	return build_layer_place(cove, &n, t->pins, ret, e);
}
