/* Records of snapshots; see snapshot.h. A key that is not known, or comes twice, is damage. */
#include "store/snapshot.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "store/layer.h"
#include "store/refs.h"
#include "store/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRANSIENT_MS = 10 * 60 * 1000, DIR_FLAGS = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };

#define DIR_NAME "snapshots"

/* The directory; -ENOENT where there is none and it is not to be made. */
static int open_all(const struct state *s, bool make)
{
	int fd = s->home_fd < 0 ? -1 : openat(s->home_fd, DIR_NAME, DIR_FLAGS);

	if (fd < 0 && s->home_fd >= 0 && errno == ENOENT && make) {
		if (mkdirat(s->home_fd, DIR_NAME, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (fsync(s->home_fd) < 0)
			return -errno;
		fd = openat(s->home_fd, DIR_NAME, DIR_FLAGS);
	}
	return fd >= 0 ? fd : s->home_fd < 0 ? -ENOENT : -errno;
}

/* ---- the record ---- */

static const struct {
	const char *key;
	size_t at;
} texts[] =
	{
		{"id", offsetof(struct snapshot, id)},
		{"parent", offsetof(struct snapshot, parent)},
		{"box", offsetof(struct snapshot, box)},
		{"workspace", offsetof(struct snapshot, workspace)},
		{"storage", offsetof(struct snapshot, storage)},
		{"spec", offsetof(struct snapshot, spec)},
		{"policy", offsetof(struct snapshot, policy)},
},
  numbers[] =
	  {
		  {"box_created_ms", offsetof(struct snapshot, box_created_ms)},
		  {"created_ms", offsetof(struct snapshot, created_ms)},
		  {"bytes", offsetof(struct snapshot, bytes)},
		  {"files", offsetof(struct snapshot, files)},
		  {"left_out", offsetof(struct snapshot, left_out)},
		  {"frozen_us", offsetof(struct snapshot, frozen_us)},
		  {"total_us", offsetof(struct snapshot, total_us)},
},
  flags[] = {
	  {"unfrozen", offsetof(struct snapshot, unfrozen)},
	  {"inside", offsetof(struct snapshot, inside)},
	  {"transient", offsetof(struct snapshot, transient)},
};

static const struct {
	const char *key;
	size_t at, count_at, max;
} lists[] = {
	{"layer", offsetof(struct snapshot, layers), offsetof(struct snapshot, layer_count),
	 SPEC_LAYER_MAX},
	{"workspace_layer", offsetof(struct snapshot, workspace_layers),
	 offsetof(struct snapshot, workspace_layer_count), SPEC_LAYER_MAX},
	{"tag", offsetof(struct snapshot, tags), offsetof(struct snapshot, tag_count),
	 SNAPSHOT_TAGS_MAX},
};

#define COUNT(a)	 (sizeof(a) / sizeof((a)[0]))
#define AT(s, off, type) ((type *)(void *)((char *)(s) + (off)))

int snapshot_format(const struct snapshot *sn, struct buf *b)
{
	struct snapshot *s = (struct snapshot *)(uintptr_t)sn; /* is only read */
	int r = lines_begin_sum(b);

	for (size_t i = 0; i < COUNT(texts) && r == 0; i++) {
		const char *text = *AT(s, texts[i].at, const char *);

		r = text ? lines_put(b, texts[i].key, text) : 0;
	}
	for (size_t i = 0; i < COUNT(numbers) && r == 0; i++)
		r = lines_put_u64(b, numbers[i].key, *AT(s, numbers[i].at, uint64_t));
	for (size_t i = 0; i < COUNT(flags) && r == 0; i++)
		r = *AT(s, flags[i].at, bool) ? lines_put(b, flags[i].key, "1") : 0;
	for (size_t i = 0; i < COUNT(lists); i++)
		for (size_t k = 0; k < *AT(s, lists[i].count_at, size_t) && r == 0; k++)
			r = lines_put(b, lists[i].key, AT(s, lists[i].at, const char *)[k]);
	if (r == 0)
		lines_end_sum(b);
	return r;
}

static bool take_line(struct snapshot *s, const char *key, const char *value)
{
	for (size_t i = 0; i < COUNT(texts); i++)
		if (strcmp(key, texts[i].key) == 0) {
			const char **at = AT(s, texts[i].at, const char *);
			bool is_first = !*at;

			*at = value;
			return is_first;
		}
	for (size_t i = 0; i < COUNT(numbers); i++)
		if (strcmp(key, numbers[i].key) == 0)
			return str_parse_u64(value, UINT64_MAX, AT(s, numbers[i].at, uint64_t));
	for (size_t i = 0; i < COUNT(flags); i++)
		if (strcmp(key, flags[i].key) == 0)
			return *AT(s, flags[i].at, bool) = strcmp(value, "1") == 0;
	for (size_t i = 0; i < COUNT(lists); i++)
		if (strcmp(key, lists[i].key) == 0) {
			size_t *count = AT(s, lists[i].count_at, size_t);

			if (*count >= lists[i].max)
				return false;
			AT(s, lists[i].at, const char *)[(*count)++] = value;
			return true;
		}
	return false;
}

static bool is_whole(const struct snapshot *s)
{
	bool ok = s->id && layer_is_id(s->id) && s->box && s->spec && s->storage;

	for (size_t i = 0; i < s->layer_count && ok; i++)
		ok = layer_is_id(s->layers[i]);
	for (size_t i = 0; i < s->workspace_layer_count && ok; i++)
		ok = layer_is_id(s->workspace_layers[i]);
	for (size_t i = 0; i < s->tag_count && ok; i++)
		ok = str_is_name(s->tags[i], BOX_NAME_MAX);
	return ok && (!s->workspace || str_is_name(s->workspace, BOX_NAME_MAX));
}

int snapshot_take(struct snapshot *ret, char *text, size_t len)
{
	const char *key, *value;
	struct lines lines;
	int r = lines_check_sum(text, len) > 0 ? 0 : -EBADMSG;

	*ret = (struct snapshot){.text = text};
	if (r == 0) {
		lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
		while ((r = lines_next(&lines, &key, &value)) > 0 && take_line(ret, key, value))
			;
	}
	if (r == 0 && is_whole(ret))
		return 0;
	snapshot_done(ret);
	return -EBADMSG;
}

/* -ENOENT if there is none, -EBADMSG for one that is damaged. */
static int read_record(int dir_fd, const char *name, struct snapshot *ret)
{
	size_t len;
	char *text;
	int r;

	*ret = (struct snapshot){0};
	r = fd_read_plain(dir_fd, name, SNAPSHOT_RECORD_MAX, &text, &len);
	if (r == 0)
		r = snapshot_take(ret, text, len);
	if (r == 0)
		str_copy(ret->name, sizeof(ret->name), name);
	return r;
}

void snapshot_done(struct snapshot *s)
{
	free(s->text);
	*s = (struct snapshot){0};
}

/* ---- finding ---- */

static bool has_tag(const struct snapshot *s, const char *tag)
{
	for (size_t i = 0; i < s->tag_count; i++)
		if (strcmp(s->tags[i], tag) == 0)
			return true;
	return false;
}

static bool has_id(const struct snapshot *s, const char *id)
{
	return strcmp(s->id, id) == 0;
}

/* The first that is so. -ENOENT; what cannot be read is passed over. */
static int find_by(int dir_fd, bool (*is)(const struct snapshot *s, const char *text),
		   const char *text, struct snapshot *ret)
{
	char **names;
	size_t count;
	int r = state_names(dir_fd, &names, &count);

	if (r < 0)
		return r;
	r = -ENOENT;
	for (size_t i = 0; i < count && r < 0; i++) {
		if (read_record(dir_fd, names[i], ret) < 0)
			continue;
		if (is(ret, text))
			r = 0;
		else
			snapshot_done(ret);
	}
	state_names_free(names, count);
	return r;
}

int snapshot_find(struct state *s, const char *name, struct snapshot *ret, struct err *e)
{
	autoclose int dir_fd = -1;
	int r = state_check_name("snapshot", name, e);

	*ret = (struct snapshot){0};
	if (r < 0)
		return r;
	dir_fd = open_all(s, false);
	r = dir_fd < 0 ? dir_fd : read_record(dir_fd, name, ret);
	if (r == -ENOENT && dir_fd >= 0)
		r = find_by(dir_fd, has_tag, name, ret);
	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no snapshot '%s': 'cove snapshot ls' shows all", name);
	if (r == -EBADMSG)
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the record of snapshot '%s' is damaged: 'cove snapshot rm %s' "
			       "removes it",
			       name, name);
	return r < 0 ? err_errno(e, -r, "read snapshot '%s'", name) : 0;
}

int snapshot_find_id(struct state *s, const char *id, struct snapshot *ret)
{
	autoclose int dir_fd = open_all(s, false);

	*ret = (struct snapshot){0};
	return dir_fd < 0 ? dir_fd : find_by(dir_fd, has_id, id, ret);
}

static int by_age(const void *a, const void *b)
{
	const struct snapshot *x = a, *y = b;

	if (x->created_ms != y->created_ms)
		return x->created_ms < y->created_ms ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* strict: an error if one cannot be read. */
static int read_all(struct state *s, bool strict, struct snapshot **ret, size_t *ret_count)
{
	autoclose int dir_fd = open_all(s, false);
	struct snapshot *list;
	char **names = NULL;
	size_t count = 0, n = 0;
	int r = dir_fd == -ENOENT ? 0 : dir_fd < 0 ? dir_fd : state_names(dir_fd, &names, &count);

	if (r < 0)
		return r;
	list = calloc(count + 1, sizeof(*list));
	r = list ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = read_record(dir_fd, names[i], &list[n]);
		n += r == 0;
		if (!strict || r == -ENOENT)
			r = 0;
	}
	state_names_free(names, count);
	if (r < 0) {
		snapshot_list_free(list, n);
		return r;
	}
	qsort(list, n, sizeof(*list), by_age);
	*ret = list;
	*ret_count = n;
	return 0;
}

int snapshot_list(struct state *s, struct snapshot **ret, size_t *ret_count, struct err *e)
{
	int r = read_all(s, false, ret, ret_count);

	return r < 0 ? err_errno(e, -r, "list the snapshots in '%.140s'", s->home) : 0;
}

void snapshot_list_free(struct snapshot *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		snapshot_done(&list[i]);
	free(list);
}

int snapshot_refs(struct state *s, struct refs *r, struct err *e)
{
	struct snapshot *list;
	size_t count;
	int rc = read_all(s, true, &list, &count);

	if (rc < 0)
		return err_errno(e, -rc, "read the snapshots in '%.140s'", s->home);
	for (size_t i = 0; i < count && rc == 0; i++) {
		for (size_t k = 0; k < list[i].layer_count && rc == 0; k++)
			rc = refs_add(r, list[i].layers[k]);
		for (size_t k = 0; k < list[i].workspace_layer_count && rc == 0; k++)
			rc = refs_add(r, list[i].workspace_layers[k]);
	}
	snapshot_list_free(list, count);
	return rc < 0 ? err_errno(e, -rc, "list what refers to layers") : 0;
}

/* ---- changing ---- */

/* Under the lock. */
static int write_record(struct state *s, int dir_fd, const struct snapshot *sn, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, SNAPSHOT_RECORD_MAX);
	r = snapshot_format(sn, &b);
	if (r == 0)
		r = fd_write_file(dir_fd, sn->name, buf_data(&b), buf_len(&b), 0600, true);
	buf_done(&b);
	return r < 0 ? state_error(s, -r, "write the snapshot in", e) : 0;
}

int snapshot_write(struct state *s, const struct snapshot *sn, bool is_new, struct err *e)
{
	autoclose int dir_fd = -1;
	struct snapshot other;
	int r = state_check_name("snapshot", sn->name, e);

	if (r < 0)
		return r;
	dir_fd = open_all(s, true);
	if (dir_fd < 0)
		return state_error(s, -dir_fd, "open the snapshots in", e);
	if (is_new && faccessat(dir_fd, sn->name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_EXISTS, EEXIST, "there is a snapshot '%s' already", sn->name);
	if (is_new && find_by(dir_fd, has_tag, sn->name, &other) == 0) {
		r = err_set(e, ERR_EXISTS, EEXIST, "'%s' is a tag of snapshot '%s'", sn->name,
			    other.name);
		snapshot_done(&other);
		return r;
	}
	return write_record(s, dir_fd, sn, e);
}

bool snapshot_is_of(const struct snapshot *sn, const struct spec *box)
{
	return strcmp(sn->box, box->name) == 0 && sn->box_created_ms == box->created_ms;
}

/* only: NULL, or the one that it was, which has no tag yet. */
static int remove_record(struct state *s, const char *name, const struct snapshot *only,
			 struct err *e)
{
	autoclose int dir_fd = open_all(s, false);
	struct snapshot sn = {0};
	int r = dir_fd < 0 ? dir_fd : read_record(dir_fd, name, &sn);

	if (r == 0 && only && (strcmp(sn.id, only->id) != 0 || sn.tag_count > 0)) {
		snapshot_done(&sn);
		return 0;
	}

	if (r == -ENOENT)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no snapshot '%s': 'cove snapshot ls' shows all", name);
	/* The layers of one that cannot be read stay, until everything unused is looked for. */
	if (r < 0 && r != -EBADMSG)
		return err_errno(e, -r, "read snapshot '%s'", name);
	r = unlinkat(dir_fd, name, 0) < 0 || fsync(dir_fd) < 0
		    ? state_error(s, errno, "remove the snapshot in", e)
		    : 0;
	if (r == 0 && sn.text) {
		layers_trash_unused(s, sn.layers, sn.layer_count);
		layers_trash_unused(s, sn.workspace_layers, sn.workspace_layer_count);
	}
	snapshot_done(&sn);
	return r;
}

static int remove_one(struct state *s, const struct ids *ids, const char *name,
		      const struct snapshot *only, struct err *e)
{
	int lock_fd = -1, r = state_check_name("snapshot", name, e);

	if (r < 0)
		return r;
	if (s->layers_fd < 0)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "no snapshot '%s': 'cove snapshot ls' shows all", name);
	r = layers_lock(s, &lock_fd, e);
	if (r == 0)
		r = remove_record(s, name, only, e);
	fd_close(&lock_fd);
	if (r == 0)
		layers_sweep(s, ids);
	return r;
}

int snapshot_remove(struct state *s, const struct ids *ids, const char *name, struct err *e)
{
	return remove_one(s, ids, name, NULL, e);
}

int snapshot_remove_plain(struct state *s, const struct ids *ids, const struct snapshot *sn,
			  struct err *e)
{
	return remove_one(s, ids, sn->name, sn, e);
}

static int drop_tag(struct state *s, int dir_fd, const char *tag, struct err *e)
{
	struct snapshot sn;
	size_t n = 0;
	int r = find_by(dir_fd, has_tag, tag, &sn);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "read the snapshots");
	for (size_t i = 0; i < sn.tag_count; i++)
		if (strcmp(sn.tags[i], tag) != 0)
			sn.tags[n++] = sn.tags[i];
	sn.tag_count = n;
	r = write_record(s, dir_fd, &sn, e);
	snapshot_done(&sn);
	return r;
}

static int add_tag(struct state *s, int dir_fd, const char *name, const char *tag, struct err *e)
{
	struct snapshot sn;
	int r;

	if (faccessat(dir_fd, tag, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, ERR_EXISTS, EEXIST, "there is a snapshot '%s' already", tag);
	r = snapshot_find(s, name, &sn, e);
	if (r < 0)
		return r;
	/* One that is lost between the two is less than one that two have, which could not be. */
	if (has_tag(&sn, tag))
		r = 0;
	else if (sn.tag_count >= SNAPSHOT_TAGS_MAX)
		r = err_set(e, ERR_LIMIT, E2BIG, "snapshot '%s' has %u tags", name,
			    SNAPSHOT_TAGS_MAX);
	else
		r = drop_tag(s, dir_fd, tag, e);
	if (r == 0 && !has_tag(&sn, tag)) {
		sn.tags[sn.tag_count++] = tag;
		r = write_record(s, dir_fd, &sn, e);
	}
	snapshot_done(&sn);
	return r;
}

int snapshot_tag(struct state *s, const char *name, const char *tag, struct err *e)
{
	autoclose int lock_fd = -1, dir_fd = -1;
	struct snapshot sn;
	int r = snapshot_find(s, name, &sn, e);

	/* A tag may be given by another that it replaces. */
	if (r == 0)
		r = state_check_name("tag", tag, e);
	if (r == 0)
		r = layers_lock(s, &lock_fd, e);
	if (r == 0) {
		dir_fd = open_all(s, false);
		r = dir_fd < 0 ? err_errno(e, -dir_fd, "open the snapshots")
			       : add_tag(s, dir_fd, sn.name, tag, e);
	}
	snapshot_done(&sn);
	return r;
}

void snapshot_sweep(struct state *s, const struct ids *ids)
{
	struct snapshot *list;
	size_t count;

	if (read_all(s, false, &list, &count) < 0)
		return;
	for (size_t i = 0; i < count; i++)
		if (list[i].transient && clock_wall_since_ms(list[i].created_ms) > TRANSIENT_MS)
			(void)snapshot_remove(s, ids, list[i].name, NULL);
	snapshot_list_free(list, count);
}
