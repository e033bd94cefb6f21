/*
 * Importing one snapshot or workspace: a file that may be somebody else's.
 *
 * A layer in it has the name that it says only where its content has that hash, or where it is here
 * already; another name otherwise, so that no later image stands on what the file's writer chose.
 * Of the box that a snapshot was, what would show it something of this host, or let it out, is left
 * behind; the name of its image, too, which means another one here. Nor is it a snapshot of a box
 * here, whatever it says: the rules of that one do not count it.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/restore.h"
#include "store/image.h"
#include "store/key.h"
#include "store/layer_tar.h"
#include "store/net.h"
#include "store/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *restore_alias(const struct restore *s, const char *id)
{
	for (size_t i = 0; i < s->alias_count; i++)
		if (strcmp(s->aliases[i].from, id) == 0)
			return s->aliases[i].to;
	return id;
}

static int add_alias(struct restore *s, const char *from, const char *to)
{
	struct layer_alias *grown =
		reallocarray(s->aliases, s->alias_count + 1, sizeof(*s->aliases));

	if (!grown)
		return err_errno(s->e, ENOMEM, "restore a layer");
	s->aliases = grown;
	str_copy(grown[s->alias_count].from, LAYER_ID_SIZE, from);
	str_copy(grown[s->alias_count++].to, LAYER_ID_SIZE, to);
	return 0;
}

/* The name that an imported layer may have here. */
int restore_choose_id(struct restore *s, const struct restore_member *m, int root_fd,
		      struct layer_meta *meta, char ret[LAYER_ID_SIZE])
{
	const struct layer_tar_how how = {.bytes_max = s->o.max_disk,
					  .cancel_fd = s->cove->patience.cancel_fd};
	struct layer_tar_result result;
	int r;

	str_copy(ret, LAYER_ID_SIZE, m->name);
	if (!s->is_import)
		return 0;
	r = layer_tar_pack_as(&s->cove->ids, &root_fd, 1, -1, &how, &result, s->e);
	if (r == -ECANCELED)
		return r;
	if (r == 0 && strcmp(result.diff, m->name) == 0 && s->cove->ids.kind != IDS_SINGLE) {
		str_copy(meta->diff, sizeof(meta->diff), result.diff);
		meta->diff_is_tree = true;
		return 0;
	}
	layer_random_id(ret);
	meta->kind = LAYER_SNAPSHOT;
	meta->diff[0] = 0;
	return add_alias(s, m->name, ret);
}

int restore_need_layer(struct restore *s, const char *id)
{
	char path[BOX_PATH_MAX];

	if (layer_is_id(id) && layer_root(&s->cove->state, id, path, sizeof(path)) == 0)
		return 0;
	return restore_bad_member(s, "not all the layers that it stands on");
}

static int alias_layers(struct restore *s, const char **ids, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++) {
		ids[i] = restore_alias(s, ids[i]);
		r = restore_need_layer(s, ids[i]);
	}
	return r;
}

/* Without layers it would be of whatever has its image's name here. Only the host's programs are
 * none, and those a key never sees. */
static int check_image(struct restore *s, const struct spec *spec, const struct snapshot *sn)
{
	bool is_keys = s->as && key_name_plain(KEY_OF_SNAPSHOT, s->as) != s->as;

	if (strcmp(spec->image, IMAGE_HOST) != 0)
		return sn->layer_count > 0 ? 0 : restore_bad_member(s, "a snapshot without layers");
	if (is_keys)
		return err_set(s->e, ERR_INVALID, EINVAL,
			       "it is of a box of the image '" IMAGE_HOST
			       "', whose programs were not in it: make one of another image");
	return 0;
}

/* What is left of the box that it was: how its commands run. Its limits, wall and storage are those
 * of a new box here; of its ways to this host there is none. */
static int tame_spec(struct restore *s, struct snapshot *sn, struct buf *ret)
{
	autofree char *text = strdup(sn->spec ? sn->spec : "");
	struct spec *spec = calloc(1, sizeof(*spec));
	int r = text && spec ? spec_parse(spec, text, strlen(text), s->e)
			     : err_errno(s->e, ENOMEM, "import a snapshot");

	if (r == 0)
		r = check_image(s, spec, sn);
	if (r == 0) {
		/* Nor is it a box of an API key of that other machine. */
		struct spec own = {.name = str_plain_name(spec->name),
				   .image = strcmp(spec->image, IMAGE_HOST) == 0 ? IMAGE_HOST
										 : IMAGE_IMPORTED,
				   .wall = WALL_DEFAULT,
				   .base_user = spec->base_user,
				   .base_cwd = spec->base_cwd,
				   .base_env_count = spec->base_env_count,
				   .user = spec->user,
				   .cwd = spec->cwd,
				   .env_count = spec->env_count,
				   .label_count = spec->label_count,
				   .persistence = spec->persistence,
				   .strict = spec->strict,
				   .timeout_ms = spec->timeout_ms,
				   .created_ms = clock_wall_ms()};

		own.workspace = sn->workspace ? spec->workspace : NULL;
		own.net = net_is_closed(spec->net) ? spec->net : "balanced";
		memcpy(own.base_env, spec->base_env, sizeof(own.base_env));
		memcpy(own.env, spec->env, sizeof(own.env));
		memcpy(own.labels, spec->labels, sizeof(own.labels));
		core_spec_default_limits(&own);
		r = spec_format(&own, ret);
		if (r < 0)
			err_errno(s->e, -r, "import a snapshot");
	}
	free(spec);
	sn->spec = r == 0 ? buf_cstr(ret) : NULL;
	sn->policy = NULL;
	return r == 0 && !sn->spec ? err_errno(s->e, ENOMEM, "import a snapshot") : r;
}

/* It begins here. */
static void make_new(struct snapshot *sn, const char *name, char id[LAYER_ID_SIZE])
{
	layer_random_id(id);
	str_copy(sn->name, sizeof(sn->name), name);
	sn->id = id;
	sn->parent = NULL;
	sn->box = sn->name;
	sn->box_created_ms = 0;
	sn->created_ms = clock_wall_ms();
	sn->tag_count = 0;
	sn->transient = sn->inside = false;
}

int restore_import_snapshot(struct restore *s, const struct restore_member *m, char *text,
			    size_t len)
{
	const char *name = s->as ? s->as : m->name;
	char id[LAYER_ID_SIZE];
	struct snapshot *sn = calloc(1, sizeof(*sn));
	struct buf spec;
	int r = sn ? snapshot_take(sn, text, len) : -ENOMEM;

	buf_init(&spec, SPEC_BYTES_MAX);
	if (!sn) {
		free(text);
		return err_errno(s->e, ENOMEM, "import a snapshot");
	}
	r = r < 0 ? restore_bad_member(s, "a snapshot that cannot be read")
		  : tame_spec(s, sn, &spec);
	if (r == 0)
		r = state_check_name("snapshot", name, s->e);
	if (r == 0)
		r = alias_layers(s, sn->layers, sn->layer_count);
	if (r == 0)
		r = alias_layers(s, sn->workspace_layers, sn->workspace_layer_count);
	if (r == 0) {
		make_new(sn, name, id);
		r = snapshot_write(&s->cove->state, sn, true, s->e);
	}
	snapshot_done(sn);
	buf_done(&spec);
	free(sn);
	return r;
}

/* ---- what it will take ---- */

static int add_head(void *arg, char *head, size_t len, struct err *e)
{
	struct restore_size *size = arg;
	struct restore_member m;
	int r = restore_member_read(head, len, &m, e);

	if (r < 0)
		return r;
	size->has_layers = size->has_layers || strcmp(m.what, "layer") == 0;
	if (m.disk_bytes > size->disk_bytes)
		size->disk_bytes = m.disk_bytes;
	return 0;
}

int restore_size_read(int fd, const char *kind, struct restore_size *ret, struct err *e)
{
	off_t end = lseek(fd, 0, SEEK_END);

	*ret = (struct restore_size){.bytes = end < 0 ? 0 : (uint64_t)end};
	if (end < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(e, errno, "read the file");
	return parcel_check(fd, kind, add_head, ret, e);
}

/* ---- what callers ask for ---- */

int cove_workspace_import(struct cove *cove, const char *path, const char *name,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return restore_run(
		cove, &(struct restore){.kind = BACKUP_WORKSPACE, .as = name, .is_import = true},
		path, options, NULL, err);
}

int cove_snapshot_import(struct cove *cove, const char *path, const char *name,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return restore_run(
		cove, &(struct restore){.kind = BACKUP_SNAPSHOT, .as = name, .is_import = true},
		path, options, NULL, err);
}
