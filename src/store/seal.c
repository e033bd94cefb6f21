/* The machine's seal; see seal.h. */
#include "store/seal.h"

#include "base/fd.h"
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#define SEAL_FILE ".seal"

static int load(int dir, uint8_t ret[SEAL_BYTES])
{
	char *text = NULL;
	size_t len = 0;
	int r = fd_read_plain(dir, SEAL_FILE, SEAL_BYTES, &text, &len);

	if (r == 0 && len != SEAL_BYTES)
		r = -EBADMSG;
	if (r == 0)
		memcpy(ret, text, SEAL_BYTES);
	if (text)
		explicit_bzero(text, len);
	free(text);
	return r == -EFBIG || r == -ELOOP ? -EBADMSG : r;
}

int seal_read(struct state *st, uint8_t ret[SEAL_BYTES], struct err *e)
{
	int r = state_make(st, e);

	if (r < 0)
		return r;
	autoclose int dir = fd_open_below(st->home_fd, "keys", true);
	r = dir < 0 ? dir : load(dir, ret);
	if (r == -ENOENT) {
		r = flock(dir, LOCK_EX) < 0 ? -errno : load(dir, ret);
		if (r == -ENOENT) {
			rand_bytes(ret, SEAL_BYTES);
			r = fd_write_file(dir, SEAL_FILE, ret, SEAL_BYTES, 0600, true);
		}
	}
	if (r == -EBADMSG)
		return err_set(e, ERR_DAMAGED, EBADMSG,
			       "the file keys/.seal is damaged: remove it, and links to ports that "
			       "were given out are void");
	return r < 0 ? state_error(st, -r, "read the seal of", e) : 0;
}
