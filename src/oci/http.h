/*
 * Requests to registries, over libcurl: many at once, on one thread.
 *
 * What a hostile server can do is bounded here: http and https only, the first of them only where
 * it is allowed; headers and bodies have a maximum, a stall an end; redirects are followed a few
 * times, never from https to http nor from elsewhere to this machine, and lose the login as soon as
 * they lead to another server. Bodies are taken as they come: nothing is decompressed.
 *
 * Proxies are those of the environment (curl's http_proxy, https_proxy, all_proxy, no_proxy).
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "oci/challenge.h"
#include "oci/login.h"
#include "store/blobs.h"

#include <stdbool.h>
#include <stdint.h>

struct oci_http_options {
	const char *ca;	   /* a file of certificates to trust beside the host's; NULL */
	bool insecure;	   /* without TLS, and without looking at certificates, anywhere */
	bool public_only;  /* no address that net/host.h refuses is dialled, and no proxy */
	uint64_t stall_ms; /* 0: OCI_STALL_MS */
	const struct oci_env *env;
};

struct oci_http {
	void *multi; /* owned; CURLM */
	struct oci_http_options o;
	unsigned active;
};

int oci_http_init(struct oci_http *h, const struct oci_http_options *o, struct err *e);
void oci_http_done(struct oci_http *h); /* a zeroed one is fine; its requests have ended */

struct oci_answer {
	long status; /* 0: none came */
	char type[OCI_TYPE_MAX + 1];
	char digest[BLOB_DIGEST]; /* what Docker-Content-Digest says; "" */
	bool has_range;		  /* Content-Range, and where it begins */
	uint64_t range_from;
	uint64_t retry_after_s; /* 0: it does not say */
	struct oci_challenge challenge;
	bool is_foreign; /* of another server than was asked, after a redirect */
	char text[512];	 /* how the body of an answer that is no success begins */
};

enum oci_end {
	OCI_END_ANSWER,	 /* look at its status */
	OCI_END_STOPPED, /* by on_body, or a maximum: err says why. Trying again is of no use */
	OCI_END_BROKEN,	 /* the connection; err says why. Trying again may be */
	OCI_END_REFUSED, /* nothing listens there, or there is no such host */
	OCI_END_NO_TLS,	 /* something listens there that does not speak TLS */
};

/* One request and what became of it. */
struct oci_get {
	const char *url;	/* borrowed, as all here */
	const char *accept;	/* NULL */
	const struct buf *auth; /* a whole "Authorization: ..." line; NULL or empty: none */
	const struct buf *form; /* a body to POST; NULL: GET */
	uint64_t from;		/* the rest from this byte on */
	uint64_t max;		/* bytes of its body */
	bool is_small;		/* has to be there in OCI_SMALL_MS */
	/* Of answers of 200 and 206 only. Not 0 ends it: a negative errno, with *e set. */
	int (*on_body)(void *arg, const void *p, size_t n, struct err *e);
	void *arg;

	/* afterwards */
	bool is_over;
	enum oci_end end;
	struct oci_answer answer;
	struct err err;

	/* http.c's own */
	struct oci_http *http;
	void *easy, *headers;
	char *next; /* owned; where it was redirected to */
	uint64_t got, head_bytes;
	unsigned redirects;
	char why[256];
	const char *refused; /* what an address was that is not dialled; NULL */
};

int oci_get_start(struct oci_http *h, struct oci_get *g, struct err *e);
/* Ends it wherever it is; idempotent. */
void oci_get_stop(struct oci_get *g);
/* Lets all of them go on, for at most so long or until something happened. */
int oci_http_step(struct oci_http *h, int timeout_ms, struct err *e);
/* Starts one and lets all go on until it is over. */
int oci_get_run(struct oci_http *h, struct oci_get *g, struct err *e);

/* Turns an end that is no answer, or an answer of 400 and more, into an error's words. */
int oci_get_error(const struct oci_get *g, const char *what, struct err *e);

/* May this be asked at all? ERR_DENIED says why not. from, if not NULL, is the address that led
 * there. */
int oci_url_check(const struct oci_http *h, const char *url, const char *from, struct err *e);
/* The same scheme, host and port. */
bool oci_url_same_server(const char *a, const char *b);
