/* Which addresses may be asked, and which are of one server; see http.h. */
#include "oci/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct url_parts {
	char *scheme, *host, *port; /* owned by curl */
};

static bool split(const char *url, struct url_parts *ret)
{
	CURLU *u = curl_url();
	char *user = NULL;
	bool ok;

	*ret = (struct url_parts){0};
	ok = u && strlen(url) <= OCI_URL_MAX &&
	     curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
	     curl_url_get(u, CURLUPART_USER, &user, 0) == CURLUE_NO_USER &&
	     curl_url_get(u, CURLUPART_SCHEME, &ret->scheme, 0) == CURLUE_OK &&
	     curl_url_get(u, CURLUPART_HOST, &ret->host, 0) == CURLUE_OK &&
	     curl_url_get(u, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) == CURLUE_OK;
	curl_free(user);
	curl_url_cleanup(u);
	return ok;
}

static void parts_done(struct url_parts *p)
{
	curl_free(p->scheme);
	curl_free(p->host);
	curl_free(p->port);
}

bool oci_url_same_server(const char *a, const char *b)
{
	struct url_parts x, y;
	bool both = split(a, &x);

	both = split(b, &y) && both;
	both = both && strcasecmp(x.scheme, y.scheme) == 0 && strcasecmp(x.host, y.host) == 0 &&
	       strcmp(x.port, y.port) == 0;
	parts_done(&x);
	parts_done(&y);
	return both;
}

static int check_parts(const struct oci_http *h, const struct url_parts *to,
		       const struct url_parts *from, struct err *e)
{
	bool is_local = oci_host_is_loopback(to->host);

	if (from && is_local && !oci_host_is_loopback(from->host))
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s leads to this machine itself (%.80s): that is not followed",
			       from->host, to->host);
	if (strcasecmp(to->scheme, "https") == 0)
		return 0;
	if (strcasecmp(to->scheme, "http") != 0)
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s leads to an address that is not of the web",
			       from ? from->host : to->host);
	if (from && strcasecmp(from->scheme, "https") == 0)
		return err_set(e, ERR_DENIED, EACCES,
			       "%.80s leads from https to http (%.80s): that is not followed",
			       from->host, to->host);
	if (is_local || h->o.insecure)
		return 0;
	return err_set(e, ERR_DENIED, EACCES,
		       "%.80s has no TLS; --insecure would ask it nevertheless", to->host);
}

int oci_url_check(const struct oci_http *h, const char *url, const char *from, struct err *e)
{
	struct url_parts to, before = {0};
	int r;

	if (!split(url, &to) || (from && !split(from, &before)))
		r = err_set(e, ERR_PROTOCOL, EBADMSG, "an address that cannot be read, of %.80s",
			    before.host ? before.host : "the registry");
	else
		r = check_parts(h, &to, from ? &before : NULL, e);
	parts_done(&to);
	parts_done(&before);
	return r;
}
