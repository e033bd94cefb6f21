/* Results and inputs of any size: small ones in their row, large ones as blobs. */
#include "rails/journals.h"
#include "rails/run_parts.h"

#include "base/fd.h"
#include "base/str.h"
#include "store/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COPY_BLOCK = 256 << 10 };

int run_check_text(const char *what, const char *text, size_t max, bool must, struct err *e)
{
	size_t len = text ? strlen(text) : 0;

	if (must && len == 0)
		return err_set(e, ERR_INVALID, EINVAL, "%s is missing", what);
	if (len > max)
		return err_set(e, ERR_LIMIT, E2BIG, "%s has more than %zu bytes", what, max);
	return 0;
}

static int too_large(struct err *e)
{
	return err_set(e, ERR_LIMIT, EFBIG, "a result has at most %llu bytes",
		       (unsigned long long)RAILS_PAYLOAD_MAX);
}

/*
 * Large results are blobs in a directory of their run: so they go with it, and no one who looks for
 * blobs that no image names finds them. What store/blobs.h does it does there.
 */
struct rails_name run_name_of(const char *id)
{
	struct rails_name name = {.space = id[0] == RUN_ID_OF_VALUES ? RAILS_VALUES : RAILS_RUNS};

	str_copy(name.id, sizeof(name.id), id);
	return name;
}

/* make: what is missing, and the last only if it may be new. */
static int open_names(int home_fd, const char *const names[], bool make, bool is_new, int *ret_fd)
{
	autoclose int at = fcntl(home_fd, F_DUPFD_CLOEXEC, 3);

	if (at < 0)
		return -errno;
	for (; *names; names++) {
		int fd = fd_open_below(at, *names, make && (is_new || names[1]));

		if (fd < 0)
			return fd;
		/* A row that names a blob is not to be there without it. */
		if (make && fsync(at) < 0) {
			close(fd);
			return -errno;
		}
		close(at);
		at = fd;
	}
	*ret_fd = take_fd(at);
	return 0;
}

/* The directory of a journal as a state directory that has blobs/. Close its home_fd. */
static int blobs_of(const struct rails *l, const char *id, bool make, bool is_new,
		    struct state *ret, struct err *e)
{
	struct rails_name name = run_name_of(id);
	const char *const names[] = {RAILS_DIR, rails_space_dir(name.space), name.id, NULL};
	struct state *st = rails_state(l);
	struct stat s;
	int fd = -1, r = make ? state_make(st, e) : 0;

	if (r < 0)
		return r;
	r = st->home_fd < 0 ? -ENOENT : open_names(st->home_fd, names, make, is_new, &fd);
	if (r == -ENOENT && !is_new)
		return run_read_error(id, r, e);
	if (r < 0)
		return state_error(st, -r, "open the results of a run in", e);
	*ret = (struct state){.home_fd = fd,
			      .boxes_fd = -1,
			      .images_fd = -1,
			      .layers_fd = -1,
			      .workspaces_fd = -1,
			      .run_fd = -1};
	str_copy(ret->home, sizeof(ret->home), st->home);
	if (make && fstatat(fd, "blobs", &s, AT_SYMLINK_NOFOLLOW) < 0 &&
	    (mkdirat(fd, "blobs", 0700) < 0 && errno != EEXIST))
		r = -errno;
	if (make && r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r < 0) {
		fd_close(&ret->home_fd);
		return state_error(st, -r, "keep a result in", e);
	}
	return 0;
}

static int keep_blob(struct state *st, const void *p, size_t n, struct run_kept *k, struct err *e)
{
	k->payload.size = n;
	return blobs_put(st, NULL, p, n, k->payload.digest, e);
}

/* What was read, and all that follows. */
static int keep_stream(struct state *st, int fd, uint8_t *block, size_t have, struct run_kept *k,
		       struct err *e)
{
	struct blob_put put;
	ssize_t n = (ssize_t)have;
	int r = blobs_begin(st, NULL, BLOB_SIZE_UNKNOWN, &put, e);

	if (r < 0)
		return r;
	while (r == 0 && n > 0) {
		r = put.have + (uint64_t)n > RAILS_PAYLOAD_MAX
			    ? too_large(e)
			    : blobs_add(st, &put, block, (size_t)n, e);
		n = r == 0 ? fd_read_full(fd, block, COPY_BLOCK) : 0;
	}
	if (r == 0 && n < 0)
		r = err_errno(e, (int)-n, "read a result");
	if (r < 0) {
		blobs_drop(&put);
		return r;
	}
	k->payload.size = put.have;
	r = blobs_end(st, &put, e);
	if (r == 0)
		str_copy(k->payload.digest, sizeof(k->payload.digest), put.digest);
	return r;
}

static int keep_fd(const struct rails *l, const char *id, bool is_new, int fd, struct run_kept *k,
		   struct err *e)
{
	uint8_t *block = k->owned = malloc(COPY_BLOCK);
	struct state st;
	ssize_t n;
	int r;

	if (!block)
		return err_errno(e, ENOMEM, "read a result");
	n = fd_read_full(fd, block, RAILS_INLINE_MAX + 1);
	if (n < 0)
		return err_errno(e, (int)-n, "read a result");
	if ((size_t)n > RAILS_INLINE_MAX) {
		r = blobs_of(l, id, true, is_new, &st, e);
		if (r == 0) {
			r = keep_stream(&st, fd, block, (size_t)n, k, e);
			fd_close(&st.home_fd);
		}
		return r;
	}
	k->payload.bytes = (struct rails_bytes){block, (size_t)n};
	k->payload.size = (uint64_t)n;
	return 0;
}

int run_keep(const struct rails *l, const char *id, bool is_new, const struct run_data *data,
	     struct run_kept *ret, struct err *e)
{
	struct state st;
	int r = run_check_any_id(id, e);

	*ret = (struct run_kept){0};
	if (r < 0 || !data || (!data->p && data->fd <= 0))
		return r;
	if (!data->p) {
		r = keep_fd(l, id, is_new, data->fd, ret, e);
	} else if (data->len > RAILS_PAYLOAD_MAX) {
		r = too_large(e);
	} else if (data->len > RAILS_INLINE_MAX) {
		r = blobs_of(l, id, true, is_new, &st, e);
		if (r == 0) {
			r = keep_blob(&st, data->p, data->len, ret, e);
			fd_close(&st.home_fd);
		}
	} else {
		ret->payload.bytes = (struct rails_bytes){data->p, data->len};
		ret->payload.size = data->len;
	}
	if (r < 0)
		run_kept_done(ret);
	return r;
}

void run_kept_done(struct run_kept *k)
{
	free(k->owned);
	k->owned = NULL;
}

/* ---- back ---- */

void run_result_done(struct run_result *r)
{
	free(r->p);
	*r = (struct run_result){0};
}

int run_result_open(const struct rails *l, const char *id, const char *digest, int *ret_fd,
		    uint64_t *ret_size, struct err *e)
{
	struct state st;
	int r = run_check_any_id(id, e);

	if (r == 0)
		r = blobs_of(l, id, false, false, &st, e);
	if (r < 0)
		return r;
	r = blobs_open(&st, digest, ret_fd, ret_size, e);
	fd_close(&st.home_fd);
	return r;
}

static int read_blob(const struct rails *l, const char *id, struct run_result *out, struct err *e)
{
	autoclose int fd = -1;
	char sum[SHA256_HEX_SIZE];
	char *text = NULL;
	int r = run_result_open(l, id, out->digest, &fd, NULL, e);

	if (r < 0)
		return r;
	r = fd_read_regular(fd, RESULT_INLINE_MAX, &text, &out->len);
	out->p = (uint8_t *)text;
	if (r < 0)
		return err_errno(e, -r, "read a result of run '%s'", id);
	sha256_hex(out->p, out->len, sum);
	if (strcmp(sum, out->digest) == 0)
		return 0;
	run_result_done(out);
	return err_set(e, ERR_DAMAGED, EBADMSG, "a result of run '%s' is damaged", id);
}

int run_result_read(const struct rails *l, const char *id, const struct run_payload *from,
		    struct run_result *ret, struct err *e)
{
	struct run_result out = {.size = from->size};
	int r = 0;

	if (from->digest[0]) {
		str_copy(out.digest, sizeof(out.digest), from->digest);
		if (from->size <= RESULT_INLINE_MAX)
			r = read_blob(l, id, &out, e);
	} else {
		out.p = malloc(from->bytes.len + 1);
		if (!out.p)
			return err_errno(e, ENOMEM, "read a result");
		if (from->bytes.len)
			memcpy(out.p, from->bytes.p, from->bytes.len);
		out.p[from->bytes.len] = 0;
		out.size = out.len = from->bytes.len;
	}
	if (r == 0)
		*ret = out;
	return r;
}

int run_result_at(const struct rails *l, const char *id, const struct run_place *place,
		  struct run_result *ret, struct err *e)
{
	struct rails_name name;
	struct run_row row;
	uint8_t *text;
	int r = run_check_any_id(id, e);

	if (r < 0)
		return r;
	name = run_name_of(id);
	r = run_row_read(l, &name, place, &row, &text, e);
	if (r < 0)
		return r;
	r = run_result_read(l, id, &row.result, ret, e);
	free(text);
	return r;
}
