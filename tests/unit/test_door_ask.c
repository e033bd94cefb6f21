/* Requests that a person decides. */
#include "door_rig.h"

#include "base/clock.h"
#include "base/limits.h"

static char policy[512];

static unsigned open_with(const char *more)
{
	unsigned port = upstream_start(UP_ECHO);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - {name: careful, ask: [a.test, b.test], ports: [%u], "
		 "private: true%s}\n",
		 port, more);
	rig_open(policy);
	return port;
}

/* What the door said last. */
static struct wire_ask said(void)
{
	struct wire_ask m;

	CHECK_EQ(wire_ask_decode(&rig.said, &m), 0);
	return m;
}

TEST(an_ask_waits_and_an_answer_lets_it_through)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	box_connect(2, "a.test", port);
	box_connect(3, "b.test", port);
	box_send(1, "x", 1);
	UNTIL(asks_count(&rig.door) == 2);
	rig_settle();
	CHECK(!rig.ids[1].ok && !rig.ids[1].failed);
	CHECK_EQ(rig.lookups, 0);
	box_verb("asks", NULL, NULL, NULL, NULL);
	UNTIL(rig.says == 2 && rig.verb_ok == 1);
	CHECK_STR(said().host, "b.test");
	CHECK_STR(said().rule, "careful");
	CHECK(!said().method && said().id == 2 && said().exec_id == 7);
	box_verb("answer", "1", "allow", NULL, NULL);
	UNTIL(rig.ids[1].bytes == 1 && rig.ids[2].ok);
	box_verb("answer", "2", "deny", NULL, NULL);
	UNTIL(rig.ids[3].failed);
	CHECK_EQ(rig.ids[3].error.kind, ERR_DENIED);
	CHECK_EQ(rig_rows("ask", "ask"), 2);
	CHECK_STR(rig_row("answer", "allow")->by, "tester");
	CHECK_STR(rig_row("answer", "deny")->by, "tester");
	CHECK_EQ(rig_row("answer", "allow")->about, 2);
	CHECK_EQ(asks_count(&rig.door), 0);
	/* That answer was for those who waited. */
	box_connect(4, "a.test", port);
	UNTIL(asks_count(&rig.door) == 1);
}

TEST(an_answer_may_hold_for_a_while_and_over_a_new_policy)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	UNTIL(asks_count(&rig.door) == 1);
	box_verb("answer", "1", "allow", "for", "3600000");
	UNTIL(rig.ids[1].ok);
	box_connect(2, "a.test", port);
	UNTIL(rig.ids[2].ok);
	rig_reload(policy);
	box_connect(3, "a.test", port);
	UNTIL(rig.ids[3].ok);
	CHECK(!rig.ids[1].cancelled && !rig.ids[2].cancelled);
	CHECK_EQ(rig_rows("ask", "ask"), 1);
}

/* It is over with its time for what it let in, too: that is asked anew, or cut. */
TEST(an_answer_for_a_while_ends_with_it)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	box_connect(2, "b.test", port);
	UNTIL(asks_count(&rig.door) == 2);
	box_verb("answer", "2", "allow", NULL, NULL);
	box_verb("answer", "1", "allow", "for", "300");
	UNTIL(rig.ids[1].ok && rig.ids[2].ok);
	CHECK_STR(said().host, "a.test");
	UNTIL(rig.ids[1].cancelled);
	CHECK(strstr(rig_row("done", "cut")->reason, "any more"));
	/* One for those who waited has no end but theirs. */
	rig_settle();
	CHECK(!rig.ids[2].cancelled);
	box_connect(3, "a.test", port);
	UNTIL(asks_count(&rig.door) == 1);
}

static uint64_t clock_ms; /* added to the time */

static uint64_t fake_clock(void *arg)
{
	return clock_mono_ms() + clock_ms;
}

static void on_nothing(struct ask_wait *w, bool allowed, const char *by)
{
}

static void ask_for(struct ask_wait *w, const char *path, const char *query,
		    const struct rule *rule)
{
	struct ask_what what = {.host = "a.test",
				.port = 443,
				.method = "GET",
				.path = path,
				.query = query,
				.rule = rule};

	*w = (struct ask_wait){.on_answer = on_nothing};
	CHECK_EQ(ask_start(&rig.door, w, &what), 0);
}

TEST(what_differs_in_its_query_or_its_rule_is_another_question)
{
	struct rule one = {.name = "one"}, two = {.name = "two"};
	struct ask_wait w[7];

	open_with("");
	ask_for(&w[0], "/x", "a=1", &one);
	ask_for(&w[1], "/x", "a=1", &one);
	CHECK_EQ(asks_count(&rig.door), 1);
	ask_for(&w[2], "/x", "a=2", &one);
	ask_for(&w[3], "/x", NULL, &one);
	CHECK_EQ(asks_count(&rig.door), 3);
	ask_for(&w[4], "/x", "a=1", &two);
	CHECK_EQ(asks_count(&rig.door), 4);
	box_verb("asks", NULL, NULL, NULL, NULL);
	UNTIL(rig.says == 4 && rig.verb_ok == 1);
	CHECK_STR(said().query, "a=1");
	/* An answer that holds is one rule's, and for the request that was shown. */
	box_verb("answer", "1", "allow", "for", "3600000");
	UNTIL(asks_count(&rig.door) == 3);
	ask_for(&w[0], "/y", NULL, &two);
	CHECK_EQ(asks_count(&rig.door), 4);
	ask_for(&w[1], "/y", "a=1", &one);
	CHECK_EQ(asks_count(&rig.door), 5);
	ask_for(&w[5], "/x", "a=3", &one);
	ask_for(&w[6], "/x", "a=1", &one);
	CHECK_EQ(asks_count(&rig.door), 5);
	rig_close(); /* w is in it */
}

TEST(a_question_as_long_as_can_be_is_shown_cut)
{
	static char path[60000];
	struct ask_wait w[2];

	memset(path, '\\', sizeof(path) - 1);
	path[0] = '/';
	open_with("");
	ask_for(&w[0], path, path + 1, NULL);
	ask_for(&w[1], "/short", NULL, NULL);
	box_verb("asks", NULL, NULL, NULL, NULL);
	UNTIL(rig.verb_ok + rig.verb_failed == 1);
	CHECK_EQ(rig.verb_ok, 1);
	CHECK_EQ(rig.says, 2);
	rig_close(); /* w is in it */
}

TEST(an_ask_that_nobody_answers_is_denied)
{
	unsigned port = open_with(", ask_timeout: 1m");

	ev_set_clock(rig.door.ev, fake_clock, NULL);
	box_connect(1, "a.test", port);
	UNTIL(asks_count(&rig.door) == 1);
	clock_ms += 50000;
	rig_settle();
	CHECK(!rig.ids[1].failed);
	clock_ms += 11000;
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.ids[1].error.kind, ERR_DENIED);
	CHECK_EQ(rig_rows("answer", "deny"), 1);
	CHECK_EQ(rig_rows("connect", "deny"), 1);
}

TEST(who_gives_up_waits_no_more_and_the_last_takes_the_question_along)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	box_connect(2, "a.test", port);
	UNTIL(rig.door.conn_count == 2);
	box_cancel(1);
	UNTIL(rig.door.conn_count == 1);
	box_verb("asks", NULL, NULL, NULL, NULL);
	UNTIL(rig.verb_ok == 1);
	CHECK_EQ(rig.says, 1);
	CHECK_EQ(said().requests, 1);
	box_cancel(2);
	UNTIL(rig.door.conn_count == 0);
	CHECK_EQ(asks_count(&rig.door), 0);
	CHECK_STR(rig_row("answer", "cut")->reason, "the box gave it up");
	box_verb("answer", "1", "allow", NULL, NULL);
	UNTIL(rig.verb_failed == 1);
	CHECK_EQ(rig.lookups, 0);
}

TEST(who_says_all_and_closes_is_not_sent_for_later)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	box_send(1, "POST / HTTP/1.0\r\n\r\n", 19);
	UNTIL(asks_count(&rig.door) == 1);
	box_eof(1);
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.door.conn_count, 0);
	CHECK_EQ(asks_count(&rig.door), 0);
	CHECK_STR(rig_row("answer", "cut")->reason, "the box gave it up");
	/* One whose end came before the question is no better. */
	box_connect(2, "a.test", port);
	box_send(2, "x", 1);
	box_eof(2);
	UNTIL(rig.ids[2].failed);
	CHECK_EQ(rig.lookups, 0);
	CHECK_EQ(rig_rows("connect", "allow"), 0);
}

TEST(what_is_cut_by_a_deny_is_asked_no_more)
{
	unsigned port = open_with("");

	box_connect(1, "a.test", port);
	box_connect(2, "b.test", port);
	UNTIL(asks_count(&rig.door) == 2);
	box_verb("once", "deny", "a.test", NULL, NULL);
	UNTIL(rig.ids[1].failed && rig.verb_ok == 1);
	CHECK_EQ(asks_count(&rig.door), 1);
	CHECK(!rig.ids[2].failed);
}

TEST(a_new_policy_decides_what_was_asked)
{
	unsigned port = open_with("");
	char text[512];

	box_connect(1, "a.test", port);
	box_connect(2, "b.test", port);
	UNTIL(asks_count(&rig.door) == 2);
	snprintf(text, sizeof(text),
		 "version: 1\nrules:\n  - {allow: a.test, ports: [%u], private: true}\n", port);
	rig_reload(text);
	UNTIL(rig.ids[1].ok && rig.ids[2].failed);
}

TEST(there_are_only_so_many_asks)
{
	char host[32];

	rig_open("version: 1\nrules:\n  - {ask: \"*.test\", ports: any}\n");
	for (unsigned i = 1; i <= DOOR_ASKS_MAX + 1; i++) {
		snprintf(host, sizeof(host), "h%u.test", i);
		box_connect(i, host, 443);
	}
	UNTIL(rig.ids[DOOR_ASKS_MAX + 1].failed);
	CHECK_EQ(rig.ids[DOOR_ASKS_MAX + 1].error.kind, ERR_LIMIT);
	CHECK_EQ(asks_count(&rig.door), DOOR_ASKS_MAX);
}

TAP_MAIN
