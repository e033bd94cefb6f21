/* The Java trust store that is made from a bundle. */
#include "base/fd.h"
#include "base/sha.h"
#include "guest/jks.h"
#include "tap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>

#define BEGIN "-----BEGIN CERTIFICATE-----\n"
#define END   "-----END CERTIFICATE-----\n"
/* SEQUENCE { INTEGER 1 }, SEQUENCE { INTEGER 2 } */
#define ONE BEGIN "MAMCAQE=\n" END
#define TWO BEGIN "MAMCAQI=\n" END

static void make(struct buf *b, const char *pem)
{
	buf_init(b, 1 << 20);
	CHECK_EQ(guest_jks_make(b, pem, strlen(pem)), 0);
}

static unsigned count_of(const struct buf *b)
{
	const uint8_t *p = buf_data(b);

	CHECK(buf_len(b) >= 12 + SHA1_BYTES);
	CHECK_MEM(p, "\xfe\xed\xfe\xed\0\0\0\2", 8);
	return (unsigned)(p[8] << 24 | p[9] << 16 | p[10] << 8 | p[11]);
}

TEST(form)
{
	static const char entry[] = "\0\0\0\2"
				    "\0\6cove-0"
				    "\0\0\0\0\0\0\0\0"
				    "\0\5X.509"
				    "\0\0\0\5"
				    "\x30\3\2\1\1";
	uint8_t digest[SHA1_BYTES];
	struct sha s;
	struct buf b;

	make(&b, ONE);
	CHECK_EQ(count_of(&b), 1);
	CHECK_EQ(buf_len(&b), 12 + sizeof(entry) - 1 + SHA1_BYTES);
	CHECK_MEM(buf_data(&b) + 12, entry, sizeof(entry) - 1);
	sha1_init(&s);
	sha_add(&s, "\0c\0h\0a\0n\0g\0e\0i\0tMighty Aphrodite", 32);
	sha_add(&s, buf_data(&b), buf_len(&b) - SHA1_BYTES);
	sha_end(&s, digest);
	CHECK_MEM(buf_data(&b) + buf_len(&b) - SHA1_BYTES, digest, SHA1_BYTES);
	buf_done(&b);
}

TEST(what_is_no_certificate_is_passed_over)
{
	static const struct {
		const char *pem;
		unsigned count;
	} cases[] = {
		{"", 0},
		{"\n\n", 0},
		{"no certificates here", 0},
		{BEGIN, 0},
		{BEGIN END, 0},
		{BEGIN "####\n" END, 0},
		{BEGIN "MAMC\n" END, 0},     /* cut short */
		{BEGIN "MAMCAQEA\n" END, 0}, /* more after it */
		{BEGIN "MIQAAAAA\n" END, 0}, /* a length of four bytes */
		{END ONE BEGIN, 1},
		{"# a comment\n" ONE "text\n" BEGIN "zz zz\n" END TWO, 2},
		{"-----BEGIN PRIVATE KEY-----\nMAMCAQE=\n-----END PRIVATE KEY-----\n" TWO, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf b;

		make(&b, cases[i].pem);
		CHECK_EQ(count_of(&b), cases[i].count);
		buf_done(&b);
	}
}

/* What becomes of a store; the result is in *ret. */
static int extend(const struct buf *store, size_t size, struct buf *ret)
{
	int from = sys_memfd_create("from", 0), to = sys_memfd_create("to", 0), r;
	uint8_t bytes[4096];
	ssize_t n;

	CHECK(from >= 0 && to >= 0);
	CHECK_EQ(fd_write_full(from, buf_data(store), buf_len(store)), 0);
	CHECK_EQ(lseek(from, 0, SEEK_SET), 0);
	r = guest_jks_extend(to, from, size, TWO);
	buf_clear(ret);
	CHECK_EQ(lseek(to, 0, SEEK_SET), 0);
	while ((n = read(to, bytes, sizeof(bytes))) > 0)
		CHECK_EQ(buf_append(ret, bytes, (size_t)n), 0);
	close(from);
	close(to);
	return r;
}

TEST(a_store_that_is_there_is_extended)
{
	struct buf one, both, want, pem;

	make(&one, ONE);
	make(&want, ONE TWO);
	buf_init(&both, 1 << 20);
	CHECK_EQ(extend(&one, buf_len(&one), &both), 0);
	CHECK_EQ(buf_len(&both), buf_len(&want));
	CHECK_MEM(buf_data(&both), buf_data(&want), buf_len(&want));
	/* Cut, or of another form: not one of these, and nothing was written. */
	for (size_t n = 0; n < 12 + SHA1_BYTES; n++) {
		CHECK_EQ(extend(&one, n, &both), -EBADMSG);
		CHECK_EQ(buf_len(&both), 0);
	}
	/* Cut while it was read. */
	CHECK_EQ(extend(&one, buf_len(&one) + 100, &both), -EIO);
	one.data[one.start + 7] = 1;
	CHECK_EQ(extend(&one, buf_len(&one), &both), -EBADMSG);
	one.data[one.start + 7] = 2;
	one.data[one.start + 8] = 0xff;
	CHECK_EQ(extend(&one, buf_len(&one), &both), -EBADMSG);
	buf_done(&one);
	buf_done(&want);
	/* More than one chunk of it. */
	buf_init(&pem, 1 << 20);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(buf_append_str(&pem, ONE), 0);
	make(&one, buf_cstr(&pem));
	CHECK_EQ(buf_append_str(&pem, TWO), 0);
	make(&want, buf_cstr(&pem));
	CHECK_EQ(extend(&one, buf_len(&one), &both), 0);
	CHECK_EQ(buf_len(&both), buf_len(&want));
	CHECK_MEM(buf_data(&both), buf_data(&want), buf_len(&want));
	buf_done(&one);
	buf_done(&both);
	buf_done(&want);
	buf_done(&pem);
}

TEST(a_buffer_that_is_too_small)
{
	for (size_t max = 0; max < 60; max++) {
		struct buf b;
		int r;

		buf_init(&b, max);
		r = guest_jks_make(&b, ONE, strlen(ONE));
		CHECK(r == -ENOBUFS || (r == 0 && buf_len(&b) <= max));
		buf_done(&b);
	}
}

TEST(many)
{
	struct buf pem, b;

	buf_init(&pem, 4 << 20);
	for (int i = 0; i < GUEST_JKS_CERTS_MAX + 10; i++)
		CHECK_EQ(buf_append_str(&pem, ONE), 0);
	buf_init(&b, 4 << 20);
	CHECK_EQ(guest_jks_make(&b, (const char *)buf_data(&pem), buf_len(&pem)), 0);
	CHECK_EQ(count_of(&b), GUEST_JKS_CERTS_MAX);
	buf_done(&pem);
	buf_done(&b);
}

/* Java itself, where there is one, reads what the host's bundle becomes. */
TEST(java_reads_it)
{
	static const char bundle[] = "/etc/ssl/certs/ca-certificates.crt";
	char path[] = "/tmp/cove-jks-XXXXXX", command[200], line[200];
	unsigned certs = 0, told = 0;
	autofree char *pem = NULL;
	size_t len;
	struct buf b;
	FILE *out;
	int fd;

	if (access("/usr/bin/keytool", X_OK) < 0)
		SKIP("there is no keytool");
	if (fd_read_file(AT_FDCWD, bundle, 4 << 20, &pem, &len) < 0)
		SKIP("the host has no bundle of certificates");
	for (const char *p = pem; (p = strstr(p, "BEGIN CERTIFICATE")); p++)
		certs++;
	buf_init(&b, 8 << 20);
	CHECK_EQ(guest_jks_make(&b, pem, len), 0);
	fd = mkstemp(path);
	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, buf_data(&b), buf_len(&b)), 0);
	close(fd);
	buf_done(&b);
	snprintf(command, sizeof(command),
		 "keytool -list -keystore %s -storepass changeit 2>/dev/null", path);
	out = popen(command, "r");
	CHECK(out != NULL);
	while (fgets(line, sizeof(line), out))
		told += strstr(line, "trustedCertEntry") != NULL;
	CHECK_EQ(pclose(out), 0);
	unlink(path);
	CHECK_EQ(told, certs);
	CHECK(certs > 0);
}

TAP_MAIN
