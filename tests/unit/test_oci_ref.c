/* References to images of registries: defaults, every part, and what is none. */
#include "tap.h"

#include "oci/ref.h"

#define HEX "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static struct err e;

TEST(parts_and_defaults)
{
	static const struct {
		const char *text, *host, *path, *tag, *digest;
	} cases[] = {
		{"debian", "docker.io", "library/debian", "latest", ""},
		{"debian:12", "docker.io", "library/debian", "12", ""},
		{"bitnami/redis", "docker.io", "bitnami/redis", "latest", ""},
		{"docker.io/debian", "docker.io", "library/debian", "latest", ""},
		{"index.docker.io/a/b:c", "docker.io", "a/b", "c", ""},
		{"ghcr.io/a/b/c:v1.2-rc_1", "ghcr.io", "a/b/c", "v1.2-rc_1", ""},
		{"GHCR.io/a:T", "ghcr.io", "a", "T", ""},
		{"localhost/x", "localhost", "x", "latest", ""},
		{"localhost:5000/x:y", "localhost:5000", "x", "y", ""},
		{"reg:5000/x", "reg:5000", "x", "latest", ""},
		{"127.0.0.1:5000/x/y", "127.0.0.1:5000", "x/y", "latest", ""},
		{"[::1]:5000/x", "[::1]:5000", "x", "latest", ""},
		{"x@sha256:" HEX, "docker.io", "library/x", "", HEX},
		{"r.example/x:t@sha256:" HEX, "r.example", "x", "t", HEX},
		{"a--b/c__d.e", "docker.io", "a--b/c__d.e", "latest", ""},
		{"x:_t", "docker.io", "library/x", "_t", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[OCI_REF_TEXT], again[OCI_REF_TEXT];
		struct oci_ref ref, ref2;

		printf("# %s\n", cases[i].text);
		CHECK_EQ(oci_ref_parse(cases[i].text, &ref, &e), 0);
		CHECK_STR(ref.host, cases[i].host);
		CHECK_STR(ref.path, cases[i].path);
		CHECK_STR(ref.tag, cases[i].tag);
		CHECK_STR(ref.digest, cases[i].digest);
		oci_ref_format(&ref, text);
		CHECK_EQ(oci_ref_parse(text, &ref2, &e), 0);
		CHECK_STR(oci_ref_format(&ref2, again), text);
	}
}

TEST(what_is_none)
{
	static const char *const cases[] = {
		"",
		"/",
		"a/",
		"/a",
		"a//b",
		"A",
		"a/B",
		"a b",
		"a\nb",
		"a:",
		"a:-x",
		"a:.x",
		"a:b:c",
		"a@",
		"a@sha256:",
		"a@sha256:12",
		"a@sha512:" HEX HEX,
		"a@SHA256:" HEX,
		"a@sha256:" HEX "0",
		"a@sha256:" HEX "@sha256:" HEX,
		".a",
		"a.",
		"a..b",
		"a/../b",
		"a___b",
		"_a",
		"-a",
		"a-",
		"docker://a",
		"https://r.example/a",
		"r.example:/a",
		"r.example:0/a",
		"r.example:65536/a",
		"r.example:x/a",
		"r.example:05/a",
		"user@r.example/a",
		"user:pw@r.example/a",
		"r..example/a",
		"-r.example/a",
		"r.example-/a",
		"[::1/a",
		"[]/a",
		"[x]/a",
		"[::1]x/a",
		"[::1]:/a",
		"r.example/",
		"r.example/a?b",
		"r.example/a#b",
		"r.example/a%2fb",
		"r.ex\xc3\xa4mple/a",
		"r.example/\xef\xbd\x81",
		"a:\xc3\xa4",
		"r.example\\a/b",
		"127.0.0.1:80:80/a",
	};
	char longest[2048];
	struct oci_ref ref;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		printf("# %s\n", cases[i]);
		CHECK_EQ(oci_ref_parse(cases[i], &ref, &e), -EINVAL);
		CHECK_EQ(e.kind, ERR_INVALID);
	}
	CHECK_EQ(oci_ref_parse(NULL, &ref, &e), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[OCI_PATH_MAX + 1] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), -EINVAL);
	longest[OCI_PATH_MAX - strlen("library/")] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), 0);
	memset(longest, 'a', sizeof(longest));
	longest[300] = '.', longest[301] = '/', longest[303] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[1] = ':', longest[OCI_TAG_MAX + 3] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), -EINVAL);
	longest[OCI_TAG_MAX + 2] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), 0);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	CHECK_EQ(oci_ref_parse(longest, &ref, &e), -EINVAL);
}

TEST(which_hosts_are_this_machine)
{
	static const char *const ours[] = {"localhost",	       "LocalHost:5000", "127.0.0.1",
					   "127.9.255.3:80/x", "[::1]",		 "[::1]:5000"};
	static const char *const others[] = {"localhost.example",
					     "localhos",
					     "127.0.0.1.example",
					     "127.0.0.256",
					     "127.1",
					     "0177.0.0.1",
					     "1270.0.0.1",
					     "10.0.0.1",
					     "[::2]",
					     "[::1]x",
					     "",
					     "127.0.0.1@evil",
					     "0.0.0.0",
					     "128.0.0.1",
					     "127.0.0.1\\x",
					     "[::ffff:127.0.0.1]"};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		CHECK(oci_host_is_loopback(ours[i]));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		printf("# %s\n", others[i]);
		CHECK(!oci_host_is_loopback(others[i]));
	}
}

TEST(the_hub_has_another_server)
{
	struct oci_ref ref;

	CHECK_EQ(oci_ref_parse("debian", &ref, &e), 0);
	CHECK_STR(oci_ref_server(&ref), "registry-1.docker.io");
	CHECK_EQ(oci_ref_parse("quay.io/x", &ref, &e), 0);
	CHECK_STR(oci_ref_server(&ref), "quay.io");
}

TAP_MAIN
