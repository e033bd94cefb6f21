/* What a box asks for itself, as its keeper answers; and what no honest init sends. */
#include "base/fd.h"
#include "keeper/ctl.h"
#include "keeper/saver.h"
#include "keeper_rig.h"
#include "tap.h"

#include <errno.h>
#include <sys/socket.h>

static const struct spec spec = {
	.name = "rig",
	.image = "base",
	.wall = "native",
	.workspace_dir = "/home/somebody/secret-project",
	.ctl = "info,budget,snapshot=3",
	.net = "balanced",
	.created_ms = 12345,
	.limits = {[LIMIT_MEM] = 1000, [LIMIT_DISK] = 500, [LIMIT_NET_BYTES] = 70},
};
static struct keeper_ctl ctl;
static int saver; /* our end of the socket that the keeper takes for the saver's */

static void on_stats(struct keeper *k, struct wire_stats *m)
{
	m->mem_bytes = 400;
	m->mem_limit_bytes = 1000;
	m->pids = 9;
	m->net_up_bytes = 60;
	m->net_down_bytes = 20;
}

static void on_budget(struct keeper *k, struct keeper_budget *b)
{
	b->ttl_left_ms = 77;
	b->own = (struct keeper_disk){true, 600, 500};
}

static void begin(struct rig *r, const char *may)
{
	struct err e;
	int pair[2];

	rig_init(r, true);
	ctl = (struct keeper_ctl){.spec = &spec, .on_budget = on_budget};
	CHECK_EQ(wire_ctl_set_parse(may, &ctl.may, &e), 0);
	r->k.ctl = &ctl;
	r->k.on_stats = on_stats;
	keeper_note(&r->k, "disk: /var/lib/cove is on a file system of the host");
	CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	saver = pair[0];
	CHECK_EQ(keeper_ctl_take_saver(&r->k, pair[1]), 0);
}

#define CTL_TEST(name, may)                                                           \
	TEST_IN(name, (struct rig * r), struct rig rig; begin(&rig, may); body(&rig); \
		keeper_ctl_done(&ctl); fd_close(&saver); rig_done(&rig);)

static void say(struct rig *r, uint32_t id, uint64_t verb, bool json, const char *name)
{
	struct wire_ctl m = {.verb = verb, .json = json, .name = name, .uid = 1000};

	CHECK_EQ(wire_ctl_encode(&r->init.out, id, 0, &m), 0);
}

static struct wire_ctl_answer hear(struct rig *r, uint32_t id)
{
	struct wire_frame f = peer_next(r, &r->init, WIRE_CTL);
	struct wire_ctl_answer m;

	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_ctl_answer_decode(&f, &m), 0);
	CHECK(m.text && m.text[0]);
	return m;
}

static bool has_line(const char *text, const char *line)
{
	const char *at = strstr(text, line);

	return at && (at == text || at[-1] == '\n') && at[strlen(line)] == '\n';
}

CTL_TEST(info_is_what_it_was_made_as, "info,budget")
{
	struct wire_ctl_answer a;

	say(r, 1, WIRE_CTL_INFO, false, NULL);
	a = hear(r, 1);
	CHECK_EQ(a.kind, 0);
	CHECK(has_line(a.text, "name rig") && has_line(a.text, "image base") &&
	      has_line(a.text, "wall native") && has_line(a.text, "network balanced"));
	CHECK(has_line(a.text, "mem_bytes 1000") && has_line(a.text, "pids none"));
	CHECK(has_line(a.text, "not_enforced disk_bytes"));
	/* Nothing of the host. */
	CHECK(has_line(a.text, "workspace a host directory"));
	CHECK(!strstr(a.text, "secret-project") && !strstr(a.text, "/var"));
	say(r, 2, WIRE_CTL_INFO, true, NULL);
	a = hear(r, 2);
	CHECK(strstr(a.text, "{\"name\":\"rig\",") == a.text && strstr(a.text, "\"pids\":null"));
}

CTL_TEST(budget_is_what_is_left, "info,budget")
{
	struct wire_ctl_answer a;

	say(r, 7, WIRE_CTL_BUDGET, false, NULL);
	a = hear(r, 7);
	CHECK_EQ(a.kind, 0);
	CHECK(has_line(a.text, "ttl_left_ms 77") && has_line(a.text, "idle_left_ms none"));
	CHECK(has_line(a.text, "mem_left_bytes 600") && has_line(a.text, "pids_left none"));
	/* Over it is none left. */
	CHECK(has_line(a.text, "disk_bytes 600") && has_line(a.text, "disk_left_bytes 0"));
	CHECK(has_line(a.text, "net_bytes 80") && has_line(a.text, "net_left_bytes 0"));
	CHECK(!strstr(a.text, "workspace"));
	say(r, 8, WIRE_CTL_BUDGET, true, NULL);
	CHECK(strstr(hear(r, 8).text, "\"idle_left_ms\":null"));
}

CTL_TEST(what_it_may_not_ask_is_denied, "info")
{
	struct wire_ctl_answer a;

	say(r, 1, WIRE_CTL_BUDGET, false, NULL);
	a = hear(r, 1);
	CHECK(a.kind == ERR_DENIED && a.code == EPERM);
	say(r, 2, WIRE_CTL_SNAPSHOT, false, "x");
	CHECK_EQ(hear(r, 2).kind, ERR_DENIED);
	CHECK_EQ(r->ends, 0);
}

CTL_TEST(asking_is_no_activity, "info")
{
	r->k.active_ms = 5;
	say(r, 1, WIRE_CTL_INFO, false, NULL);
	hear(r, 1);
	CHECK_EQ(r->k.active_ms, 5);
}

CTL_TEST(an_ending_box_says_so, "info")
{
	r->k.ending = true;
	say(r, 1, WIRE_CTL_INFO, false, NULL);
	CHECK_EQ(hear(r, 1).kind, ERR_CONFLICT);
}

CTL_TEST(a_flood_is_answered_and_refused, "info")
{
	unsigned refused = 0;

	for (uint32_t i = 1; i <= 5 * KEEPER_CTL_PER_S; i++)
		say(r, i, WIRE_CTL_INFO, false, NULL);
	for (uint32_t i = 1; i <= 5 * KEEPER_CTL_PER_S; i++)
		refused += hear(r, i).kind == ERR_LIMIT;
	CHECK(refused > 0);
	CHECK_EQ(r->ends, 0);
}

/* ---- snapshots ---- */

static void saver_says(struct rig *r, const struct saver_answer *a)
{
	CHECK_EQ(send(saver, a, sizeof(*a), 0), sizeof(*a));
	rig_run(r);
}

static char *events_of(struct rig *r)
{
	char *text = NULL;

	CHECK_EQ(fd_read_file(r->box_fd, "logs/events.jsonl", 1 << 20, &text, NULL), 0);
	return text;
}

CTL_TEST(a_snapshot_is_the_savers, "snapshot=3")
{
	struct saver_answer done = {
		.name = "rig-before", .frozen_us = 4500, .total_us = 9000, .left = 2};
	char asked[64] = "", *events;
	struct wire_ctl_answer a;

	say(r, 4, WIRE_CTL_SNAPSHOT, false, "before");
	rig_run(r);
	CHECK(recv(saver, asked, sizeof(asked), MSG_DONTWAIT) > 0);
	CHECK_STR(asked, "before");
	/* One at a time; the first goes on. */
	say(r, 5, WIRE_CTL_SNAPSHOT, false, "other");
	CHECK_EQ(hear(r, 5).kind, ERR_CONFLICT);
	CHECK(recv(saver, asked, sizeof(asked), MSG_DONTWAIT) < 0);
	saver_says(r, &done);
	a = hear(r, 4);
	CHECK_EQ(a.kind, 0);
	CHECK(has_line(a.text, "name rig-before") && has_line(a.text, "frozen_us 4500") &&
	      has_line(a.text, "snapshots_left 2"));
	events = events_of(r);
	CHECK(strstr(events, "\"event\":\"snapshot\"") && strstr(events, "rig-before") &&
	      strstr(events, "uid 1000 inside"));
	free(events);
	/* What comes unasked is nobody's. */
	saver_says(r, &done);
	CHECK(peer_silent(r, &r->init));
}

CTL_TEST(what_the_saver_refuses_is_passed_on, "snapshot=3")
{
	struct saver_answer no = {.error = {ERR_EXISTS, EEXIST, "there is one of that name"}};
	struct wire_ctl_answer a;

	say(r, 4, WIRE_CTL_SNAPSHOT, true, "before");
	rig_run(r);
	saver_says(r, &no);
	a = hear(r, 4);
	CHECK(a.kind == ERR_EXISTS && a.code == EEXIST);
	CHECK_STR(a.text, "there is one of that name");
}

/* The reason is the owner's. */
CTL_TEST(what_speaks_of_the_host_is_not, "snapshot=3")
{
	struct saver_answer no = {.error = {ERR_FULL, ENOSPC, "the disk of /var/lib/cove is full"}};
	struct wire_ctl_answer a;
	char *events;

	say(r, 4, WIRE_CTL_SNAPSHOT, false, "before");
	rig_run(r);
	saver_says(r, &no);
	a = hear(r, 4);
	CHECK(a.kind == ERR_FULL && a.code == ENOSPC && !strstr(a.text, "/var"));
	events = events_of(r);
	CHECK(strstr(events, "not made: the disk of /var/lib/cove is full"));
	free(events);
}

CTL_TEST(a_saver_that_is_gone_is_said, "snapshot=3")
{
	say(r, 4, WIRE_CTL_SNAPSHOT, false, "before");
	rig_run(r);
	fd_close(&saver);
	CHECK_EQ(hear(r, 4).kind, ERR_INTERNAL);
	say(r, 5, WIRE_CTL_SNAPSHOT, false, "before");
	CHECK_EQ(hear(r, 5).kind, ERR_INTERNAL);
	CHECK_EQ(r->ends, 0);
}

/* ---- what ends the box ---- */

static void must_break(struct rig *r)
{
	rig_run(r);
	CHECK_EQ(r->ends, 1);
	CHECK_STR(r->cause, "init broke the protocol");
}

#define BREAKS(name, ...)                      \
	CTL_TEST(name, "info,budget,snapshot") \
	{                                      \
		__VA_ARGS__;                   \
		must_break(r);                 \
	}

BREAKS(id_zero, say(r, 0, WIRE_CTL_INFO, false, NULL))
BREAKS(a_verb_that_is_none, say(r, 1, WIRE_CTL_VERB_COUNT, false, NULL))
BREAKS(a_huge_verb, say(r, 1, UINT64_MAX, false, NULL))
BREAKS(a_name_that_info_has_not, say(r, 1, WIRE_CTL_INFO, false, "x"))
BREAKS(a_snapshot_without_a_name, say(r, 1, WIRE_CTL_SNAPSHOT, false, NULL))
BREAKS(an_empty_name, say(r, 1, WIRE_CTL_SNAPSHOT, false, ""))
BREAKS(a_name_with_a_slash, say(r, 1, WIRE_CTL_SNAPSHOT, false, "a/b"))
BREAKS(a_name_with_dots, say(r, 1, WIRE_CTL_SNAPSHOT, false, ".."))
BREAKS(a_name_with_a_newline, say(r, 1, WIRE_CTL_SNAPSHOT, false, "a\nb"))
BREAKS(an_option_for_a_name, say(r, 1, WIRE_CTL_SNAPSHOT, false, "--force"))
BREAKS(a_long_name, say(r, 1, WIRE_CTL_SNAPSHOT, false, "abcdefghijklmnopqrstuvwxyz0123456"))
BREAKS(bytes_that_are_no_message, peer_say(&r->init, WIRE_CTL, 0, 1, "\1\377", 2))
BREAKS(a_huge_request, peer_say(&r->init, WIRE_CTL, 0, 1, (char[4096]){9, '\xfb', 0xf, 0, 0}, 4096))
BREAKS(an_id_that_is_in_use, say(r, 4, WIRE_CTL_SNAPSHOT, false, "a");
       say(r, 4, WIRE_CTL_INFO, false, NULL))

KEEPER_TEST(a_box_that_may_not_ask_does_not)
{
	say(r, 1, WIRE_CTL_INFO, false, NULL);
	must_break(r);
}

/* It is init's alone. */
KEEPER_TEST(a_client_cannot_ask_so)
{
	struct wire_ctl m = {.verb = WIRE_CTL_INFO};

	CHECK_EQ(wire_ctl_encode(&p->out, 1, 0, &m), 0);
	rig_run(r);
	CHECK_EQ(r->ends, 0);
	CHECK(peer_next(r, p, WIRE_ERROR).id == 0 || p->ended);
}

TAP_MAIN
