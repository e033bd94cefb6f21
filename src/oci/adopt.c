/*
 * Making images of blobs; see adopt.h.
 *
 * How it works
 *
 * Every layer that is missing gets a private directory (layers_new) and, when it is its turn, a
 * decompressor and a worker: a process that unpacks what the decompressor writes, and says in
 * shared memory what came of it. The parent waits for whichever ends first. Nothing has a name
 * until all are whole; then, under the layers' lock, all get theirs and the image is written. A
 * layer that was there and has gone meanwhile is found out under that lock, and the work begins
 * again.
 */
#include "oci/adopt.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sha.h"
#include "base/str.h"
#include "oci/config.h"
#include "oci/confine.h"
#include "oci/expand.h"
#include "oci/manifest.h"
#include "store/blobs.h"
#include "store/image.h"
#include "store/inside.h"
#include "store/layer.h"
#include "store/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

_Static_assert(OCI_LAYERS_MAX <= IMAGE_LAYERS_MAX, "an image holds what a manifest may have");

enum { TRIES_MAX = 3, LOOK_MS = 250 };

/* One layer, in memory shared with its worker. */
struct adopt_job {
	struct inside_job job;
	struct unpack_how how;
	int stream_fd, layer_fd;
	struct unpack_result result;
	int code;
	struct err err;
};

struct adopt_layer {
	const struct oci_desc *desc;
	const char *diff;
	char id[LAYER_ID_SIZE];
	bool is_there, is_again; /* again: a layer before it is the same */
	struct layer_new made;
	struct layer_meta meta;
	int blob_fd; /* owned */
	struct expand stream;
	struct child_forked worker;
	int pid_fd; /* owned; -1: it does not run */
	struct adopt_job *job;
};

struct adopt {
	struct oci_ctx *c;
	struct oci_manifest manifest;
	struct oci_config config;
	char *config_text;	    /* owned */
	struct adopt_layer *layers; /* owned */
	size_t count;
	struct adopt_job *jobs; /* owned, shared */
	uint64_t done, total, bytes;
};

/* ---- the texts ---- */

/* A small blob, checked once more: a disk may have damaged it. */
static int read_text(struct oci_ctx *c, const char *digest, size_t max, char **ret, size_t *ret_len,
		     struct err *e)
{
	char is[65];
	int r = blobs_read(c->state, digest, max, ret, ret_len, e);

	if (r < 0)
		return r;
	sha256_hex(*ret, *ret_len, is);
	return strcmp(is, digest) == 0 ? 0 : blobs_verify(c->state, digest, e);
}

static int read_texts(struct adopt *a, const char *manifest_digest, struct err *e)
{
	autofree char *text = NULL;
	size_t n;
	int r = read_text(a->c, manifest_digest, OCI_MANIFEST_MAX, &text, &n, e);

	if (r == 0)
		r = oci_manifest_parse(text, n, NULL, &a->manifest, e);
	if (r < 0)
		return r;
	if (a->manifest.is_index)
		return err_set(e, ERR_INVALID, EINVAL, "it is an index of images and none itself");
	r = read_text(a->c, a->manifest.config.digest, OCI_CONFIG_MAX, &a->config_text, &n, e);
	if (r < 0)
		return r;
	if (n != a->manifest.config.size)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the image's config is not as large as its manifest says");
	r = oci_config_parse(a->config_text, n, &a->config, e);
	if (r < 0)
		return r;
	if (a->config.diff_count != a->manifest.count)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "the image's manifest has %zu layers and its config %zu",
			       a->manifest.count, a->config.diff_count);
	if (a->manifest.count == 0)
		return err_set(e, ERR_INVALID, EINVAL, "the image has no layers, so no files");
	return 0;
}

/* ---- layers ---- */

/* What is there, and what has to be made. */
static int plan_layers(struct adopt *a, struct err *e)
{
	struct oci_ctx *c = a->c;
	size_t size;

	a->count = a->manifest.count;
	size = a->count * sizeof(*a->jobs);
	a->layers = calloc(a->count, sizeof(*a->layers));
	a->jobs = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (a->jobs == MAP_FAILED)
		a->jobs = NULL;
	if (!a->layers || !a->jobs)
		return err_errno(e, ENOMEM, "unpack an image");
	for (size_t i = 0; i < a->count; i++) {
		struct adopt_layer *l = &a->layers[i];

		l->desc = &a->manifest.items[i];
		l->diff = a->config.diffs[i];
		l->made = LAYER_NEW_NONE;
		l->blob_fd = l->pid_fd = l->stream.fd = -1;
		l->job = &a->jobs[i];
		if (c->ids->kind == IDS_SINGLE)
			sha256_hex(l->diff, 64, l->id);
		else
			str_copy(l->id, sizeof(l->id), l->diff);
		for (size_t k = 0; k < i; k++)
			l->is_again = l->is_again || strcmp(a->layers[k].diff, l->diff) == 0;
		l->is_there = layer_read(c->state, l->id, &l->meta) == 0;
		if (!l->is_there && !l->is_again)
			a->total += l->desc->size;
	}
	return 0;
}

static int unpack_inside(struct inside_job *job)
{
	struct adopt_job *j = (struct adopt_job *)(void *)job;
	struct err *e = &job->err;
	int r;

	if (mkdirat(j->layer_fd, "rootfs", 0755) < 0)
		return err_errno(e, errno, "make the directory of a layer");
	autoclose int root_fd = openat(j->layer_fd, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root_fd < 0)
		return err_errno(e, errno, "open the directory of a layer");
	r = oci_confine_unpack(root_fd, e);
	return r < 0 ? r : unpack_stream(j->stream_fd, root_fd, &j->how, &j->result, e);
}

struct adopt_worker {
	const struct ids *ids;
	struct adopt_job *job;
};

static int run_worker(void *arg)
{
	struct adopt_worker *w = arg;

	w->job->code = inside_run(w->ids, &w->job->job, sizeof(*w->job), &w->job->err);
	return w->job->code < 0 ? 1 : 0;
}

static int start_layer(struct adopt *a, struct adopt_layer *l, struct err *e)
{
	struct oci_ctx *c = a->c;
	struct expand_how how = {.any_ratio = c->max_size > 0};
	struct adopt_worker w = {c->ids, l->job};
	uint64_t size;
	int r = blobs_open(c->state, l->desc->digest, &l->blob_fd, &size, e);

	if (r < 0)
		return r;
	if (size != l->desc->size)
		return err_set(e, ERR_INVALID, EBADMSG,
			       "a layer is not as large as the manifest says");
	r = layers_new(c->state, &l->made, e);
	if (r == 0)
		r = expand_open(l->blob_fd, &how, &l->stream, e);
	if (r < 0)
		return r;
	*l->job = (struct adopt_job){.job.run = unpack_inside,
				     .stream_fd = l->stream.fd,
				     .layer_fd = l->made.fd,
				     .code = -ECHILD,
				     .how = {.kind = UNPACK_LAYER,
					     .single = c->ids->kind == IDS_SINGLE,
					     .guarded = true,
					     .bytes_max = c->max_size,
					     .head = l->stream.head,
					     .head_len = l->stream.head_len}};
	r = child_fork(run_worker, &w, &l->worker);
	if (r < 0)
		return err_errno(e, -r, "start a process that unpacks");
	l->pid_fd = sys_pidfd_open(l->worker.between);
	if (l->pid_fd < 0) {
		r = l->pid_fd;
		kill(l->worker.pid, SIGKILL);
		child_forked_wait(&l->worker);
		return err_errno(e, -r, "watch a process that unpacks");
	}
	return 0;
}

static uint64_t taken(const struct adopt_layer *l)
{
	return expand_taken(&l->stream);
}

/* What could not be unpacked may be the disk's fault rather than the image's: then the blob is
 * moved aside, and the next pull or import brings it again. */
static int blame_blob(struct adopt *a, const struct adopt_layer *l, int r, struct err *e)
{
	struct err why = {0};

	if (blobs_verify(a->c->state, l->desc->digest, &why) != -EBADMSG)
		return r;
	if (e)
		*e = why;
	return -EBADMSG;
}

/* A worker has ended. */
static int finish_layer(struct adopt *a, struct adopt_layer *l, struct err *e)
{
	struct adopt_job *j = l->job;
	int r;

	child_forked_wait(&l->worker);
	fd_close(&l->pid_fd);
	if (j->code < 0 && j->err.kind != ERR_NONE && e)
		*e = j->err;
	else if (j->code < 0)
		err_set(e, ERR_INTERNAL, -j->code, "a process that unpacks died");
	r = expand_close(&l->stream, j->code < 0 ? j->code : 0, e);
	fd_close(&l->blob_fd);
	a->done += l->desc->size;
	if (r == 0 && strcmp(j->result.id, l->diff) != 0)
		r = err_set(e, ERR_INVALID, EBADMSG,
			    "a layer is not what the image's config says: its content has the "
			    "hash %.12s..., not %.12s...",
			    j->result.id, l->diff);
	if (r < 0)
		return r == -EBADMSG || r == -EINVAL || r == -EIO ? blame_blob(a, l, r, e) : r;
	l->meta = (struct layer_meta){.kind = LAYER_IMAGE,
				      .created_ms = clock_wall_ms(),
				      .bytes = j->result.bytes,
				      .files = j->result.files};
	str_copy(l->meta.diff, sizeof(l->meta.diff), l->diff);
	return 0;
}

static int say_progress(struct adopt *a, struct err *e)
{
	struct oci_progress p = {.what = "unpack", .done = a->done, .total = a->total};
	int r;

	if (!a->c->on_progress)
		return 0;
	for (size_t i = 0; i < a->count; i++)
		if (a->layers[i].pid_fd >= 0)
			p.done += taken(&a->layers[i]);
	r = a->c->on_progress(a->c->arg, &p);
	return r < 0 ? err_set(e, ERR_INTERRUPTED, -r, "unpacking was stopped") : 0;
}

/* Waits until one of those that run has ended, and finishes those that have. */
static int wait_some(struct adopt *a, size_t *running, struct err *e)
{
	struct pollfd fds[OCI_UNPACK_PARALLEL];
	struct adopt_layer *of[OCI_UNPACK_PARALLEL];
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < a->count && n < OCI_UNPACK_PARALLEL; i++)
		if (a->layers[i].pid_fd >= 0) {
			of[n] = &a->layers[i];
			fds[n++] = (struct pollfd){.fd = a->layers[i].pid_fd, .events = POLLIN};
		}
	while (poll(fds, n, LOOK_MS) == 0 && r == 0)
		r = say_progress(a, e);
	for (size_t i = 0; i < n && r == 0; i++)
		if (fds[i].revents) {
			(*running)--;
			r = finish_layer(a, of[i], e);
		}
	return r;
}

static size_t parallel(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	return cpus > 0 && cpus < (long)OCI_UNPACK_PARALLEL ? (size_t)cpus : OCI_UNPACK_PARALLEL;
}

static int unpack_layers(struct adopt *a, struct err *e)
{
	size_t running = 0, most = parallel();
	uint64_t max = a->c->max_size ? a->c->max_size : LAYER_BYTES_MAX;
	int r = 0;

	for (size_t i = 0; i < a->count && r == 0; i++) {
		struct adopt_layer *l = &a->layers[i];

		if (l->is_there || l->is_again)
			continue;
		while (running >= most && r == 0)
			r = wait_some(a, &running, e);
		if (r == 0)
			r = start_layer(a, l, e);
		running += r == 0;
	}
	while (running > 0 && r == 0)
		r = wait_some(a, &running, e);
	/* Once for all of them: each for itself would wait for what the others still write. */
	if (r == 0 && a->total > 0 && syncfs(a->c->state->layers_fd) < 0)
		r = state_error(a->c->state, errno, "sync layers in", e);
	for (size_t i = 0; i < a->count && r == 0; i++) {
		a->bytes += a->layers[i].is_again ? 0 : a->layers[i].meta.bytes;
		if (a->bytes > max)
			r = err_set(e, ERR_LIMIT, EFBIG,
				    "the image's files hold more than %llu MiB; --max-size allows "
				    "more",
				    (unsigned long long)(max >> 20));
	}
	return r;
}

/* Ends what runs and deletes what was not placed. */
static void adopt_done(struct adopt *a)
{
	for (size_t i = 0; i < a->count && a->layers; i++) {
		struct adopt_layer *l = &a->layers[i];

		if (l->pid_fd >= 0) {
			kill(l->worker.pid, SIGKILL);
			child_forked_wait(&l->worker);
			fd_close(&l->pid_fd);
		}
		if (l->stream.fd >= 0 || l->stream.head)
			expand_close(&l->stream, -ECANCELED, NULL);
		fd_close(&l->blob_fd);
		layers_drop(a->c->state, a->c->ids, &l->made);
	}
	if (a->jobs)
		munmap(a->jobs, a->count * sizeof(*a->jobs));
	free(a->layers);
	free(a->config_text);
	oci_config_done(&a->config);
	oci_manifest_done(&a->manifest);
}

/* ---- the image ---- */

static void fill_image(struct adopt *a, struct image *im, const char *digest)
{
	im->layer_count = a->count;
	for (size_t i = 0; i < a->count; i++)
		im->layers[i] = a->layers[i].id;
	im->config = a->config.config;
	if (a->c->user)
		im->config.user = a->c->user;
	im->digest = digest;
	im->config_digest = a->manifest.config.digest;
	im->source = a->c->source;
	im->history_count = a->config.history_count;
	memcpy(im->history, a->config.history, sizeof(im->history));
	im->created_ms = a->config.created_ms ? a->config.created_ms : clock_wall_ms();
	im->bytes = a->bytes;
}

/* Under the lock. 1: a layer that was there has gone. */
static int place(struct adopt *a, struct image *im, struct err *e)
{
	autoclose int lock_fd = -1;
	struct layer_meta meta;
	int r = layers_lock(a->c->state, &lock_fd, e);

	for (size_t i = 0; i < a->count && r == 0; i++)
		if (a->layers[i].is_there &&
		    layer_read(a->c->state, a->layers[i].id, &meta) == -ENOENT)
			return 1;
	for (size_t i = 0; i < a->count && r == 0; i++) {
		struct adopt_layer *l = &a->layers[i];

		if (l->made.fd >= 0)
			r = layers_place(a->c->state, a->c->ids, &l->made, l->id, &l->meta, e);
	}
	if (r == 0)
		r = image_write(a->c->state, im, e);
	if (r < 0 && lock_fd >= 0)
		layers_trash_unused(a->c->state, im->layers, im->layer_count);
	return r;
}

static int adopt_once(struct oci_ctx *c, const char *digest, const char *name, struct err *e)
{
	char platform[OCI_PLATFORM_TEXT];
	struct adopt a = {.c = c};
	struct image *im = calloc(1, sizeof(*im));
	int r = im ? read_texts(&a, digest, e) : err_errno(e, ENOMEM, "adopt an image");

	if (r == 0)
		r = plan_layers(&a, e);
	if (r == 0)
		r = unpack_layers(&a, e);
	if (r == 0) {
		str_copy(im->name, sizeof(im->name), name);
		fill_image(&a, im, digest);
		if (a.config.platform.arch[0])
			im->platform = oci_platform_format(&a.config.platform, platform);
		r = place(&a, im, e);
	}
	adopt_done(&a);
	free(im);
	return r;
}

int oci_adopt(struct oci_ctx *c, const char *manifest_digest, const char *image_name, struct err *e)
{
	char name[IMAGE_NAME_MAX + 1];
	autoclose int hold_fd = -1;
	int r = image_name_clean(image_name, name, e);

	if (r == 0 && strcmp(name, IMAGE_HOST) == 0)
		return err_set(e, ERR_INVALID, EINVAL,
			       "'" IMAGE_HOST
			       "' always means this machine's own programs; choose another name");
	if (r == 0)
		r = blobs_hold(c->state, &hold_fd, e);
	if (r < 0)
		return r;
	layers_sweep(c->state, c->ids);
	for (unsigned i = 0; i < TRIES_MAX; i++) {
		r = adopt_once(c, manifest_digest, name, e);
		if (r <= 0)
			break;
	}
	if (r > 0)
		r = err_set(e, ERR_CONFLICT, EAGAIN,
			    "layers of the image are removed again and again; try later");
	layers_sweep(c->state, c->ids);
	return r;
}
