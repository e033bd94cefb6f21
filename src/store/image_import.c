/*
 * Making an image of a tar stream; see image.h.
 *
 * How it works
 *
 * import   unpack into layers/.new-<random>/rootfs, inside the box's ids so that owners come out
 *          right; sync that filesystem; rename to layers/<sha-256 of the stream>; write
 *          images/<name>. Only the last two steps and the removal of an old layer are done under
 *          a lock (flock on layers/), so that a fresh layer is never mistaken for an unused one.
 * id       where only the caller's own id exists a layer comes out differently (owners, setuid
 *          bits), so its id is hashed once more and never shared with a full one.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/image.h"
#include "store/inside.h"
#include "store/layer.h"
#include "store/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct import_job {
	struct inside_job job;
	int tar_fd, layer_fd;
	struct unpack_how how;
	int (*confine)(int root_fd, struct err *e);
	struct unpack_result result;
	char want_user[64]; /* empty: find one */
	char user[64];
};

/* The next line of a passwd file as name and uid; false at the end. Lines that are not of the form
 * are passed over. */
static bool next_passwd_line(char **text, const char **ret_name, uint64_t *ret_uid)
{
	char *line;

	while ((line = strsep(text, "\n"))) {
		const char *name = strsep(&line, ":");
		const char *uid;

		if (!line || !strsep(&line, ":") || !line)
			continue;
		uid = strsep(&line, ":");
		if (uid && *name && str_parse_u64(uid, 65535, ret_uid)) {
			*ret_name = name;
			return true;
		}
	}
	return false;
}

static int find_user(struct import_job *j, int root_fd, struct err *e)
{
	autofree char *text = NULL;
	char *rest;
	const char *name;
	uint64_t uid;
	bool given = j->want_user[0] != 0;
	size_t len;

	str_copy(j->user, sizeof(j->user), given ? j->want_user : "root");
	if (given &&
	    (strspn(j->user, "0123456789:") == strlen(j->user) || !strcmp(j->user, "root")))
		return 0;
	/* Without a passwd file there is only root, who needs none. */
	autoclose int fd =
		fd_openat2(root_fd, "etc", O_PATH | O_DIRECTORY, 0, FD_IN_ROOT | FD_NO_MAGICLINKS);
	if (fd >= 0 && fd_read_file(fd, "passwd", PASSWD_FILE_MAX, &text, &len) == 0) {
		rest = text;
		while (next_passwd_line(&rest, &name, &uid)) {
			if (given ? strcmp(name, j->user) != 0 : uid != IDS_USER)
				continue;
			if (str_copy(j->user, sizeof(j->user), name))
				return 0;
		}
	}
	if (given)
		return err_set(e, ERR_INVALID, EINVAL,
			       "the image has no user '%s' in its /etc/passwd", j->want_user);
	return 0;
}

/* What people import by mistake: the archive of `docker save`, which holds layers and no files. */
static int check_rootfs(int root_fd, const struct unpack_result *result, struct err *e)
{
	if (result->files == 0)
		return err_set(e, ERR_INVALID, EINVAL, "the tar stream holds no files");
	if (faccessat(root_fd, "usr", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(root_fd, "bin", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (faccessat(root_fd, "manifest.json", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	    faccessat(root_fd, "oci-layout", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "this is a saved image, not a root filesystem; use 'docker export' "
			       "instead of "
			       "'docker save'");
	return 0;
}

static int import_inside(struct inside_job *job)
{
	struct import_job *j = (struct import_job *)(void *)job;
	struct err *e = &job->err;
	int r;

	if (mkdirat(j->layer_fd, "rootfs", 0755) < 0)
		return err_errno(e, errno, "make the directory of the image");
	autoclose int root_fd = openat(j->layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return err_errno(e, errno, "open the directory of the image");
	r = j->confine ? j->confine(root_fd, e) : 0;
	if (r == 0)
		r = unpack_stream(j->tar_fd, root_fd, &j->how, &j->result, e);
	if (r == 0)
		r = check_rootfs(root_fd, &j->result, e);
	if (r == 0)
		r = find_user(j, root_fd, e);
	if (r == 0 && syncfs(root_fd) < 0)
		r = err_errno(e, errno, "sync the image");
	return r;
}

/* Under the lock: gives the layer its id and the image its name. */
static int publish(struct state *s, const struct ids *ids, struct layer_new *layer,
		   const struct image *im, const struct layer_meta *meta, struct err *e)
{
	autoclose int lock_fd = -1;
	int r = layers_lock(s, &lock_fd, e);

	if (r == 0)
		r = layers_place(s, ids, layer, im->layers[0], meta, e);
	if (r == 0)
		r = image_write(s, im, e);
	/* One that is not to be had leaves nothing. */
	if (r < 0 && lock_fd >= 0)
		layers_trash_unused(s, im->layers, 1);
	return r;
}

static int check_import(const char *name, const char *user, struct err *e)
{
	int r = image_check_name(name, e);

	if (r < 0)
		return r;
	if (strcmp(name, IMAGE_HOST) == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'" IMAGE_HOST
			       "' always means this machine's own programs; choose another name");
	if (user && (!*user || strlen(user) > 63 || strpbrk(user, "\n/ ")))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not a user", user);
	return 0;
}

int image_import(struct state *s, const struct ids *ids, const char *name, const char *user,
		 int tar_fd, struct err *e)
{
	const struct image_import_how how = {.user = user};

	return image_import_stream(s, ids, name, &how, tar_fd, e);
}

int image_import_stream(struct state *s, const struct ids *ids, const char *name,
			const struct image_import_how *how, int tar_fd, struct err *e)
{
	struct import_job j = {.job.run = import_inside,
			       .tar_fd = tar_fd,
			       .confine = how->confine,
			       .how = {.kind = UNPACK_ROOT,
				       .single = ids->kind == IDS_SINGLE,
				       .bytes_max = how->bytes_max,
				       .head = how->head,
				       .head_len = how->head_len}};
	struct layer_new layer = LAYER_NEW_NONE;
	struct layer_meta meta = {.kind = LAYER_IMAGE, .created_ms = clock_wall_ms()};
	char id[LAYER_ID_SIZE];
	struct image im = {.layers = {id}, .layer_count = 1};
	int r = image_name_clean(name, im.name, e);

	if (r == 0)
		r = check_import(im.name, how->user, e);
	if (r < 0)
		return r;
	layers_sweep(s, ids);
	r = layers_new(s, &layer, e);
	if (r < 0)
		return r;
	j.layer_fd = layer.fd;
	str_copy(j.want_user, sizeof(j.want_user), how->user ? how->user : "");
	r = inside_run(ids, &j.job, sizeof(j), e);
	if (how->on_end)
		r = how->on_end(how->arg, r, e);
	if (r == 0) {
		if (j.how.single)
			sha256_hex(j.result.id, 64, id);
		else
			str_copy(id, sizeof(id), j.result.id);
		str_copy(meta.diff, sizeof(meta.diff), j.result.id);
		meta.bytes = im.bytes = j.result.bytes;
		meta.files = j.result.files;
		meta.diff_is_tree = how->is_canonical && !j.how.single && j.result.skipped == 0;
		im.config.user = j.user;
		im.source = how->source;
		im.created_ms = meta.created_ms;
		r = publish(s, ids, &layer, &im, &meta, e);
	}
	layers_drop(s, ids, &layer);
	layers_sweep(s, ids);
	return r;
}
