/*
 * The host's store of certificates.
 *
 * How it works
 *
 *	roots_new           text of all files, one after the other
 *	first use           each certificate's bytes, and the hash of its subject as OpenSSL
 *	                    compares names (case and spacing do not count); the text goes
 *	roots_add_issuers   by the hash of an issuer's name: parse, add to the X509_STORE, once
 *
 * OpenSSL then verifies with its ordinary store. What a peer sends only chooses which of the host's
 * own certificates are parsed: it never becomes one.
 */
#include "net/roots.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHAIN_MAX = 8 }; /* from one issuer in the store to the next */

struct root {
	unsigned long hash;
	size_t at, len;
	bool trusted_form; /* BEGIN TRUSTED CERTIFICATE: it says what it is trusted for */
	bool added;
};

struct roots {
	struct buf text; /* until it is indexed */
	struct buf der;
	struct root *list; /* owned */
	unsigned count, used;
	bool indexed;
	char note[160];
};

static int add_file(struct roots *r, int dir_fd, const char *path)
{
	autoclose int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n;

	if (fd < 0)
		return -errno;
	do {
		uint8_t *p = buf_reserve(&r->text, 16384);

		if (!p)
			return -ENOBUFS;
		n = read(fd, p, 16384);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			buf_commit(&r->text, (size_t)n);
	} while (n != 0);
	return buf_append(&r->text, "\n", 1);
}

static int add_dir(struct roots *r, const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	unsigned files = 0;
	int res = 0;

	if (!dir)
		return -errno;
	while (res == 0 && (entry = readdir(dir))) {
		const char *s = entry->d_name;

		/* "5ed36f99.0": how OpenSSL finds a certificate in a directory. */
		if (strspn(s, "0123456789abcdef") != 8 || s[8] != '.' || !s[9] ||
		    strspn(s + 9, "0123456789") != strlen(s + 9))
			continue;
		if (++files > ROOTS_FILES_MAX)
			res = -ENOBUFS;
		else if (add_file(r, dirfd(dir), entry->d_name) == -ENOBUFS)
			res = -ENOBUFS;
	}
	closedir(dir);
	return res;
}

static void note_failed(struct roots *r, const char *variable, const char *path, int code)
{
	snprintf(r->note, sizeof(r->note), " (%s=%.80s could not be read: %s)", variable, path,
		 strerror(code));
}

int roots_new(struct roots **ret, struct err *e)
{
	static const char *const bundles[] = {
		"/etc/ssl/certs/ca-certificates.crt",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
		"/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/ca-bundle.pem",
		"/etc/ssl/cert.pem",
	};
	const char *file = getenv(X509_get_default_cert_file_env());
	const char *dirs = getenv(X509_get_default_cert_dir_env());
	autofree char *copy = dirs && *dirs ? strdup(dirs) : NULL;
	struct roots *r = calloc(1, sizeof(*r));
	char *save = NULL;
	size_t i = 0;
	int res;

	if (!r)
		return err_errno(e, ENOMEM, "read the host's certificates");
	buf_init(&r->text, ROOTS_BYTES_MAX);
	buf_init(&r->der, ROOTS_BYTES_MAX);
	if (file && *file) {
		res = add_file(r, AT_FDCWD, file);
		if (res < 0)
			note_failed(r, X509_get_default_cert_file_env(), file, -res);
	}
	/* A list of directories, as OpenSSL has it. */
	for (char *p = copy ? strtok_r(copy, ":", &save) : NULL; p;
	     p = strtok_r(NULL, ":", &save)) {
		res = add_dir(r, p);
		if (res < 0)
			note_failed(r, X509_get_default_cert_dir_env(), p, -res);
	}
	if ((!file || !*file) && (!dirs || !*dirs)) {
		while (i < sizeof(bundles) / sizeof(*bundles) &&
		       add_file(r, AT_FDCWD, bundles[i]) < 0)
			i++;
		if (i == sizeof(bundles) / sizeof(*bundles) &&
		    add_file(r, AT_FDCWD, X509_get_default_cert_file()) < 0)
			add_dir(r, X509_get_default_cert_dir());
	}
	if (buf_len(&r->text) == 0 && !*r->note)
		snprintf(r->note, sizeof(r->note),
			 " (this host has no store of certificates: install ca-certificates)");
	*ret = r;
	return 0;
}

void roots_free(struct roots *r)
{
	if (!r)
		return;
	buf_done(&r->text);
	buf_done(&r->der);
	free(r->list);
	free(r);
}

/* Steps into or over one ASN.1 value: *p is set to its content, or behind it. */
static bool der_step(const uint8_t **p, const uint8_t *end, bool into)
{
	int tag, class;
	long len;

	if (*p >= end || (ASN1_get_object(p, &len, &tag, &class, end - *p) & 0x80))
		return false;
	if (!into)
		*p += len;
	return true;
}

/* The hash of the subject's name, without parsing the rest. */
static bool subject_hash(const uint8_t *p, size_t n, unsigned long *ret)
{
	const uint8_t *end = p + n;
	X509_NAME *name;
	int ok = 0;

	/* Certificate { tbs { [0] version?, serial, algorithm, issuer, validity, subject */
	if (!der_step(&p, end, true) || !der_step(&p, end, true))
		return false;
	if (p < end && *p == 0xa0 && !der_step(&p, end, false))
		return false;
	for (int i = 0; i < 4; i++)
		if (!der_step(&p, end, false))
			return false;
	name = d2i_X509_NAME(NULL, &p, end - p);
	if (name)
		*ret = X509_NAME_hash_ex(name, NULL, NULL, &ok);
	X509_NAME_free(name);
	return ok;
}

static int add_root(struct roots *r, const char *base64, size_t n, bool trusted_form)
{
	EVP_ENCODE_CTX *ctx = EVP_ENCODE_CTX_new();
	uint8_t *to = buf_reserve(&r->der, n);
	struct root root = {.at = buf_len(&r->der), .trusted_form = trusted_form};
	struct root *list;
	int a = 0, b = 0;
	bool ok;

	if (!ctx || !to) {
		EVP_ENCODE_CTX_free(ctx);
		return -ENOMEM;
	}
	EVP_DecodeInit(ctx);
	ok = EVP_DecodeUpdate(ctx, to, &a, (const uint8_t *)base64, (int)n) >= 0 &&
	     EVP_DecodeFinal(ctx, to + a, &b) >= 0;
	EVP_ENCODE_CTX_free(ctx);
	root.len = (size_t)(a + b);
	/* What OpenSSL could not read either is no certificate. */
	if (!ok || !subject_hash(to, root.len, &root.hash))
		return 0;
	/* A bundle and a directory of the same host have the same certificates. */
	for (unsigned i = 0; i < r->count; i++)
		if (r->list[i].hash == root.hash && r->list[i].len == root.len &&
		    r->list[i].trusted_form == root.trusted_form &&
		    memcmp(buf_data(&r->der) + r->list[i].at, to, root.len) == 0)
			return 0;
	list = reallocarray(r->list, r->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	r->list = list;
	r->list[r->count++] = root;
	buf_commit(&r->der, root.len);
	return 0;
}

static bool is_certificate(const char *label, size_t n, bool *ret_trusted_form)
{
	static const char *const labels[] = {"CERTIFICATE-----", "X509 CERTIFICATE-----",
					     "TRUSTED CERTIFICATE-----"};

	for (size_t i = 0; i < 3; i++) {
		if (n >= strlen(labels[i]) && memcmp(label, labels[i], strlen(labels[i])) == 0) {
			*ret_trusted_form = i == 2;
			return true;
		}
	}
	return false;
}

static int make_index(struct roots *r)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ";
	const char *p = (const char *)buf_data(&r->text), *stop = p + buf_len(&r->text);
	int res = 0;

	r->indexed = true;
	while (res == 0 && p && (p = memmem(p, (size_t)(stop - p), begin, sizeof(begin) - 1))) {
		const char *label = p + sizeof(begin) - 1, *body, *last;
		bool trusted_form;

		p = label;
		if (!is_certificate(label, (size_t)(stop - label), &trusted_form))
			continue;
		body = memchr(label, '\n', (size_t)(stop - label));
		last = body ? memmem(body, (size_t)(stop - body), end, sizeof(end) - 1) : NULL;
		/* An empty one is none. */
		if (last && last > body + 1)
			res = add_root(r, body + 1, (size_t)(last - body - 1), trusted_form);
		p = last;
	}
	buf_done(&r->text);
	if (r->der.data && buf_len(&r->der)) {
		uint8_t *small = realloc(r->der.data, buf_len(&r->der));

		if (small) {
			r->der.data = small;
			r->der.cap = buf_len(&r->der);
		}
	}
	ERR_clear_error();
	return res;
}

static int add_signers(struct roots *r, X509_STORE *store, const X509_NAME *issuer, int depth)
{
	int ok = 0, res = 0;
	unsigned long hash = X509_NAME_hash_ex(issuer, NULL, NULL, &ok);

	for (unsigned i = 0; ok && i < r->count && res == 0; i++) {
		struct root *root = &r->list[i];
		const uint8_t *p = buf_data(&r->der) + root->at;
		X509 *x;

		if (root->hash != hash || root->added)
			continue;
		root->added = true;
		r->used++;
		x = root->trusted_form ? d2i_X509_AUX(NULL, &p, (long)root->len)
				       : d2i_X509(NULL, &p, (long)root->len);
		if (!x) {
			ERR_clear_error();
			continue;
		}
		if (!X509_STORE_add_cert(store, x))
			res = -ENOMEM;
		/* One that did not sign itself needs the one above it, which must be ours too. */
		if (res == 0 && depth < CHAIN_MAX)
			res = add_signers(r, store, X509_get_issuer_name(x), depth + 1);
		X509_free(x);
	}
	return res;
}

int roots_add_issuers(struct roots *r, X509_STORE *store, const X509 *x)
{
	int res = r->indexed ? 0 : make_index(r);

	return res < 0 ? res : add_signers(r, store, X509_get_issuer_name(x), 0);
}

const char *roots_note(const struct roots *r)
{
	return r->note;
}

unsigned roots_used(const struct roots *r)
{
	return r->used;
}
