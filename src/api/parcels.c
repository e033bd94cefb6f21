/*
 * One snapshot or workspace as one file, out and in. It is written whole before the answer begins,
 * so that a box is not frozen for as long as a slow client takes, and comes whole before anything
 * is made of it; both times as a file without a name.
 */
#include "api/form.h"
#include "api/handlers.h"
#include "api/quota.h"

#include "base/fd.h"
#include "core/admission.h"
#include "core/core.h"
#include "core/restore.h"

#include <errno.h>
#include <unistd.h>

#define PARCEL_TYPE "application/vnd.cove.pack"

#define PARCEL_BYTES_MAX ((uint64_t)64 << 30)
#define PARCEL_BESIDE	 ((uint64_t)16 << 20) /* what small files take beside their bytes */

typedef int parcel_call(struct cove *cove, const char *name, const char *path,
			const struct cove_backup_options *options, struct cove_error *err);

static int export_as(struct api_call *c, struct cove *cove, enum key_kind kind, const char *name,
		     parcel_call *call, struct err *e)
{
	struct cove_backup_options o = {.size = sizeof(o)};
	struct cove_error err;
	autoclose int fd = -1;
	int r = api_name(c, kind, name, &name, e);

	if (r < 0)
		return r;
	fd = api_spool_open(cove, false, e);
	if (fd < 0)
		return fd;
	o.fd = fd;
	/* It holds the image, too, so it may be longer than the quota; the host is kept safe. */
	o.max_bytes = PARCEL_BYTES_MAX;
	o.disk_reserve = core_disk_reserve(cove);
	r = call(cove, name, "the answer", &o, &err);
	return r < 0 ? api_failed(r, &err, e) : api_spool_send(c, fd, PARCEL_TYPE, e);
}

static int export_snapshot(struct api_call *c, struct cove *cove, struct err *e)
{
	return export_as(c, cove, KEY_OF_SNAPSHOT, api_param(c, "snapshot"), cove_snapshot_export,
			 e);
}

static int export_workspace(struct api_call *c, struct cove *cove, struct err *e)
{
	return export_as(c, cove, KEY_OF_WORKSPACE, api_param(c, "workspace"),
			 cove_workspace_export, e);
}

/* ---- in ---- */

static uint64_t disk_quota(const struct api_call *c)
{
	return c->who.is_operator ? 0 : c->who.key->quotas[KEY_QUOTA_DISK];
}

/* One workspace more, with the limit that the file says or, where it says none, one that its files
 * fit in; no larger than the quota, and its layers beside it. */
static int hold_workspace(struct api_call *c, struct cove *cove, int fd, uint64_t *ret_max_disk,
			  struct err *e)
{
	uint64_t quota = disk_quota(c), disk, more;
	struct restore_size size;
	int r;

	if (!quota)
		return 0;
	r = restore_size_read(fd, BACKUP_WORKSPACE, &size, e);
	if (r < 0)
		return r;
	disk = size.disk_bytes ? size.disk_bytes : 2 * size.bytes + PARCEL_BESIDE;
	if (disk > quota)
		disk = quota;
	*ret_max_disk = disk;
	more = size.has_layers ? size.bytes : 0;
	return api_quota_hold_amount(c, cove, KEY_QUOTA_DISK, disk + more, e);
}

/* A snapshot that has just been made. */
static int check_fits(struct api_call *c, struct cove *cove, const char *name, struct err *e)
{
	struct cove_error err;
	uint64_t rest;
	int r = api_quota_rest(c, cove, &rest, e);

	if (r == 0)
		return 0;
	return cove_snapshot_remove(cove, name, &err) < 0 ? api_failed(-err.code, &err, e) : r;
}

static int import_as(struct api_call *c, struct cove *cove, enum key_kind kind, parcel_call *call,
		     struct err *e)
{
	struct cove_backup_options o = {.size = sizeof(o)};
	const char *name, *full;
	struct cove_error err;
	autoclose int fd = -1;
	int r = api_query(c, "name", &name, e);

	/* What the file says itself would be a name of the operator's. */
	if (r == 0 && !name && !c->who.is_operator)
		r = err_set(e, ERR_INVALID, EINVAL, "the query's 'name' is missing");
	if (r == 0)
		r = api_name(c, kind, name, &full, e);
	if (r == 0 && kind == KEY_OF_SNAPSHOT)
		r = api_quota_hold_kept(c, cove, KEY_QUOTA_SNAPSHOTS, NULL, e);
	if (r < 0)
		return r;
	fd = r = api_spool_open(cove, false, e);
	if (r >= 0)
		r = api_body_spool(c, cove, fd, PARCEL_BYTES_MAX, e);
	if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = err_errno(e, errno, "read the request");
	if (r >= 0 && kind == KEY_OF_WORKSPACE)
		r = hold_workspace(c, cove, fd, &o.max_disk, e);
	o.fd = fd;
	if (r >= 0) {
		r = call(cove, "the request", full, &o, &err);
		if (r < 0)
			api_failed(r, &err, e);
		/* The file is the client's. */
		if (r < 0 && (e->kind == ERR_DAMAGED || e->kind == ERR_PROTOCOL))
			e->kind = ERR_INVALID;
		if (r >= 0 && kind == KEY_OF_SNAPSHOT)
			r = check_fits(c, cove, full, e);
	}
	api_quota_release(c);
	if (r < 0)
		return r;
	json_object_begin(api_json(c, 201));
	json_kv_str(&c->json, "name", name);
	json_kv_str(&c->json, "result", "imported");
	json_object_end(&c->json);
	return 0;
}

static int import_snapshot(struct api_call *c, struct cove *cove, struct err *e)
{
	return import_as(c, cove, KEY_OF_SNAPSHOT, cove_snapshot_import, e);
}

static int import_workspace(struct api_call *c, struct cove *cove, struct err *e)
{
	return import_as(c, cove, KEY_OF_WORKSPACE, cove_workspace_import, e);
}

/* clang-format off */
const struct api_route api_parcel_routes[] = {
	{"GET", "/v1/snapshots/{snapshot}/export", "exportSnapshot", KEY_READ,
	 .work = export_snapshot, .streams = true},
	{"POST", "/v1/snapshots/import", "importSnapshot", KEY_RUN, API_BODY_BYTES,
	 .work = import_snapshot, .streams = true},
	{"GET", "/v1/workspaces/{workspace}/export", "exportWorkspace", KEY_READ,
	 .work = export_workspace, .streams = true},
	{"POST", "/v1/workspaces/import", "importWorkspace", KEY_RUN, API_BODY_BYTES,
	 .work = import_workspace, .streams = true},
	{0}};
/* clang-format on */
