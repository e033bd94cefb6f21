/* Bytes between box and upstream: whole, in order, bounded, and each end by itself. */
#include "door_rig.h"

#include "base/clock.h"
#include "base/limits.h"

static char policy[512];

static unsigned open_with(enum upstream what)
{
	unsigned port = upstream_start(what);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - {allow: up.test, ports: [%u], private: true}\n", port);
	rig_open(policy);
	box_connect(1, "up.test", port);
	return port;
}

TEST(a_server_may_speak_first)
{
	open_with(UP_GREET);
	UNTIL(rig.ids[1].bytes == 11);
	box_send(1, "EHLO", 4);
	UNTIL(rig.ids[1].bytes == 15);
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_STR(buf_cstr(&rig.ids[1].data), "220 hello\r\nEHLO");
}

TEST(much_goes_up_whole_and_in_order)
{
	static uint8_t block[WIRE_DATA_MAX];
	uint64_t sent = 0, all = 8u << 20;

	open_with(UP_SINK);
	while (sent < all) {
		UNTIL(rig.ids[1].out.left >= sizeof(block));
		box_send(1, block, sizeof(block));
		sent += sizeof(block);
	}
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_STR(buf_cstr(&rig.ids[1].data), "8388608");
	CHECK_EQ(rig_row("done", "ok")->up, all);
}

TEST(much_comes_down_whole_and_in_order)
{
	open_with(UP_FLOOD);
	UNTIL(rig.ids[1].eof);
	CHECK_EQ(rig.ids[1].bytes, 8u << 20);
	for (size_t i = 0; i < buf_len(&rig.ids[1].data); i++)
		CHECK_EQ(buf_data(&rig.ids[1].data)[i], (uint8_t)(i / 65536));
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
}

TEST(a_slow_reader_holds_the_upstream_back)
{
	rig.ids[1].hold = true;
	open_with(UP_FLOOD);
	/* What is left of the window is too little for another frame. */
	UNTIL(rig.ids[1].bytes > WIRE_NET_WINDOW - WIRE_DATA_MAX);
	rig_settle();
	CHECK(rig.ids[1].bytes <= WIRE_NET_WINDOW);
	CHECK(wire_link_queued(&rig.door.keeper) == 0);
	CHECK_EQ(rig.door.conn_count, 1);
}

TEST(a_slow_upstream_holds_the_box_back)
{
	static uint8_t block[WIRE_DATA_MAX];
	unsigned quiet = 0;

	open_with(UP_MUTE);
	for (unsigned i = 0; quiet < 50 && i < 10000; i++) {
		if (rig.ids[1].out.left >= sizeof(block)) {
			box_send(1, block, sizeof(block));
			quiet = 0;
		} else {
			quiet++;
			rig_step();
		}
	}
	CHECK_EQ(quiet, 50);
	CHECK(rig.ids[1].out.left < sizeof(block));
	CHECK(!rig.ids[1].cancelled && !rig.ids[1].failed);
}

TEST(the_upstream_may_end_its_side_first)
{
	open_with(UP_HALF);
	UNTIL(rig.ids[1].eof);
	box_send(1, "more", 4);
	rig_settle();
	CHECK(!rig.ids[1].cancelled);
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_EQ(rig_row("done", "ok")->up, 4);
}

TEST(the_box_may_end_its_side_before_it_said_anything)
{
	open_with(UP_GREET);
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_STR(buf_cstr(&rig.ids[1].data), "220 hello\r\n");
}

TEST(a_reset_is_passed_on)
{
	open_with(UP_RESET);
	UNTIL(rig.ids[1].ok);
	box_send(1, "xy", 2);
	UNTIL(rig.ids[1].cancelled);
	CHECK_EQ(rig_rows("done", "failed"), 1);
}

/* The box has ended: that is how psql's server closes, with the last bytes unread. */
TEST(a_reset_after_an_end_is_an_end)
{
	open_with(UP_RESET);
	UNTIL(rig.ids[1].ok);
	box_send(1, "xy", 2);
	box_eof(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_STR(rig_row("done", "ok")->reason, "it ended with a reset");
	CHECK_EQ(rig_rows("done", "failed"), 0);
}

/* A program that closes and does not wait for the goodbye: what the server still says is answered
 * with a reset inside. */
TEST(a_box_that_ended_may_give_it_up)
{
	open_with(UP_ECHO);
	UNTIL(rig.ids[1].ok);
	box_send(1, "xy", 2);
	UNTIL(rig.ids[1].bytes == 2);
	box_eof(1);
	box_cancel(1);
	UNTIL(rig_rows("done", "ok") == 1);
	CHECK_EQ(rig_rows("done", "cut"), 0);
}

TEST(a_box_that_did_not_end_is_cut)
{
	open_with(UP_ECHO);
	UNTIL(rig.ids[1].ok);
	box_send(1, "xy", 2);
	UNTIL(rig.ids[1].bytes == 2);
	box_cancel(1);
	UNTIL(rig_rows("done", "cut") == 1);
	CHECK_EQ(rig_rows("done", "ok"), 0);
}

static uint64_t clock_ms; /* added to the time */

static uint64_t fake_clock(void *arg)
{
	return clock_mono_ms() + clock_ms;
}

TEST(a_connection_without_a_byte_is_cut_in_the_end)
{
	unsigned port = upstream_start(UP_ECHO);

	snprintf(policy, sizeof(policy),
		 "version: 1\nrules:\n  - {allow: up.test, ports: [%u], private: true}\n", port);
	rig_open(policy);
	ev_set_clock(rig.door.ev, fake_clock, NULL);
	box_connect(1, "up.test", port);
	box_send(1, "x", 1);
	UNTIL(rig.ids[1].bytes == 1);
	clock_ms += DOOR_IDLE_MS / 2;
	box_send(1, "x", 1);
	UNTIL(rig.ids[1].bytes == 2);
	clock_ms += DOOR_IDLE_MS - DOOR_IDLE_MS / 4;
	rig_settle();
	CHECK(!rig.ids[1].cancelled);
	clock_ms += DOOR_IDLE_MS;
	UNTIL(rig.ids[1].cancelled);
	CHECK_EQ(rig_rows("done", "cut"), 1);
}

static void let_go(unsigned n)
{
	struct channel *c;

	rig.ids[n].ok = true;
	CHECK_EQ(channel_wire_new(&c, &rig.door.exchange, RIG_ID(n), NULL, NULL), 0);
	channel_free(c, false);
	UNTIL(rig.ids[n].eof);
	CHECK(exchange_has(&rig.door.exchange, RIG_ID(n)));
}

TEST(what_still_comes_for_an_ended_channel_is_dropped_for_a_while)
{
	rig_open("version: 1\nrules:\n  - deny: \"*\"\n");
	ev_set_clock(rig.door.ev, fake_clock, NULL);
	let_go(5);
	let_go(6);
	box_send(5, "late", 4);
	box_eof(5);
	box_send(6, "late", 4);
	UNTIL(!exchange_has(&rig.door.exchange, RIG_ID(5)));
	CHECK(!rig.ids[5].cancelled && !rig.ids[6].cancelled);
	for (unsigned i = 0; i < 3; i++) {
		clock_ms += 10000;
		rig_settle();
	}
	CHECK(rig.ids[6].cancelled && !rig.ids[5].cancelled);
	CHECK(!exchange_has(&rig.door.exchange, RIG_ID(6)));
}

TAP_MAIN
