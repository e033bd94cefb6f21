/* WWW-Authenticate: the forms that registries use, and what is none. */
#include "tap.h"

#include "oci/challenge.h"

static struct oci_challenge c;

static bool parse(const char *text)
{
	printf("# %s\n", text);
	c = (struct oci_challenge){0};
	return oci_challenge_parse(text, strlen(text), &c);
}

TEST(forms)
{
	CHECK(parse("Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\","
		    "scope=\"repository:library/x:pull\""));
	CHECK_EQ(c.scheme, OCI_SCHEME_BEARER);
	CHECK_STR(c.realm, "https://auth.docker.io/token");
	CHECK_STR(c.service, "registry.docker.io");
	CHECK(parse("bearer  REALM = \"a\\\"b\" , service=plain"));
	CHECK_STR(c.realm, "a\"b");
	CHECK_STR(c.service, "plain");
	CHECK(parse("Basic realm=\"Registry Realm\""));
	CHECK_EQ(c.scheme, OCI_SCHEME_BASIC);
	CHECK(parse("Basic"));
	CHECK_EQ(c.scheme, OCI_SCHEME_BASIC);
	CHECK(parse("Basic realm=\"x, y=z\", Bearer realm=\"https://r/\""));
	CHECK_EQ(c.scheme, OCI_SCHEME_BEARER);
	CHECK_STR(c.realm, "https://r/");
	CHECK(parse("Bearer realm=\"https://r/\", Basic realm=\"b\""));
	CHECK_STR(c.realm, "https://r/");
	CHECK(parse("Negotiate, Basic realm=x"));
	CHECK_EQ(c.scheme, OCI_SCHEME_BASIC);
}

TEST(what_is_none)
{
	static const char *const cases[] = {
		"",
		" ",
		",",
		"Digest realm=\"x\"",
		"Bearer",
		"Bearer service=\"x\"",
		"Bearer realm=\"x",
		"Bearer realm=\"x\\",
		"Bearer realm=\"x\" service=\"y\"",
		"Bearer realm=\"a\nb\"",
		"Bearer realm=\"a\", realm=\"b\"",
		"Bearer=x",
		"=x",
		"Bearer realm=\"\"",
		"\"Bearer\" realm=x",
		"Bearer realm=\"x\"y",
	};
	char big[4096];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		CHECK(!parse(cases[i]));
	memset(big, 'a', sizeof(big));
	memcpy(big, "Bearer realm=\"", 14);
	big[sizeof(big) - 2] = '"', big[sizeof(big) - 1] = 0;
	CHECK(!oci_challenge_parse(big, strlen(big), &c));
}

TAP_MAIN
