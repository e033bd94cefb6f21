/* Results and inputs of any size: small ones in their row, large ones as blobs. */
#include "rails/run_parts.h"

#include "base/fd.h"
#include "base/str.h"
#include "store/blobs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/* The blob is there before the row that names it, and not swept as unused until then. */
static int keep_blob(struct state *st, const void *p, size_t n, struct run_kept *k, struct err *e)
{
	int r = state_make(st, e);

	if (r == 0)
		r = blobs_hold(st, &k->hold_fd, e);
	if (r == 0)
		r = blobs_put(st, NULL, p, n, k->payload.digest, e);
	k->payload.size = n;
	return r;
}

/* What was read, and all that follows. */
static int keep_stream(struct state *st, int fd, uint8_t *block, size_t have, struct run_kept *k,
		       struct err *e)
{
	struct blob_put put;
	ssize_t n = (ssize_t)have;
	int r = state_make(st, e);

	if (r == 0)
		r = blobs_hold(st, &k->hold_fd, e);
	if (r == 0)
		r = blobs_begin(st, NULL, BLOB_SIZE_UNKNOWN, &put, e);
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

static int keep_fd(struct state *st, int fd, struct run_kept *k, struct err *e)
{
	uint8_t *block = k->owned = malloc(COPY_BLOCK);
	ssize_t n;

	if (!block)
		return err_errno(e, ENOMEM, "read a result");
	n = fd_read_full(fd, block, RAILS_INLINE_MAX + 1);
	if (n < 0)
		return err_errno(e, (int)-n, "read a result");
	if ((size_t)n > RAILS_INLINE_MAX)
		return keep_stream(st, fd, block, (size_t)n, k, e);
	k->payload.bytes = (struct rails_bytes){block, (size_t)n};
	k->payload.size = (uint64_t)n;
	return 0;
}

int run_keep(const struct rails *l, const struct run_data *data, struct run_kept *ret,
	     struct err *e)
{
	int r = 0;

	*ret = (struct run_kept){.hold_fd = -1};
	if (!data || (!data->p && data->fd <= 0))
		return 0;
	if (!data->p) {
		r = keep_fd(rails_state(l), data->fd, ret, e);
	} else if (data->len > RAILS_PAYLOAD_MAX) {
		r = too_large(e);
	} else if (data->len > RAILS_INLINE_MAX) {
		r = keep_blob(rails_state(l), data->p, data->len, ret, e);
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
	fd_close(&k->hold_fd);
	free(k->owned);
	k->owned = NULL;
}

/* ---- back ---- */

void run_result_done(struct run_result *r)
{
	free(r->p);
	*r = (struct run_result){0};
}

int run_result_read(const struct rails *l, const struct run_payload *from, struct run_result *ret,
		    struct err *e)
{
	struct run_result out = {.size = from->size};
	int r = 0;

	if (from->digest[0]) {
		str_copy(out.digest, sizeof(out.digest), from->digest);
		if (from->size <= RESULT_INLINE_MAX)
			r = blobs_read(rails_state(l), from->digest, RESULT_INLINE_MAX,
				       (char **)&out.p, &out.len, e);
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
	struct rails_name name = {.space = RAILS_RUNS};
	struct run_row row;
	uint8_t *text;
	int r = run_check_id(id, e);

	if (r < 0)
		return r;
	str_copy(name.id, sizeof(name.id), id);
	r = run_row_read(l, &name, place, &row, &text, e);
	if (r < 0)
		return r;
	r = run_result_read(l, &row.result, ret, e);
	free(text);
	return r;
}
