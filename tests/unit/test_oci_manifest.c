/* Manifests and indexes: both ways to write them, platforms, and what is refused. */
#include "tap.h"

#include "base/buf.h"
#include "oci/manifest.h"

#define A "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define B "aa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define CONFIG                                                                                    \
	"\"config\":{\"mediaType\":\"" OCI_TYPE_CONFIG "\",\"digest\":\"sha256:" A "\",\"size\":" \
	"7}"
#define LAYER "{\"mediaType\":\"x/y\",\"digest\":\"sha256:" B "\",\"size\":99}"

static struct err e;
static struct oci_manifest m;

static int parse(const char *text, const char *type)
{
	oci_manifest_done(&m);
	e = (struct err){0};
	return oci_manifest_parse(text, strlen(text), type, &m, &e);
}

TEST(a_manifest)
{
	CHECK_EQ(parse("{\"schemaVersion\":2," CONFIG ",\"layers\":[" LAYER "," LAYER "]}", NULL),
		 0);
	CHECK(!m.is_index);
	CHECK_STR(m.config.digest, A);
	CHECK_EQ(m.config.size, 7);
	CHECK_EQ(m.count, 2);
	CHECK_STR(m.items[1].digest, B);
	CHECK_EQ(m.items[1].size, 99);
	CHECK_STR(m.items[1].type, "x/y");
	CHECK_EQ(parse("{\"schemaVersion\":2," CONFIG ",\"layers\":[]}",
		       OCI_TYPE_MANIFEST "; charset=utf-8"),
		 0);
	CHECK_EQ(parse("{\"schemaVersion\":2," CONFIG ",\"layers\":[]}", OCI_TYPE_DOCKER), 0);
	oci_manifest_done(&m);
}

static const char index_text[] =
	"{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_INDEX "\",\"manifests\":["
	"{\"digest\":\"sha256:" A "\",\"size\":1,"
	"\"platform\":{\"os\":\"linux\",\"architecture\":\"amd64\"}},"
	"{\"digest\":\"sha256:" A "\",\"size\":2,"
	"\"platform\":{\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v6\"}},"
	"{\"digest\":\"sha256:" A "\",\"size\":3,"
	"\"platform\":{\"os\":\"linux\",\"architecture\":\"arm\",\"variant\":\"v7\"}},"
	"{\"digest\":\"sha256:" A "\",\"size\":4,"
	"\"platform\":{\"os\":\"linux\",\"architecture\":\"arm64\",\"variant\":\"v8\"}},"
	"{\"digest\":\"sha256:" A "\",\"size\":5,"
	"\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}},"
	"{\"digest\":\"sha256:" A "\",\"size\":6,"
	"\"platform\":{\"os\":\"windows\",\"architecture\":\"amd64\"}}]}";

static uint64_t find(const char *platform)
{
	const struct oci_desc *d;
	struct oci_platform p;

	CHECK_EQ(oci_platform_parse(platform, &p, &e), 0);
	return oci_index_find(&m, &p, &d, &e) < 0 ? 0 : d->size;
}

TEST(an_index_by_platform)
{
	CHECK_EQ(parse(index_text, OCI_TYPE_INDEX), 0);
	CHECK(m.is_index);
	CHECK_EQ(m.count, 6);
	CHECK_EQ(find("linux/amd64"), 1);
	CHECK_EQ(find("linux/amd64/v3"), 1);
	CHECK_EQ(find("linux/arm"), 3);
	CHECK_EQ(find("linux/arm/v7"), 3);
	CHECK_EQ(find("linux/arm/v6"), 2);
	CHECK_EQ(find("linux/arm/v5"), 0);
	CHECK_EQ(find("linux/arm64"), 4);
	CHECK_EQ(find("linux/arm64/v8"), 4);
	CHECK_EQ(find("windows/amd64"), 6);
	CHECK_EQ(find("linux/s390x"), 0);
	CHECK_EQ(e.kind, ERR_NOT_FOUND);
	CHECK(strstr(e.msg, "linux/arm/v6") && !strstr(e.msg, "unknown"));
	oci_manifest_done(&m);
}

TEST(platforms)
{
	static const char *const bad[] = {"",	  "linux",   "linux/", "/amd64",    "a/b/c/d",
					  "a/b/", "Linux/x", "a b/c",  "a/\xc3\xa4"};
	char text[OCI_PLATFORM_TEXT];
	struct oci_platform p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(oci_platform_parse(bad[i], &p, &e), -EINVAL);
	CHECK_EQ(oci_platform_parse("linux/arm/v7", &p, &e), 0);
	CHECK_STR(oci_platform_format(&p, text), "linux/arm/v7");
	oci_platform_host(&p);
	CHECK_STR(p.os, "linux");
	CHECK(p.arch[0]);
}

TEST(what_is_refused)
{
	static const struct {
		const char *text, *type;
		enum err_kind kind;
	} cases[] = {
		{"", NULL, ERR_PROTOCOL},
		{"<html>", NULL, ERR_PROTOCOL},
		{"[]", NULL, ERR_PROTOCOL},
		{"{}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":1,\"fsLayers\":[]}", NULL, ERR_UNSUPPORTED},
		{"{\"schemaVersion\":3," CONFIG ",\"layers\":[]}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[],\"manifests\":[]}", NULL,
		 ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[]}", OCI_TYPE_INDEX, ERR_PROTOCOL},
		{"{\"schemaVersion\":2,\"manifests\":[]}", OCI_TYPE_MANIFEST, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[]}", "text/html", ERR_UNSUPPORTED},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[]}", OCI_TYPE_MANIFEST "x",
		 ERR_UNSUPPORTED},
		{"{\"schemaVersion\":2,\"mediaType\":\"" OCI_TYPE_INDEX "\"," CONFIG
		 ",\"layers\":[]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2,\"mediaType\":7," CONFIG ",\"layers\":[]}", NULL,
		 ERR_PROTOCOL},
		{"{\"schemaVersion\":2,\"layers\":[" LAYER "]}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG "}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":{}}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[7]}", NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[],\"layers\":[]}", NULL,
		 ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[{\"digest\":\"sha256:" A "\"}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[{\"digest\":\"sha256:" A
		 "\",\"size\":-1}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[{\"digest\":\"sha256:" A
		 "\",\"size\":9223372036854775807}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[{\"digest\":\"sha256:" A
		 "\",\"size\":1e3}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG
		 ",\"layers\":[{\"digest\":\"sha256:../../x\",\"size\":1}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2," CONFIG ",\"layers\":[{\"digest\":\"md5:" A
		 "\",\"size\":1}]}",
		 NULL, ERR_PROTOCOL},
		{"{\"schemaVersion\":2,\"config\":{\"mediaType\":"
		 "\"application/vnd.cncf.helm.config.v1+json\",\"digest\":\"sha256:" A
		 "\",\"size\":1},\"layers\":[]}",
		 NULL, ERR_UNSUPPORTED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		printf("# %s\n", cases[i].text);
		CHECK(parse(cases[i].text, cases[i].type) < 0);
		CHECK_EQ(e.kind, cases[i].kind);
	}
}

TEST(too_much_is_refused)
{
	struct buf b;

	buf_init(&b, 8 << 20);
	buf_append_str(&b, "{\"schemaVersion\":2," CONFIG ",\"layers\":[" LAYER);
	for (unsigned i = 0; i < OCI_LAYERS_MAX; i++)
		buf_append_str(&b, "," LAYER);
	buf_append_str(&b, "]}");
	CHECK_EQ(parse(buf_cstr(&b), NULL), -E2BIG);
	CHECK_EQ(e.kind, ERR_LIMIT);
	while (buf_len(&b) <= OCI_MANIFEST_MAX)
		buf_append_str(&b, "                                ");
	CHECK_EQ(parse(buf_cstr(&b), NULL), -EFBIG);
	buf_clear(&b);
	for (int i = 0; i < 100000; i++)
		buf_append_str(&b, "[");
	CHECK_EQ(parse(buf_cstr(&b), NULL), -EBADMSG);
	buf_done(&b);
}

TAP_MAIN
