/* A repository of a registry; see registry.h. The login itself is in token.c. */
#include "oci/registry.h"

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "oci/manifest.h"
#include "oci/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_WAIT_MS = 200, WAIT_MAX_MS = 10000, LOGINS_MAX = 2 };

int oci_registry_open(struct oci_registry *r, const struct oci_ref *ref,
		      const struct oci_http_options *o, struct err *e)
{
	*r = (struct oci_registry){.ref = *ref};
	buf_init(&r->auth, 2 * OCI_SECRET_MAX);
	snprintf(r->base, sizeof(r->base), "https://%s", oci_ref_server(ref));
	if (buf_set_secret(&r->auth, true) < 0)
		return err_errno(e, ENOMEM, "prepare a login");
	return oci_http_init(&r->http, o, e);
}

void oci_registry_close(struct oci_registry *r)
{
	oci_http_done(&r->http);
	oci_login_done(&r->login);
	buf_done(&r->auth);
}

void oci_registry_url(const struct oci_registry *r, const char *kind, const char *name,
		      bool is_digest, char ret[OCI_REGISTRY_URL])
{
	snprintf(ret, OCI_REGISTRY_URL, "%s/v2/%s/%s/%s%s", r->base, r->ref.path, kind,
		 is_digest ? "sha256:" : "", name);
}

/* ---- which failures are worth another try ---- */

/* A little apart from each other, so that many clients do not come back at once. */
static uint64_t back_off(unsigned failed)
{
	uint64_t ms = (uint64_t)FIRST_WAIT_MS << (failed < 8 ? failed : 8);
	uint8_t some;

	rand_bytes(&some, 1);
	if (ms > WAIT_MAX_MS)
		ms = WAIT_MAX_MS;
	return ms + ms * some / 1024;
}

static bool is_passing(const struct oci_get *g)
{
	long status = g->answer.status;

	if (g->end == OCI_END_BROKEN || g->end == OCI_END_REFUSED)
		return true;
	return g->end == OCI_END_ANSWER && (status == 408 || status == 429 || status >= 500);
}

static int wait_and_retry(const struct oci_get *g, struct oci_tries *t, const char *what,
			  struct err *e)
{
	uint64_t after = g->end == OCI_END_ANSWER ? g->answer.retry_after_s : 0;

	if (after > OCI_RETRY_AFTER_MAX_S)
		return err_set(e, ERR_LIMIT, EAGAIN,
			       "%.120s: it asks to be left alone for %llu s; try again later", what,
			       (unsigned long long)after);
	/* A stall has taken its time already. */
	t->failed += g->end == OCI_END_BROKEN && g->err.kind == ERR_TIMEOUT ? 2 : 1;
	if (t->failed >= OCI_TRIES_MAX || ++t->all >= OCI_RETRIES_MAX)
		return oci_get_error(g, what, e);
	t->wait_until_ms = clock_mono_ms() + (after > 0 ? after * 1000 : back_off(t->failed - 1));
	return 1;
}

/* On this machine, or with --insecure: it may be one without TLS. */
static bool may_be_plain(const struct oci_registry *r)
{
	return !r->is_known && str_starts(r->base, "https:") &&
	       (r->http.o.insecure || oci_host_is_loopback(oci_ref_server(&r->ref)));
}

int oci_registry_judge(struct oci_registry *r, const struct oci_get *g, struct oci_tries *t,
		       const char *what, struct err *e)
{
	if ((g->end == OCI_END_NO_TLS || g->end == OCI_END_REFUSED) && may_be_plain(r)) {
		snprintf(r->base, sizeof(r->base), "http://%s", oci_ref_server(&r->ref));
		t->wait_until_ms = 0;
		return 1;
	}
	/* At first nothing there is most likely a wrong name; later it is a registry that has gone
	 * for a moment. */
	if (g->end == OCI_END_REFUSED && !r->is_known)
		return oci_get_error(g, what, e);
	r->is_known |= g->end == OCI_END_ANSWER;
	if (g->end == OCI_END_ANSWER && g->answer.status == 401 && !g->answer.is_foreign) {
		if (++t->logins > LOGINS_MAX)
			return oci_get_error(g, what, e);
		t->wait_until_ms = 0;
		/* Another request may have made a new one meanwhile. */
		if (t->round != r->round)
			return 1;
		return oci_registry_login(r, &g->answer, e) < 0 ? -EACCES : 1;
	}
	if (is_passing(g))
		return wait_and_retry(g, t, what, e);
	if (g->end == OCI_END_ANSWER && (g->answer.status == 200 || g->answer.status == 206))
		return 0;
	return oci_get_error(g, what, e);
}

/* ---- manifests ---- */

static int on_manifest(void *arg, const void *p, size_t n, struct err *e)
{
	return buf_append(arg, p, n) < 0 ? err_errno(e, ENOMEM, "read the manifest") : 0;
}

static int wait_until(struct oci_registry *r, uint64_t until, struct err *e)
{
	uint64_t now;
	int ret = 0;

	while (ret == 0 && (now = clock_mono_ms()) < until)
		ret = oci_http_step(&r->http, (int)(until - now), e);
	return ret;
}

int oci_registry_manifest(struct oci_registry *r, const char *name, bool is_digest, struct buf *ret,
			  struct oci_answer *ret_answer, struct err *e)
{
	char url[OCI_REGISTRY_URL], what[200];
	struct oci_tries t = {0};
	int again;

	snprintf(what, sizeof(what), "%.60s/%.60s%s%.24s", r->ref.host, r->ref.path,
		 is_digest ? "@sha256:" : ":", name);
	do {
		struct oci_get g = {
			.url = url,
			.accept = OCI_TYPE_INDEX ", " OCI_TYPE_MANIFEST ", " OCI_TYPE_DOCKER_LIST
						 ", " OCI_TYPE_DOCKER,
			.auth = &r->auth,
			.max = OCI_MANIFEST_MAX,
			.is_small = true,
			.on_body = on_manifest,
			.arg = ret,
		};

		buf_clear(ret);
		oci_registry_url(r, "manifests", name, is_digest, url);
		t.round = r->round;
		again = wait_until(r, t.wait_until_ms, e);
		if (again == 0)
			again = oci_get_run(&r->http, &g, e);
		if (again == 0)
			again = oci_registry_judge(r, &g, &t, what, e);
		*ret_answer = g.answer;
		oci_get_stop(&g);
	} while (again > 0);
	return again;
}
