/* Connections through the proxy: judged, recorded, checked, dialled, cut. */
#include "door_rig.h"

#include "base/clock.h"

#include "base/limits.h"

#include <netinet/in.h>

static char policy[4096];

/* A policy whose one rule is for this port. */
static const char *with_port(const char *rule, unsigned port)
{
	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - name: the-rule\n    %s\n    ports: [%u]\n", rule, port);
	return policy;
}

static const char *seen_text(unsigned n)
{
	const char *s = buf_cstr(&rig.ids[n].data);

	return s ? s : "";
}

static bool is_over(unsigned n)
{
	struct seen *s = &rig.ids[n];

	return s->failed || s->cancelled;
}

TEST(an_allowed_connection_passes_bytes_and_both_ends)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	box_connect(1, "up.test", port);
	box_send(1, "hello", 5);
	UNTIL(rig.ids[1].bytes == 5);
	CHECK_STR(seen_text(1), "hello");
	CHECK(rig.ids[1].ok);
	box_eof(1);
	UNTIL(rig.ids[1].eof && rig_rows("done", "ok") == 1);
	CHECK_EQ(rig_rows("connect", "allow"), 1);
	CHECK_STR(rig_row("connect", "allow")->host, "up.test");
	CHECK_STR(rig_row("connect", "allow")->rule, "the-rule");
	CHECK_EQ(rig_row("done", "ok")->about, rig_row("connect", "allow")->seq);
	CHECK_EQ(rig_row("done", "ok")->up, 5);
	CHECK_EQ(rig_row("done", "ok")->down, 5);
	CHECK_STR(rig_row("done", "ok")->address, "127.0.0.1");
	CHECK_EQ(rig.door.conn_count, 0);
	CHECK_EQ(rig.door.bytes_up, 5 + strlen("up.test")); /* the name left as well */
	CHECK(!is_over(1));
}

TEST(what_no_rule_allows_is_refused_recorded_and_causes_no_lookup)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	box_connect(1, "other.test", port);
	box_connect(2, "up.test", port == 65535 ? 1 : port + 1);
	box_connect(3, "sub.up.test", port);
	box_connect(4, "up.test@other.test", port);
	box_connect(5, "", port);
	box_connect(6, "up.test", 0);
	box_connect(7, "up.test", 65536 + port);
	for (unsigned i = 1; i <= 7; i++) {
		UNTIL(rig.ids[i].failed);
		CHECK(!rig.ids[i].ok);
	}
	CHECK_EQ(rig.ids[1].error.kind, ERR_DENIED);
	CHECK(strstr(rig.ids[1].msg, "cove allow box other.test"));
	CHECK_EQ(rig.lookups, 0);
	CHECK_EQ(rig.denials, 7);
	CHECK_EQ(rig_rows("connect", "deny"), 7);
	CHECK_EQ(rig_rows("connect", "allow"), 0);
}

TEST(a_policy_that_cannot_be_read_lets_nothing_through)
{
	static const char *const broken[] = {"", "version: 1\nrules: [",
					     "rules:\n  - permit: up.test\n"};
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	for (unsigned i = 0; i < 3; i++) {
		rig_reload(broken[i]);
		box_connect(i + 1, "up.test", port);
		UNTIL(rig.ids[i + 1].failed);
		CHECK(rig.door.trouble.kind != ERR_NONE);
		CHECK(strstr(rig.ids[i + 1].msg, "nothing is let through"));
		CHECK(!strstr(rig.ids[i + 1].msg, rig.door.trouble.msg));
	}
	rig_reload(with_port("allow: up.test\n    private: true", port));
	box_connect(4, "up.test", port);
	UNTIL(rig.ids[4].ok);
}

TEST(a_private_address_needs_a_rule_that_says_so)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: [up.test, 127.0.0.1, \"::1\", 169.254.169.254]", port));
	box_connect(1, "up.test", port);
	box_connect(2, "127.0.0.1", port);
	box_connect(3, "::1", port);
	box_connect(4, "169.254.169.254", port);
	box_connect(5, "::ffff:127.0.0.1", port);
	for (unsigned i = 1; i <= 5; i++) {
		UNTIL(rig.ids[i].failed);
		CHECK_EQ(rig.ids[i].error.kind, ERR_DENIED);
		CHECK(!rig.ids[i].ok);
	}
	CHECK_EQ(rig_rows("connect", "deny"), 5);
}

TEST(an_address_in_another_spelling_of_a_private_one_is_private)
{
	static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1};
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test", port));
	rig.addrs[0].family = AF_INET6;
	memcpy(rig.addrs[0].addr, mapped, 16);
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.ids[1].error.kind, ERR_DENIED);
}

TEST(a_denied_network_holds_for_names_that_lead_there)
{
	unsigned port = upstream_start(UP_ECHO);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - {allow: up.test, ports: [%u], private: true}\n"
		 "  - {deny: 127.0.0.0/8, ports: any}\n",
		 port);
	rig_open(policy);
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.ids[1].error.kind, ERR_DENIED);
}

TEST(the_next_address_is_tried_where_one_refuses)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	rig.addrs[1] = rig.addrs[0];
	rig.addrs[0] = (struct resolved){AF_INET, {127, 9, 9, 9}};
	rig.addr_count = 2;
	box_connect(1, "up.test", port);
	box_send(1, "x", 1);
	UNTIL(rig.ids[1].bytes == 1);
}

static struct err dial_error;
static unsigned dial_answers;

static void on_dialled(struct dial *d, struct channel *up, struct err *e)
{
	CHECK(!up);
	dial_answers++;
	dial_error = *e;
}

/* A rule that came after it was checked holds for an address that is still to be tried. */
TEST(an_address_is_checked_right_before_it_is_dialled)
{
	unsigned port = upstream_start(UP_ECHO);
	struct dial d;

	rig_open("version: 1\nrules:\n  - {deny: 127.0.0.1, ports: any}\n");
	rig_settle();
	dial_init(&d, &rig.door);
	d.on_done = on_dialled;
	CHECK_EQ(host_parse(&d.host, "up.test"), 0);
	d.addrs = calloc(1, sizeof(*d.addrs));
	CHECK(d.addrs && host_parse(d.addrs, "127.0.0.1") == 0);
	d.port = (uint16_t)port;
	d.private = true;
	d.count = 1;
	/* The one before it did not answer in time. */
	d.timer.on_timer(&d.timer);
	CHECK_EQ(dial_answers, 1);
	CHECK_EQ(dial_error.kind, ERR_DENIED);
	dial_done(&d);
}

TEST(an_upstream_that_refuses_is_an_error_and_a_row)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: [up.test, nowhere.test]\n    private: true", port));
	rig.addrs[0] = (struct resolved){AF_INET, {127, 9, 9, 9}};
	box_connect(1, "up.test", port);
	box_connect(2, "nowhere.test", port);
	UNTIL(rig.ids[1].failed && rig.ids[2].failed);
	CHECK(rig.ids[1].error.kind != ERR_DENIED);
	CHECK_EQ(rig.ids[2].error.kind, ERR_NOT_FOUND);
	CHECK_EQ(rig_rows("connect", "allow"), 2);
	CHECK_EQ(rig_rows("done", "failed"), 2);
	CHECK_EQ(rig_rows("connect", "deny"), 0);
}

TEST(what_cannot_be_recorded_does_not_leave)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	rig.record_fails = true;
	box_connect(1, "up.test", port);
	box_name(2, "up.test");
	UNTIL(rig.ids[1].failed && rig.ids[2].failed);
	CHECK_EQ(rig.lookups, 0);
}

TEST(a_cancel_ends_it_in_every_state)
{
	unsigned port = upstream_start(UP_MUTE);

	rig_open(with_port("allow: up.test\n    private: true", port));
	box_connect(1, "up.test", port);
	box_cancel(1);
	box_connect(2, "up.test", port);
	UNTIL(rig.ids[2].ok);
	box_cancel(2);
	box_proxy(3);
	UNTIL(rig.ids[3].ok);
	box_cancel(3);
	box_cancel(99);
	UNTIL(rig.door.conn_count == 0);
	rig_settle();
	CHECK(!rig.ids[1].ok && !is_over(1) && !is_over(2) && !is_over(3));
}

TEST(names_are_judged_before_they_are_asked_for)
{
	rig_open("version: 1\nrules:\n  - allow: [up.test, nowhere.test]\n  - ask: asked.test\n");
	box_name(1, "up.test");
	box_name(2, "other.test");
	box_name(3, "nowhere.test");
	box_name(4, "asked.test");
	box_name(5, "127.0.0.1");
	box_name(6, "UP.test");
	UNTIL(rig.ids[1].ok && rig.ids[2].failed && rig.ids[3].failed && rig.ids[4].ok &&
	      rig.ids[5].failed && rig.ids[6].ok);
	CHECK_EQ(rig.ids[2].error.kind, ERR_DENIED);
	CHECK_EQ(rig.ids[3].error.kind, ERR_NOT_FOUND);
	CHECK_EQ(rig.lookups, 3);
	CHECK_EQ(rig.denials, 1);
	CHECK_STR(rig.denied, "other.test");
	CHECK_EQ(rig.denied_port, 0);
	CHECK(strstr(rig.denied_remedy, "cove allow box other.test"));
	CHECK_EQ(rig_rows("name", "deny"), 1);
	CHECK_EQ(rig_rows("name", "allow"), 3);
	CHECK_EQ(rig_rows("name", "ask"), 1);
}

TEST(a_new_policy_cuts_what_it_does_not_allow)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: [a.test, b.test]\n    private: true", port));
	box_connect(1, "a.test", port);
	box_connect(2, "b.test", port);
	box_send(1, "x", 1);
	box_send(2, "x", 1);
	UNTIL(rig.ids[1].bytes == 1 && rig.ids[2].bytes == 1);
	rig_reload(with_port("allow: b.test\n    private: true", port));
	UNTIL(is_over(1));
	CHECK_EQ(rig.door.cut, 1);
	box_send(2, "y", 1);
	UNTIL(rig.ids[2].bytes == 2);
	CHECK_EQ(rig_rows("done", "cut"), 1);
	/* The same name, but no longer a private address. */
	rig_reload(with_port("allow: b.test", port));
	UNTIL(is_over(2));
}

TEST(a_byte_budget_cuts)
{
	unsigned port = upstream_start(UP_FLOOD);

	rig_open(with_port("allow: up.test\n    private: true\n    bytes_down: 100KiB", port));
	box_connect(1, "up.test", port);
	UNTIL(is_over(1));
	CHECK_EQ(rig.ids[1].bytes, 100u << 10);
	CHECK_EQ(rig_rows("done", "cut"), 1);
}

TEST(a_byte_budget_that_is_used_up_lets_nothing_out)
{
	static const char data[3000];
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true\n    bytes_up: 4KiB", port));
	box_connect(1, "up.test", port);
	box_send(1, data, sizeof(data));
	UNTIL(rig.ids[1].bytes == sizeof(data));
	for (unsigned i = 2; i <= 4; i++) {
		box_connect(i, "up.test", port);
		box_send(i, data, sizeof(data));
		UNTIL(is_over(i));
		CHECK_EQ(rig.door.bytes_up, 4096);
	}
}

TEST(the_box_has_a_byte_cap_of_its_own)
{
	unsigned port = upstream_start(UP_FLOOD);

	rig_open(with_port("allow: up.test\n    private: true", port));
	rig.door.config.bytes_max = 100 << 10;
	box_connect(1, "up.test", port);
	UNTIL(is_over(1));
	box_connect(2, "up.test", port);
	UNTIL(rig.ids[2].failed);
	CHECK_EQ(rig.ids[2].error.kind, ERR_LIMIT);
}

TEST(connections_at_once_are_capped)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	rig.door.config.conns_max = 2;
	for (unsigned i = 1; i <= 3; i++)
		box_connect(i, "up.test", port);
	UNTIL(rig.ids[1].ok && rig.ids[2].ok && rig.ids[3].failed);
	CHECK_EQ(rig.ids[3].error.kind, ERR_LIMIT);
	box_eof(1);
	UNTIL(rig.ids[1].eof && rig.door.conn_count == 1);
	box_connect(4, "up.test", port);
	UNTIL(rig.ids[4].ok);
}

TEST(a_rate_is_taken_from)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true\n    rate: 2/h", port));
	for (unsigned i = 1; i <= 3; i++)
		box_connect(i, "up.test", port);
	UNTIL(rig.ids[1].ok && rig.ids[2].ok && rig.ids[3].failed);
	CHECK_EQ(rig.ids[3].error.kind, ERR_LIMIT);
}

TEST(a_name_that_is_asked_for_outside_takes_from_rate_and_bytes)
{
	unsigned port = upstream_start(UP_ECHO);
	char text[256];

	snprintf(text, sizeof(text),
		 "version: 1\nrules:\n  - allow: \"*.up.test\"\n    ports: [%u]\n"
		 "    private: true\n    rate: 2/h\n",
		 port);
	rig_open(text);
	box_name(1, "a.up.test");
	UNTIL(rig.ids[1].ok);
	/* It has paid for its connection. */
	box_connect(2, "a.up.test", port);
	UNTIL(rig.ids[2].ok);
	box_name(3, "b.up.test");
	UNTIL(rig.ids[3].ok);
	box_name(4, "c.up.test");
	UNTIL(rig.ids[4].failed);
	CHECK_EQ(rig.ids[4].error.kind, ERR_LIMIT);
	CHECK(strstr(rig_row("name", "deny")->reason, "rate"));
	box_connect(5, "b.up.test", port);
	UNTIL(rig.ids[5].ok);
	box_connect(6, "b.up.test", port);
	UNTIL(rig.ids[6].failed);
	/* What is known already costs nothing. */
	rig.knows = true;
	box_name(7, "a.up.test");
	UNTIL(rig.ids[7].ok);
	rig_close();

	rig_open("version: 1\nrules:\n  - allow: \"*.up.test\"\n    bytes_up: 20\n");
	box_name(1, "abcd.up.test");
	UNTIL(rig.ids[1].ok);
	box_name(2, "efgh.up.test");
	UNTIL(rig.ids[2].failed);
	CHECK_EQ(rig.lookups, 1);
	CHECK_EQ(rig.door.bytes_up, strlen("abcd.up.test"));
}

TEST(a_name_on_its_way_is_judged_by_a_new_policy)
{
	struct wire_name m = {.name = "a.test"};

	rig_open("version: 1\nrules:\n  - allow: a.test\n");
	name_start(&rig.door, RIG_ID(1), &m);
	policy_free(rig.door.policy);
	rig.door.policy = policy_closed();
	names_judge_again(&rig.door);
	UNTIL(rig.ids[1].failed);
	CHECK_EQ(rig.lookups, 0);
	CHECK_EQ(rig_rows("name", "deny"), 1);
}

TEST(what_was_used_outlives_a_policy_that_cannot_be_read)
{
	unsigned port = upstream_start(UP_ECHO);
	char text[256];

	snprintf(text, sizeof(text),
		 "version: 1\nbytes: 100\nrules:\n  - allow: up.test\n    ports: [%u]\n"
		 "    private: true\n    rate: 1/h\n    bytes_up: 50\n",
		 port);
	rig_open(text);
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	box_send(1, "ping", 4);
	UNTIL(rig.ids[1].bytes == 4);
	rig_reload("nonsense");
	rig_reload(text);
	box_connect(2, "up.test", port);
	UNTIL(rig.ids[2].failed);
	CHECK(strstr(rig.ids[2].msg, "rate"));
	CHECK_EQ(rig.used.count, 2);
	CHECK_EQ(rig.used.lines[1].up + rig.used.lines[0].up, 2 * (4 + strlen("up.test")) + 4);
}

TEST(hundreds_at_once)
{
	unsigned port = upstream_start(UP_ECHO), done = 0;

	rig_open(with_port("allow: up.test\n    private: true", port));
	for (unsigned i = 1; i <= 300; i++) {
		box_connect(i, "up.test", port);
		box_send(i, "ping", 4);
	}
	for (unsigned i = 1; i <= 300; i++)
		UNTIL(rig.ids[i].bytes == 4);
	CHECK_EQ(rig.door.conn_count, 300);
	for (unsigned i = 1; i <= 300; i++)
		box_eof(i);
	UNTIL(rig.door.conn_count == 0);
	for (unsigned i = 1; i <= 300; i++)
		done += rig.ids[i].eof && !is_over(i);
	CHECK_EQ(done, 300);
}

TEST(verbs_answer)
{
	unsigned port = upstream_start(UP_ECHO);
	struct wire_door_status status;
	struct wire_cut cut;
	char pattern[32];

	snprintf(pattern, sizeof(pattern), "b.test:%u", port);
	rig_open(with_port("allow: a.test\n    private: true", port));
	box_verb("status", NULL, NULL, NULL, NULL);
	UNTIL(rig.verb_ok == 1 && rig.says == 1);
	CHECK_EQ(wire_door_status_decode(&rig.said, &status), 0);
	CHECK(status.running && status.connections == 0);
	box_verb("reload", NULL, NULL, NULL, NULL);
	UNTIL(rig.verb_ok == 2 && rig.says == 2);
	CHECK_EQ(wire_cut_decode(&rig.said, &cut), 0);
	CHECK_EQ(cut.connections, 0);
	box_verb("once", "allow", pattern, NULL, NULL);
	UNTIL(rig.verb_ok == 3);
	CHECK_STR(rig_row("grant", "allow")->by, "tester");
	box_verb("once", "maybe", pattern, NULL, NULL);
	box_verb("nothing", NULL, NULL, NULL, NULL);
	box_verb("answer", "1", "allow", NULL, NULL);
	UNTIL(rig.verb_failed == 3);
	rig.grants = "allow 0 c.test\nnonsense\n";
	box_verb("reload", NULL, NULL, NULL, NULL);
	UNTIL(rig.verb_failed == 4);
	CHECK(rig.door.trouble.kind != ERR_NONE);
}

TEST(who_changed_what_is_recorded)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: a.test", port));
	CHECK_STR(rig_row("policy", "allow")->by, "");
	CHECK(strncmp(rig_row("policy", "allow")->reason, "sha256:", 7) == 0);
	box_verb("reload", "policy", NULL, NULL, NULL);
	UNTIL(rig.verb_ok == 1);
	CHECK_EQ(rig_rows("policy", "allow"), 2);
	CHECK_STR(rig_row("policy", "allow")->by, "tester");
	rig.grants = "allow 0 b.test\n";
	box_verb("reload", "allow", "b.test", NULL, NULL);
	UNTIL(rig.verb_ok == 2);
	CHECK_STR(rig_row("grant", "allow")->host, "b.test");
	CHECK_STR(rig_row("grant", "allow")->by, "tester");
	CHECK_STR(rig_row("grant", "allow")->reason, "");
	box_verb("reload", "deny", "c.test:25", "for", "60000");
	UNTIL(rig.verb_ok == 3);
	CHECK_STR(rig_row("grant", "deny")->host, "c.test:25");
	CHECK_STR(rig_row("grant", "deny")->reason, "for 60 s");
	CHECK_EQ(rig_rows("policy", "allow"), 2);
	box_verb("reload", "maybe", NULL, NULL, NULL);
	box_verb("reload", "allow", NULL, NULL, NULL);
	box_verb("reload", "allow", "c.test", "for", "ever");
	UNTIL(rig.verb_failed == 3);
	/* What cannot be read is said as well as what was tried. */
	rig.grants = "nonsense\n";
	box_verb("reload", "allow", "d.test", NULL, NULL);
	UNTIL(rig.verb_failed == 4);
	CHECK_STR(rig_row("grant", "allow")->host, "d.test");
	CHECK_STR(rig_row("policy", "deny")->by, "tester");
}

/* What a grant let in goes when its time is over, where nothing else allows it. */
TEST(a_grant_for_a_while_ends_with_it)
{
	unsigned port = upstream_start(UP_ECHO);
	char text[256], grants[256];

	snprintf(text, sizeof(text),
		 "version: 1\nrules:\n  - {allow: b.test, ports: [%u], private: true}\n", port);
	rig_open(text);
	snprintf(grants, sizeof(grants),
		 "allow %llu 127.0.0.1:%u\nallow %llu b.test:%u\nallow 99999999999999 c.test\n",
		 (unsigned long long)clock_wall_ms() + 400, port,
		 (unsigned long long)clock_wall_ms() + 400, port);
	rig.grants = grants;
	rig_reload(text);
	box_connect(1, "127.0.0.1", port);
	box_send(1, "x", 1);
	UNTIL(rig.ids[1].bytes == 1);
	UNTIL(rig.ids[1].cancelled);
	CHECK(strstr(rig_row("done", "cut")->reason, "any more"));
	box_connect(2, "b.test", port);
	box_send(2, "x", 1);
	UNTIL(rig.ids[2].bytes == 1);
}

/* Live words outlive a reload: those for once, what they let in, and answers that hold. */
TEST(what_was_said_live_survives_another_grant)
{
	unsigned port = upstream_start(UP_ECHO);
	char pattern[64];

	snprintf(pattern, sizeof(pattern), "127.0.0.1:%u", port);
	rig_open(with_port("ask: up.test\n    private: true", port));
	box_verb("once", "allow", pattern, NULL, NULL);
	UNTIL(rig.verb_ok == 1);
	box_connect(1, "127.0.0.1", port);
	UNTIL(rig.ids[1].ok);
	box_verb("once", "allow", pattern, NULL, NULL);
	box_connect(2, "up.test", port);
	UNTIL(rig_rows("ask", "ask") == 1 && rig.verb_ok == 2);
	box_verb("answer", "1", "allow", "for", "600000");
	UNTIL(rig.ids[2].ok);
	rig.grants = "allow 0 b.test\nallow 99999999999999 c.test\n";
	box_verb("reload", "allow", "b.test", NULL, NULL);
	UNTIL(rig.verb_ok == 4);
	CHECK_EQ(rig.door.cut, 0);
	/* The second one for once is still there, and is one. */
	box_connect(3, "127.0.0.1", port);
	UNTIL(rig.ids[3].ok);
	box_connect(4, "127.0.0.1", port);
	UNTIL(rig.ids[4].failed);
	box_connect(5, "up.test", port);
	UNTIL(rig.ids[5].ok);
	CHECK_EQ(rig_rows("ask", "ask"), 1);
	/* Another policy ends what only those let in; the answer holds as long as a rule asks. */
	rig.grants = NULL;
	box_verb("once", "allow", pattern, NULL, NULL);
	box_verb("reload", "policy", NULL, NULL, NULL);
	UNTIL(rig.verb_ok == 6);
	CHECK_EQ(rig.door.cut, 2);
	box_connect(6, "127.0.0.1", port);
	UNTIL(rig.ids[6].failed);
	box_connect(7, "up.test", port);
	UNTIL(rig.ids[7].ok);
	CHECK_EQ(rig_rows("ask", "ask"), 1);
}

/* The later word holds, also against one for once that is carried over. */
TEST(a_deny_stands_against_an_older_word_for_once)
{
	unsigned port = upstream_start(UP_ECHO);
	char pattern[64], grants[128];

	snprintf(pattern, sizeof(pattern), "127.0.0.1:%u", port);
	rig_open(with_port("allow: a.test", port));
	box_verb("once", "allow", pattern, NULL, NULL);
	UNTIL(rig.verb_ok == 1);
	snprintf(grants, sizeof(grants), "deny 0 %s\n", pattern);
	rig.grants = grants;
	box_verb("reload", "deny", pattern, NULL, NULL);
	UNTIL(rig.verb_ok == 2);
	box_connect(1, "127.0.0.1", port);
	UNTIL(rig.ids[1].failed);
}

/* By name, by address, and by the address that a name leads to. */
TEST(a_deny_for_once_is_for_one_connection)
{
	static const char *const aims[] = {"up.test", "127.0.0.1"};
	unsigned port = upstream_start(UP_ECHO);
	uint32_t id = 0;

	rig_open(with_port("allow: up.test\n    private: true", port));
	for (unsigned i = 0; i < 2; i++) {
		box_connect(++id, "up.test", port);
		UNTIL(rig.ids[id].ok);
		box_verb("once", "deny", aims[i], NULL, NULL);
		UNTIL(rig.ids[id].cancelled && rig.verb_ok == i + 1);
		box_connect(++id, "up.test", port);
		UNTIL(rig.ids[id].failed);
		box_connect(++id, "up.test", port);
		UNTIL(rig.ids[id].ok);
	}
}

/* A grant for it would be refused. */
TEST(the_remedy_for_a_private_address_is_a_rule)
{
	unsigned port = upstream_start(UP_ECHO);

	rig_open(with_port("allow: up.test\n    private: true", port));
	box_connect(1, "127.0.0.1", port);
	UNTIL(rig.ids[1].failed);
	CHECK(strstr(rig_row("connect", "deny")->reason, "a rule for 127.0.0.1 with 'private: "));
	CHECK(!strstr(rig_row("connect", "deny")->reason, "cove allow"));
	CHECK(strstr(rig.denied_remedy, "private: true"));
	CHECK_EQ(rig.denied_port, port);
}

TEST(frames_that_break_the_protocol_end_the_door)
{
	unsigned port = upstream_start(UP_MUTE);

	rig_open(with_port("allow: up.test\n    private: true", port));
	box_connect(1, "up.test", port);
	UNTIL(rig.ids[1].ok);
	box_connect(1, "up.test", port);
	UNTIL(rig.link_closed);
}

TEST(a_box_that_sends_more_than_its_window_is_cut)
{
	static uint8_t block[WIRE_DATA_MAX];
	unsigned port = upstream_start(UP_MUTE);

	rig_open(with_port("ask: up.test\n    private: true", port));
	box_connect(1, "up.test", port);
	for (unsigned i = 0; i < WIRE_NET_WINDOW / WIRE_DATA_MAX; i++)
		box_send(1, block, sizeof(block));
	rig_settle();
	CHECK(!is_over(1));
	box_send(1, "x", 1);
	UNTIL(rig.ids[1].cancelled);
	CHECK_EQ(rig.door.conn_count, 0);
}

TAP_MAIN
