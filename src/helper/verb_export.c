/*
 * export: writes an image as an archive.
 *
 *	{"image": TEXT, "format": "oci"|"oci-dir"|"docker"|"tar"}	fds: out
 *
 * Progress: what (write), done, total. Result: lines digest, config, bytes, original.
 */
#include "base/clock.h"
#include "base/lines.h"
#include "helper/helper.h"
#include "oci/export.h"

#include <errno.h>
#include <string.h>

enum { SAY_MS = 200 };

struct export_call {
	struct helper *h;
	uint64_t said_ms;
};

static int on_progress(void *arg, const struct oci_progress *p)
{
	struct export_call *c = arg;
	uint64_t now = clock_mono_ms();
	struct buf b;
	int r;

	if (now - c->said_ms < SAY_MS)
		return 0;
	c->said_ms = now;
	buf_init(&b, 4096);
	r = lines_put(&b, "what", p->what);
	if (r == 0)
		r = lines_put_u64(&b, "done", p->done);
	if (r == 0)
		r = lines_put_u64(&b, "total", p->total);
	if (r == 0)
		r = helper_progress(c->h, &b);
	buf_done(&b);
	return r;
}

static int read_format(const char *text, enum oci_format *ret, struct err *e)
{
	static const char *const names[] = {[OCI_FORMAT_OCI] = "oci",
					    [OCI_FORMAT_OCI_DIR] = "oci-dir",
					    [OCI_FORMAT_DOCKER] = "docker",
					    [OCI_FORMAT_TAR] = "tar"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], text) == 0) {
			*ret = (enum oci_format)i;
			return 0;
		}
	return err_set(e, ERR_INVALID, EINVAL, "'%.40s' is no format: oci, oci-dir, docker or tar",
		       text);
}

static int answer(struct helper *h, const struct oci_exported *got, struct err *e)
{
	struct buf b;
	int r;

	buf_init(&b, 4096);
	r = lines_put(&b, "digest", got->digest);
	if (r == 0)
		r = lines_put(&b, "config", got->config);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", got->bytes);
	if (r == 0)
		r = lines_put_u64(&b, "original", got->is_original);
	r = r == 0 && buf_cstr(&b) ? helper_result(h, buf_cstr(&b), e)
				   : err_errno(e, ENOMEM, "answer");
	buf_done(&b);
	return r;
}

int verb_export(struct helper *h, struct err *e)
{
	struct export_call call = {.h = h, .said_ms = clock_mono_ms()};
	struct oci_ctx ctx = {
		.state = &h->state, .ids = &h->ids, .on_progress = on_progress, .arg = &call};
	const char *image = NULL, *text = NULL;
	struct oci_exported got;
	enum oci_format format = OCI_FORMAT_OCI;
	int out_fd = -1, r = helper_str(h, "image", &image, e);

	if (r == 0)
		r = helper_str(h, "format", &text, e);
	if (r == 0)
		r = read_format(text, &format, e);
	if (r == 0)
		r = helper_fd(h, "out", &out_fd, e);
	if (r == 0)
		r = oci_export(&ctx, image, format, out_fd, &got, e);
	return r < 0 ? r : answer(h, &got, e);
}
