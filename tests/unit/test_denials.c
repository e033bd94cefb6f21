/* The list of a command's denials on the wire, and the table of reasons and remedies. */
#include "tap.h"

#include "store/denial.h"
#include "wire/denials.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct wire_denial one = {.host = "no.test",
				       .port = 443,
				       .method = "GET",
				       .reason = "no rule allows it",
				       .remedy = "cove allow b no.test",
				       .why = "unmatched",
				       .shared = true};

TEST(a_list_of_denials_there_and_back)
{
	struct wire_denial d = {.host = ""}, got;
	char text[DENIAL_TEXT_MAX];
	struct wire_list list;
	struct buf b;
	uint32_t pos = 0;

	buf_init(&b, DENIALS_BYTES_MAX);
	CHECK_EQ(wire_denials_add(&b, &one), 0);
	CHECK_EQ(wire_denials_add(&b, &one), 0); /* it has it already */
	CHECK_EQ(wire_denials_add(&b, &d), 0);
	list = wire_list_of(&b);
	CHECK_EQ(list.count, 2);
	CHECK(wire_denials_next(&list, &pos, text, &got));
	CHECK_STR(got.host, "no.test");
	CHECK_EQ(got.port, 443);
	CHECK_STR(got.method, "GET");
	CHECK_STR(got.reason, one.reason);
	CHECK_STR(got.remedy, one.remedy);
	CHECK_STR(got.why, one.why);
	CHECK(got.shared);
	CHECK(wire_denials_next(&list, &pos, text, &got));
	CHECK_STR(got.host, "");
	CHECK(!got.method && !got.remedy && !got.shared && !got.why);
	CHECK(!wire_denials_next(&list, &pos, text, &got));
	buf_done(&b);
}

TEST(no_more_than_so_many_denials_and_bytes)
{
	char host[DENIAL_TEXT_MAX];
	struct wire_denial d = {.host = host};
	struct buf b;
	int count = 0;

	buf_init(&b, DENIALS_BYTES_MAX);
	for (int i = 0; i < 3 * DENIALS_MAX; i++) {
		snprintf(host, sizeof(host), "host%d.test", i);
		count += wire_denials_add(&b, &d) == 0;
	}
	CHECK_EQ(count, DENIALS_MAX);
	buf_clear(&b);
	memset(host, 'a', sizeof(host));
	host[sizeof(host) - 1] = 0;
	CHECK_EQ(wire_denials_add(&b, &d), -ENOBUFS);
	for (count = 0; count < DENIALS_MAX; count++) {
		snprintf(host, sizeof(host), "%0600d", count);
		if (wire_denials_add(&b, &d) < 0)
			break;
	}
	CHECK(count > 0 && count < DENIALS_MAX);
	CHECK_EQ(wire_list_of(&b).count, count);
	buf_done(&b);
}

/* What a newer or broken keeper says: known fields are read, what is no denial is passed over. */
TEST(half_denials_are_passed_over)
{
	static const char *const items[] = {
		"",
		"host",
		"host\t1\tGET\treason\tremedy",
		"host\tx\tGET\treason\tremedy\t0",
		"host\t70000\tGET\treason\tremedy\t0",
		"host\t-1\tGET\treason\tremedy\t0",
		"host\t1\tGET\treason\tremedy\t2",
		"host\t1\tGET\treason\tremedy\t",
		"good\t1\t\treason\t\t0\tof the future\t",
	};
	char text[DENIAL_TEXT_MAX], large[2 * DENIAL_TEXT_MAX];
	struct wire_denial got;
	struct wire_list list;
	uint32_t pos = 0;
	struct buf b;

	buf_init(&b, 1 << 16);
	memset(large, '\t', sizeof(large));
	large[sizeof(large) - 1] = 0;
	CHECK_EQ(wire_list_add(&b, large), 0);
	for (size_t i = 0; i < sizeof(items) / sizeof(items[0]); i++)
		CHECK_EQ(wire_list_add(&b, items[i]), 0);
	list = wire_list_of(&b);
	CHECK(wire_denials_next(&list, &pos, text, &got));
	CHECK_STR(got.host, "good");
	CHECK_STR(got.reason, "reason");
	CHECK(!wire_denials_next(&list, &pos, text, &got));
	buf_done(&b);
}

static const char *remedy(enum denial why, const char *host, uint64_t port, size_t size)
{
	static char text[DENIAL_REMEDY_MAX];

	denial_remedy(&(struct denied){.why = why, .box = "b", .host = host, .port = port}, text,
		      size);
	return text;
}

TEST(remedies_work_or_are_not_said)
{
	char host[254];
	enum denial why;

	memset(host, 'a', sizeof(host));
	host[sizeof(host) - 1] = 0;
	CHECK_STR(remedy(DENIAL_UNMATCHED, "a.test", 443, 200),
		  "cove allow b a.test, or --allow a.test at its start");
	CHECK_STR(remedy(DENIAL_UNMATCHED, "a.test", 443, 30), "cove allow b a.test");
	CHECK_STR(remedy(DENIAL_UNMATCHED, "a.test", 0, 20), "cove allow b a.test");
	CHECK_STR(remedy(DENIAL_UNMATCHED, "a.test", 22, 24), "cove allow b a.test:22");
	CHECK_STR(remedy(DENIAL_UNMATCHED, "2001:db8::1", 22, 36), "cove allow b [2001:db8::1]:22");
	CHECK_STR(remedy(DENIAL_UNMATCHED, NULL, 22, 200), "");
	CHECK_STR(remedy(DENIAL_UNMATCHED, "a.test", 443, 10), "");
	CHECK_STR(remedy(DENIAL_UNMATCHED, host, 443, DENIAL_REMEDY_MAX), "");
	CHECK_STR(remedy(DENIAL_FORM, "a.test", 443, 200), "");
	for (unsigned i = 0; i < DENIAL_COUNT; i++) {
		const char *text = remedy((enum denial)i, "10.0.0.1", 80, DENIAL_REMEDY_MAX);

		/* A grant gives no private address. */
		CHECK(i == DENIAL_UNMATCHED || !strstr(text, "cove allow"));
		CHECK_EQ(strstr(text, "private: true") != NULL, i == DENIAL_PRIVATE);
		CHECK(strlen(remedy((enum denial)i, host, 80, DENIAL_REMEDY_MAX)) <
		      DENIAL_REMEDY_MAX);
		CHECK(denial_reason((enum denial)i)[0]);
		CHECK(denial_parse(denial_word((enum denial)i), &why));
		CHECK_EQ(why, i);
	}
	CHECK(!denial_parse("", &why));
	CHECK(!denial_parse(NULL, &why));
}
