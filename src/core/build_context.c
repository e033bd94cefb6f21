/*
 * A build's context: a directory of the caller's, or a tar. That is unpacked where layers are made,
 * so what a killed build leaves of it goes with what killed imports leave; by a helper that can
 * write nowhere else.
 */
#include "base/fd.h"
#include "base/json.h"
#include "base/limits_build.h"
#include "core/build.h"
#include "core/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static int unpack(struct build *b, struct err *e)
{
	struct helper_fd fds[] = {{"in", b->o.context_fd}, {"root", b->context_fd}};
	struct helper_call call = {
		.verb = "unpack", .fds = fds, .fd_count = 2, .cancel_fd = b->o.cancel_fd};
	struct buf args;
	struct json j;
	int r;

	buf_init(&args, 256);
	json_init(&j, &args);
	json_object_begin(&j);
	json_kv_u64(&j, "bytes_max",
		    b->bytes_max < BUILD_CONTEXT_BYTES_MAX ? b->bytes_max
							   : BUILD_CONTEXT_BYTES_MAX);
	json_object_end(&j);
	call.args = buf_cstr(&args);
	r = call.args ? helper_run(b->cove, &call, NULL, e)
		      : err_errno(e, ENOMEM, "unpack the context");
	if (r < 0)
		err_prefix(e, "the context");
	buf_done(&args);
	return r;
}

static int open_unpacked(struct build *b, struct err *e)
{
	struct cove *cove = b->cove;
	int r = core_ids(cove, e);

	if (r == 0)
		r = state_make(&cove->state, e);
	if (r == 0) {
		layers_sweep(&cove->state, &cove->ids);
		r = layers_new(&cove->state, &b->unpacked, e);
	}
	if (r == 0 && mkdirat(b->unpacked.fd, "rootfs", 0700) < 0)
		r = err_errno(e, errno, "make a place for the context");
	if (r < 0)
		return r;
	b->context_fd =
		openat(b->unpacked.fd, "rootfs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return b->context_fd < 0 ? err_errno(e, errno, "make a place for the context")
				 : unpack(b, e);
}

int build_context_open(struct build *b, struct err *e)
{
	if (b->o.context_fd > 0 && b->o.context)
		return err_set(e, ERR_INVALID, EINVAL, "a build has one context");
	if (b->o.context_fd > 0)
		return open_unpacked(b, e);
	if (!b->o.context)
		return 0;
	b->context_fd = open(b->o.context, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->context_fd < 0 && errno == ENOTDIR)
		return err_set(e, ERR_INVALID, ENOTDIR, "'%.140s' is no directory", b->o.context);
	if (b->context_fd < 0)
		return err_errno(e, errno, "open '%.140s'", b->o.context);
	return 0;
}

void build_context_done(struct build *b)
{
	fd_close(&b->context_fd);
	if (b->unpacked.fd >= 0) {
		layers_drop(&b->cove->state, &b->cove->ids, &b->unpacked);
		layers_sweep(&b->cove->state, &b->cove->ids);
	}
}
