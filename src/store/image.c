/*
 * Images; see image.h.
 *
 * How it works
 *
 * import   unpack into layers/.new-<random>/rootfs, inside the box's ids so that owners come out
 *          right; sync that filesystem; rename to layers/<sha-256 of the stream>; write
 *          images/<name>. Only the last two steps and the removal of an old layer are done under
 *          a lock (flock on layers/), so that a fresh layer is never mistaken for an unused one.
 * id       where only the caller's own id exists a layer comes out differently (owners, setuid
 *          bits), so its id is hashed once more and never shared with a full one.
 * unused   a layer that no image names goes to the trash under the same lock and deleted after it.
 */
#include "store/image.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/path.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/image_internal.h"
#include "store/record.h"
#include "store/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static int no_such_image(const char *name, struct err *e)
{
	if (strcmp(name, IMAGE_DEFAULT) == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no image '" IMAGE_DEFAULT
			       "' yet: make it with 'cove image make', or use "
			       "--image host");
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "no image '%s': 'cove image ls' shows all, 'cove image import' adds one",
		       name);
}

/* ---- the record of an image ---- */

static bool is_layer_id(const char *id)
{
	return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

static bool take_line(struct image *im, const char *key, const char *value)
{
	if (strcmp(key, "layer") == 0)
		return is_layer_id(value) && str_copy(im->id, sizeof(im->id), value);
	if (strcmp(key, "user") == 0)
		return str_copy(im->user, sizeof(im->user), value);
	if (strcmp(key, "created_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &im->created_ms);
	if (strcmp(key, "bytes") == 0)
		return str_parse_u64(value, UINT64_MAX, &im->bytes);
	return false;
}

/* -ENOENT if there is none. */
static int read_image(struct state *s, const char *name, struct image *ret)
{
	autofree char *text = NULL;
	const char *key, *value;
	struct lines lines;
	size_t len;
	int r = fd_read_plain(s->images_fd, name, RECORD_FILE_MAX, &text, &len);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r;
	lines_init(&lines, text, len);
	while ((r = lines_next(&lines, &key, &value)) > 0)
		if (!take_line(ret, key, value))
			return -EBADMSG;
	if (r < 0 || !ret->id[0] || !ret->user[0])
		return -EBADMSG;
	str_copy(ret->name, sizeof(ret->name), name);
	snprintf(ret->root, sizeof(ret->root), "%s/layers/%s/rootfs", s->home, ret->id);
	return 0;
}

static int write_image(struct state *s, const struct image *im, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, RECORD_FILE_MAX);
	r = lines_put(&b, "layer", im->id);
	if (r == 0)
		r = lines_put(&b, "user", im->user);
	if (r == 0)
		r = lines_put_u64(&b, "created_ms", im->created_ms);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", im->bytes);
	if (r == 0)
		r = fd_write_file(s->images_fd, im->name, buf_data(&b), buf_len(&b), 0600, true);
	buf_done(&b);
	return r < 0 ? state_error(s, -r, "write the image in", e) : 0;
}

static void host_image(struct image *ret)
{
	memset(ret, 0, sizeof(*ret));
	str_copy(ret->name, sizeof(ret->name), IMAGE_HOST);
	str_copy(ret->user, sizeof(ret->user), "user");
	ret->is_host = true;
}

int image_find(struct state *s, const char *name, struct image *ret, struct err *e)
{
	char layer[80];
	int r = state_check_name("image", name, e);

	if (r < 0)
		return r;
	if (strcmp(name, IMAGE_HOST) == 0) {
		host_image(ret);
		return 0;
	}
	r = read_image(s, name, ret);
	if (r == -ENOENT)
		return no_such_image(name, e);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "the record of image '%s' cannot be read",
			       name);
	snprintf(layer, sizeof(layer), "%s/rootfs", ret->id);
	if (faccessat(s->layers_fd, layer, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "the files of image '%s' are gone; remove it (cove image rm %s) and "
			       "make it again",
			       name, name);
	return 0;
}

/* The images' records, with room for one more. strict: an error if one cannot be read. */
static int read_images(struct state *s, bool strict, struct image **ret, size_t *ret_count)
{
	struct image *list;
	char **names;
	size_t count, n = 0;
	int r = state_names(s->images_fd, &names, &count);

	if (r < 0)
		return r;
	list = calloc(count + 1, sizeof(*list));
	r = list ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = read_image(s, names[i], &list[n]);
		n += r == 0;
		if (!strict || r == -ENOENT)
			r = 0;
	}
	state_names_free(names, count);
	if (r < 0) {
		free(list);
		return r;
	}
	*ret = list;
	*ret_count = n;
	return 0;
}

int image_list(struct state *s, struct image **ret, size_t *ret_count, struct err *e)
{
	int r = read_images(s, false, ret, ret_count);

	if (r < 0)
		return err_errno(e, -r, "list the images in '%.140s'", s->home);
	host_image(&(*ret)[(*ret_count)++]);
	return 0;
}

/* ---- layers that no image names ---- */

static int lock_layers(struct state *s, int *ret_fd, struct err *e)
{
	autoclose int fd = openat(s->layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return state_error(s, errno, "open the layers in", e);
	do {
		r = flock(fd, LOCK_EX);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return err_errno(e, errno, "lock the layers");
	*ret_fd = take_fd(fd);
	return 0;
}

/* Under the lock: trashes every layer that no image names. A failure costs disk space and nothing
 * else, and the next import or removal tries again. */
static void trash_unused(struct state *s)
{
	struct image *list;
	char **names;
	size_t count, name_count;

	/* The layer of one that cannot be read would look unused. */
	if (read_images(s, true, &list, &count) < 0)
		return;
	if (state_all_names(s->layers_fd, &names, &name_count) == 0) {
		for (size_t i = 0; i < name_count; i++) {
			size_t k = 0;

			while (k < count && strcmp(list[k].id, names[i]) != 0)
				k++;
			if (k == count && is_layer_id(names[i]))
				layers_trash(s, names[i]);
		}
		state_names_free(names, name_count);
	}
	free(list);
}

static int check_unused(struct state *s, const char *name, const char *verb, struct err *e)
{
	char box[BOX_NAME_MAX + 1];
	int r = record_find_user(s, name, NULL, box, e);

	if (r <= 0)
		return r;
	return err_set(
		e, ERR_CONFLICT, EBUSY,
		"box '%s' uses image '%s', so it cannot be %s; remove the box first (cove rm -f "
		"%s)",
		box, name, verb, box);
}

/* ---- import ---- */

struct import_job {
	struct inside_job job;
	int tar_fd, layer_fd;
	bool single;
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
	r = unpack_tar(j->tar_fd, root_fd, j->single, &j->result, e);
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
		   const struct image *im, struct err *e)
{
	autoclose int lock_fd = -1;
	int r = lock_layers(s, &lock_fd, e);

	if (r == 0)
		r = check_unused(s, im->name, "replaced", e);
	if (r == 0)
		r = layers_place(s, ids, layer, im->id, e);
	if (r == 0)
		r = write_image(s, im, e);
	trash_unused(s);
	return r;
}

static int check_import(struct state *s, const char *name, const char *user, struct err *e)
{
	int r = state_check_name("image", name, e);

	if (r < 0)
		return r;
	if (strcmp(name, IMAGE_HOST) == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'" IMAGE_HOST
			       "' always means this machine's own programs; choose another name");
	if (user && (!*user || strlen(user) > 63 || strpbrk(user, "\n/ ")))
		return err_set(e, ERR_INVALID, EINVAL, "'%.80s' is not a user", user);
	return check_unused(s, name, "replaced", e);
}

int image_import(struct state *s, const struct ids *ids, const char *name, const char *user,
		 int tar_fd, struct err *e)
{
	struct import_job j = {
		.job.run = import_inside, .tar_fd = tar_fd, .single = ids->kind == IDS_SINGLE};
	struct layer_new layer = {.fd = -1};
	struct image im = {0};
	int r = check_import(s, name, user, e);

	if (r < 0)
		return r;
	layers_sweep(s, ids);
	r = layers_new(s, &layer, e);
	if (r < 0)
		return r;
	j.layer_fd = layer.fd;
	str_copy(j.want_user, sizeof(j.want_user), user ? user : "");
	r = inside_run(ids, &j.job, sizeof(j), e);
	if (r == 0) {
		str_copy(im.name, sizeof(im.name), name);
		str_copy(im.user, sizeof(im.user), j.user);
		if (j.single)
			sha256_hex(j.result.id, 64, im.id);
		else
			str_copy(im.id, sizeof(im.id), j.result.id);
		im.created_ms = clock_wall_ms();
		im.bytes = j.result.bytes;
		r = publish(s, ids, &layer, &im, e);
	}
	layers_drop(s, ids, &layer);
	layers_sweep(s, ids);
	return r;
}

int image_remove(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	struct image im;
	int lock_fd = -1, r = state_check_name("image", name, e);

	if (r < 0)
		return r;
	if (strcmp(name, IMAGE_HOST) == 0) {
		r = check_unused(s, name, "removed", e);
		return r < 0 ? r : image_host_drop(s, ids, e);
	}
	if (s->layers_fd < 0)
		return no_such_image(name, e);
	r = lock_layers(s, &lock_fd, e);
	if (r < 0)
		return r;
	r = read_image(s, name, &im);
	if (r == -ENOENT)
		r = no_such_image(name, e);
	else
		r = check_unused(s, name, "removed", e);
	if (r == 0 && (unlinkat(s->images_fd, name, 0) < 0 || fsync(s->images_fd) < 0))
		r = state_error(s, errno, "remove the image in", e);
	if (r == 0)
		trash_unused(s);
	fd_close(&lock_fd);
	if (r == 0)
		layers_sweep(s, ids);
	return r;
}
