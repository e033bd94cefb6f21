/*
 * Forms. However the bytes are cut, the same parts come; and what was written as a form is read as
 * the same names and the same bytes.
 */
#include "fuzz.h"

#include "../unit/multipart_script.h"

#include <errno.h>

enum { ROOM = 8 << 20, PARTS_MAX = 4, BYTEWISE_MAX = 2048 };

/* The first line is the Content-Type, the rest the body. */
static void check_cuts(struct input in, uint8_t how)
{
	const uint8_t *lf = in.n > 0 ? memchr(in.p, '\n', in.n) : NULL;
	size_t len = lf ? (size_t)(lf - in.p) : 0;
	char *type = strndup((const char *)in.p, len);
	struct buf whole, cut;

	MUST(type);
	in.p += lf ? len + 1 : 0;
	in.n -= lf ? len + 1 : 0;
	buf_init(&whole, ROOM);
	multipart_script(type, PARTS_MAX, in.p, in.n, SCRIPT_WHOLE, &whole);
	for (uint64_t seed = 1; seed < 5; seed++) {
		uint64_t cuts = seed == 1 && in.n <= BYTEWISE_MAX ? SCRIPT_BYTES : seed + 1 + how;

		buf_init(&cut, ROOM);
		multipart_script(type, PARTS_MAX, in.p, in.n, cuts, &cut);
		must_equal(&whole, &cut);
		buf_done(&cut);
	}
	buf_done(&whole);
	free(type);
}

static int write_form(struct buf *out, const struct multipart_part *part, const void *p, size_t n)
{
	int r = multipart_part_write(out, "b0undary", part);

	if (r < 0)
		return r;
	MUST(buf_append(out, p, n) == 0 && multipart_part_end_write(out) == 0);
	return multipart_end_write(out, "b0undary");
}

/* "name NUL filename NUL content"; the first byte says which are there. */
static void check_written(struct input in, uint8_t how)
{
	char *name = input_text(&in), *filename;
	struct multipart_part part = {.name = name};
	struct buf out, said, want;
	size_t len = strlen(name);
	int r;

	in.p += len < in.n ? len + 1 : in.n;
	in.n -= len < in.n ? len + 1 : in.n;
	filename = input_text(&in);
	len = strlen(filename);
	in.p += len < in.n ? len + 1 : in.n;
	in.n -= len < in.n ? len + 1 : in.n;
	part.filename = how & 1 ? filename : NULL;
	part.content_type = how & 2 ? "text/plain" : NULL;
	buf_init(&out, ROOM);
	buf_init(&said, ROOM);
	buf_init(&want, ROOM);
	r = write_form(&out, &part, in.p, in.n);
	MUST(r == 0 || (r == -EINVAL && buf_len(&out) == 0));
	/* Content that has the boundary, and heads that are too long for a reader, are the
	 * caller's to avoid. */
	if (r == 0 && !memmem(in.p, in.n, "b0undary", 8) &&
	    buf_len(&out) - in.n < MULTIPART_HEAD_MAX) {
		multipart_script("multipart/form-data; boundary=b0undary", 1, buf_data(&out),
				 buf_len(&out), how + 2u, &said);
		MUST(buf_printf(&want, "%s|%s|%s{", name, part.filename ? part.filename : "-",
				part.content_type ? part.content_type : "-") == 0);
		MUST(buf_append(&want, in.p, in.n) == 0 && buf_append_str(&want, "}.") == 0);
		must_equal(&said, &want);
	}
	buf_done(&out);
	buf_done(&said);
	buf_done(&want);
	free(name);
	free(filename);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	uint8_t how = input_byte(&in);

	check_cuts(in, how);
	check_written(in, how);
	return 0;
}
