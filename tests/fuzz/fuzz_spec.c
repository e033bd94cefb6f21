/*
 * A box's specification. The first byte chooses: a whole spec, which when it parses formats to a
 * text that parses to the same; or a mount as typed, whose parts lie within the text, and which, if
 * a spec with it passes the check, stays below the workspace unless it is absolute.
 */
#include "fuzz.h"

#include "base/path.h"
#include "store/spec.h"

static void check_spec(const struct input *in)
{
	char *text = input_text(in), *again;
	struct spec *s = calloc(2, sizeof(*s));
	struct buf one, two;
	struct err e = {0};

	buf_init(&one, SPEC_BYTES_MAX);
	buf_init(&two, SPEC_BYTES_MAX);
	MUST(s);
	if (spec_parse(&s[0], text, in->n, &e) == 0) {
		spec_check(&s[0], &e);
		MUST(spec_format(&s[0], &one) == 0);
		again = strdup(buf_cstr(&one));
		MUST(again && spec_parse(&s[1], again, buf_len(&one), &e) == 0);
		MUST(spec_format(&s[1], &two) == 0);
		must_equal(&one, &two);
		free(again);
	} else {
		MUST(e.kind != ERR_NONE && e.msg[0]);
	}
	buf_done(&one);
	buf_done(&two);
	free(s);
	free(text);
}

static void check_mount(const struct input *in)
{
	char *text = input_text(in);
	size_t n = strlen(text);
	struct spec *s = calloc(1, sizeof(*s));
	struct spec_mount m;
	struct err e = {0};

	MUST(s);
	if (spec_mount_parse(&m, text, &e) == 0) {
		MUST(m.src >= text && m.src <= text + n);
		MUST(m.dst >= text && m.dst <= text + n);
		MUST(!m.env || (m.env >= text && m.env <= text + n));
		*s = (struct spec){
			.name = "a", .image = "base", .wall = "native", .workspace = "a"};
		s->mounts[s->mount_count++] = m;
		if (spec_check(s, &e) == 0) {
			MUST(m.src[0] == '/' || path_is_safe_relative(m.src));
			MUST(m.dst[0] == '/' && path_is_safe_relative(m.dst + 1));
		}
	} else {
		MUST(e.kind != ERR_NONE && e.msg[0]);
	}
	free(s);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct input in = {p, n};
	char name[BOX_NAME_MAX + 1], *text;
	uint8_t what = input_byte(&in);

	if (what & 1)
		check_mount(&in);
	else
		check_spec(&in);
	text = input_text(&in);
	if (spec_session_name(NULL, text, name, NULL) == 0)
		MUST(strlen(name) == strlen("session-") + 16);
	free(text);
	return 0;
}
