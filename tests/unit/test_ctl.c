/* The words of cove-ctl: requests as lines, and what a box may ask. */
#include "base/str.h"
#include "tap.h"
#include "wire/ctl.h"

#include <errno.h>

static int parse(const char *p, size_t n, struct wire_ctl_line *ret)
{
	struct err e = {0};
	int r = wire_ctl_line_parse(p, n, ret, &e);

	CHECK(r == 0 || (r == -EINVAL && e.kind == ERR_INVALID && e.msg[0]));
	return r;
}

static void must_refuse(const char *text, size_t n)
{
	struct wire_ctl_line l;

	CHECK(parse(text, n, &l) < 0);
}

TEST(a_request_is_one_line)
{
	static const struct {
		const char *text, *name;
		enum wire_ctl_verb verb;
		bool json;
	} good[] = {
		{"info", "", WIRE_CTL_INFO, false},
		{"json info", "", WIRE_CTL_INFO, true},
		{"budget", "", WIRE_CTL_BUDGET, false},
		{"json budget", "", WIRE_CTL_BUDGET, true},
		{"snapshot before-tests", "before-tests", WIRE_CTL_SNAPSHOT, false},
		{"json snapshot json", "json", WIRE_CTL_SNAPSHOT, true},
		{"snapshot abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz012345",
		 WIRE_CTL_SNAPSHOT, false},
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		char text[CTL_LINE_MAX];
		struct wire_ctl_line l;
		size_t n;

		CHECK_EQ(parse(good[i].text, strlen(good[i].text), &l), 0);
		CHECK_EQ(l.verb, good[i].verb);
		CHECK_EQ(l.json, good[i].json);
		CHECK_STR(l.name, good[i].name);
		n = wire_ctl_line_format(&l, text);
		CHECK_EQ(n, strlen(good[i].text) + 1);
		CHECK_MEM(text, good[i].text, n - 1);
		CHECK_EQ(text[n - 1], '\n');
	}
}

TEST(anything_else_is_refused)
{
	static const char *const bad[] = {
		"",
		" ",
		"INFO",
		" info",
		"info ",
		"info x",
		"json",
		"json ",
		"json  info",
		"jsoninfo",
		"budget 1",
		"snapshot",
		"snapshot ",
		"snapshot  a",
		"snapshot a b",
		"snapshot ../x",
		"snapshot a/b",
		"snapshot .",
		"snapshot -a",
		"snapshot a-",
		"snapshot A",
		"snapshot deadbeef_a", /* another namespace */
		"snapshot a\tb",
		"snapshot a\rb",
		"snapshot \xc3\xa9",
		"info\r",
		"snapshot abcdefghijklmnopqrstuvwxyz0123456",
		"rollback a",
		"delete a",
	};
	char long_one[CTL_LINE_MAX + 8];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		must_refuse(bad[i], strlen(bad[i]));
	must_refuse("info\0", 5);
	must_refuse("snapshot a\0b", 12);
	must_refuse("info\ninfo", 9);
	memset(long_one, 'a', sizeof(long_one));
	must_refuse(long_one, sizeof(long_one));
	must_refuse(long_one, CTL_LINE_MAX);
}

TEST(what_a_box_may_ask)
{
	static const char *const bad[] = {
		",",
		"info,",
		",info",
		"info,info",
		"all",
		"info=1",
		"snapshot=0",
		"snapshot=",
		"snapshot=x",
		"snapshot=1001",
		"snapshot=-1",
		"info budget",
		"Info",
		"snapshot=1,snapshot",
		"info,budget,snapshot=10,info,budget,snapshot=10,info,budget,snapshot=10",
	};
	struct wire_ctl_set s;
	struct err e;

	CHECK_EQ(wire_ctl_set_parse(NULL, &s, &e), 0);
	CHECK(s.verbs == 0 && s.snapshots == 0);
	CHECK_EQ(wire_ctl_set_parse("", &s, &e), 0);
	CHECK_EQ(s.verbs, 0);
	CHECK_EQ(wire_ctl_set_parse("budget,info", &s, &e), 0);
	CHECK_EQ(s.verbs, 1u << WIRE_CTL_INFO | 1u << WIRE_CTL_BUDGET);
	CHECK_EQ(s.snapshots, 0);
	CHECK_EQ(wire_ctl_set_parse("snapshot", &s, &e), 0);
	CHECK_EQ(s.verbs, 1u << WIRE_CTL_SNAPSHOT);
	CHECK_EQ(s.snapshots, CTL_SNAPSHOTS);
	CHECK_EQ(wire_ctl_set_parse("info,budget,snapshot=1000", &s, &e), 0);
	CHECK_EQ(s.snapshots, 1000);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		e = (struct err){0};
		CHECK(wire_ctl_set_parse(bad[i], &s, &e) < 0);
		CHECK(e.kind == ERR_INVALID && s.verbs == 0);
	}
}

TAP_MAIN
