/* Requests over libcurl; see http.h. */
#include "oci/http.h"

#include "base/fd.h"
#include "base/str.h"
#include "net/host.h"

#include <curl/curl.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ERROR_BODY_MAX = 64 << 10, BUFFER_BYTES = 512 << 10, SLOW_BYTES_S = 1024 };

/* curl asks the environment of this process, which is not the caller's. */
static void take_proxies(const struct oci_env *env)
{
	static const char *const names[] = {"http_proxy", "https_proxy",  "HTTPS_PROXY",
					    "all_proxy",  "ALL_PROXY",	  "no_proxy",
					    "NO_PROXY",	  "SSL_CERT_FILE"};

	for (size_t i = 0; env && i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = oci_env_find(env, names[i]);

		if (value)
			setenv(names[i], value, 1);
		else
			unsetenv(names[i]);
	}
}

int oci_http_init(struct oci_http *h, const struct oci_http_options *o, struct err *e)
{
	*h = (struct oci_http){.o = *o};
	/* Where they cannot be read everything is refused. */
	if (o->public_only)
		(void)addr_own_load();
	take_proxies(o->env);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) == 0)
		h->multi = curl_multi_init();
	if (!h->multi)
		return err_set(e, ERR_INTERNAL, ENOMEM, "start libcurl");
	curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	return 0;
}

void oci_http_done(struct oci_http *h)
{
	if (h->multi)
		curl_multi_cleanup(h->multi);
	h->multi = NULL;
}

/* ---- what comes ---- */

static bool is_success(const struct oci_get *g)
{
	return g->answer.status == 200 || g->answer.status == 206;
}

/* The value of a header by that name, without white space around it; or NULL. */
static const char *value_of(const char *line, size_t n, const char *name, size_t *ret_len)
{
	size_t len = strlen(name);

	if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
		return NULL;
	line += len + 1;
	n -= len + 1;
	while (n > 0 && (*line == ' ' || *line == '\t'))
		line++, n--;
	while (n > 0 && strchr(" \t\r\n", line[n - 1]))
		n--;
	*ret_len = n;
	return line;
}

static bool copy_value(const char *value, size_t n, char *ret, size_t size)
{
	if (n >= size || memchr(value, 0, n))
		return false;
	memcpy(ret, value, n);
	ret[n] = 0;
	return true;
}

static void take_challenge(struct oci_answer *a, const char *value, size_t n)
{
	struct oci_challenge c;

	if (n <= OCI_CHALLENGE_MAX && oci_challenge_parse(value, n, &c) &&
	    c.scheme > a->challenge.scheme)
		a->challenge = c;
}

static void take_header(struct oci_answer *a, const char *line, size_t n)
{
	const char *v;
	char text[160];
	size_t len;

	if ((v = value_of(line, n, "Content-Type", &len))) {
		if (!copy_value(v, len, a->type, sizeof(a->type)))
			str_copy(a->type, sizeof(a->type), "?");
	} else if ((v = value_of(line, n, "WWW-Authenticate", &len))) {
		take_challenge(a, v, len);
	} else if ((v = value_of(line, n, "Docker-Content-Digest", &len))) {
		if (copy_value(v, len, text, sizeof(text)) && str_starts(text, "sha256:") &&
		    blobs_is_digest(text + strlen("sha256:")))
			str_copy(a->digest, sizeof(a->digest), text + strlen("sha256:"));
	} else if ((v = value_of(line, n, "Retry-After", &len))) {
		/* A date instead of seconds is taken for none: the usual wait is as good. */
		if (!copy_value(v, len, text, sizeof(text)) ||
		    !str_parse_u64(text, UINT32_MAX, &a->retry_after_s))
			a->retry_after_s = 0;
	} else if ((v = value_of(line, n, "Content-Range", &len))) {
		char *dash;

		a->has_range = copy_value(v, len, text, sizeof(text)) &&
			       str_starts(text, "bytes ") && (dash = strchr(text, '-')) &&
			       (*dash = 0,
				str_parse_u64(text + strlen("bytes "), INT64_MAX, &a->range_from));
	}
}

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
	struct oci_get *g = arg;

	g->head_bytes += n;
	if (g->head_bytes > OCI_HEADERS_MAX) {
		err_set(&g->err, ERR_PROTOCOL, EFBIG,
			"its answer has more than %u bytes of headers", OCI_HEADERS_MAX);
		return 0;
	}
	if (n > 5 && memcmp(line, "HTTP/", 5) == 0)
		g->answer = (struct oci_answer){.is_foreign = g->answer.is_foreign};
	else
		take_header(&g->answer, line, n);
	return n;
}

/* The body of an answer that is no success: its beginning is for the error's words. */
static size_t on_error_body(struct oci_get *g, const char *p, size_t n)
{
	size_t have = strlen(g->answer.text), room = sizeof(g->answer.text) - 1 - have;
	size_t take = n < room ? n : room;

	for (size_t i = 0; i < take; i++)
		g->answer.text[have + i] = p[i] ? p[i] : ' ';
	g->answer.text[have + take] = 0;
	g->got += n;
	return g->got > ERROR_BODY_MAX ? 0 : n;
}

static size_t on_data(char *p, size_t one, size_t n, void *arg)
{
	struct oci_get *g = arg;

	if (g->answer.status == 0)
		curl_easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &g->answer.status);
	if (!is_success(g))
		return on_error_body(g, p, n);
	g->got += n;
	if (g->got > g->max) {
		err_set(&g->err, ERR_PROTOCOL, EFBIG,
			"its answer has more than the %llu bytes that it may have",
			(unsigned long long)g->max);
		return 0;
	}
	return g->on_body(g->arg, p, n, &g->err) == 0 ? n : 0;
}

/* ---- one request ---- */

static void free_headers(struct oci_get *g)
{
	struct curl_slist *list = g->headers;

	for (struct curl_slist *s = list; s; s = s->next)
		explicit_bzero(s->data, strlen(s->data));
	curl_slist_free_all(list);
	g->headers = NULL;
}

static bool add_header(struct oci_get *g, const char *line)
{
	struct curl_slist *list = curl_slist_append(g->headers, line);

	if (list)
		g->headers = list;
	return list != NULL;
}

static bool make_headers(struct oci_get *g)
{
	char line[1024];
	bool ok = true;

	free_headers(g);
	if (g->accept) {
		snprintf(line, sizeof(line), "Accept: %s", g->accept);
		ok = add_header(g, line);
	}
	if (ok && g->auth && buf_len(g->auth) > 0 && !g->answer.is_foreign)
		ok = add_header(g, (const char *)buf_data(g->auth));
	if (ok && g->from > 0) {
		snprintf(line, sizeof(line), "Range: bytes=%llu-", (unsigned long long)g->from);
		ok = add_header(g, line);
	}
	return ok;
}

static bool set_tls(struct oci_get *g)
{
	const struct oci_http_options *o = &g->http->o;
	const char *ca = o->ca ? o->ca : getenv("SSL_CERT_FILE");
	bool ok = true;

	/* CAPATH stays as it is: what the host trusts, beside that file. */
	if (ca)
		ok = curl_easy_setopt(g->easy, CURLOPT_CAINFO, ca) == CURLE_OK;
	if (o->insecure) {
		curl_easy_setopt(g->easy, CURLOPT_SSL_VERIFYPEER, 0L);
		curl_easy_setopt(g->easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	return ok;
}

/* What a name resolved to is looked at when it is dialled, so that no second answer counts. */
static curl_socket_t open_public(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	struct oci_get *g = arg;
	const struct sockaddr_in *v4 = (const void *)&a->addr;
	const struct sockaddr_in6 *v6 = (const void *)&a->addr;
	const char *what =
		addr_refused(a->family, a->family == AF_INET ? (const uint8_t *)&v4->sin_addr
							     : (const uint8_t *)&v6->sin6_addr);

	if (what && !g->refused)
		g->refused = what;
	return what ? CURL_SOCKET_BAD : socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static bool set_public(struct oci_get *g)
{
	return curl_easy_setopt(g->easy, CURLOPT_PROXY, "") == CURLE_OK &&
	       curl_easy_setopt(g->easy, CURLOPT_OPENSOCKETFUNCTION, open_public) == CURLE_OK &&
	       curl_easy_setopt(g->easy, CURLOPT_OPENSOCKETDATA, g) == CURLE_OK;
}

static bool set_bounds(struct oci_get *g)
{
	uint64_t stall = g->http->o.stall_ms ? g->http->o.stall_ms : OCI_STALL_MS;
	CURL *c = g->easy;

	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)BUFFER_BYTES);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_S);
	curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)((stall + 999) / 1000));
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)(stall < 30000 ? stall : 30000));
	if (g->is_small)
		curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)OCI_SMALL_MS);
	return curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
}

static int set_all(struct oci_get *g, struct err *e)
{
	CURL *c = g->easy;
	bool ok = c && set_bounds(g) && set_tls(g) && (!g->http->o.public_only || set_public(g));

	if (ok) {
		curl_easy_setopt(c, CURLOPT_PRIVATE, g);
		curl_easy_setopt(c, CURLOPT_USERAGENT, "cove");
		curl_easy_setopt(c, CURLOPT_ERRORBUFFER, g->why);
		curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
		curl_easy_setopt(c, CURLOPT_HEADERDATA, g);
		curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_data);
		curl_easy_setopt(c, CURLOPT_WRITEDATA, g);
	}
	if (ok && g->form) {
		curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)buf_len(g->form));
		curl_easy_setopt(c, CURLOPT_POSTFIELDS, buf_data(g->form));
	}
	return ok ? 0 : err_set(e, ERR_INTERNAL, ENOMEM, "prepare a request");
}

/* To g->next, or at first to g->url. */
static int send_request(struct oci_get *g, struct err *e)
{
	CURLMcode code;

	g->got = g->head_bytes = 0;
	g->answer = (struct oci_answer){.is_foreign = g->answer.is_foreign};
	if (!make_headers(g) ||
	    curl_easy_setopt(g->easy, CURLOPT_URL, g->next ? g->next : g->url) != CURLE_OK)
		return err_set(e, ERR_INTERNAL, ENOMEM, "prepare a request");
	curl_easy_setopt(g->easy, CURLOPT_HTTPHEADER, g->headers);
	code = curl_multi_add_handle(g->http->multi, g->easy);
	if (code != CURLM_OK)
		return err_set(e, ERR_INTERNAL, EIO, "send a request: %s",
			       curl_multi_strerror(code));
	g->http->active++;
	return 0;
}

int oci_get_start(struct oci_http *h, struct oci_get *g, struct err *e)
{
	int r = oci_url_check(h, g->url, NULL, e);

	g->http = h;
	g->is_over = false;
	g->err = (struct err){0};
	g->answer = (struct oci_answer){0};
	g->redirects = 0;
	g->why[0] = 0;
	g->refused = NULL;
	if (r == 0) {
		g->easy = curl_easy_init();
		r = set_all(g, e);
	}
	if (r == 0)
		r = send_request(g, e);
	if (r < 0)
		oci_get_stop(g);
	return r;
}

void oci_get_stop(struct oci_get *g)
{
	if (g->easy && !g->is_over) {
		curl_multi_remove_handle(g->http->multi, g->easy);
		g->http->active -= g->http->active > 0;
	}
	if (g->easy)
		curl_easy_cleanup(g->easy);
	g->easy = NULL;
	free_headers(g);
	free(g->next);
	g->next = NULL;
	g->is_over = true;
}

/* ---- ends ---- */

static bool is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* 1: it goes on elsewhere. */
static int follow(struct oci_get *g, struct err *e)
{
	const char *at = g->next ? g->next : g->url;
	char *to = NULL;
	int r;

	if (!is_redirect(g->answer.status))
		return 0;
	curl_easy_getinfo(g->easy, CURLINFO_REDIRECT_URL, &to);
	if (!to || g->form)
		return err_set(e, ERR_PROTOCOL, EBADMSG, "it leads elsewhere, but not where to");
	if (++g->redirects > OCI_REDIRECTS_MAX)
		return err_set(e, ERR_PROTOCOL, ELOOP, "it led elsewhere more than %u times",
			       OCI_REDIRECTS_MAX);
	r = oci_url_check(g->http, to, at, e);
	if (r < 0)
		return r;
	to = strdup(to);
	if (!to)
		return err_errno(e, ENOMEM, "follow a redirect");
	/* Once away it stays away: the way back does not get the login either. */
	g->answer.is_foreign |= !oci_url_same_server(g->url, to);
	free(g->next);
	g->next = to;
	r = send_request(g, e);
	return r < 0 ? r : 1;
}

static enum oci_end end_of(const struct oci_get *g, CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
		return OCI_END_REFUSED;
	case CURLE_SSL_CONNECT_ERROR:
		return OCI_END_NO_TLS;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_FILESIZE_EXCEEDED:
	case CURLE_OUT_OF_MEMORY:
		return OCI_END_STOPPED;
	default:
		return OCI_END_BROKEN;
	}
}

static void set_why(struct oci_get *g, CURLcode code)
{
	const char *why = g->why[0] ? g->why : curl_easy_strerror(code);

	if (code == CURLE_PEER_FAILED_VERIFICATION)
		err_set(&g->err, ERR_DENIED, EACCES,
			"its certificate is not trusted (%.80s); give its authority's with --ca "
			"FILE",
			why);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		err_set(&g->err, ERR_TIMEOUT, ETIMEDOUT, "it stopped answering (%.120s)", why);
	else
		err_set(&g->err, ERR_PROTOCOL, ECONNABORTED, "%.160s", why);
}

static void finish(struct oci_get *g, CURLcode code)
{
	struct err e = {0};
	int r;

	curl_multi_remove_handle(g->http->multi, g->easy);
	g->http->active--;
	curl_easy_getinfo(g->easy, CURLINFO_RESPONSE_CODE, &g->answer.status);
	/* An error's body that was too long was cut off by us, and what matters is there. */
	if (code == CURLE_WRITE_ERROR && g->err.kind == ERR_NONE)
		code = CURLE_OK;
	r = code == CURLE_OK ? follow(g, &e) : 0;
	if (r > 0)
		return;
	g->is_over = true;
	g->end = OCI_END_ANSWER;
	if (r < 0) {
		g->end = OCI_END_STOPPED;
		g->err = e;
	} else if (g->err.kind != ERR_NONE) {
		g->end = OCI_END_STOPPED;
	} else if (code != CURLE_OK && g->refused) {
		g->end = OCI_END_STOPPED;
		err_set(&g->err, ERR_DENIED, EACCES,
			"it is %s, and only the public internet may be reached", g->refused);
	} else if (code != CURLE_OK) {
		g->end = end_of(g, code);
		set_why(g, code);
	}
}

int oci_http_step(struct oci_http *h, int timeout_ms, struct err *e)
{
	int running = 0, left = 0;
	bool any = false;
	CURLMsg *m;
	CURLMcode code = curl_multi_perform(h->multi, &running);

	while (code == CURLM_OK && (m = curl_multi_info_read(h->multi, &left))) {
		struct oci_get *g = NULL;

		if (m->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &g);
		finish(g, m->data.result);
		any = true;
	}
	if (code == CURLM_OK && !any)
		code = curl_multi_poll(h->multi, NULL, 0, timeout_ms, NULL);
	return code == CURLM_OK
		       ? 0
		       : err_set(e, ERR_INTERNAL, EIO, "libcurl: %s", curl_multi_strerror(code));
}

int oci_get_run(struct oci_http *h, struct oci_get *g, struct err *e)
{
	int r = oci_get_start(h, g, e);

	while (r == 0 && !g->is_over)
		r = oci_http_step(h, 1000, e);
	return r;
}

/* ---- words ---- */

/* What a registry says in {"errors":[{"message": ...}]}, or nothing: not for machines. */
static void said(const char *text, char *ret, size_t size)
{
	const char *at = strstr(text, "\"message\":");
	size_t n = 0;

	ret[0] = 0;
	at = at ? strchr(at + strlen("\"message\":"), '"') : NULL;
	if (!at)
		return;
	for (at++; *at && *at != '"' && *at != '\\' && n + 1 < size; at++)
		ret[n++] = *at >= ' ' && *at < 127 ? *at : ' ';
	ret[n] = 0;
}

static int status_error(const struct oci_get *g, const char *what, struct err *e)
{
	long status = g->answer.status;
	char words[80];
	const char *dash;

	said(g->answer.text, words, sizeof(words));
	dash = words[0] ? ": " : "";
	if (status == 401 || status == 403)
		return err_set(e, ERR_DENIED, EACCES, "%.120s: not allowed (%ld)%s%s", what, status,
			       dash, words);
	if (status == 404)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "%.120s: there is none%s%s", what, dash,
			       words);
	if (status == 429)
		return err_set(e, ERR_LIMIT, EAGAIN, "%.120s: too many requests (429)%s%s", what,
			       dash, words);
	return err_set(e, ERR_PROTOCOL, EBADMSG, "%.120s: it answered with %ld%s%s", what, status,
		       dash, words);
}

int oci_get_error(const struct oci_get *g, const char *what, struct err *e)
{
	if (g->end == OCI_END_ANSWER)
		return status_error(g, what, e);
	return err_set(e, g->err.kind, g->err.code, "%.120s: %s", what, g->err.msg);
}
