/* A box's certificate authority and the leaves it makes. */
#include "tap.h"

#include "tls_rig.h"

#include "base/fd.h"
#include "base/limits.h"
#include "net/ca.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

static struct ca *open_new(X509 **ret_root)
{
	struct ca *ca;
	struct buf pem;
	struct err e;
	BIO *bio;

	buf_init(&pem, CA_PEM_MAX);
	CHECK_EQ(ca_make(&pem, &e), 0);
	CHECK_EQ(ca_open(&ca, buf_cstr(&pem), &e), 0);
	bio = BIO_new_mem_buf(buf_cstr(&pem), -1);
	*ret_root = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	BIO_free(bio);
	buf_done(&pem);
	return ca;
}

/* As a strict client would: purpose, time, chain, host. */
static bool verifies(X509 *root, X509 *leaf, const char *host)
{
	X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	X509_STORE *store = X509_STORE_new();
	X509_VERIFY_PARAM *param;
	int r;

	CHECK(X509_STORE_add_cert(store, root));
	CHECK(X509_STORE_CTX_init(ctx, store, leaf, NULL));
	CHECK(X509_STORE_CTX_set_default(ctx, "ssl_server"));
	param = X509_STORE_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	X509_VERIFY_PARAM_set_auth_level(param, 2);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (!X509_VERIFY_PARAM_set1_ip_asc(param, host))
		X509_VERIFY_PARAM_set1_host(param, host, 0);
	r = X509_verify_cert(ctx);
	X509_STORE_CTX_free(ctx);
	X509_STORE_free(store);
	return r == 1;
}

TEST(authority_signs_leaves_and_nothing_else)
{
	X509 *root, *leaf;
	struct ca *ca = open_new(&root);
	char name[254];
	struct err e;

	CHECK_EQ(X509_get_pathlen(root), 0);
	CHECK_EQ(X509_get_key_usage(root), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	CHECK(X509_get0_subject_key_id(root) && X509_get0_authority_key_id(root));
	CHECK_EQ(ca_leaf(ca, "good.test", &leaf, &e), 0);
	CHECK_EQ(X509_check_ca(leaf), 0);
	CHECK_EQ(X509_get_key_usage(leaf), KU_DIGITAL_SIGNATURE);
	CHECK_EQ(X509_get_extended_key_usage(leaf), XKU_SSL_SERVER);
	CHECK(verifies(root, leaf, "good.test"));
	CHECK(!verifies(root, leaf, "evil.test"));
	CHECK(!verifies(root, leaf, "sub.good.test"));
	CHECK_EQ(ca_leaf(ca, "192.0.2.1", &leaf, &e), 0);
	CHECK(verifies(root, leaf, "192.0.2.1"));
	CHECK(!verifies(root, leaf, "192.0.2.2"));
	CHECK_EQ(ca_leaf(ca, "2001:db8::1", &leaf, &e), 0);
	CHECK(verifies(root, leaf, "2001:db8::1"));
	memset(name, 'a', 253);
	for (int i = 50; i < 253; i += 50)
		name[i] = '.';
	name[253] = '\0';
	CHECK_EQ(ca_leaf(ca, name, &leaf, &e), 0);
	CHECK(verifies(root, leaf, name));
	X509_free(root);
	ca_free(ca);
}

TEST(serials_and_validity)
{
	X509 *root, *other, *a, *b;
	struct ca *ca = open_new(&root), *ca2 = open_new(&other);
	int days, seconds;
	struct err e;

	CHECK(X509_NAME_cmp(X509_get_subject_name(root), X509_get_subject_name(other)) != 0);
	CHECK_EQ(ca_leaf(ca, "a.test", &a, &e), 0);
	CHECK_EQ(ca_leaf(ca, "b.test", &b, &e), 0);
	CHECK(ASN1_INTEGER_cmp(X509_get0_serialNumber(a), X509_get0_serialNumber(b)) != 0);
	CHECK_EQ(ASN1_STRING_length(X509_get0_serialNumber(a)), 16);
	CHECK(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(a), X509_get0_notAfter(a)));
	CHECK_EQ(days, CA_LEAF_DAYS + 1);
	CHECK(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(root), X509_get0_notAfter(root)));
	CHECK_EQ(days, CA_DAYS + 1);
	CHECK(X509_cmp_current_time(X509_get0_notBefore(a)) < 0);
	/* One box's certificate is worth nothing in another. */
	CHECK(verifies(root, a, "a.test"));
	CHECK(!verifies(other, a, "a.test"));
	X509_free(root);
	X509_free(other);
	ca_free(ca);
	ca_free(ca2);
}

TEST(hosts_that_are_none)
{
	static const char *const hosts[] = {"",	      "a b",	   "a\nb", "a/b",
					    "*.test", "a,DNS:b",   "a:80", "[::1]",
					    "::1%lo", "b\xc3\xbc", "a@b"};
	X509 *root, *leaf = NULL;
	struct ca *ca = open_new(&root);
	char name[300];
	struct err e;

	for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
		CHECK_EQ(ca_leaf(ca, hosts[i], &leaf, &e), -EINVAL);
		CHECK(strchr(e.msg, '\n') == NULL);
	}
	memset(name, 'a', 254);
	name[254] = '\0';
	CHECK_EQ(ca_leaf(ca, name, &leaf, &e), -EINVAL);
	CHECK(leaf == NULL);
	CHECK_EQ(ca_leaf_count(ca), 0);
	X509_free(root);
	ca_free(ca);
}

TEST(leaves_are_kept_and_bounded)
{
	X509 *root, *first, *x, *again;
	struct ca *ca = open_new(&root);
	char host[32];
	struct err e;

	CHECK_EQ(ca_leaf(ca, "often.test", &first, &e), 0);
	X509_up_ref(first);
	for (unsigned i = 0; i < DOOR_LEAVES_MAX * 2; i++) {
		snprintf(host, sizeof(host), "h%u.test", i);
		CHECK_EQ(ca_leaf(ca, host, &x, &e), 0);
		CHECK_EQ(ca_leaf(ca, host, &again, &e), 0);
		CHECK(x == again);
		CHECK(ca_leaf_count(ca) <= DOOR_LEAVES_MAX);
		/* Used all the time: it stays. */
		CHECK_EQ(ca_leaf(ca, "often.test", &x, &e), 0);
		CHECK(x == first);
	}
	CHECK_EQ(ca_leaf_count(ca), DOOR_LEAVES_MAX);
	/* Long gone, made anew, and as good as before. */
	CHECK_EQ(ca_leaf(ca, "h0.test", &x, &e), 0);
	CHECK(verifies(root, x, "h0.test"));
	X509_free(first);
	X509_free(root);
	ca_free(ca);
}

TEST(authorities_that_are_none)
{
	struct rig_cert a, b, old;
	autofree char *cert = NULL, *key = NULL, *old_cert = NULL, *old_key = NULL;
	char pem[8192];
	struct ca *ca;
	struct err e;

	rig_cert_make(&a, &(struct rig_cert_options){.name = "a", .is_ca = true});
	rig_cert_make(&b, &(struct rig_cert_options){.name = "b"});
	rig_cert_make(&old, &(struct rig_cert_options){
				    .name = "old", .is_ca = true, .from_days = -9, .to_days = -2});
	CHECK_EQ(ca_open(&ca, "", &e), -EINVAL);
	CHECK_STR(e.msg, "the box's certificate authority has no certificate");
	cert = rig_cert_pem(&a);
	CHECK_EQ(ca_open(&ca, cert, &e), -EINVAL);
	CHECK_STR(e.msg, "the box's certificate authority has no key");
	key = rig_key_pem(&b);
	snprintf(pem, sizeof(pem), "%s%s", cert, key);
	CHECK_EQ(ca_open(&ca, pem, &e), -EINVAL);
	CHECK_STR(e.msg, "the key of the box's certificate authority is not its own");
	free(cert);
	cert = rig_cert_pem(&b);
	snprintf(pem, sizeof(pem), "%s%s", cert, key);
	CHECK_EQ(ca_open(&ca, pem, &e), -EINVAL);
	CHECK_STR(e.msg, "the box's certificate authority may not sign certificates");
	old_cert = rig_cert_pem(&old);
	old_key = rig_key_pem(&old);
	snprintf(pem, sizeof(pem), "%s%s", old_cert, old_key);
	CHECK_EQ(ca_open(&ca, pem, &e), -EKEYEXPIRED);
	rig_cert_done(&a);
	rig_cert_done(&b);
	rig_cert_done(&old);
}

/* Files as others find them: whole, private, one authority each. */
TEST(made_in_batches)
{
	char dir[128], path[512];
	struct dirent *entry;
	unsigned count = 0;
	struct err e;
	DIR *d;

	snprintf(dir, sizeof(dir), "%s/ca", rig_dir());
	CHECK_EQ(ca_make_many(dir, 3, &e), 0);
	CHECK_EQ(ca_make_many(dir, 2, &e), 0);
	d = opendir(dir);
	CHECK(d);
	while ((entry = readdir(d))) {
		autofree char *pem = NULL;
		struct stat st;
		struct ca *ca;

		if (entry->d_name[0] == '.')
			continue;
		count++;
		CHECK(strlen(entry->d_name) == 36 && strcmp(entry->d_name + 32, ".pem") == 0);
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_mode & 07777, 0600);
		CHECK_EQ(fd_read_file(AT_FDCWD, path, CA_PEM_MAX, &pem, NULL), 0);
		CHECK_EQ(ca_open(&ca, pem, &e), 0);
		ca_free(ca);
		unlink(path);
	}
	closedir(d);
	CHECK_EQ(count, 5);
	CHECK_EQ(rmdir(dir), 0);
	snprintf(dir, sizeof(dir), "%s/no/such", rig_dir());
	CHECK_EQ(ca_make_many(dir, 1, &e), -ENOENT);
	rig_dir_done();
}

TAP_MAIN
