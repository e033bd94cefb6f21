/*
 * Making and using a box's certificate authority.
 *
 * How it works
 *
 * Certificates are built from OpenSSL's structures, not from its configuration language: that is
 * ten times faster and there is no text that a host name could break out of. A leaf is one
 * signature (some 50 us): all leaves of a door share one key, made when the authority is opened.
 *
 *	authority   self-signed, CA:TRUE with path length 0, keyCertSign, a name of its own so that
 *	            the authorities of two boxes are never mistaken for each other
 *	leaf        CA:FALSE, digitalSignature, serverAuth, one alternative name: the host
 *
 * Both are valid from a day ago, for a box whose clock is late. Serial numbers are 127 random bits.
 */
#include "net/ca.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/rand.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { DAY_S = 24 * 60 * 60, SERIAL_BYTES = 16, COMMON_NAME_MAX = 64 };

struct leaf {
	char *host; /* owned */
	X509 *cert; /* owned */
	uint64_t used;
	time_t until;
};

struct ca {
	X509 *cert;
	EVP_PKEY *key, *leaf_key;
	struct leaf leaves[DOOR_LEAVES_MAX];
	unsigned count;
	uint64_t tick;
};

int crypto_failed(struct err *e, const char *what)
{
	const char *why = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return err_set(e, ERR_INTERNAL, 0, "%s: %s", what, why ? why : "out of memory");
}

static bool add_serial(X509 *x)
{
	uint8_t bytes[SERIAL_BYTES];
	BIGNUM *n;
	bool ok;

	rand_bytes(bytes, sizeof(bytes));
	bytes[0] = (uint8_t)((bytes[0] & 0x7f) | 0x40); /* positive, and always as long */
	n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
	BN_free(n);
	return ok;
}

static bool set_name(X509_NAME *name, const char *cn)
{
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_ASC, (const uint8_t *)"Cove", -1, -1,
					  0) &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)cn, -1, -1, 0);
}

static bool add_constraints(X509 *x, bool is_ca)
{
	BASIC_CONSTRAINTS *bc = BASIC_CONSTRAINTS_new();
	bool ok = bc;

	if (ok && is_ca) {
		bc->ca = 0xff;
		bc->pathlen = ASN1_INTEGER_new();
		ok = bc->pathlen && ASN1_INTEGER_set(bc->pathlen, 0);
	}
	ok = ok && X509_add1_ext_i2d(x, NID_basic_constraints, bc, 1, X509V3_ADD_DEFAULT) > 0;
	BASIC_CONSTRAINTS_free(bc);
	return ok;
}

/* Bits of RFC 5280: 0 digitalSignature, 5 keyCertSign, 6 cRLSign. */
static bool add_usage(X509 *x, bool is_ca)
{
	ASN1_BIT_STRING *bits = ASN1_BIT_STRING_new();
	bool ok = bits;

	if (is_ca)
		ok = ok && ASN1_BIT_STRING_set_bit(bits, 5, 1) &&
		     ASN1_BIT_STRING_set_bit(bits, 6, 1);
	else
		ok = ok && ASN1_BIT_STRING_set_bit(bits, 0, 1);
	ok = ok && X509_add1_ext_i2d(x, NID_key_usage, bits, 1, X509V3_ADD_DEFAULT) > 0;
	ASN1_BIT_STRING_free(bits);
	return ok;
}

/* The identifier of x's own key, and of the one it is signed with. */
static bool add_key_ids(X509 *x, X509 *issuer)
{
	ASN1_OCTET_STRING *own = ASN1_OCTET_STRING_new();
	AUTHORITY_KEYID *signer = AUTHORITY_KEYID_new();
	uint8_t digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	bool ok = own && signer && X509_pubkey_digest(x, EVP_sha1(), digest, &len) &&
		  ASN1_OCTET_STRING_set(own, digest, (int)len) &&
		  X509_add1_ext_i2d(x, NID_subject_key_identifier, own, 0, X509V3_ADD_DEFAULT) > 0;

	if (ok)
		signer->keyid = ASN1_OCTET_STRING_new();
	ok = ok && signer->keyid && X509_pubkey_digest(issuer, EVP_sha1(), digest, &len) &&
	     ASN1_OCTET_STRING_set(signer->keyid, digest, (int)len) &&
	     X509_add1_ext_i2d(x, NID_authority_key_identifier, signer, 0, X509V3_ADD_DEFAULT) > 0;
	ASN1_OCTET_STRING_free(own);
	AUTHORITY_KEYID_free(signer);
	return ok;
}

static bool add_server_auth(X509 *x)
{
	EXTENDED_KEY_USAGE *eku = EXTENDED_KEY_USAGE_new();
	ASN1_OBJECT *server = OBJ_nid2obj(NID_server_auth); /* static: never freed */
	bool ok = eku && sk_ASN1_OBJECT_push(eku, server) > 0 &&
		  X509_add1_ext_i2d(x, NID_ext_key_usage, eku, 0, X509V3_ADD_DEFAULT) > 0;

	EXTENDED_KEY_USAGE_free(eku);
	return ok;
}

static bool add_alt_name(X509 *x, const char *host)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	GENERAL_NAME *name = GENERAL_NAME_new();
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(host);
	ASN1_IA5STRING *dns = NULL;
	bool ok = names && name;

	ERR_clear_error(); /* that a name is no address is not an error */
	if (ok && ip) {
		GENERAL_NAME_set0_value(name, GEN_IPADD, ip);
	} else if (ok) {
		dns = ASN1_IA5STRING_new();
		ok = dns && ASN1_STRING_set(dns, host, -1);
		if (ok)
			GENERAL_NAME_set0_value(name, GEN_DNS, dns);
		else
			ASN1_IA5STRING_free(dns);
	} else {
		ASN1_OCTET_STRING_free(ip);
	}
	if (ok && sk_GENERAL_NAME_push(names, name) > 0)
		name = NULL; /* now in the list */
	ok = ok && !name && X509_add1_ext_i2d(x, NID_subject_alt_name, names, 0, 0) > 0;
	GENERAL_NAME_free(name);
	GENERAL_NAMES_free(names);
	return ok;
}

/* A certificate for the key, signed by the authority; without a host it is an authority, signed by
 * itself. NULL: it failed. */
static X509 *make_cert(const char *cn, const char *host, EVP_PKEY *key, X509 *issuer,
		       EVP_PKEY *issuer_key)
{
	X509 *x = X509_new();

	issuer = issuer ? issuer : x;
	if (x && X509_set_version(x, X509_VERSION_3) && add_serial(x) &&
	    X509_gmtime_adj(X509_getm_notBefore(x), -DAY_S) &&
	    X509_gmtime_adj(X509_getm_notAfter(x), (host ? CA_LEAF_DAYS : CA_DAYS) * (long)DAY_S) &&
	    set_name(X509_get_subject_name(x), cn) &&
	    X509_set_issuer_name(x, X509_get_subject_name(issuer)) && X509_set_pubkey(x, key) &&
	    add_constraints(x, !host) && add_usage(x, !host) &&
	    (!host || (add_server_auth(x) && add_alt_name(x, host))) && add_key_ids(x, issuer) &&
	    X509_sign(x, issuer_key, EVP_sha256()))
		return x;
	X509_free(x);
	return NULL;
}

int ca_make(struct buf *out, struct err *e)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	BIO *bio = BIO_new(BIO_s_secmem());
	char id[17], cn[COMMON_NAME_MAX], *text = NULL;
	int r = -EIO;
	X509 *x;
	long n;

	rand_hex(id, 8);
	snprintf(cn, sizeof(cn), "Cove box authority %s", id);
	x = key ? make_cert(cn, NULL, key, NULL, key) : NULL;
	if (x && bio && PEM_write_bio_X509(bio, x) &&
	    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL)) {
		n = BIO_get_mem_data(bio, &text);
		r = buf_append(out, text, (size_t)n);
		OPENSSL_cleanse(text, (size_t)n);
	}
	BIO_free(bio);
	X509_free(x);
	EVP_PKEY_free(key);
	return r < 0 ? crypto_failed(e, "make a certificate authority") : 0;
}

int ca_make_many(const char *dir, unsigned count, struct err *e)
{
	autoclose int dir_fd = -1;
	char id[33], name[40];
	struct buf pem;
	int r = 0;

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return err_errno(e, errno, "make %s", dir);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		return err_errno(e, errno, "open %s", dir);
	for (unsigned i = 0; i < count && r == 0; i++) {
		rand_hex(id, 16);
		snprintf(name, sizeof(name), "%s.pem", id);
		buf_init(&pem, CA_PEM_MAX);
		r = ca_make(&pem, e);
		if (r == 0) {
			r = fd_write_file(dir_fd, name, buf_data(&pem), buf_len(&pem), 0600, false);
			if (r < 0)
				err_errno(e, -r, "write the certificate authority %s", name);
			explicit_bzero(pem.data, pem.cap);
		}
		buf_done(&pem);
	}
	return r;
}

int pem_no_password(char *p, int size, int rw, void *arg)
{
	return -1;
}

int ca_open(struct ca **ret, const char *pem, struct err *e)
{
	struct ca *ca = calloc(1, sizeof(*ca));
	BIO *bio;
	int r = 0;

	if (!ca)
		return err_errno(e, ENOMEM, "open the box's certificate authority");
	bio = BIO_new_mem_buf(pem, -1);
	if (bio)
		ca->cert = PEM_read_bio_X509(bio, NULL, pem_no_password, NULL);
	BIO_free(bio);
	bio = BIO_new_mem_buf(pem, -1);
	if (bio)
		ca->key = PEM_read_bio_PrivateKey(bio, NULL, pem_no_password, NULL);
	BIO_free(bio);
	if (!ca->cert || !ca->key)
		r = err_set(e, ERR_INVALID, EINVAL, "the box's certificate authority has no %s",
			    ca->cert ? "key" : "certificate");
	if (r == 0 && X509_check_private_key(ca->cert, ca->key) != 1)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "the key of the box's certificate authority is not its own");
	if (r == 0 && X509_check_ca(ca->cert) != 1)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "the box's certificate authority may not sign certificates");
	if (r == 0 && X509_cmp_current_time(X509_get0_notAfter(ca->cert)) < 0)
		r = err_set(e, ERR_INVALID, EKEYEXPIRED,
			    "the box's certificate authority has expired: start the box again");
	if (r == 0) {
		ca->leaf_key = EVP_EC_gen("P-256");
		if (!ca->leaf_key)
			r = crypto_failed(e, "make a key");
	}
	if (r < 0) {
		ERR_clear_error();
		ca_free(ca);
		return r;
	}
	*ret = ca;
	return 0;
}

static void leaf_drop(struct leaf *l)
{
	free(l->host);
	X509_free(l->cert);
	*l = (struct leaf){0};
}

void ca_free(struct ca *ca)
{
	if (!ca)
		return;
	for (unsigned i = 0; i < ca->count; i++)
		leaf_drop(&ca->leaves[i]);
	X509_free(ca->cert);
	EVP_PKEY_free(ca->key);
	EVP_PKEY_free(ca->leaf_key);
	free(ca);
}

int ca_leaf(struct ca *ca, const char *host, X509 **ret, struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	struct leaf *l = ca->leaves, *end = ca->leaves + ca->count;
	char cn[COMMON_NAME_MAX + 1];
	time_t now = time(NULL);
	size_t n = strlen(host);
	uint8_t addr[16];

	/* Its place: where it is, a free one, or that of the least recently used. */
	while (l < end && strcmp(l->host, host) != 0)
		l++;
	if (l == end && ca->count == DOOR_LEAVES_MAX)
		for (struct leaf *i = l = ca->leaves; i < end; i++)
			l = i->used < l->used ? i : l;
	if (!l->host || strcmp(l->host, host) != 0 || now > l->until) {
		struct leaf fresh = {.until = now + (CA_LEAF_DAYS - 1) * (time_t)DAY_S};

		/* What the door's own parser (host.h) lets through, checked again: it goes into a
		 * certificate. */
		if (inet_pton(AF_INET, host, addr) != 1 && inet_pton(AF_INET6, host, addr) != 1 &&
		    (n == 0 || n > DNS_NAME_MAX || strspn(host, letters) != n))
			return err_set(e, ERR_INVALID, EINVAL,
				       "no certificate can be made for this host: it is neither a "
				       "name nor an address");
		fresh.host = strdup(host);
		/* A common name holds 64 bytes; clients look at the alternative name. */
		if (!str_copy(cn, sizeof(cn), host))
			str_copy(cn, sizeof(cn), "cove-door");
		if (fresh.host)
			fresh.cert = make_cert(cn, host, ca->leaf_key, ca->cert, ca->key);
		if (!fresh.cert) {
			leaf_drop(&fresh);
			return crypto_failed(e, "make a certificate");
		}
		if (l == &ca->leaves[ca->count])
			ca->count++;
		leaf_drop(l);
		*l = fresh;
	}
	l->used = ++ca->tick;
	*ret = l->cert;
	return 0;
}

EVP_PKEY *ca_leaf_key(struct ca *ca)
{
	return ca->leaf_key;
}

unsigned ca_leaf_count(const struct ca *ca)
{
	return ca->count;
}
