/*
 * A compressed archive as plain bytes, for ADD of a build (core/build_add.h).
 *
 *	expand {"bytes_max"}	fds: in, out		no result
 */
#include "base/fd.h"
#include "helper/helper.h"
#include "oci/expand.h"

#include <errno.h>
#include <stdlib.h>

enum { BLOCK = 1 << 18 };

int verb_expand(struct helper *h, struct err *e)
{
	autofree char *block = malloc(BLOCK);
	struct expand_how how = {.bytes_max = helper_u64(h, "bytes_max", 0)};
	struct expand x;
	int in, out, r = helper_fd(h, "in", &in, e);
	ssize_t n = 0;

	if (r == 0)
		r = helper_fd(h, "out", &out, e);
	if (r == 0 && !block)
		r = err_errno(e, ENOMEM, "expand an archive");
	if (r == 0)
		r = expand_open(in, &how, &x, e);
	if (r < 0)
		return r;
	while (r == 0 && (n = expand_read(&x, block, BLOCK)) > 0)
		r = fd_write_full(out, block, (size_t)n);
	if (r < 0)
		err_errno(e, -r, "write the expanded archive");
	else if (n < 0)
		r = err_errno(e, (int)-n, "read the archive");
	return expand_close(&x, r, e);
}
