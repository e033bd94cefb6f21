/*
 * import: makes images of a root filesystem or of an archive of images, whichever it is.
 *
 *	{"name": TEXT|null, "base": TEXT|null, "user": TEXT|null, "source": TEXT|null,
 *	 "platform": TEXT|null, "max_size": N}		fds: source, cancel (may be missing)
 *
 * base is what an image is called that has no other name: the file's. Progress: what (read,
 * unpack), done, total. Result: for each image a line `image` of lines: name, id, digest, config,
 * bytes, layers. When cancel can be read all ends, and nothing is left.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "base/str.h"
#include "helper/helper.h"
#include "oci/bundle.h"
#include "oci/confine.h"
#include "oci/expand.h"
#include "oci/pack.h"
#include "store/image.h"
#include "store/layer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { SAY_MS = 200 };

struct import {
	struct helper *h;
	const char *name, *base, *user;
	struct oci_platform platform;
	int source_fd, cancel_fd;
	uint64_t size; /* of the source; 0: not known */
	uint64_t said_ms;
	struct oci_ctx ctx;
	struct buf answer;
};

/* ---- progress ---- */

static bool is_cancelled(const struct import *i)
{
	struct pollfd p = {.fd = i->cancel_fd, .events = POLLIN};

	return i->cancel_fd > 0 && poll(&p, 1, 0) > 0;
}

static int on_progress(void *arg, const struct oci_progress *p)
{
	struct import *i = arg;
	uint64_t now = clock_mono_ms();
	struct buf b;
	int r;

	if (is_cancelled(i))
		return -ECANCELED;
	if (now - i->said_ms < SAY_MS)
		return 0;
	i->said_ms = now;
	buf_init(&b, 4096);
	r = lines_put(&b, "what", p->what);
	if (r == 0)
		r = lines_put_u64(&b, "done", p->done);
	if (r == 0)
		r = lines_put_u64(&b, "total", p->total);
	if (r == 0)
		r = helper_progress(i->h, &b);
	buf_done(&b);
	return r;
}

static int cancelled(struct err *e)
{
	return err_set(e, ERR_INTERRUPTED, ECANCELED, "the import was interrupted");
}

/* ---- the answer ---- */

static int put_image(struct import *i, const char *name, struct err *e)
{
	struct image *im = calloc(1, sizeof(*im));
	struct buf b;
	int r = im ? image_find(&i->h->state, name, im, e) : err_errno(e, ENOMEM, "answer");

	if (r < 0) {
		free(im);
		return r;
	}
	buf_init(&b, 1 << 16);
	r = lines_put(&b, "name", im->name);
	if (r == 0)
		r = lines_put(&b, "id", im->id);
	if (r == 0)
		r = lines_put(&b, "digest", im->digest ? im->digest : "");
	if (r == 0)
		r = lines_put(&b, "config", im->config_digest ? im->config_digest : "");
	if (r == 0)
		r = lines_put_u64(&b, "bytes", im->bytes);
	if (r == 0)
		r = lines_put_u64(&b, "layers", im->layer_count);
	if (r == 0)
		r = buf_cstr(&b) ? lines_put(&i->answer, "image", buf_cstr(&b)) : -ENOMEM;
	buf_done(&b);
	image_done(im);
	free(im);
	return r < 0 ? err_errno(e, -r, "answer") : 0;
}

/* ---- a root filesystem ---- */

/* In memory shared with the process that does it. */
struct root_shared {
	int code;
	struct err err;
};

struct root_job {
	struct import *i;
	const char *name;
	struct expand *stream; /* one of the two */
	struct pack_stream *tree;
	struct root_shared *shared;
};

static int on_end(void *arg, int r, struct err *e)
{
	struct root_job *j = arg;

	return j->stream ? expand_verdict(j->stream, r, e) : pack_verdict(j->tree, r, e);
}

static int run_root(void *arg)
{
	struct root_job *j = arg;
	struct import *i = j->i;
	const struct image_import_how how = {.user = i->user,
					     .source = i->ctx.source,
					     .bytes_max = i->ctx.max_size,
					     .head = j->stream ? j->stream->head : NULL,
					     .head_len = j->stream ? j->stream->head_len : 0,
					     .is_canonical = j->tree != NULL,
					     .confine = oci_confine_unpack,
					     .on_end = on_end,
					     .arg = j};

	j->shared->code =
		image_import_stream(&i->h->state, &i->h->ids, j->name, &how,
				    j->stream ? j->stream->fd : j->tree->fd, &j->shared->err);
	return j->shared->code < 0;
}

/* Until the worker has ended. Where it is to stop, its stream ends, and it cleans up by itself. */
static void watch_root(struct root_job *j, const struct child_forked *worker)
{
	autoclose int pid_fd = sys_pidfd_open(worker->between);
	struct pollfd p[] = {{.fd = pid_fd, .events = POLLIN}};
	bool stopped = false;

	while (pid_fd >= 0 && poll(p, 1, SAY_MS) <= 0) {
		struct oci_progress now = {.what = "unpack", .total = j->i->size};

		if (stopped)
			continue;
		now.done = j->stream ? expand_taken(j->stream) : 0;
		stopped = on_progress(j->i, &now) < 0;
		if (stopped && j->stream)
			expand_stop(j->stream);
		else if (stopped)
			pack_stop(j->tree);
	}
}

static int import_root(struct import *i, struct expand *stream, struct pack_stream *tree,
		       struct err *e)
{
	const char *name = i->name ? i->name : i->base;
	struct root_job j = {.i = i, .name = name, .stream = stream, .tree = tree};
	struct child_forked worker;
	int r;

	if (!name)
		return err_set(e, ERR_INVALID, EINVAL, "what is the image to be called? (--name)");
	j.shared = mmap(NULL, sizeof(*j.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (j.shared == MAP_FAILED)
		return err_errno(e, errno, "import an image");
	j.shared->code = -ECHILD;
	r = child_fork(run_root, &j, &worker);
	if (r < 0) {
		r = err_errno(e, -r, "import an image");
	} else {
		watch_root(&j, &worker);
		child_forked_wait(&worker);
		r = j.shared->code;
		if (r < 0 && j.shared->err.kind != ERR_NONE)
			*e = j.shared->err;
		else if (r < 0)
			err_set(e, ERR_INTERNAL, -r, "the process that imports died");
	}
	munmap(j.shared, sizeof(*j.shared));
	if (r < 0 && is_cancelled(i))
		r = cancelled(e);
	return r < 0 ? r : put_image(i, name, e);
}

/* ---- archives ---- */

/* What an archive calls its image is no word of the caller's: it takes nothing's place. */
static int refuse_taken(struct import *i, const struct oci_found *f, struct err *e)
{
	struct image *im = calloc(1, sizeof(*im));
	struct err none = {0};
	int r = im ? image_find(&i->h->state, f->name, im, &none)
		   : err_errno(e, ENOMEM, "import an image");

	if (im && r < 0 && none.kind == ERR_NOT_FOUND)
		r = 0;
	else if (im && strcmp(f->name, IMAGE_HOST) != 0 &&
		 (r < 0 || !im->digest || strcmp(im->digest, f->digest) != 0))
		r = err_set(e, ERR_EXISTS, EEXIST,
			    "the archive calls its image '%.100s', and there is another one of "
			    "that name: say what it is to be called (--name NAME; the same name "
			    "replaces it), or remove that one (cove image rm)",
			    f->name);
	if (im)
		image_done(im);
	free(im);
	return r;
}

/* What each image is to be called: as the caller says, as the archive says, or as the file. */
static int choose_names(struct import *i, struct oci_bundle *b, struct err *e)
{
	char all[160] = "";

	for (size_t k = 0; k < b->found_count; k++) {
		size_t n = strlen(all);

		if (n < sizeof(all) - 1)
			snprintf(all + n, sizeof(all) - n, "%s%.60s", n ? ", " : "",
				 b->found[k].name[0] ? b->found[k].name : "(without a name)");
	}
	for (size_t k = 1; i->name && k < b->found_count; k++)
		if (strcmp(b->found[k].digest, b->found[0].digest) != 0)
			return err_set(e, ERR_INVALID, EINVAL,
				       "the archive has several images, which cannot have one "
				       "name: %s; leave --name out",
				       all);
	if (i->name) {
		b->found_count = 1;
		return image_name_clean(i->name, b->found[0].name, e);
	}
	for (size_t k = 0; k < b->found_count; k++) {
		if (b->found[k].name[0]) {
			int r = refuse_taken(i, &b->found[k], e);

			if (r < 0)
				return r;
			continue;
		}
		if (b->found_count > 1 || !i->base)
			return err_set(e, ERR_INVALID, EINVAL,
				       "the archive does not say what its image is called: give "
				       "it a name with --name");
		return image_name_clean(i->base, b->found[k].name, e);
	}
	return 0;
}

static int adopt_all(struct import *i, struct oci_bundle *b, struct err *e)
{
	int r = choose_names(i, b, e);

	for (size_t k = 0; k < b->found_count && r == 0; k++) {
		r = oci_adopt(&i->ctx, b->found[k].digest, b->found[k].name, e);
		if (r == 0)
			r = put_image(i, b->found[k].name, e);
	}
	return r;
}

static int import_bundle(struct import *i, struct expand *stream, struct err *e)
{
	struct oci_bundle b = {.c = &i->ctx, .platform = &i->platform, .dir_fd = -1, .hold_fd = -1};
	int r;

	blobs_sweep(&i->h->state);
	r = stream ? oci_bundle_read_tar(&b, stream, e) : oci_bundle_read_dir(&b, i->source_fd, e);
	if (r == 0)
		r = adopt_all(i, &b, e);
	oci_bundle_done(&b);
	return r < 0 && is_cancelled(i) ? cancelled(e) : r;
}

/* ---- which of them ---- */

static int import_file(struct import *i, struct err *e)
{
	const struct expand_how how = {.any_ratio = i->ctx.max_size > 0, .cancel_fd = i->cancel_fd};
	bool is_bundle = false;
	struct expand x;
	int r = expand_open(i->source_fd, &how, &x, e);

	if (r < 0)
		return r;
	r = oci_bundle_is(&x, &is_bundle, e);
	if (r < 0)
		return expand_close(&x, r, e);
	if (is_bundle)
		return import_bundle(i, &x, e);
	r = import_root(i, &x, NULL, e);
	expand_close(&x, r, NULL);
	return r;
}

static int import_dir(struct import *i, struct err *e)
{
	struct pack_stream p;
	struct stat st;
	int r;

	if (fstatat(i->source_fd, "oci-layout", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(st.st_mode))
		return import_bundle(i, NULL, e);
	r = pack_open(&i->h->ids, i->source_fd,
		      i->h->ids.kind == IDS_RANGE ? LAYER_TAR_LAYER : LAYER_TAR_USERS, &p, e);
	if (r < 0)
		return r;
	r = import_root(i, NULL, &p, e);
	pack_close(&p, r, NULL);
	return r;
}

static int read_request(struct import *i, struct err *e)
{
	struct helper *h = i->h;
	const char *platform = helper_find_str(h, "platform");
	int r = helper_fd(h, "source", &i->source_fd, e);

	if (r == 0 && json_object_get(h->fds, "cancel"))
		r = helper_fd(h, "cancel", &i->cancel_fd, e);
	i->name = helper_find_str(h, "name");
	i->base = helper_find_str(h, "base");
	i->user = helper_find_str(h, "user");
	i->ctx = (struct oci_ctx){.state = &h->state,
				  .ids = &h->ids,
				  .user = i->user,
				  .source = helper_find_str(h, "source"),
				  .max_size = helper_u64(h, "max_size", 0),
				  .on_progress = on_progress,
				  .arg = i};
	oci_platform_host(&i->platform);
	if (r == 0 && platform)
		r = oci_platform_parse(platform, &i->platform, e);
	return r < 0 ? r : state_make(&h->state, e);
}

int verb_import(struct helper *h, struct err *e)
{
	struct import i = {.h = h, .cancel_fd = -1, .said_ms = clock_mono_ms()};
	struct stat st;
	int r = read_request(&i, e);

	if (r < 0)
		return r;
	if (fstat(i.source_fd, &st) < 0)
		return err_errno(e, errno, "look at what is to be imported");
	i.size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	buf_init(&i.answer, HELPER_ANSWER_MAX);
	r = S_ISDIR(st.st_mode) ? import_dir(&i, e) : import_file(&i, e);
	if (r == 0)
		r = buf_cstr(&i.answer) ? helper_result(h, buf_cstr(&i.answer), e)
					: err_errno(e, ENOMEM, "answer");
	buf_done(&i.answer);
	return r;
}
