/* What a host trusts beyond its distribution. */
#include "tap.h"

#include "base/limits.h"
#include "keeper/roots.h"

#include <fcntl.h>
#include <sys/stat.h>

TAP_MAIN

#define CERT(x) "-----BEGIN CERTIFICATE-----\n" x "\n-----END CERTIFICATE-----"

static char dir[] = "/tmp/cove-roots.XXXXXX";

static void put(const char *name, const void *p, size_t n)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	CHECK(fd >= 0 && write(fd, p, n) == (ssize_t)n);
	close(fd);
}

static void clear(void)
{
	char line[64];

	snprintf(line, sizeof(line), "rm -rf %s", dir);
	CHECK_EQ(system(line), 0);
}

TEST(certificates_and_nothing_else)
{
	static const char mixed[] =
		"a word\n" CERT("b25l") "\n-----BEGIN PRIVATE KEY-----\nkey\n"
					"-----END PRIVATE KEY-----\n" CERT("dHdv");
	static const char half[] = "-----BEGIN CERTIFICATE-----\nhalf\n";
	static const char nul[] = "-----BEGIN CERTIFICATE-----\nn\0l\n-----END CERTIFICATE-----\n";
	static char huge[TRUST_EXTRA_MAX + 1];
	const char *places[] = {"/nowhere/at/all", dir, NULL};
	char path[128];
	struct buf out;

	CHECK(mkdtemp(dir));
	put("mixed.crt", mixed, sizeof(mixed) - 1);
	put("half.crt", half, sizeof(half) - 1);
	put("nul.crt", nul, sizeof(nul) - 1);
	memset(huge, 'x', sizeof(huge));
	memcpy(huge, CERT("huge"), strlen(CERT("huge")));
	put("huge.crt", huge, sizeof(huge));
	put("empty.crt", "", 0);
	snprintf(path, sizeof(path), "%s/extra", dir);
	CHECK_EQ(mkdir(path, 0755), 0);
	put("extra/three.crt", CERT("dGhyZWU="), strlen(CERT("dGhyZWU=")));
	snprintf(path, sizeof(path), "%s/pipe", dir);
	CHECK_EQ(mkfifo(path, 0644), 0);
	snprintf(path, sizeof(path), "%s/self", dir);
	CHECK_EQ(symlink(".", path), 0);
	buf_init(&out, TRUST_EXTRA_MAX);
	CHECK_EQ(keeper_roots_read(places, &out), 0);
	clear();
	CHECK(strstr(buf_cstr(&out), CERT("b25l") "\n" CERT("dHdv") "\n"));
	CHECK(strstr(buf_cstr(&out), CERT("dGhyZWU=") "\n"));
	CHECK(!strstr(buf_cstr(&out), "key") && !strstr(buf_cstr(&out), "half"));
	CHECK(!strstr(buf_cstr(&out), "huge") && !strstr(buf_cstr(&out), "word"));
	buf_done(&out);
}

TEST(a_host_with_none_adds_nothing)
{
	const char *places[] = {"/nowhere/at/all", NULL};
	struct buf out;

	buf_init(&out, TRUST_EXTRA_MAX);
	CHECK_EQ(keeper_roots_read(places, &out), 0);
	CHECK_EQ(buf_len(&out), 0);
}
