/* Dockerfiles, from tests/data/dockerfiles/forms: what is read, and which line an error names. */
#include "tap.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits_build.h"
#include "build/dockerfile.h"

#include <fcntl.h>
#include <stdio.h>

static char *read_data(const char *name)
{
	const char *dir = getenv("COVE_TEST_DATA");
	char path[512], *text;
	size_t len;

	if (!dir)
		SKIP("COVE_TEST_DATA does not say where tests/data is");
	snprintf(path, sizeof(path), "%s/dockerfiles/%s", dir, name);
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 1 << 20, &text, &len), 0);
	return text;
}

static void put_word(struct buf *b, const char *s)
{
	CHECK_EQ(buf_append(b, " [", 2), 0);
	for (; *s; s++) {
		if (*s == '\n' || *s == '\\')
			CHECK_EQ(buf_append(b, *s == '\n' ? "\\n" : "\\\\", 2), 0);
		else
			CHECK_EQ(buf_append(b, s, 1), 0);
	}
	CHECK_EQ(buf_append(b, "]", 1), 0);
}

/* As the data has it. */
static void show(struct buf *b, const struct dockerfile *d)
{
	for (size_t i = 0; i < d->count; i++) {
		const struct df_instruction *in = &d->list[i];

		CHECK_EQ(buf_printf(b, "%u %s", in->line, df_kind_name(in->kind)), 0);
		for (size_t k = 0; k < in->flags.count; k++)
			CHECK_EQ(buf_printf(b, " --%s", in->flags.list[k]), 0);
		if (in->is_json)
			CHECK_EQ(buf_append_str(b, " json"), 0);
		for (size_t k = 0; k < in->args.count; k++)
			put_word(b, in->args.list[k]);
		for (size_t k = 0; k < in->heredoc_count; k++) {
			CHECK_EQ(buf_printf(b, " <<%s%s", in->heredocs[k].name,
					    in->heredocs[k].expand ? " expand" : ""),
				 0);
			put_word(b, in->heredocs[k].text);
		}
		CHECK_EQ(buf_append_str(b, "\n"), 0);
	}
}

static void check_case(const char *name, char *text)
{
	char *want = strncmp(text, "---", 3) == 0 ? text : strstr(text, "\n---");
	struct dockerfile d;
	struct err e = {0};
	struct buf b;
	char kind[32] = "";
	unsigned line;
	int r;

	CHECK(want);
	want += *want == '\n';
	r = dockerfile_parse(&d, text, (size_t)(want - text), &e);
	printf("# %s%s%s\n", name, r < 0 ? ": " : "", r < 0 ? e.msg : "");
	if (sscanf(want, "--- error %u %31s", &line, kind) == 2) {
		char start[32];

		CHECK(r < 0);
		snprintf(start, sizeof(start), "line %u: ", line);
		CHECK(strncmp(e.msg, start, strlen(start)) == 0);
		CHECK_STR(err_kind_name(e.kind), kind);
		return;
	}
	CHECK_EQ(r, 0);
	buf_init(&b, 1 << 20);
	show(&b, &d);
	CHECK_STR(buf_cstr(&b), strchr(want, '\n') + 1);
	buf_done(&b);
	dockerfile_done(&d);
}

TEST(forms)
{
	char *text = read_data("forms"), *at = strstr(text, "\n=== ");
	unsigned count = 0;

	while (at) {
		char *name = at + 5, *body = strchr(name, '\n'), *next;

		*body++ = 0;
		next = strncmp(body, "=== ", 4) == 0 ? body - 1 : strstr(body, "\n=== ");
		if (next)
			next[1] = 0;
		check_case(name, body);
		if (next)
			next[1] = '=';
		at = next;
		count++;
	}
	CHECK(count > 30);
	free(text);
}

TEST(too_much)
{
	struct dockerfile d;
	struct err e = {0};
	size_t n = DOCKERFILE_MAX + 1;
	char *text = malloc(n);
	size_t len = 0;

	CHECK(text);
	memset(text, ' ', n);
	CHECK_EQ(dockerfile_parse(&d, text, n, &e), -E2BIG);
	for (unsigned i = 0; i < DOCKERFILE_STEPS_MAX + 1; i++, len += 7)
		memcpy(text + len, "FROM a\n", 7);
	CHECK_EQ(dockerfile_parse(&d, text, len, &e), -E2BIG);
	CHECK_EQ(dockerfile_parse(&d, text, len - 7, &e), 0);
	CHECK_EQ(d.count, DOCKERFILE_STEPS_MAX);
	dockerfile_done(&d);
	CHECK_EQ(dockerfile_parse(&d, "FROM\0a", 6, &e), -EINVAL);
	free(text);
}

TEST(bom_and_carriage_returns)
{
	static const char text[] = "\xef\xbb\xbf"
				   "FROM a\r\nRUN b \\\r\n c\r\nCOPY <<E d\r\nx\r\nE\r\n";
	struct dockerfile d;
	struct err e = {0};

	CHECK_EQ(dockerfile_parse(&d, text, sizeof(text) - 1, &e), 0);
	CHECK_EQ(d.count, 3);
	CHECK_STR(d.list[0].args.list[0], "a");
	CHECK_STR(d.list[1].args.list[0], "b  c");
	CHECK_STR(d.list[2].heredocs[0].text, "x\r\n");
	dockerfile_done(&d);
}

TAP_MAIN
