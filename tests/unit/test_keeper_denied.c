/* Which command's result has a denial, with a scripted init and real clients. */
#include "tap.h"

#include "keeper_rig.h"
#include "wire/denials.h"

#include <string.h>

static const struct wire_denied of_a_name = {.host = "no.test", .reason = "no rule allows it"};

/* The only one in the list. */
static struct wire_denial only(const struct exec_record *m, char text[DENIAL_TEXT_MAX])
{
	struct wire_denial d = {0}, more;
	uint32_t pos = 0;

	CHECK_EQ(m->denied.count, 1);
	CHECK(wire_denials_next(&m->denied, &pos, text, &d));
	CHECK(!wire_denials_next(&m->denied, &pos, (char[DENIAL_TEXT_MAX]){0}, &more));
	return d;
}

KEEPER_TEST(a_denial_is_in_the_result_of_the_command_that_ran)
{
	struct wire_exec m = plain_command();
	uint32_t x = start_command(r, p, 1, &m);
	char text[DENIAL_TEXT_MAX];
	struct exec_record got;
	struct wire_denial d;

	keeper_denied(&r->k, &of_a_name);
	keeper_denied(&r->k, &of_a_name);
	say_exit(r, x, 6);
	got = peer_exit(r, p, 1);
	d = only(&got, text);
	CHECK_STR(d.host, "no.test");
	CHECK_EQ(d.port, 0);
	CHECK(!d.shared);
	/* None is carried over to the next. */
	x = start_command(r, p, 2, &m);
	say_exit(r, x, 0);
	CHECK_EQ(peer_exit(r, p, 2).denied.count, 0);
	keeper_denied(&r->k, &of_a_name); /* when nothing runs */
}

KEEPER_TEST(a_denial_of_one_of_several_is_its_own_or_shared)
{
	struct wire_exec m = plain_command();
	uint32_t x = start_command(r, p, 1, &m), y = start_command(r, p, 2, &m);
	struct wire_denied own = {.exec_id = y, .host = "10.0.0.1", .port = 80};
	struct exec_record got;
	char text[DENIAL_TEXT_MAX];

	keeper_denied(&r->k, &own);
	own.exec_id = 77; /* of nobody that is known */
	own.host = "nobody.test";
	say_exit(r, y, 1);
	got = peer_exit(r, p, 2);
	CHECK(!only(&got, text).shared);
	y = start_command(r, p, 3, &m);
	keeper_denied(&r->k, &of_a_name);
	say_exit(r, x, 1);
	got = peer_exit(r, p, 1);
	CHECK(only(&got, text).shared);
	say_exit(r, y, 1);
	got = peer_exit(r, p, 3);
	CHECK(only(&got, text).shared);
	own.exec_id = x; /* that has ended */
	keeper_denied(&r->k, &own);
}

KEEPER_TEST(denials_are_bounded_and_safe_to_print)
{
	struct wire_exec m = plain_command();
	uint32_t x = start_command(r, p, 1, &m);
	char host[400];
	struct wire_denied d = {.host = host, .method = "G\tT\n", .port = UINT64_MAX};
	char text[DENIAL_TEXT_MAX];
	struct exec_record got;
	struct wire_denial first;
	uint32_t pos = 0;

	for (int i = 0; i < 100; i++) {
		snprintf(host, sizeof(host), "h\033%d", i);
		keeper_denied(&r->k, &d);
	}
	memset(host, 'a', sizeof(host));
	host[sizeof(host) - 1] = 0;
	keeper_denied(&r->k, &d);
	say_exit(r, x, 1);
	got = peer_exit(r, p, 1);
	CHECK_EQ(got.denied.count, DENIALS_MAX);
	CHECK_EQ(got.denied_more, 101 - DENIALS_MAX);
	CHECK(wire_denials_next(&got.denied, &pos, text, &first));
	CHECK(!strpbrk(first.host, "\033\n\t"));
	CHECK_EQ(first.port, 0);
}

/* The box cannot say of itself what was denied. */
KEEPER_TEST(what_init_says_of_denials_is_not_believed)
{
	struct wire_exec m = plain_command();
	uint32_t x = start_command(r, p, 1, &m);
	static const char lie[] = "lie.test\t1\t\treason\t\t0";
	struct exec_record end = {
		.exec_id = x, .has_exit = true, .denied = {lie, sizeof(lie), 1}, .denied_more = 9};
	struct exec_record got;

	CHECK_EQ(wire_exit_encode(&r->init.out, x, 0, &end), 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, x, NULL, 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDERR, x, NULL, 0);
	got = peer_exit(r, p, 1);
	CHECK_EQ(got.denied.count, 0);
	CHECK_EQ(got.denied_more, 0);
}
