/*
 * What is not asked of a server: it is of the server's own machine, or the API has it
 * (docs/api/verbs.md) and this client does not. Each call says which, and that is all it does.
 */
#include "core/list.h"
#include "doctor/doctor.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int absent(const char *what, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(remote_absent(&e, what), &e, err);
}

/* What the API has by this name. */
static int unasked(const char *what, const char *operation, struct cove_error *err)
{
	struct err e = {0};

	return remote_return(err_set(&e, ERR_UNSUPPORTED, EOPNOTSUPP,
				     "%s is not asked of a server by this command line: use its "
				     "API (%s), or run it on the server's machine, without "
				     "COVE_HOST",
				     what, operation),
			     &e, err);
}

int cove_workspace_chown(struct cove *cove, const char *dir, uint64_t *ret_changed,
			 struct cove_error *err)
{
	return absent("`cove workspace chown`", err);
}

int cove_workspace_export(struct cove *cove, const char *name, const char *path,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return unasked("`cove workspace export`", "exportWorkspace", err);
}

int cove_workspace_import(struct cove *cove, const char *path, const char *name,
			  const struct cove_backup_options *options, struct cove_error *err)
{
	return unasked("`cove workspace import`", "importWorkspace", err);
}

int cove_snapshot_export(struct cove *cove, const char *name, const char *path,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return unasked("`cove snapshot export`", "exportSnapshot", err);
}

int cove_snapshot_import(struct cove *cove, const char *path, const char *name,
			 const struct cove_backup_options *options, struct cove_error *err)
{
	return unasked("`cove snapshot import`", "importSnapshot", err);
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

/* What `cove port` would forward here: it does not, so there are none. */
int cove_forwards(struct cove *cove, const char *box, struct cove_forward_info **ret,
		  struct cove_error *err)
{
	struct err e = {0};

	*ret = calloc(1, sizeof(**ret));
	return remote_return(*ret ? 0 : err_errno(&e, ENOMEM, "list what is forwarded"), &e, err);
}

int cove_forward_end(struct cove *cove, const char *box, unsigned local_port,
		     struct cove_error *err)
{
	return absent("`cove port --rm`", err);
}

/* ---- what goes on for as long as it is used, or brings much along ---- */

int cove_forward(struct cove_box *box, const struct cove_forward *forward, struct cove_error *err)
{
	return unasked("`cove port`", "callPort, linkPort", err);
}

int cove_image_build(struct cove *cove, const struct cove_build_options *options,
		     struct cove_build_result *ret, struct cove_error *err)
{
	return unasked("`cove image build`", "buildImage", err);
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
