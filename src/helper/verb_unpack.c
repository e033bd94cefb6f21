/*
 * A tar, which may be compressed, as a directory of the caller's own files: a build's context that
 * came over a network. This process confines itself to that directory first (oci/confine.h).
 *
 *	unpack {"bytes_max"}	fds: in, root		no result
 */
#include "helper/helper.h"
#include "oci/confine.h"
#include "oci/expand.h"
#include "store/unpack.h"

#include <errno.h>

int verb_unpack(struct helper *h, struct err *e)
{
	uint64_t bytes_max = helper_u64(h, "bytes_max", 0);
	struct expand_how expansion = {.bytes_max = 0};
	/* single: what is unpacked belongs to who unpacks it, whoever its tar says. */
	struct unpack_how how = {.kind = UNPACK_ROOT, .single = true, .bytes_max = bytes_max};
	struct unpack_result result;
	struct expand x;
	int in, root, r = helper_fd(h, "in", &in, e);

	if (r == 0)
		r = helper_fd(h, "root", &root, e);
	if (r == 0)
		r = expand_open(in, &expansion, &x, e);
	if (r < 0)
		return r;
	how.head = x.head;
	how.head_len = x.head_len;
	r = oci_confine_unpack(root, e);
	if (r == 0)
		r = unpack_stream(x.fd, root, &how, &result, e);
	return expand_close(&x, r, e);
}
