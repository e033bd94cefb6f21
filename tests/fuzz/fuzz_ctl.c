/*
 * Requests of a box's own, and the setting that allows them. What parses as a request is written
 * out as the same bytes; a name has no byte that means something to a file system, a terminal or a
 * shell. A setting allows what its words say, and a request that is none is none with more behind.
 */
#include "fuzz.h"

#include "wire/ctl.h"

static void try_line(const uint8_t *p, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	struct wire_ctl_line l;
	char text[CTL_LINE_MAX];
	struct err e = {0};

	if (wire_ctl_line_parse((const char *)p, n, &l, &e) < 0) {
		MUST(e.kind == ERR_INVALID && e.msg[0]);
		return;
	}
	MUST(wire_ctl_line_format(&l, text) == n + 1 && text[n] == '\n');
	MUST(memcmp(text, p, n) == 0);
	MUST(strspn(l.name, plain) == strlen(l.name) && l.name[0] != '-');
	MUST((l.verb == WIRE_CTL_SNAPSHOT) == (l.name[0] != 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});
	struct wire_ctl_set s;
	struct err e = {0};

	try_line(p, n);
	if (wire_ctl_set_parse(text, &s, &e) < 0)
		MUST(e.kind == ERR_INVALID && s.verbs == 0);
	else
		MUST(s.verbs < 1u << WIRE_CTL_VERB_COUNT && s.snapshots <= CTL_SNAPSHOTS_MAX &&
		     (s.snapshots > 0) == (s.verbs >> WIRE_CTL_SNAPSHOT & 1));
	free(text);
	return 0;
}
