/* Logging in at a registry; see token.h and https://distribution.github.io for its token flow. */
#include "oci/token.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/str.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int no_memory(struct err *e)
{
	return err_errno(e, ENOMEM, "log in at the registry");
}

/* "Authorization: Basic ..." of the login's user and password. */
static int put_basic(const struct oci_login *l, struct buf *ret)
{
	struct buf plain;
	uint8_t *to;
	int r;

	buf_init(&plain, sizeof(l->user) + OCI_SECRET_MAX);
	r = buf_set_secret(&plain, true);
	if (r == 0)
		r = buf_append_str(&plain, l->user);
	if (r == 0)
		r = buf_append_str(&plain, ":");
	if (r == 0)
		r = buf_append(&plain, buf_data(&l->secret), buf_len(&l->secret));
	if (r == 0)
		r = buf_append_str(ret, "Authorization: Basic ");
	to = r == 0 ? buf_reserve(ret, 4 * (buf_len(&plain) + 2) / 3 + 4) : NULL;
	if (to)
		buf_commit(ret, base64_encode(buf_data(&plain), buf_len(&plain), false, to));
	buf_done(&plain);
	return to && buf_cstr(ret) ? 0 : -ENOMEM;
}

static bool put_escaped(struct buf *b, const char *key, const char *value, size_t n)
{
	char *text = curl_easy_escape(NULL, value, (int)n);
	bool ok = text && buf_append_str(b, key) == 0 && buf_append_str(b, "=") == 0 &&
		  buf_append_str(b, text) == 0;

	if (text)
		explicit_bzero(text, strlen(text));
	curl_free(text);
	return ok;
}

/* service=...&scope=..., always for reading this repository and nothing else. */
static bool put_query(const struct oci_registry *r, const struct oci_challenge *c, struct buf *b)
{
	char scope[OCI_PATH_MAX + 32];

	snprintf(scope, sizeof(scope), "repository:%s:pull", r->ref.path);
	return put_escaped(b, "service", c->service, strlen(c->service)) &&
	       buf_append_str(b, "&") == 0 && put_escaped(b, "scope", scope, strlen(scope));
}

static int on_token(void *arg, const void *p, size_t n, struct err *e)
{
	return buf_append(arg, p, n) < 0 ? no_memory(e) : 0;
}

static int refused(const struct oci_registry *r, const struct oci_get *g, struct err *e)
{
	struct err why = {0};

	if (g->end == OCI_END_ANSWER && g->answer.status < 500 && g->answer.status >= 400 &&
	    g->answer.status != 429) {
		if (r->login.kind == OCI_LOGIN_NONE)
			return err_set(e, ERR_DENIED, EACCES,
				       "%.80s gives nothing of %.80s to someone unknown: log in "
				       "there first (docker login, podman login)",
				       r->ref.host, r->ref.path);
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s refuses the login from %.100s: is it still right?",
			       r->ref.host, r->login.from);
	}
	oci_get_error(g, "the token server of the registry", &why);
	return err_set(e, why.kind, why.code, "%.80s: %s", r->ref.host, why.msg);
}

/* Asks the token server that the challenge names; text gets its answer. */
static int ask_server(struct oci_registry *r, const struct oci_challenge *c, struct buf *text,
		      struct err *e)
{
	bool is_post = r->login.kind == OCI_LOGIN_REFRESH;
	struct buf url, form, basic;
	struct oci_get g = {.is_small = true, .max = OCI_SECRET_MAX, .on_body = on_token};
	int ret = oci_url_check(&r->http, c->realm, r->base, e);
	bool ok;

	if (ret < 0)
		return ret;
	buf_init(&url, OCI_URL_MAX);
	buf_init(&form, 2 * OCI_SECRET_MAX + OCI_URL_MAX);
	buf_init(&basic, 2 * OCI_SECRET_MAX);
	ok = buf_set_secret(&form, true) == 0 && buf_set_secret(&basic, true) == 0 &&
	     buf_append_str(&url, c->realm) == 0;
	if (ok && is_post)
		ok = buf_append_str(&form, "grant_type=refresh_token&client_id=cove&") == 0 &&
		     put_query(r, c, &form) && buf_append_str(&form, "&") == 0 &&
		     put_escaped(&form, "refresh_token", (const char *)buf_data(&r->login.secret),
				 buf_len(&r->login.secret));
	else if (ok)
		ok = buf_append_str(&url, strchr(c->realm, '?') ? "&" : "?") == 0 &&
		     put_query(r, c, &url);
	if (ok && r->login.kind == OCI_LOGIN_PASSWORD)
		ok = put_basic(&r->login, &basic) == 0;
	if (ok) {
		g.url = buf_cstr(&url);
		g.auth = &basic;
		g.form = is_post ? &form : NULL;
		g.arg = text;
		ret = g.url ? oci_get_run(&r->http, &g, e) : no_memory(e);
		if (ret == 0 && (g.end != OCI_END_ANSWER || g.answer.status != 200))
			ret = refused(r, &g, e);
		oci_get_stop(&g);
	} else {
		ret = no_memory(e);
	}
	buf_done(&url);
	buf_done(&form);
	buf_done(&basic);
	return ret;
}

static int set_bearer(struct oci_registry *r, const uint8_t *token, size_t n)
{
	/* One of a file, too, must not become another header. */
	for (size_t i = 0; i < n; i++)
		if (token[i] <= ' ' || token[i] >= 127)
			return -EBADMSG;
	buf_clear(&r->auth);
	if (buf_append_str(&r->auth, "Authorization: Bearer ") < 0 ||
	    buf_append(&r->auth, token, n) < 0 || !buf_cstr(&r->auth))
		return -ENOMEM;
	return 0;
}

static int log_in_bearer(struct oci_registry *r, const struct oci_challenge *c, struct err *e)
{
	struct buf text, token;
	int ret;

	if (r->login.kind == OCI_LOGIN_TOKEN) {
		ret = set_bearer(r, buf_data(&r->login.secret), buf_len(&r->login.secret));
		return ret < 0 ? err_set(e, ERR_INVALID, EINVAL, "the token in %.120s is none",
					 r->login.from)
			       : 0;
	}
	buf_init(&text, OCI_SECRET_MAX);
	buf_init(&token, OCI_SECRET_MAX);
	ret = buf_set_secret(&text, true) < 0 || buf_set_secret(&token, true) < 0 ? no_memory(e)
										  : 0;
	if (ret == 0)
		ret = ask_server(r, c, &text, e);
	if (ret == 0 && oci_token_parse((const char *)buf_data(&text), buf_len(&text), &token) < 0)
		ret = err_set(e, ERR_PROTOCOL, EBADMSG,
			      "the token server of %.80s answers with no token", r->ref.host);
	if (ret == 0 && set_bearer(r, buf_data(&token), buf_len(&token)) < 0)
		ret = no_memory(e);
	buf_done(&text);
	buf_done(&token);
	return ret;
}

static int log_in_basic(struct oci_registry *r, struct err *e)
{
	if (r->login.kind != OCI_LOGIN_PASSWORD)
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s asks for a user and a password: log in there first (docker "
			       "login, podman login)",
			       r->ref.host);
	/* The same once more cannot help. */
	if (r->round > 0)
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s refuses the login from %.100s: is it still right?",
			       r->ref.host, r->login.from);
	buf_clear(&r->auth);
	return put_basic(&r->login, &r->auth) < 0 ? no_memory(e) : 0;
}

int oci_registry_login(struct oci_registry *r, const struct oci_answer *a, struct err *e)
{
	int ret = 0;

	if (!r->has_looked)
		ret = oci_login_find(r->http.o.env, &r->ref, &r->login, e);
	r->has_looked = true;
	if (ret < 0)
		return ret;
	switch (a->challenge.scheme) {
	case OCI_SCHEME_BEARER:
		ret = log_in_bearer(r, &a->challenge, e);
		break;
	case OCI_SCHEME_BASIC:
		ret = log_in_basic(r, e);
		break;
	default:
		ret = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			      "%.80s asks for a login in a way that is not known (neither Bearer "
			      "nor Basic)",
			      r->ref.host);
	}
	if (ret == 0)
		r->round++;
	return ret;
}
