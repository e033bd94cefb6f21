/* Images as archives, to a server and from it. */
#include "base/fd.h"
#include "base/str.h"
#include "core/onto_host.h"
#include "remote/remote.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PIECE = 128 << 10, REPORT_MS = 250 };

/* ---- there ---- */

/* Each piece of the descriptor; what it is, the server finds out. */
static int send_all(struct remote_upload *u, const struct cove_image_source *from, struct err *e)
{
	struct pollfd fds[2] = {
		{.fd = from->fd, .events = POLLIN},
		{.fd = from->cancel_fd > 0 ? from->cancel_fd : -1, .events = POLLIN}};
	struct cove_image_progress now = {.what = "read"};
	autofree uint8_t *piece = malloc(PIECE);
	ssize_t n = 1;
	int r = piece ? 0 : err_errno(e, ENOMEM, "send an archive");

	while (r == 0 && n != 0) {
		bool goes_on = !from->on_progress || from->on_progress(from->arg, &now);

		if (!goes_on || fd_is_cancelled(from->cancel_fd))
			return err_set(e, ERR_INTERRUPTED, ECANCELED, "it was given up");
		if (poll(fds, 2, REPORT_MS) <= 0 || !fds[0].revents)
			continue;
		n = read(from->fd, piece, PIECE);
		if (n > 0)
			r = remote_upload_piece(u, piece, (size_t)n, e);
		else if (n < 0 && errno != EAGAIN && errno != EINTR)
			r = err_errno(e, errno, "read the archive");
		now.done += n > 0 ? (uint64_t)n : 0;
	}
	return r;
}

static int import(struct cove *cove, const struct cove_image_source *from, json_t **ret,
		  struct err *e)
{
	struct remote_request q;
	struct remote_upload u;
	struct remote_answer a;
	struct stat st;
	int r;

	if (fstat(from->fd, &st) == 0 && S_ISDIR(st.st_mode))
		return err_set(
			e, ERR_UNSUPPORTED, EISDIR,
			"a server takes an archive, no directory: tar c -C DIR . | cove image "
			"import NAME -");
	remote_begin(&q, cove, "POST", "/v1/images/import");
	remote_query(&q, "name", from->name ? from->name : from->base);
	remote_query(&q, "user", from->user);
	remote_query(&q, "platform", from->platform);
	remote_query_u64(&q, "max_size", from->max_size);
	r = remote_upload_begin(&q, &u, e);
	if (r < 0)
		return r;
	r = send_all(&u, from, e);
	if (r < 0) {
		remote_upload_drop(&u);
		return r;
	}
	r = remote_upload_end(&u, &a, e);
	return r < 0 ? r : remote_answer_json(&a, ret, e);
}

int cove_image_import_any(struct cove *cove, const struct cove_image_source *given,
			  struct cove_imported **ret, struct cove_error *err)
{
	static const struct wire_named_field fields[] = {FIELD_ALWAYS(cove_imported, name),
							 FIELD_ALWAYS(cove_imported, id),
							 FIELD_ALWAYS(cove_imported, digest),
							 FIELD_ALWAYS(cove_imported, config),
							 FIELD_ALWAYS(cove_imported, bytes),
							 FIELD_ALWAYS(cove_imported, layers),
							 {0}};
	struct cove_image_source from;
	struct err e = {0};
	json_t *o = NULL;
	int r = core_copy_sized(&from, sizeof(from), given, &e);

	if (r == 0)
		r = import(cove, &from, &o, &e);
	if (r == 0)
		r = remote_take_rows(o, "images", fields, sizeof(**ret), (void **)ret, &e);
	json_decref(o);
	return remote_return(r, &e, err);
}

int cove_image_import(struct cove *cove, const char *name, const char *user, int tar_fd,
		      struct cove_error *err)
{
	const struct cove_image_source from = {
		.size = sizeof(from), .fd = tar_fd, .name = name, .user = user};
	struct cove_imported *list = NULL;
	int r = cove_image_import_any(cove, &from, &list, err);

	free(list);
	return r < 0 ? r : 0;
}

/* ---- and back ---- */

static int fetch(struct remote_answer *a, const struct cove_image_target *to, uint64_t *ret_bytes,
		 struct err *e)
{
	struct cove_image_progress now = {.what = "write"};
	const void *p;
	size_t n;
	int r;

	while ((r = remote_answer_next(a, REPORT_MS, &p, &n, e)) != 0) {
		if (r < 0 && r != -EAGAIN)
			return remote_is_lost(r) ? err_set(e, ERR_INTERRUPTED, ECONNRESET,
							   "the archive was cut")
						 : r;
		if ((to->on_progress && !to->on_progress(to->arg, &now)) ||
		    fd_is_cancelled(to->cancel_fd))
			return err_set(e, ERR_INTERRUPTED, ECANCELED, "it was given up");
		if (r == -EAGAIN)
			continue;
		r = onto_host_write(to->fd, p, n);
		if (r < 0)
			return err_errno(e, -r, "write the archive");
		now.done += n;
	}
	*ret_bytes = now.done;
	return 0;
}

int cove_image_export(struct cove *cove, const char *name, const struct cove_image_target *given,
		      struct cove_exported *ret, struct cove_error *err)
{
	struct cove_image_target to;
	struct remote_request q;
	struct remote_answer a;
	struct err e = {0};
	int r = core_copy_sized(&to, sizeof(to), given, &e);

	if (r == 0 && to.format && strcmp(to.format, "oci-dir") == 0)
		r = remote_absent(&e, "an export into a directory");
	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "GET", "/v1/images/{}/export", name);
	remote_query(&q, "format", to.format);
	r = remote_open(&q, NULL, &a, &e);
	if (r == 0) {
		r = fetch(&a, &to, &ret->bytes, &e);
		remote_answer_done(&a);
	}
	return remote_return(r, &e, err);
}
