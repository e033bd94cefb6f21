/*
 * Fetching an image; see pull.h.
 *
 * The blobs are jobs in one table. A job is waiting (for its turn, for its time to be tried again,
 * or for another process that fetches the same), running, or done; the loop below starts what may
 * run, lets libcurl go on, and judges what has ended. Only the loop starts and judges, so that a
 * login that one job needs can be made while the others run.
 */
#include "oci/pull.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "oci/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { PROGRESS_MS = 100, BUSY_MS = 200, INDEX_DEPTH_MAX = 2, PROGRESS_BYTES = 64 << 10 };

enum pull_state { JOB_WAITS, JOB_RUNS, JOB_DONE };

struct pull_job {
	struct pull *pull;
	const struct oci_desc *desc;
	enum pull_state state;
	bool is_layer, is_open, was_there;
	bool is_checked; /* the answer's head: these are the bytes that were asked for */
	bool is_anew;	 /* it was begun again from its first byte, which happens once */
	struct blob_put put;
	struct oci_get get;
	struct oci_tries tries;
	uint64_t before; /* bytes when it was started */
	char url[OCI_REGISTRY_URL];
};

struct pull {
	struct state *s;
	const struct oci_pull_options *o;
	struct oci_registry registry;
	struct oci_manifest manifest;
	struct pull_job *jobs; /* owned */
	size_t count, running, done;
	uint64_t all_size, fetched, shown_ms;
};

/* ---- progress ---- */

static int show(struct pull *p, const struct pull_job *j, bool always)
{
	uint64_t now = clock_mono_ms();
	struct oci_pull_progress out = {
		.digest = j ? j->desc->digest : NULL,
		.blobs = (unsigned)p->count,
		.blobs_done = (unsigned)p->done,
		.all_size = p->all_size,
		.fetched = p->fetched,
	};

	if (!p->o->on_progress || (!always && now - p->shown_ms < PROGRESS_MS))
		return 0;
	p->shown_ms = now;
	for (size_t i = 0; i < p->count; i++)
		out.all_have +=
			p->jobs[i].state == JOB_DONE ? p->jobs[i].desc->size : p->jobs[i].put.have;
	if (j) {
		out.is_done = j->state == JOB_DONE;
		out.was_there = j->was_there;
		out.size = j->desc->size;
		out.have = out.is_done ? out.size : j->put.have;
	}
	return p->o->on_progress(p->o->arg, &out);
}

/* ---- one blob ---- */

/* Before its first byte: is it the part that was asked for? */
static int check_head(struct pull_job *j, struct err *e)
{
	const struct oci_answer *a = &j->get.answer;

	if (a->status == 200 && j->put.have > 0) /* it does not know parts: all of it comes */
		return blobs_restart(j->pull->s, &j->put, e);
	if (a->status == 206 && (!a->has_range || a->range_from != j->put.have))
		return err_set(e, ERR_PROTOCOL, ERANGE, "it sent another part than was asked for");
	return 0;
}

static int on_blob(void *arg, const void *data, size_t n, struct err *e)
{
	struct pull_job *j = arg;
	struct pull *p = j->pull;
	int r = 0;

	if (!j->is_checked)
		r = check_head(j, e);
	j->is_checked = true;
	if (r == 0)
		r = blobs_add(p->s, &j->put, data, n, e);
	if (r < 0)
		return r;
	p->fetched += n;
	r = show(p, j, false);
	return r < 0 ? err_set(e, ERR_INTERRUPTED, ECANCELED, "the pull was ended") : 0;
}

static int finish_job(struct pull_job *j)
{
	j->state = JOB_DONE;
	j->is_open = false;
	j->pull->done++;
	return show(j->pull, j->is_layer ? j : NULL, true);
}

/* What was written is whole, or too little, or something else. */
static int end_blob(struct pull_job *j, struct err *e)
{
	struct pull *p = j->pull;
	bool was_resumed = j->put.resumed > 0;
	int r;

	j->is_open = false;
	r = blobs_end(p->s, &j->put, e);
	if (r == 0)
		return finish_job(j);
	/* The part that was there may have been the wrong one: once without it. */
	if (r == -EBADMSG && was_resumed && !j->is_anew) {
		j->is_anew = true;
		j->state = JOB_WAITS;
		return 0;
	}
	err_prefix(e, "%.80s/%.60s", p->registry.ref.host, p->registry.ref.path);
	return r;
}

/* 0: it runs, or is done, or waits for another process. */
static int start_job(struct pull_job *j, struct err *e)
{
	struct pull *p = j->pull;
	int r = 0;

	if (!j->is_open) {
		r = blobs_begin(p->s, j->desc->digest, j->desc->size, &j->put, e);
		if (r == 1) {
			j->was_there = j->tries.all == 0 && j->before == 0;
			return finish_job(j);
		}
		if (r == -EBUSY) {
			j->tries.wait_until_ms = clock_mono_ms() + BUSY_MS;
			return 0;
		}
		if (r < 0)
			return r;
		j->is_open = true;
	}
	if (j->put.have == j->desc->size)
		return end_blob(j, e);
	oci_registry_url(&p->registry, "blobs", j->desc->digest, true, j->url);
	j->get = (struct oci_get){
		.url = j->url,
		.auth = &p->registry.auth,
		.from = j->put.have,
		.max = j->desc->size,
		.on_body = on_blob,
		.arg = j,
	};
	j->is_checked = false;
	j->before = j->put.have;
	j->tries.round = p->registry.round;
	r = oci_get_start(&p->registry.http, &j->get, e);
	if (r == 0) {
		j->state = JOB_RUNS;
		p->running++;
	}
	return r;
}

/* From its first byte again, once: 1. */
static int begin_anew(struct pull_job *j, struct err *e)
{
	int r;

	if (j->is_anew)
		return 0;
	j->is_anew = true;
	r = blobs_restart(j->pull->s, &j->put, e);
	return r < 0 ? r : 1;
}

/* The request of a job is over. */
static int judge_job(struct pull_job *j, struct err *e)
{
	struct pull *p = j->pull;
	const struct oci_get *g = &j->get;
	char what[160];
	int r;

	p->running--;
	j->state = JOB_WAITS;
	j->tries.wait_until_ms = 0;
	if ((g->end == OCI_END_ANSWER && g->answer.status == 416) ||
	    (g->end == OCI_END_STOPPED && g->err.code == ERANGE)) {
		r = begin_anew(j, e);
		if (r != 0)
			return r < 0 ? r : 0;
	}
	/* Who moves on is not failing. */
	if (j->put.have >= j->before + PROGRESS_BYTES)
		j->tries.failed = j->tries.logins = 0;
	snprintf(what, sizeof(what), "%.60s/%.60s", p->registry.ref.host, p->registry.ref.path);
	r = oci_registry_judge(&p->registry, g, &j->tries, what, e);
	if (r != 0)
		return r < 0 ? r : 0;
	if (j->put.have == j->desc->size)
		return end_blob(j, e);
	/* It ended well, but too early. */
	if (++j->tries.failed >= OCI_TRIES_MAX || ++j->tries.all >= OCI_RETRIES_MAX)
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "%s: a part of the image has %llu bytes there, not %llu", what,
			       (unsigned long long)j->put.have, (unsigned long long)j->desc->size);
	j->tries.wait_until_ms = clock_mono_ms() + BUSY_MS;
	return 0;
}

/* ---- all of them ---- */

/* Starts what may run; *ret_wait_ms is how long until the next one may. */
static int start_jobs(struct pull *p, int *ret_wait_ms, struct err *e)
{
	uint64_t now = clock_mono_ms();
	int r = 0;

	*ret_wait_ms = 1000;
	for (size_t i = 0; i < p->count && r == 0 && p->running < OCI_PARALLEL; i++) {
		struct pull_job *j = &p->jobs[i];

		if (j->state != JOB_WAITS)
			continue;
		if (j->tries.wait_until_ms > now) {
			if (j->tries.wait_until_ms - now < (uint64_t)*ret_wait_ms)
				*ret_wait_ms = (int)(j->tries.wait_until_ms - now);
			continue;
		}
		r = start_job(j, e);
		if (r == 0 && j->state == JOB_WAITS)
			*ret_wait_ms = j->tries.wait_until_ms > now ? BUSY_MS : 0;
	}
	return r;
}

static int run_jobs(struct pull *p, struct err *e)
{
	int r = 0, wait_ms;

	while (r == 0 && p->done < p->count) {
		r = start_jobs(p, &wait_ms, e);
		if (r == 0 && p->done < p->count)
			r = oci_http_step(&p->registry.http, wait_ms, e);
		for (size_t i = 0; i < p->count && r == 0; i++) {
			struct pull_job *j = &p->jobs[i];

			if (j->state != JOB_RUNS || !j->get.is_over)
				continue;
			r = judge_job(j, e);
			oci_get_stop(&j->get);
		}
		if (r == 0 && show(p, NULL, false) < 0)
			r = err_set(e, ERR_INTERRUPTED, ECANCELED, "the pull was ended");
	}
	return r;
}

static bool has_job(const struct pull *p, const char *digest)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->jobs[i].desc->digest, digest) == 0)
			return true;
	return false;
}

static int add_job(struct pull *p, const struct oci_desc *d, bool is_layer, struct err *e)
{
	if (has_job(p, d->digest))
		return 0;
	if (!is_layer && d->size > OCI_CONFIG_MAX)
		return err_set(e, ERR_LIMIT, EFBIG,
			       "the image's configuration has %llu bytes, the limit is %u",
			       (unsigned long long)d->size, OCI_CONFIG_MAX);
	p->all_size += d->size;
	if (p->all_size > OCI_IMAGE_BYTES_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "the image has more than %llu GiB",
			       OCI_IMAGE_BYTES_MAX >> 30);
	/* A layer would take long to read: it is looked at when it is unpacked or exported. */
	if (!is_layer)
		(void)blobs_verify(p->s, d->digest, NULL);
	p->jobs[p->count++] =
		(struct pull_job){.pull = p, .desc = d, .is_layer = is_layer, .put.fd = -1};
	return 0;
}

/* Before the first byte, rather than after most of them. */
static int check_room(struct pull *p, struct err *e)
{
	uint64_t missing = 0;
	struct statvfs st;

	for (size_t i = 0; i < p->count; i++)
		if (!blobs_has_size(p->s, p->jobs[i].desc->digest, p->jobs[i].desc->size))
			missing += p->jobs[i].desc->size;
	if (missing == 0 || fstatvfs(p->s->home_fd, &st) < 0 ||
	    missing / (st.f_frsize ? st.f_frsize : 1) <= st.f_bavail)
		return 0;
	return err_set(e, ERR_FULL, ENOSPC,
		       "the image needs %llu MiB more, and %.120s has not as much left",
		       (unsigned long long)(missing >> 20), p->s->home);
}

static int fetch_blobs(struct pull *p, struct err *e)
{
	int r;

	p->jobs = calloc(p->manifest.count + 1, sizeof(*p->jobs));
	if (!p->jobs)
		return err_errno(e, ENOMEM, "fetch the image");
	r = add_job(p, &p->manifest.config, false, e);
	for (size_t i = 0; i < p->manifest.count && r == 0; i++)
		r = add_job(p, &p->manifest.items[i], true, e);
	if (r == 0)
		r = check_room(p, e);
	if (r == 0)
		r = run_jobs(p, e);
	for (size_t i = 0; i < p->count; i++) {
		oci_get_stop(&p->jobs[i].get);
		if (p->jobs[i].is_open)
			blobs_leave(&p->jobs[i].put);
	}
	return r;
}

/* ---- manifests ---- */

static int check_answer(const struct pull *p, const struct oci_answer *a, const struct buf *text,
			struct err *e)
{
	char got[BLOB_DIGEST];

	sha256_hex(buf_data(text), buf_len(text), got);
	if (a->digest[0] && strcmp(a->digest, got) != 0)
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "%.80s says that the manifest is sha256:%.12s..., and what it sent "
			       "is sha256:%.12s...",
			       p->registry.ref.host, a->digest, got);
	return 0;
}

/* A manifest by its digest, or by the reference's tag, into blobs/ and m. */
static int get_manifest(struct pull *p, const char *digest, struct oci_manifest *m,
			char ret_digest[BLOB_DIGEST], struct err *e)
{
	const char *name = digest ? digest : p->registry.ref.tag;
	struct oci_answer a = {0};
	autofree char *kept = NULL;
	struct buf text;
	size_t n = 0;
	int r;

	/* One that is there, and is what it is called, needs no registry. */
	if (digest && blobs_verify(p->s, digest, NULL) == 0) {
		r = blobs_read(p->s, digest, OCI_MANIFEST_MAX, &kept, &n, e);
		if (r == 0)
			r = oci_manifest_parse(kept, n, NULL, m, e);
		str_copy(ret_digest, BLOB_DIGEST, digest);
		return r;
	}
	buf_init(&text, OCI_MANIFEST_MAX + 1);
	r = oci_registry_manifest(&p->registry, name, digest != NULL, &text, &a, e);
	if (r == 0)
		r = check_answer(p, &a, &text, e);
	if (r == 0)
		r = oci_manifest_parse((const char *)buf_data(&text), buf_len(&text),
				       a.type[0] ? a.type : NULL, m, e);
	if (r < 0 && e && e->kind == ERR_UNSUPPORTED)
		err_prefix(e, "%.60s/%.60s", p->registry.ref.host, p->registry.ref.path);
	if (r == 0) {
		r = blobs_put(p->s, digest, buf_data(&text), buf_len(&text), ret_digest, e);
		if (r < 0)
			oci_manifest_done(m);
	}
	buf_done(&text);
	return r;
}

/* Through an index to the manifest for the platform. */
static int find_manifest(struct pull *p, const struct oci_platform *want, struct oci_pulled *ret,
			 struct err *e)
{
	const char *digest = p->registry.ref.digest[0] ? p->registry.ref.digest : NULL;
	int r = get_manifest(p, digest, &p->manifest, ret->top, e);

	str_copy(ret->manifest, sizeof(ret->manifest), ret->top);
	for (int depth = 0; r == 0 && p->manifest.is_index; depth++) {
		const struct oci_desc *d;
		struct oci_manifest next = {0};

		if (depth == INDEX_DEPTH_MAX)
			return err_set(e, ERR_PROTOCOL, ELOOP,
				       "the image is an index of indexes of indexes");
		r = oci_index_find(&p->manifest, want, &d, e);
		if (r == 0)
			r = get_manifest(p, d->digest, &next, ret->manifest, e);
		if (r == 0) {
			oci_manifest_done(&p->manifest);
			p->manifest = next;
		}
	}
	return r;
}

/* An image that is not for this machine would only fail later, less clearly. */
static int check_platform(struct pull *p, const struct oci_platform *want, struct err *e)
{
	char is[OCI_PLATFORM_TEXT], wanted[OCI_PLATFORM_TEXT];
	struct oci_platform have;
	autofree char *text = NULL;
	size_t n;
	int r = blobs_read(p->s, p->manifest.config.digest, OCI_CONFIG_MAX, &text, &n, e);

	if (r == 0)
		r = oci_config_platform(text, n, &have, e);
	if (r < 0 || oci_platform_fits(&have, want))
		return r;
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "the image is made for %.40s and not for %.40s; choose with --platform",
		       oci_platform_format(&have, is), oci_platform_format(want, wanted));
}

int oci_pull(struct state *s, const struct oci_ref *ref, const struct oci_pull_options *o,
	     struct oci_pulled *ret, struct err *e)
{
	struct pull p = {.s = s, .o = o};
	struct oci_platform want;
	int r;

	*ret = (struct oci_pulled){0};
	oci_platform_host(&want);
	if (o->platform)
		want = *o->platform;
	r = oci_registry_open(&p.registry, ref, &o->http, e);
	if (r == 0)
		r = find_manifest(&p, &want, ret, e);
	if (r == 0)
		r = fetch_blobs(&p, e);
	if (r == 0)
		r = check_platform(&p, &want, e);
	for (size_t i = 0; i < p.count; i++) {
		ret->layers += p.jobs[i].is_layer;
		ret->layers_there += p.jobs[i].is_layer && p.jobs[i].was_there;
	}
	ret->fetched = p.fetched;
	ret->bytes = p.all_size;
	free(p.jobs);
	oci_manifest_done(&p.manifest);
	oci_registry_close(&p.registry);
	return r;
}
