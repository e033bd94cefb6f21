/*
 * Pulling an image from a registry (oci/pull.h), and making an image of it (oci/adopt.h).
 *
 *	image-pull {"ref", "name", "platform", "ca", "insecure", "stall_ms", "public_only",
 *		    "env": ["K=V"...]}
 *
 * Progress is lines, see put_progress; the result too: image, digest, bytes, fetched, layers,
 * layers_there.
 */
#include "base/coredump.h"
#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"
#include "helper/helper.h"
#include "oci/adopt.h"
#include "oci/pull.h"
#include "store/blobs.h"
#include "store/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static int put_u64s(struct buf *b, const struct oci_pull_progress *p)
{
	const struct {
		const char *key;
		uint64_t value;
	} all[] = {
		{"have", p->have},	   {"size", p->size},
		{"done", p->is_done},	   {"there", p->was_there},
		{"layers", p->blobs},	   {"layers_done", p->blobs_done},
		{"all_have", p->all_have}, {"all_size", p->all_size},
		{"fetched", p->fetched},
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]) && r == 0; i++)
		r = lines_put_u64(b, all[i].key, all[i].value);
	return r;
}

static int on_pull(void *arg, const struct oci_pull_progress *p)
{
	char layer[BLOB_DIGEST + 8];
	struct buf b;
	int r = 0;

	buf_init(&b, 4096);
	if (p->digest) {
		snprintf(layer, sizeof(layer), "sha256:%s", p->digest);
		r = lines_put(&b, "layer", layer);
	}
	if (r == 0)
		r = put_u64s(&b, p);
	if (r == 0)
		r = helper_progress(arg, &b);
	buf_done(&b);
	return r;
}

static int on_adopt(void *arg, const struct oci_progress *p)
{
	struct buf b;
	int r;

	buf_init(&b, 4096);
	r = lines_put_u64(&b, "unpacking", 1);
	if (r == 0)
		r = lines_put_u64(&b, "all_have", p->done);
	if (r == 0)
		r = lines_put_u64(&b, "all_size", p->total);
	if (r == 0)
		r = helper_progress(arg, &b);
	buf_done(&b);
	return r;
}

/* The strings are the request's. */
static int take_env(struct helper *h, const char ***ret, struct err *e)
{
	json_t *list = json_object_get(h->args, "env"), *v;
	const char **vars = calloc(json_array_size(list) + 1, sizeof(*vars));
	size_t i, n = 0;

	if (!vars)
		return err_errno(e, ENOMEM, "read the request");
	json_array_foreach(list, i, v) if (json_is_string(v)) vars[n++] = json_string_value(v);
	*ret = vars;
	return 0;
}

static int take_name(struct helper *h, const char *ref, char ret[IMAGE_NAME_MAX + 1], struct err *e)
{
	const char *name = helper_find_str(h, "name");

	if (name)
		return image_name_clean(name, ret, e);
	if (image_name_clean(ref, ret, NULL) == 0)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.100s' cannot be an image's name here: give it one with --name", ref);
}

static int answer(struct helper *h, const char *name, const struct oci_pulled *p, struct err *e)
{
	char digest[BLOB_DIGEST + 8];
	struct buf b;
	int r;

	snprintf(digest, sizeof(digest), "sha256:%s", p->manifest);
	buf_init(&b, 4096);
	r = lines_put(&b, "image", name);
	if (r == 0)
		r = lines_put(&b, "digest", digest);
	if (r == 0)
		r = lines_put_u64(&b, "bytes", p->bytes);
	if (r == 0)
		r = lines_put_u64(&b, "fetched", p->fetched);
	if (r == 0)
		r = lines_put_u64(&b, "layers", p->layers);
	if (r == 0)
		r = lines_put_u64(&b, "layers_there", p->layers_there);
	r = r == 0 ? helper_result(h, buf_cstr(&b), e) : err_errno(e, ENOMEM, "answer");
	buf_done(&b);
	return r;
}

static int pull(struct helper *h, const struct oci_ref *ref, const char *name,
		const struct oci_pull_options *o, struct err *e)
{
	char source[OCI_REF_TEXT];
	struct oci_ctx ctx = {.state = &h->state,
			      .ids = &h->ids,
			      .source = oci_ref_format(ref, source),
			      .on_progress = on_adopt,
			      .arg = h};
	autoclose int held = -1;
	struct oci_pulled got;
	int r = blobs_hold(&h->state, &held, e);

	blobs_sweep(&h->state);
	/* Passwords come through here: no core dump, and none reads its memory. */
	coredump_off();
	prctl(PR_SET_DUMPABLE, 0);
	if (r == 0)
		r = oci_pull(&h->state, ref, o, &got, e);
	/* They are wiped; what unpacks has its ids set by a program that must see it. */
	prctl(PR_SET_DUMPABLE, 1);
	if (r == 0)
		r = oci_adopt(&ctx, got.manifest, name, e);
	return r < 0 ? r : answer(h, name, &got, e);
}

int verb_pull(struct helper *h, struct err *e)
{
	const char *text, *platform = helper_find_str(h, "platform");
	autofree const char **vars = NULL;
	struct oci_platform wanted;
	struct oci_env env;
	struct oci_ref ref;
	char name[IMAGE_NAME_MAX + 1];
	struct oci_pull_options o = {.http = {.ca = helper_find_str(h, "ca"),
					      .insecure = helper_bool(h, "insecure"),
					      .stall_ms = helper_u64(h, "stall_ms", 0),
					      .public_only = helper_bool(h, "public_only"),
					      .env = &env},
				     .on_progress = on_pull,
				     .arg = h};
	int r = helper_str(h, "ref", &text, e);

	if (r == 0)
		r = oci_ref_parse(text, &ref, e);
	if (r == 0)
		r = take_name(h, text, name, e);
	if (r == 0 && platform) {
		r = oci_platform_parse(platform, &wanted, e);
		o.platform = &wanted;
	}
	if (r == 0)
		r = take_env(h, &vars, e);
	env.vars = vars;
	if (r == 0)
		r = state_make(&h->state, e);
	return r < 0 ? r : pull(h, &ref, name, &o, e);
}
