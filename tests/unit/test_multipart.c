/* Forms of several parts, read in every cut, and written. */
#include "tap.h"

#include "base/err.h"
#include "base/limits.h"
#include "multipart_script.h"

enum { RANDOM_CUTS = 40, PARTS_MAX = 5 };

#define TYPE "multipart/form-data; boundary=B"

static void check_bytes(const char *type, const void *p, size_t n, const char *want)
{
	struct buf said;

	for (uint64_t cuts = 0; cuts <= SCRIPT_BYTES + RANDOM_CUTS; cuts++) {
		buf_init(&said, 4 << 20);
		multipart_script(type, PARTS_MAX, p, n, cuts, &said);
		CHECK_STR(buf_cstr(&said), want);
		buf_done(&said);
	}
}

static void check(const char *body, const char *want)
{
	check_bytes(TYPE, body, strlen(body), want);
}

#define PART(fields, content) "--B\r\n" fields "\r\n" content "\r\n"
#define FIELD(params)	      "Content-Disposition: form-data" params "\r\n"
#define A		      FIELD("; name=\"a\"")
#define END		      "--B--\r\n"

/* What the clients that people use send, byte for byte. */
TEST(uploads_of_known_clients)
{
	static const char e2b[] =
		"------formdata-undici-031867744558\r\n"
		"Content-Disposition: form-data; name=\"file\"; filename=\"hello.txt\"\r\n"
		"Content-Type: application/octet-stream\r\n"
		"\r\n"
		"Hello wire\n\r\n"
		"------formdata-undici-031867744558--\r\n";
	static const char daytona[] =
		"----------------------------a32c77084b1ae674f10f6ac9\r\n"
		"Content-Disposition: form-data; name=\"files[0].path\"\r\n"
		"\r\n"
		"hello.txt\r\n"
		"----------------------------a32c77084b1ae674f10f6ac9\r\n"
		"Content-Disposition: form-data; name=\"files[0].file\"; filename=\"hello.txt\"\r\n"
		"Content-Type: text/plain\r\n"
		"\r\n"
		"Hello daytona\n\r\n"
		"----------------------------a32c77084b1ae674f10f6ac9--\r\n\r\n";

	check_bytes("multipart/form-data; boundary=----formdata-undici-031867744558", e2b,
		    sizeof(e2b) - 1, "file|hello.txt|application/octet-stream{Hello wire\n}.");
	check_bytes(
		"multipart/form-data; boundary=--------------------------a32c77084b1ae674f10f6ac9",
		daytona, sizeof(daytona) - 1,
		"files[0].path|-|-{hello.txt}files[0].file|hello.txt|text/plain{Hello "
		"daytona\n}.");
}

TEST(contents)
{
	check(PART(A, "") END, "a|-|-{}.");
	check(PART(A, "x") PART(A, "y") "--B--", "a|-|-{x}a|-|-{y}.");
	check(PART(A, "\r\n") END, "a|-|-{\r\n}.");
	check(PART(A, "\r") END, "a|-|-{\r}.");
	check(PART(A, "\r\r\n-") END, "a|-|-{\r\r\n-}.");
	check(PART(A, "\r\n--") END, "a|-|-{\r\n--}.");
	check(PART(A, "\r\n--A\r\n--\r\n-\r\n--b--") END, "a|-|-{\r\n--A\r\n--\r\n-\r\n--b--}.");
	check(PART(A, "\n--B\n--B--\r--B") END, "a|-|-{\n--B\n--B--\r--B}.");
	check(PART(A, "--A") END, "a|-|-{--A}.");
	check(PART(A, "-") END, "a|-|-{-}.");
	check(PART(A, "x--B") END, "a|-|-{x--B}.");
}

TEST(long_content)
{
	enum { LENGTH = 70000 };
	char *p = malloc(LENGTH), *want = malloc(LENGTH);
	struct buf said;
	size_t n;

	n = (size_t)snprintf(p, LENGTH, "%s", "--B\r\n" A "\r\n");
	for (size_t i = n; i < LENGTH - 9; i++)
		p[i] = "\r\n--"[(i * i / 7) % 4];
	memcpy(p + LENGTH - 9, "\r\n--B--\r\n", 9);
	memcpy(want, p + n, LENGTH - 9 - n);
	want[LENGTH - 9 - n] = '\0';
	for (uint64_t cuts = 0; cuts < 12; cuts++) {
		buf_init(&said, 1 << 20);
		multipart_script(TYPE, 1, p, LENGTH, cuts, &said);
		CHECK_EQ(buf_len(&said), strlen(want) + strlen("a|-|-{}."));
		CHECK_MEM(buf_data(&said) + 6, want, strlen(want));
		buf_done(&said);
	}
	free(p);
	free(want);
}

TEST(what_is_around)
{
	check("preamble\r\n--A\r\n-\r\n" PART(A, "x") END "epilogue\r\n" PART(A, "y") END,
	      "a|-|-{x}.");
	check("\r\n" PART(A, "x") END, "a|-|-{x}.");
	check("-"
	      "\r\n" PART(A, "x") END,
	      "a|-|-{x}.");
	check("--"
	      "\r\n" PART(A, "x") END,
	      "a|-|-{x}.");
	check("\r"
	      "\r\n" PART(A, "x") END,
	      "a|-|-{x}.");
	/* A boundary that does not begin a line is none. */
	check("x" PART(A, "x") END, ".");
	check("--B--", ".");
	check("--B--\r\n", ".");
	check("", "cut");
	check("preamble", "cut");
	check("--B", "cut");
	check("--B-", "cut");
	check("--B\r\n", "cut");
	check("--B\r\n" A, "cut");
	check("--B--\r", "cut");
	check("--B\r\n" A "\r\nabc\r", "a|-|-{abccut");
	check("--B\r\n" A "\r\nabc\r\n--B", "a|-|-{abc}cut");
}

TEST(lines_of_boundaries)
{
	check("--B \r\n", "refused 400");
	check("--Bx", "refused 400");
	check("--B\n", "refused 400");
	check("--B\r\r", "refused 400");
	check("--B-x", "refused 400");
	check("--B--x", "refused 400");
	check("--B--\n", "refused 400");
	check("--B--\rx", "refused 400");
	check(PART(A, "x") "--Bx\r\n", "a|-|-{x}refused 400");
	check(PART(A, "x") "--B \r\n", "a|-|-{x}refused 400");
	/* A boundary where content begins. */
	check("--B\r\n" A "\r\n--B--\r\n", "a|-|-{refused 400");
	check("--B\r\n" A "\r\n--B\r\n" A "\r\n", "a|-|-{refused 400");
}

TEST(names)
{
	check(PART(FIELD("; name=a"), "") END, "a|-|-{}.");
	check(PART("CONTENT-DISPOSITION:Form-Data;NAME=\"a\"  ;\tFileName=\"\"\r\n", "") END,
	      "a||-{}.");
	check(PART(FIELD("; filename=\"b\"; x=y; name=\"a\""), "") END, "a|b|-{}.");
	check(PART(FIELD("; name=\"a;b=\\\"c\\\\\""), "") END, "a;b=\"c\\|-|-{}.");
	check(PART(FIELD("; name=\"\"; filename=\"C:\\dir\\f\""), "") END, "|C:\\dir\\f|-{}.");
	check(PART(FIELD("; name=\"%22\xc3\xa9\""), "") END, "%22\xc3\xa9|-|-{}.");
	check(PART(FIELD("; name=a; filename=\"/tmp/../x y\""), "") END, "a|/tmp/../x y|-{}.");
	check(PART(FIELD("; name=a; filename=\"b\"; filename*=UTF-8''%e2%82%ac+%2F"), "") END,
	      "a|\xe2\x82\xac+/|-{}.");
	check(PART(FIELD("; filename*=utf-8'en-GB'c%27; name=a; filename=b"), "") END, "a|c'|-{}.");
	check(PART(FIELD("; name=a; filename*=UTF-8''"), "") END, "a||-{}.");
}

TEST(names_that_are_wrong)
{
	static const char *const bad[] = {
		"",
		";",
		"; ",
		"; name",
		"; name=",
		"; =a",
		"; name=\"a",
		"; name=\"a\\\"",
		"; name=\"a\"x",
		"; name=\"a\" x",
		"; name = a",
		"; name= a",
		"; name=a b",
		"; name=a;",
		"; name=a,b",
		"; name=a\"b\"",
		"; filename=\"a\"",
		"name=a",
		"x; name=a",
		"; name=a; name=a",
		"; name=a; name=b",
		"; name=\xc3\xa9",
		"; name=a; filename=b; filename=b",
		"; name=a; filename*=UTF-8''b; filename*=UTF-8''b",
		"; name=a; filename*=b",
		"; name=a; filename*=UTF-8'b",
		"; name=a; filename*=ISO-8859-1''%e9",
		"; name=a; filename*=UTF-8''%e9",
		"; name=a; filename*=UTF-8''%00",
		"; name=a; filename*=UTF-8''%",
		"; name=a; filename*=UTF-8''%4",
		"; name=a; filename*=UTF-8''%zz",
		"; name=a; filename*=\"UTF-8''b\"",
		"; name=a; filename*=''b",
		"; name*=UTF-8''a",
	};
	char body[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(body, sizeof(body), PART(FIELD("%s"), "") END, bad[i]);
		check(body, "refused 400");
	}
	check(PART("Content-Disposition: attachment; name=a\r\n", "") END, "refused 400");
	check(PART(A A, "") END, "refused 400");
	check(PART("", "") END, "refused 400");
	check(PART("X: y\r\n", "") END, "refused 400");
}

TEST(heads)
{
	check(PART(A "Content-Type: text/plain; charset=utf-8\r\nX-Y: z\r\n", "x") END,
	      "a|-|text/plain; charset=utf-8{x}.");
	check(PART(A "Content-Transfer-Encoding: Binary\r\n", "x") END, "a|-|-{x}.");
	check(PART(A "Content-Transfer-Encoding: base64\r\n", "x") END, "refused 415");
	check(PART(A "Content-Transfer-Encoding: quoted-printable\r\n", "x") END, "refused 415");
	check(PART(A "Content-Type: a/b\r\nContent-Type: a/b\r\n", "x") END, "refused 400");
	check(PART(A " folded\r\n", "x") END, "refused 400");
	check(PART("X : y\r\n" A, "x") END, "refused 400");
	check(PART(A "no colon\r\n", "x") END, "refused 400");
	check(PART(A "X: a\rb\r\n", "x") END, "refused 400");
	check("--B\r\nContent-Disposition: form-data; name=a\n\r\n", "refused 400");
	check("--B\r\n" A "\n", "refused 400");
	check_bytes(TYPE, "--B\r\nX: \0\r\n\r\n", 13, "refused 400");
}

TEST(limits)
{
	struct buf body;

	check(PART(A, "1") PART(A, "2") PART(A, "3") PART(A, "4") PART(A, "5") END,
	      "a|-|-{1}a|-|-{2}a|-|-{3}a|-|-{4}a|-|-{5}.");
	check(PART(A, "1") PART(A, "2") PART(A, "3") PART(A, "4") PART(A, "5") PART(A, "6") END,
	      "a|-|-{1}a|-|-{2}a|-|-{3}a|-|-{4}a|-|-{5}refused 413");
	for (unsigned fields = MULTIPART_FIELDS_MAX; fields <= MULTIPART_FIELDS_MAX + 1; fields++) {
		buf_init(&body, 1 << 20);
		CHECK_EQ(buf_append_str(&body, "--B\r\n" A), 0);
		for (unsigned i = 1; i < fields; i++)
			CHECK_EQ(buf_append_str(&body, "X: y\r\n"), 0);
		CHECK_EQ(buf_append_str(&body, "\r\n\r\n" END), 0);
		check_bytes(TYPE, buf_data(&body), buf_len(&body),
			    fields > MULTIPART_FIELDS_MAX ? "refused 431" : "a|-|-{}.");
		buf_done(&body);
	}
	/* A head of just its maximum, of one byte more, and one without an end. */
	for (size_t more = 0; more < 3; more++) {
		size_t fill = MULTIPART_HEAD_MAX - strlen(A "X: \r\n\r\n") + more;

		buf_init(&body, 1 << 20);
		CHECK_EQ(buf_append_str(&body, "--B\r\n" A "X: "), 0);
		for (size_t i = 0; i < fill; i++)
			CHECK_EQ(buf_append(&body, "y", 1), 0);
		CHECK_EQ(buf_append_str(&body, more == 2 ? "yyyy" : "\r\n\r\n\r\n" END), 0);
		check_bytes(TYPE, buf_data(&body), buf_len(&body),
			    more ? "refused 431" : "a|-|-{}.");
		buf_done(&body);
	}
}

TEST(boundaries)
{
	static const char body[] = "--B\r\n" A "\r\n\r\n--B--";
	static const char *const good[] = {
		"multipart/form-data; boundary=\"B\"",
		"Multipart/Form-Data;BOUNDARY=B",
		"multipart/form-data ; charset=utf-8; boundary=B; x=\"a;b\"",
	};
	static const char *const bad[] = {
		"multipart/form-data",
		"multipart/form-data;",
		"multipart/form-data; boundary",
		"multipart/form-data; boundary=",
		"multipart/form-data; boundary=\"\"",
		"multipart/form-data; boundary=\"B",
		"multipart/form-data; boundary=\"B \"",
		"multipart/form-data; boundary=B; boundary=B",
		"multipart/form-data; boundary=B x",
		"multipart/form-data; boundary=a~b",
		"multipart/form-data; boundary=a@b",
		"multipart/form-data; boundary=\"a\\\\b\"",
		"multipart/form-data; boundary=\xc3\xa9",
	};
	static const char *const other[] = {
		"",
		"multipart/mixed; boundary=B",
		"multipart/form-data-x; boundary=B",
		"text/plain; x=\"multipart/form-data; boundary=B\"",
		"application/x-www-form-urlencoded",
		"multipart/form-data, boundary=B",
	};
	char type[256], longest[MULTIPART_BOUNDARY_MAX + 2], form[256];

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		check_bytes(good[i], body, sizeof(body) - 1, "a|-|-{}.");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_bytes(bad[i], body, sizeof(body) - 1, "refused 400");
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		check_bytes(other[i], body, sizeof(body) - 1, "refused 415");
	memset(longest, 'b', sizeof(longest));
	for (size_t n = MULTIPART_BOUNDARY_MAX; n <= MULTIPART_BOUNDARY_MAX + 1; n++) {
		snprintf(type, sizeof(type), "multipart/form-data; boundary=%.*s", (int)n, longest);
		snprintf(form, sizeof(form), "--%.*s--", (int)n, longest);
		check_bytes(type, form, strlen(form),
			    n > MULTIPART_BOUNDARY_MAX ? "refused 400" : ".");
	}
	check_bytes("multipart/form-data; boundary=\"a b'()+_,-./:=?\"", "--a b'()+_,-./:=?--", 19,
		    ".");
}

/* What has two types could be read as a form by one and as something else by another. */
TEST(two_types)
{
	struct http_field fields[] = {{"Content-Type", TYPE}, {"content-type", TYPE}};
	struct http_head h = {.method = "POST", .fields = fields, .field_count = 2};
	struct multipart m;
	struct err e = {0};

	CHECK_EQ(multipart_init(&m, &h, 1, &e), -EBADMSG);
	CHECK_EQ(e.code, 415);
	h.field_count = 0;
	CHECK_EQ(multipart_init(&m, &h, 1, &e), -EBADMSG);
	CHECK_EQ(e.code, 415);
}

/* The rest of a head is there for who wants it, while the part lasts. */
TEST(fields_of_a_part)
{
	static const char body[] = PART("X-Metadata-A: 1\r\n" A "Content-Type: b/c\r\n", "x") END;
	struct http_field type = {"Content-Type", TYPE};
	struct http_head h = {.method = "POST", .fields = &type, .field_count = 1};
	struct multipart_event event;
	struct multipart m;
	size_t used, at;

	CHECK_EQ(multipart_init(&m, &h, 1, NULL), 0);
	CHECK_EQ(multipart_feed(&m, body, sizeof(body) - 1, &at, &event, NULL), MULTIPART_PART);
	CHECK_EQ(event.part->field_count, 3);
	CHECK_STR(event.part->fields[0].name, "X-Metadata-A");
	CHECK_STR(event.part->fields[0].value, "1");
	CHECK_STR(event.part->content_type, "b/c");
	CHECK_EQ(multipart_feed(&m, body + at, sizeof(body) - 1 - at, &used, &event, NULL),
		 MULTIPART_DATA);
	CHECK(event.data == (const uint8_t *)body + at && event.len == 1);
	CHECK_STR(event.part->name, "a");
	CHECK_EQ(multipart_close(&m, NULL), -EBADMSG);
	multipart_done(&m);
}

/* ---- written ---- */

static struct buf out;

static int write_part(const char *name, const char *filename, const char *type)
{
	buf_done(&out);
	buf_init(&out, 1 << 16);
	return multipart_part_write(
		&out, "B",
		&(struct multipart_part){.name = name, .filename = filename, .content_type = type});
}

static void check_part(const char *name, const char *filename, const char *want)
{
	char all[512], said[512];

	CHECK_EQ(write_part(name, filename, NULL), 0);
	snprintf(all, sizeof(all), "--B\r\nContent-Disposition: form-data; %s\r\n\r\n", want);
	CHECK_STR(buf_cstr(&out), all);
	CHECK_EQ(buf_append_str(&out, "\r\nx"), 0);
	CHECK_EQ(multipart_part_end_write(&out), 0);
	CHECK_EQ(multipart_end_write(&out, "B"), 0);
	snprintf(said, sizeof(said), "%s|%s|-{\r\nx}.", name, filename ? filename : "-");
	check_bytes(TYPE, buf_data(&out), buf_len(&out), said);
}

TEST(writing)
{
	check_part("a", NULL, "name=\"a\"");
	check_part("", "", "name=\"\"; filename=\"\"");
	check_part("a\"\\", "b\\\"c;", "name=\"a\\\"\\\\\"; filename=\"b\\\\\\\"c;\"");
	check_part("\xc3\xa9", " x ", "name=\"\xc3\xa9\"; filename=\" x \"");
	check_part("a", "\xff", "name=\"a\"; filename=\"\xff\"");
	check_part("a", "x\r\nY: z\t\xc3\xa9\"",
		   "name=\"a\"; filename=\"x%0D%0AY: z%09\xc3\xa9\\\"\"; "
		   "filename*=UTF-8''x%0D%0AY%3A%20z%09%C3%A9%22");
	buf_done(&out);
}

/* As Daytona's own daemon answers a download. */
TEST(writing_a_download)
{
	static const struct http_field length = {"Content-Length", "14"};
	static const struct multipart_part part = {.name = "file",
						   .filename = "hello.txt",
						   .content_type = "application/octet-stream",
						   .fields = &length,
						   .field_count = 1};

	buf_init(&out, 1 << 16);
	CHECK_EQ(multipart_part_write(&out, "DAYTONA-FILE-BOUNDARY", &part), 0);
	CHECK_EQ(buf_append_str(&out, "Hello daytona\n"), 0);
	CHECK_EQ(multipart_part_end_write(&out), 0);
	CHECK_EQ(multipart_end_write(&out, "DAYTONA-FILE-BOUNDARY"), 0);
	CHECK_STR(buf_cstr(&out),
		  "--DAYTONA-FILE-BOUNDARY\r\n"
		  "Content-Disposition: form-data; name=\"file\"; filename=\"hello.txt\"\r\n"
		  "Content-Type: application/octet-stream\r\n"
		  "Content-Length: 14\r\n\r\n"
		  "Hello daytona\n\r\n"
		  "--DAYTONA-FILE-BOUNDARY--\r\n");
	CHECK_EQ(buf_len(&out), 197);
	buf_done(&out);
}

TEST(writing_what_cannot_be)
{
	static const struct http_field bad[] = {{"Content-Type", "a/b"},
						{"content_disposition", "x"},
						{"Content-Transfer-Encoding", "base64"},
						{"X", "a\r\nb"}};
	static const char *const boundaries[] = {"", "a b", "a\r\n", "a\"", "a;b", "a~", "a/b"};
	struct multipart_part part = {.name = "a"};
	char too_long[MULTIPART_BOUNDARY_MAX + 2];

	CHECK_EQ(write_part("a\n", NULL, NULL), -EINVAL);
	CHECK_EQ(write_part("a", "\x01\xff", NULL), -EINVAL);
	CHECK_EQ(write_part("a", NULL, "a\r\nb"), -EINVAL);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		part.fields = &bad[i];
		part.field_count = 1;
		CHECK_EQ(multipart_part_write(&out, "B", &part), -EINVAL);
	}
	part.field_count = 0;
	memset(too_long, 'b', sizeof(too_long));
	too_long[sizeof(too_long) - 1] = '\0';
	CHECK_EQ(multipart_part_write(&out, too_long, &part), -EINVAL);
	CHECK_EQ(multipart_end_write(&out, too_long), -EINVAL);
	for (size_t i = 0; i < sizeof(boundaries) / sizeof(boundaries[0]); i++) {
		CHECK_EQ(multipart_part_write(&out, boundaries[i], &part), -EINVAL);
		CHECK_EQ(multipart_end_write(&out, boundaries[i]), -EINVAL);
	}
	CHECK_EQ(buf_len(&out), 0);
	buf_done(&out);
	buf_init(&out, 20);
	CHECK_EQ(multipart_part_write(&out, "B", &part), -ENOBUFS);
	CHECK_EQ(buf_len(&out), 0);
	buf_done(&out);
}

TAP_MAIN
