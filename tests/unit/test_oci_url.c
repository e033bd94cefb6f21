/* Which addresses a registry may lead to, and which are of one server. */
#include "tap.h"

#include "oci/http.h"

static struct err e;

static bool may(bool insecure, const char *url, const char *from)
{
	struct oci_http h = {.o = {.insecure = insecure}};

	printf("# %s from %s\n", url, from ? from : "here");
	e = (struct err){0};
	return oci_url_check(&h, url, from, &e) == 0;
}

TEST(what_may_be_asked)
{
	CHECK(may(false, "https://r.example/v2/", NULL));
	CHECK(may(false, "http://127.0.0.1:5000/v2/", NULL));
	CHECK(may(false, "http://localhost:5000/v2/", NULL));
	CHECK(may(false, "http://[::1]:5000/v2/", NULL));
	CHECK(!may(false, "http://r.example/v2/", NULL));
	CHECK_EQ(e.kind, ERR_DENIED);
	CHECK(may(true, "http://r.example/v2/", NULL));
	CHECK(!may(true, "ftp://r.example/v2/", NULL));
	CHECK(!may(true, "file:///etc/passwd", NULL));
	CHECK(!may(true, "https://user@r.example/", NULL));
	CHECK(!may(true, "https://user:pw@r.example/", NULL));
	CHECK(!may(true, "https://", NULL));
}

TEST(where_it_may_lead)
{
	CHECK(may(false, "https://cdn.example/x", "https://r.example/x"));
	CHECK(!may(false, "http://cdn.example/x", "https://r.example/x"));
	CHECK(!may(true, "http://cdn.example/x", "https://r.example/x"));
	CHECK(!may(false, "https://127.0.0.1/x", "https://r.example/x"));
	CHECK(!may(true, "https://localhost/x", "https://r.example/x"));
	CHECK(!may(true, "http://[::1]:80/x", "http://r.example/x"));
	CHECK(may(false, "http://127.0.0.1:1/x", "http://localhost:2/x"));
	CHECK(!may(false, "http://r.example/x", "http://localhost:2/x"));
	CHECK(may(false, "https://r.example/x", "http://localhost:2/x"));
	CHECK(!may(false, "gopher://r.example/x", "http://localhost:2/x"));
}

TEST(one_server)
{
	CHECK(oci_url_same_server("https://r.example/a", "https://R.Example:443/b?c"));
	CHECK(!oci_url_same_server("https://r.example/a", "http://r.example/a"));
	CHECK(!oci_url_same_server("https://r.example/a", "https://r.example:444/a"));
	CHECK(!oci_url_same_server("https://r.example/a", "https://r.example.evil/a"));
	CHECK(!oci_url_same_server("https://r.example/a", "https://r.example@evil/a"));
	CHECK(!oci_url_same_server("https://r.example/a", "https://evil/r.example/a"));
	CHECK(!oci_url_same_server("https://r.example/a", ""));
}

TAP_MAIN
