/* The host's store: what is found in files and directories, and parsed only when it is needed. */
#include "tap.h"

#include "tls_rig.h"

#include "base/fd.h"
#include "net/roots.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

static bool verifies(struct roots *r, X509 *leaf, STACK_OF(X509) * chain)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE *store = X509_STORE_new();
	int ok;

	CHECK_EQ(roots_add_issuers(r, store, leaf), 0);
	for (int i = 0; i < sk_X509_num(chain); i++)
		CHECK_EQ(roots_add_issuers(r, store, sk_X509_value(chain, i)), 0);
	CHECK(X509_STORE_CTX_init(ctx, store, leaf, chain));
	ok = X509_verify_cert(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return ok == 1;
}

TEST(only_what_is_needed_is_parsed)
{
	struct rig_cert root[20], leaf;
	const struct rig_cert *all[20];
	struct roots *r;
	struct err e;

	for (int i = 0; i < 20; i++) {
		char name[32];

		snprintf(name, sizeof(name), "Root %d", i);
		rig_cert_make(&root[i], &(struct rig_cert_options){.name = name, .is_ca = true});
		all[i] = &root[i];
	}
	rig_trust(all, 20);
	setenv("SSL_CERT_DIR", rig_dir(), 1); /* without any */
	CHECK_EQ(roots_new(&r, &e), 0);
	CHECK_STR(roots_note(r), "");
	CHECK_EQ(roots_used(r), 0);
	rig_cert_make(&leaf, &(struct rig_cert_options){.name = "x", .from = &root[7]});
	CHECK(verifies(r, leaf.cert, NULL));
	CHECK_EQ(roots_used(r), 1);
	rig_cert_done(&leaf);
	roots_free(r);
	for (int i = 0; i < 20; i++)
		rig_cert_done(&root[i]);
	rig_dir_done();
}

/* Two with one name, of which one signed; and one in the store that another in the store signed. */
TEST(same_names_and_chains)
{
	struct rig_cert a, b, middle, leaf;
	const struct rig_cert *all[] = {&a, &b, &middle, &a};
	STACK_OF(X509) *chain = sk_X509_new_null();
	struct roots *r;
	struct err e;

	rig_cert_make(&a, &(struct rig_cert_options){.name = "Twin", .is_ca = true});
	rig_cert_make(&b, &(struct rig_cert_options){.name = "Twin", .is_ca = true});
	rig_cert_make(&middle,
		      &(struct rig_cert_options){.name = "Middle", .is_ca = true, .from = &b});
	rig_cert_make(&leaf, &(struct rig_cert_options){.name = "x", .from = &middle});
	rig_trust(all, 4); /* one of them twice */
	CHECK_EQ(roots_new(&r, &e), 0);
	CHECK(verifies(r, leaf.cert, NULL));
	CHECK_EQ(roots_used(r), 3);
	roots_free(r);
	/* Without the middle in the store the server has to send it. */
	rig_trust(all, 2);
	CHECK_EQ(roots_new(&r, &e), 0);
	CHECK(!verifies(r, leaf.cert, NULL));
	sk_X509_push(chain, middle.cert);
	CHECK(verifies(r, leaf.cert, chain));
	roots_free(r);
	sk_X509_free(chain);
	rig_cert_done(&a);
	rig_cert_done(&b);
	rig_cert_done(&middle);
	rig_cert_done(&leaf);
	rig_dir_done();
}

TEST(directories)
{
	struct rig_cert a, leaf;
	char path[128], dirs[256];
	struct roots *r;
	struct err e;
	FILE *f;

	unsetenv("SSL_CERT_FILE");
	rig_cert_make(&a, &(struct rig_cert_options){.name = "In a directory", .is_ca = true});
	rig_cert_make(&leaf, &(struct rig_cert_options){.name = "x", .from = &a});
	snprintf(path, sizeof(path), "%s/%08lx.0", rig_dir(), X509_subject_name_hash(a.cert));
	f = fopen(path, "we");
	CHECK(f && PEM_write_X509(f, a.cert));
	fclose(f);
	snprintf(dirs, sizeof(dirs), "/no/such:%s", rig_dir());
	setenv("SSL_CERT_DIR", dirs, 1);
	CHECK_EQ(roots_new(&r, &e), 0);
	CHECK(verifies(r, leaf.cert, NULL));
	CHECK_STR(roots_note(r),
		  " (SSL_CERT_DIR=/no/such could not be read: No such file or directory)");
	roots_free(r);
	unlink(path);
	unsetenv("SSL_CERT_DIR");
	rig_cert_done(&a);
	rig_cert_done(&leaf);
	rig_dir_done();
}

/* A variable that leads nowhere does not lead back to the usual store. */
TEST(nothing_there)
{
	struct rig_cert leaf;
	struct roots *r;
	struct err e;

	rig_cert_make(&leaf, &(struct rig_cert_options){.name = "x"});
	setenv("SSL_CERT_FILE", "/no/such", 1);
	unsetenv("SSL_CERT_DIR");
	CHECK_EQ(roots_new(&r, &e), 0);
	CHECK_STR(roots_note(r),
		  " (SSL_CERT_FILE=/no/such could not be read: No such file or directory)");
	CHECK(!verifies(r, leaf.cert, NULL));
	roots_free(r);
	rig_cert_done(&leaf);
}

/* Words, keys, broken and cut certificates, a form with trust in it: as OpenSSL reads them. */
TEST(odd_files)
{
	static const char *const junk[] = {
		"",
		"-----BEGIN CERTIFICATE-----",
		"-----BEGIN CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"-----BEGIN CERTIFICATE-----\nMIIBMIIBMIIBMIIBMIIB\n-----END CERTIFICATE-----\n",
		"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
	};
	struct rig_cert a, leaf;
	struct roots *r;
	struct err e;
	char path[128];
	FILE *f;

	rig_cert_make(&a, &(struct rig_cert_options){.name = "Trusted", .is_ca = true});
	rig_cert_make(&leaf, &(struct rig_cert_options){.name = "x", .from = &a});
	for (size_t i = 0; i < 2 * sizeof(junk) / sizeof(*junk); i++) {
		snprintf(path, sizeof(path), "%s/trust.pem", rig_dir());
		f = fopen(path, "we");
		CHECK(f);
		if (i & 1)
			CHECK(PEM_write_X509_AUX(f, a.cert));
		fputs(junk[i / 2], f);
		fclose(f);
		setenv("SSL_CERT_FILE", path, 1);
		unsetenv("SSL_CERT_DIR");
		CHECK_EQ(roots_new(&r, &e), 0);
		CHECK_EQ(verifies(r, leaf.cert, NULL), i & 1);
		roots_free(r);
	}
	rig_cert_done(&a);
	rig_cert_done(&leaf);
	rig_dir_done();
}

/* The host's own: as many as OpenSSL finds in the same file, and each is found again. */
TEST(the_hosts_own)
{
	static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";
	X509_STORE *store = X509_STORE_new();
	unsigned count = 0;
	struct roots *r;
	struct err e;
	X509 *x;
	BIO *bio;

	unsetenv("SSL_CERT_FILE");
	unsetenv("SSL_CERT_DIR");
	bio = BIO_new_file(bundle, "r");
	if (!bio)
		SKIP("this host has no /etc/ssl/certs/ca-certificates.crt");
	CHECK_EQ(roots_new(&r, &e), 0);
	while ((x = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		count++;
		CHECK_EQ(roots_add_issuers(r, store, x), 0);
		X509_free(x);
	}
	CHECK(count > 0);
	CHECK_EQ(roots_used(r), count);
	roots_free(r);
	X509_STORE_free(store);
	BIO_free(bio);
}

TAP_MAIN
