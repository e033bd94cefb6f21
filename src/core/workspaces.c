/* Named workspaces, for callers of the library; store/workspace.h does the work. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "core/core.h"
#include "storage/share.h"
#include "store/layer.h"
#include "store/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cove_workspaces(struct cove *cove, struct cove_workspace_info **ret, struct cove_error *err)
{
	struct cove_workspace_info *infos = NULL;
	struct workspace *spaces = NULL;
	char box[BOX_NAME_MAX + 1];
	size_t count = 0;
	struct err e = {0};
	int r;

	core_sweep(cove);
	r = core_ids(cove, &e);
	if (r == 0 && workspace_sweep(&cove->state, &cove->ids, &e) < 0)
		log_debug("sweep the workspaces: %s", e.msg);
	if (r == 0)
		r = workspace_list(&cove->state, &cove->ids, &spaces, &count, &e);
	if (r == 0) {
		infos = calloc(count + 1, sizeof(*infos));
		r = infos ? (int)count : err_errno(&e, ENOMEM, "list workspaces");
	}
	for (size_t i = 0; infos && i < count; i++) {
		str_copy(infos[i].name, sizeof(infos[i].name), spaces[i].name);
		infos[i].bytes = spaces[i].bytes;
		infos[i].files = spaces[i].files;
		infos[i].in_use =
			record_find_user(&cove->state, NULL, NULL, spaces[i].name, box, NULL) > 0;
	}
	free(spaces);
	if (r >= 0)
		*ret = infos;
	return core_return(cove, NULL, r, &e, err);
}

int cove_workspace_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct workspace_stack stack = {0};
	struct err e = {0};
	int lock_fd = -1, r;

	core_sweep(cove);
	r = core_ids(cove, &e);
	if (r == 0 && str_is_name(name, BOX_NAME_MAX))
		(void)workspace_stack_read(&cove->state, name, &stack);
	if (r == 0)
		r = workspace_remove(&cove->state, &cove->ids, name, &e);
	if (r == 0 && stack.count && layers_lock(&cove->state, &lock_fd, NULL) == 0) {
		layers_trash_unused(&cove->state, (const char *const *)stack.layers, stack.count);
		fd_close(&lock_fd);
		layers_sweep(&cove->state, &cove->ids);
	}
	workspace_stack_done(&stack);
	return core_return(cove, NULL, r, &e, err);
}

int cove_workspace_chown(struct cove *cove, const char *dir, uint64_t *ret_changed,
			 struct cove_error *err)
{
	struct err e = {0};
	int r = core_ids(cove, &e);

	if (r == 0)
		r = workspace_chown(&cove->state, &cove->ids, dir, ret_changed, &e);
	return core_return(cove, NULL, r, &e, err);
}

void core_hint_owner(struct cove *cove, uid_t owner, struct err *e)
{
	size_t len = strlen(e->msg);

	if ((e->code != EACCES && e->code != EPERM) || core_ids(cove, NULL) < 0 ||
	    !ids_is_box_uid(&cove->ids, owner))
		return;
	snprintf(e->msg + len, sizeof(e->msg) - len,
		 ": a box's root wrote it; `cove workspace chown DIR` gives it back");
}
