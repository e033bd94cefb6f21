/*
 * Images: their records, and removing them; see image.h. Making one of a tar is in image_import.c.
 *
 * The record is read into a text that the image's fields point into. A key that may come once and
 * comes twice, or that is not known, is damage: an older Cove never half-understands an image.
 */
#include "store/image.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/sha.h"
#include "base/str.h"
#include "store/key.h"
#include "store/layer.h"
#include "store/record.h"
#include "store/refs.h"
#include "store/retention.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATEST	    ":latest"
#define HUB	    "docker.io/"
#define HUB_LIBRARY "library/"

static int no_such_image(const char *name, struct err *e)
{
	if (strcmp(name, IMAGE_DEFAULT) == 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "there is no image '" IMAGE_DEFAULT
			       "' yet: make it with 'cove image make', or use "
			       "--image host");
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "no image '%.80s': fetch it with 'cove image pull %.80s'; 'cove image ls' "
		       "shows those that are here",
		       name, name);
}

/* For who names one that should be here already. */
static int not_here(const char *name, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "no image '%.80s'; 'cove image ls' shows those that are here", name);
}

/* ---- names ---- */

/* Docker's hub and its own images are what is meant where nothing is said. */
static const char *without_hub(const char *name)
{
	if (str_starts(name, HUB))
		name += strlen(HUB);
	if (str_starts(name, HUB_LIBRARY) && !strchr(name + strlen(HUB_LIBRARY), '/'))
		name += strlen(HUB_LIBRARY);
	return name;
}

int image_check_name(const char *name, struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/:@-";
	size_t n = name ? strlen(name) : 0;
	bool ok = n > 0 && n <= IMAGE_NAME_MAX && strspn(name, allowed) == n;

	/* The path's letters are small, a tag's may be large; neither begins with a sign. */
	for (size_t i = 0; ok && i < n; i++) {
		bool is_sign = strchr("._/:@-", name[i]) != NULL;

		ok = !is_sign || (i > 0 && i + 1 < n && !strchr("/:@", name[i - 1]) &&
				  !(name[i] == '.' && name[i + 1] == '.') &&
				  !(strchr("/:@", name[i]) && strchr("._-", name[i + 1])));
		ok = ok && !(name[i] >= 'A' && name[i] <= 'Z' && !memchr(name, ':', i));
	}
	if (ok && n > strlen(LATEST) && strcmp(name + n - strlen(LATEST), LATEST) == 0)
		ok = false;
	/* One that another cleaning would make another of: whoever judged it judged none. */
	if (ok && without_hub(name) == name)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "image '%.80s' is not a name: lower-case letters, digits and inner . _ - / "
		       ":TAG, at most %u",
		       name ? name : "", IMAGE_NAME_MAX);
}

int image_name_clean(const char *name, char ret[IMAGE_NAME_MAX + 1], struct err *e)
{
	size_t n;

	name = without_hub(name ? name : "");
	n = strlen(name);

	if (n > strlen(LATEST) && strcmp(name + n - strlen(LATEST), LATEST) == 0)
		n -= strlen(LATEST);
	if (n == 0 || n > IMAGE_NAME_MAX)
		return image_check_name(name, e);
	memcpy(ret, name, n);
	ret[n] = 0;
	return image_check_name(ret, e);
}

/* '+' is in no name. */
static void swap(char *ret, const char *text, char from, char to)
{
	for (; *text; text++)
		*ret++ = *text == from ? to : *text;
	*ret = 0;
}

void image_file_name(const char *name, char ret[IMAGE_NAME_MAX + 1])
{
	swap(ret, name, '/', '+');
}

/* ---- the record of an image ---- */

/* Texts that come once, and those that may come again and again. */
static const struct {
	const char *key;
	size_t offset;
} texts[] =
	{
		{"user", offsetof(struct image, config.user)},
		{"cwd", offsetof(struct image, config.cwd)},
		{"stop_signal", offsetof(struct image, config.stop_signal)},
		{"platform", offsetof(struct image, platform)},
		{"digest", offsetof(struct image, digest)},
		{"config", offsetof(struct image, config_digest)},
		{"source", offsetof(struct image, source)},
},
  lists[] = {
	  {"env", offsetof(struct image, config.env)},
	  {"entrypoint", offsetof(struct image, config.entrypoint)},
	  {"cmd", offsetof(struct image, config.cmd)},
	  {"shell", offsetof(struct image, config.shell)},
	  {"label", offsetof(struct image, config.labels)},
	  {"port", offsetof(struct image, config.ports)},
	  {"volume", offsetof(struct image, config.volumes)},
};

enum {
	TEXT_COUNT = sizeof(texts) / sizeof(texts[0]),
	LIST_COUNT = sizeof(lists) / sizeof(lists[0])
};

static const char **text_at(const struct image *im, size_t i)
{
	return (const char **)((uintptr_t)im + texts[i].offset);
}

static struct image_items *list_at(const struct image *im, size_t i)
{
	return (struct image_items *)((uintptr_t)im + lists[i].offset);
}

/* "MS layer TEXT" or "MS empty TEXT". */
static bool take_step(struct image *im, const char *value)
{
	struct image_step *step = &im->history[im->history_count];
	const char *how = strchr(value, ' '), *by = how ? strchr(how + 1, ' ') : NULL;
	char ms[24];

	if (!by || im->history_count == IMAGE_ITEMS_MAX || how - value >= (ptrdiff_t)sizeof(ms))
		return false;
	memcpy(ms, value, (size_t)(how - value));
	ms[how - value] = 0;
	*step = (struct image_step){.empty = str_starts(how, " empty "), .by = by + 1};
	im->history_count++;
	return (step->empty || str_starts(how, " layer ")) &&
	       str_parse_u64(ms, UINT64_MAX, &step->created_ms);
}

static bool take_line(struct image *im, const char *key, const char *value)
{
	if (strcmp(key, "layer") == 0) {
		if (!layer_is_id(value) || im->layer_count == IMAGE_LAYERS_MAX)
			return false;
		im->layers[im->layer_count++] = value;
		return true;
	}
	for (size_t i = 0; i < TEXT_COUNT; i++) {
		if (strcmp(key, texts[i].key) != 0)
			continue;
		if (*text_at(im, i))
			return false;
		*text_at(im, i) = value;
		return true;
	}
	for (size_t i = 0; i < LIST_COUNT; i++) {
		struct image_items *l = list_at(im, i);

		if (strcmp(key, lists[i].key) != 0)
			continue;
		if (l->count == IMAGE_ITEMS_MAX)
			return false;
		l->at[l->count++] = value;
		return true;
	}
	if (strcmp(key, "history") == 0)
		return take_step(im, value);
	if (strcmp(key, "created_ms") == 0)
		return str_parse_u64(value, UINT64_MAX, &im->created_ms);
	return strcmp(key, "bytes") == 0 && str_parse_u64(value, UINT64_MAX, &im->bytes);
}

static void set_id(struct image *im)
{
	struct sha hash;
	uint8_t sum[SHA256_BYTES];

	if (im->config_digest || im->layer_count == 1) {
		str_copy(im->id, sizeof(im->id),
			 im->config_digest ? im->config_digest : im->layers[0]);
		return;
	}
	sha256_init(&hash);
	for (size_t i = 0; i < im->layer_count; i++)
		sha_add(&hash, im->layers[i], strlen(im->layers[i]));
	sha_end(&hash, sum);
	sha256_hex(sum, sizeof(sum), im->id);
}

void image_done(struct image *im)
{
	free(take_ptr(im->text));
}

/* -ENOENT if there is none. One of an older Cove has no sum. */
static int read_image(struct state *s, const char *name, struct image *ret)
{
	char file[IMAGE_NAME_MAX + 1];
	const char *key, *value;
	struct lines lines;
	size_t len, skip;
	int r;

	memset(ret, 0, sizeof(*ret));
	str_copy(ret->name, sizeof(ret->name), name);
	image_file_name(name, file);
	r = s->images_fd < 0
		    ? -ENOENT
		    : fd_read_plain(s->images_fd, file, IMAGE_RECORD_MAX, &ret->text, &len);
	if (r < 0)
		return r;
	r = lines_check_sum(ret->text, len);
	skip = r > 0 ? LINES_SUM_BYTES : 0;
	lines_init(&lines, ret->text + skip, len - skip);
	while (r >= 0 && (r = lines_next(&lines, &key, &value)) > 0)
		if (!take_line(ret, key, value))
			r = -EBADMSG;
	if (r == 0 && ret->layer_count == 0)
		r = -EBADMSG;
	if (r == 0)
		set_id(ret);
	else
		image_done(ret);
	return r;
}

static int format_image(const struct image *im, struct buf *b)
{
	int r = lines_begin_sum(b);

	for (size_t i = 0; i < im->layer_count && r == 0; i++)
		r = lines_put(b, "layer", im->layers[i]);
	for (size_t i = 0; i < TEXT_COUNT && r == 0; i++)
		if (*text_at(im, i))
			r = lines_put(b, texts[i].key, *text_at(im, i));
	for (size_t i = 0; i < LIST_COUNT; i++)
		for (size_t k = 0; k < list_at(im, i)->count && r == 0; k++)
			r = lines_put(b, lists[i].key, list_at(im, i)->at[k]);
	for (size_t i = 0; i < im->history_count && r == 0; i++) {
		const struct image_step *step = &im->history[i];
		autofree char *text = NULL;

		if (asprintf(&text, "%llu %s %s", (unsigned long long)step->created_ms,
			     step->empty ? "empty" : "layer", step->by) < 0)
			return -ENOMEM;
		r = lines_put(b, "history", text);
	}
	if (r == 0)
		r = lines_put_u64(b, "created_ms", im->created_ms);
	if (r == 0)
		r = lines_put_u64(b, "bytes", im->bytes);
	if (r == 0)
		lines_end_sum(b);
	return r;
}

static void host_image(struct image *ret)
{
	memset(ret, 0, sizeof(*ret));
	str_copy(ret->name, sizeof(ret->name), IMAGE_HOST);
	ret->config.user = "user";
	ret->is_host = true;
}

int image_find(struct state *s, const char *name, struct image *ret, struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	int r = image_name_clean(name, clean, e);

	memset(ret, 0, sizeof(*ret));
	if (r < 0)
		return r;
	if (strcmp(clean, IMAGE_HOST) == 0) {
		host_image(ret);
		return 0;
	}
	r = read_image(s, clean, ret);
	if (r == -ENOENT)
		return no_such_image(clean, e);
	if (r < 0)
		return err_set(e, ERR_INTERNAL, -r, "the record of image '%.100s' cannot be read",
			       clean);
	return 0;
}

void image_list_free(struct image *list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		image_done(&list[i]);
	free(list);
}

/* The images' records, with room for one more. strict: an error if one cannot be read. */
static int read_images(struct state *s, bool strict, struct image **ret, size_t *ret_count)
{
	char name[IMAGE_NAME_MAX + 1];
	struct image *list;
	char **names;
	size_t count, n = 0;
	int r = state_all_names(s->images_fd, &names, &count);

	if (r < 0)
		return r;
	list = calloc(count + 1, sizeof(*list));
	r = list ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (strlen(names[i]) > IMAGE_NAME_MAX)
			continue;
		swap(name, names[i], '+', '/');
		if (image_check_name(name, NULL) < 0)
			continue;
		r = read_image(s, name, &list[n]);
		n += r == 0;
		if (!strict || r == -ENOENT)
			r = 0;
	}
	state_names_free(names, count);
	if (r < 0) {
		image_list_free(list, n);
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

int image_refs(struct state *s, struct refs *refs, struct err *e)
{
	struct image *list;
	size_t count;
	int r = read_images(s, true, &list, &count);

	if (r < 0)
		return err_errno(e, -r, "read the images in '%.140s'", s->home);
	for (size_t i = 0; i < count && r == 0; i++)
		for (size_t k = 0; k < list[i].layer_count && r == 0; k++)
			r = refs_add(refs, list[i].layers[k]);
	image_list_free(list, count);
	return r < 0 ? err_errno(e, -r, "list the layers of images") : 0;
}

/* ---- writing and removing ---- */

/* May who removes the image hear of the box? A key's image is removed by the key. */
static bool may_name(const char *box, const char *image)
{
	const char *plain = key_name_plain(KEY_OF_IMAGE, image);

	return plain == image || (key_name_plain(KEY_OF_BOX, box) != box &&
				  strncmp(box, image, KEY_ID_SIZE - 1) == 0);
}

/* by_name: only boxes of an older Cove, which know their image by its name alone. */
static int check_unused(struct state *s, const char *name, bool by_name, const char *verb,
			struct err *e)
{
	char box[BOX_NAME_MAX + 1];
	int r = record_find_user(s, by_name ? NULL : name, by_name ? name : NULL, NULL, box, e);

	if (r <= 0)
		return r;
	if (!may_name(box, name))
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "a box of another owner uses image '%.60s', so it cannot be %s",
			       name, verb);
	return err_set(
		e, ERR_CONFLICT, EBUSY,
		"box '%s' uses image '%.60s', so it cannot be %s; remove the box first (cove rm -f "
		"%s)",
		box, name, verb, box);
}

/* keep_old: the layers of what had the name before are left to `cove image gc`. */
static int write_image(struct state *s, const struct image *im, bool keep_old, struct err *e)
{
	char file[IMAGE_NAME_MAX + 1];
	struct image old = {0};
	struct buf b;
	int r = image_check_name(im->name, e);

	if (r == 0 && strcmp(im->name, IMAGE_HOST) == 0)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "'" IMAGE_HOST
			    "' always means this machine's own programs; choose another name");
	if (r == 0)
		r = check_unused(s, im->name, true, "replaced", e);
	if (r < 0)
		return r;
	image_file_name(im->name, file);
	buf_init(&b, IMAGE_RECORD_MAX);
	r = format_image(im, &b);
	(void)read_image(s, im->name, &old); /* none, or one whose layers are not known */
	if (r == 0)
		r = fd_write_file(s->images_fd, file, buf_data(&b), buf_len(&b), 0600, true);
	buf_done(&b);
	if (r == 0 && !keep_old)
		layers_trash_unused(s, old.layers, old.layer_count);
	image_done(&old);
	if (r == -E2BIG || r == -EMSGSIZE)
		return err_set(e, ERR_LIMIT, E2BIG, "the image's settings are too long");
	return r < 0 ? state_error(s, -r, "write the image in", e) : 0;
}

int image_write(struct state *s, const struct image *im, struct err *e)
{
	return write_image(s, im, false, e);
}

int image_write_keeping(struct state *s, const struct image *im, struct err *e)
{
	return write_image(s, im, true, e);
}

int image_tag(struct state *s, const struct ids *ids, const char *name, const char *tag,
	      struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	autoclose int lock_fd = -1;
	struct image im = {0};
	int r = image_name_clean(tag, clean, e);

	if (r < 0)
		return r;
	if (s->layers_fd < 0)
		return not_here(name, e);
	r = layers_lock(s, &lock_fd, e);
	if (r == 0)
		r = image_find(s, name, &im, e);
	if (r == -ENOENT)
		r = not_here(name, e);
	if (r == 0 && im.is_host)
		r = err_set(e, ERR_INVALID, EINVAL, "'" IMAGE_HOST "' has no other name");
	if (r == 0) {
		str_copy(im.name, sizeof(im.name), clean);
		r = write_image(s, &im, true, e);
	}
	image_done(&im);
	fd_close(&lock_fd);
	layers_sweep(s, ids);
	return r;
}

static int remove_record(struct state *s, const char *name, struct err *e)
{
	char file[IMAGE_NAME_MAX + 1];
	struct image im;
	int r = read_image(s, name, &im);

	if (r == -ENOENT)
		return not_here(name, e);
	/* Of one that cannot be read the layers stay, until `cove image gc`. */
	r = check_unused(s, name, false, "removed", e);
	image_file_name(name, file);
	if (r == 0) {
		r = retention_write_image(s, name, &(struct retention){0});
		if (r < 0)
			r = state_error(s, -r, "remove the image's rule for snapshots in", e);
	}
	if (r == 0 && (unlinkat(s->images_fd, file, 0) < 0 || fsync(s->images_fd) < 0))
		r = state_error(s, errno, "remove the image in", e);
	if (r == 0 && im.text)
		layers_trash_unused(s, im.layers, im.layer_count);
	image_done(&im);
	return r;
}

int image_remove(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	char clean[IMAGE_NAME_MAX + 1];
	int lock_fd = -1, r = image_name_clean(name, clean, e);

	if (r < 0)
		return r;
	if (strcmp(clean, IMAGE_HOST) == 0) {
		r = check_unused(s, clean, false, "removed", e);
		return r < 0 ? r : image_host_drop(s, ids, e);
	}
	if (s->layers_fd < 0)
		return not_here(clean, e);
	r = layers_lock(s, &lock_fd, e);
	if (r < 0)
		return r;
	r = remove_record(s, clean, e);
	fd_close(&lock_fd);
	if (r == 0)
		layers_sweep(s, ids);
	return r;
}
