/*
 * What no server does for its clients: it is of the server's own machine, or the API does not carry
 * it. Each call says so, and that is all it does.
 */
#include "core/list.h"
#include "doctor/doctor.h"
#include "remote/remote.h"

#include <errno.h>
#include <string.h>

static int absent(const char *what, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(remote_absent(&e, what), &e, err);
}

int cove_workspace_chown(struct cove *cove, const char *dir, uint64_t *ret_changed,
			 struct cove_error *err)
{
	return absent("`cove workspace chown`", err);
}

int cove_workspace_export(struct cove *cove, const char *name, const char *path,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return absent("`cove workspace export`", err);
}

int cove_workspace_import(struct cove *cove, const char *path, const char *name,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return absent("`cove workspace import`", err);
}

int cove_snapshot_export(struct cove *cove, const char *name, const char *path,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return absent("`cove snapshot export`", err);
}

int cove_snapshot_import(struct cove *cove, const char *path, const char *name,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return absent("`cove snapshot import`", err);
}

int cove_system_backup(struct cove *cove, const char *path,
		       const struct cove_backup_options *options, struct cove_backed_up *ret,
		       struct cove_error *err)
{
	return absent("`cove system backup`", err);
}

int cove_system_restore(struct cove *cove, const char *path,
			const struct cove_backup_options *options, struct cove_backed_up *ret,
			struct cove_error *err)
{
	return absent("`cove system restore`", err);
}

int cove_wall_add(struct cove *cove, const char *name, const char *program, struct cove_error *err)
{
	return absent("`cove wall add`", err);
}

int cove_wall_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	return absent("`cove wall rm`", err);
}

/* What a local program forwards is its own: the server knows none of it. */
int cove_forwards(struct cove *cove, const char *box, struct cove_forward_info **ret,
		  struct cove_error *err)
{
	return absent("listing what `cove port -d` forwards", err);
}

int cove_forward_end(struct cove *cove, const char *box, unsigned local_port,
		     struct cove_error *err)
{
	return absent("`cove port --rm`", err);
}

/* ---- what the API does not carry ---- */

int cove_forward(struct cove_box *box, const struct cove_forward *forward, struct cove_error *err)
{
	return absent("`cove port`", err);
}

int cove_listening(struct cove_box *box, struct cove_listening **ret, struct cove_error *err)
{
	return absent("`cove ports`", err);
}

int cove_image_import(struct cove *cove, const char *name, const char *user, int tar_fd,
		      struct cove_error *err)
{
	return absent("`cove image import`", err);
}

int cove_image_import_any(struct cove *cove, const struct cove_image_source *from,
			  struct cove_imported **ret, struct cove_error *err)
{
	return absent("`cove image import`", err);
}

int cove_image_export(struct cove *cove, const char *name, const struct cove_image_target *to,
		      struct cove_exported *ret, struct cove_error *err)
{
	return absent("`cove image export`", err);
}

int cove_image_history(struct cove *cove, const char *name, struct cove_image_step **ret,
		       struct cove_error *err)
{
	return absent("`cove image history`", err);
}

int cove_image_pull(struct cove *cove, const char *ref, const struct cove_pull *how,
		    struct cove_pulled *ret, struct cove_error *err)
{
	return absent("`cove image pull`", err);
}

int cove_image_build(struct cove *cove, const struct cove_build_options *options,
		     struct cove_build_result *ret, struct cove_error *err)
{
	return absent("`cove image build`", err);
}

int cove_diff(struct cove *cove, const struct cove_diff_options *options, struct cove_error *err)
{
	return absent("`cove diff`", err);
}

int cove_system_df(struct cove *cove, struct cove_usage_info **ret, struct cove_error *err)
{
	return absent("`cove system df`", err);
}

int cove_image_gc(struct cove *cove, const struct cove_prune_options *options,
		  struct cove_pruned *ret, struct cove_error *err)
{
	return absent("`cove image gc`", err);
}

int cove_system_prune(struct cove *cove, const struct cove_prune_options *options,
		      struct cove_pruned *ret, struct cove_error *err)
{
	return absent("`cove system prune`", err);
}

int cove_reap(struct cove *cove, const struct cove_reap_options *options, struct cove_reaped *ret,
	      struct cove_error *err)
{
	return absent("`cove system reap`", err);
}

int cove_system_verify(struct cove *cove, bool deep, cove_on_damage *on_damage, void *arg,
		       struct cove_verified *ret, struct cove_error *err)
{
	return absent("`cove system verify`", err);
}

int cove_merge(struct cove *cove, const struct cove_merge_options *options,
	       struct cove_merge_result *ret, struct cove_error *err)
{
	return absent("`cove merge`", err);
}

int cove_key_create(struct cove *cove, const struct cove_key_options *options,
		    struct cove_key_made *ret, struct cove_error *err)
{
	return absent("`cove key create`", err);
}

int cove_keys(struct cove *cove, struct cove_key_info **ret, struct cove_error *err)
{
	return absent("`cove key`", err);
}

int cove_key_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	return absent("`cove key rm`", err);
}

int cove_walls(struct cove *cove, struct cove_wall_info **ret, struct cove_error *err)
{
	return absent("`cove wall`", err);
}

int cove_wall_set_min(struct cove *cove, const char *name, struct cove_error *err)
{
	return absent("`cove wall min`", err);
}

int cove_wall_min(struct cove *cove, char ret[64], struct cove_error *err)
{
	return absent("`cove wall min`", err);
}

/* ---- of verbs that are refused before they come here (struct verb's `here`) ---- */

int list_host_paths(struct cove *cove, const char *name, struct buf *ret)
{
	return -EOPNOTSUPP;
}

void doctor_run(const char *home, bool test, struct doctor_report *ret)
{
	memset(ret, 0, sizeof(*ret));
}

bool doctor_has_failed(const struct doctor_report *report)
{
	return true;
}

char *doctor_json(const struct doctor_report *report)
{
	return NULL;
}

int doctor_storage_setup(const char *home, uint64_t bytes, char ret_said[DOCTOR_SAID],
			 struct err *e)
{
	return remote_absent(e, "`cove doctor storage`");
}

int doctor_storage_remove(const char *home, char ret_said[DOCTOR_SAID], struct err *e)
{
	return remote_absent(e, "`cove doctor storage`");
}
