/* What a later version added: EXEC with a token, SUBSCRIBE, HELLO with a range; and what an older
 * Cove says. */
#include "base/crc.h"
#include "base/fd.h"
#include "base/limits.h"
#include "keeper/exec.h"
#include "keeper_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static struct wire_exec with_token(const char *token)
{
	return (struct wire_exec){.line = "echo x", .cwd = "/tmp", .token = token};
}

static enum err_kind refused(struct rig *r, struct peer *p, uint32_t id, const struct wire_exec *m)
{
	enum err_kind kind;

	CHECK_EQ(wire_exec_encode(&p->out, id, 0, m), 0);
	kind = (enum err_kind)peer_error(r, p, id).kind;
	CHECK(peer_silent(r, &r->init));
	return kind;
}

/* The client is gone in the middle; the next one gets everything from the start. */
KEEPER_TEST(a_repeated_request_finds_the_command)
{
	struct wire_exec m = with_token("t-1");
	struct wire_started started;
	struct wire_frame f;

	CHECK_EQ(start_command(r, &r->clients[0], 1, &m), 1);
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "aaaa", 4);
	rig_run(r);
	peer_close(&r->clients[0]);
	rig_run(r);
	p = rig_client(r);
	CHECK_EQ(wire_exec_encode(&p->out, 9, 0, &m), 0);
	f = peer_next(r, p, WIRE_STARTED);
	CHECK_EQ(wire_started_decode(&f, &started), 0);
	CHECK_EQ(started.exec_id, 1);
	hear_bytes(r, p, WIRE_STDOUT, 'a', 4);
	CHECK(peer_silent(r, &r->init)); /* init was asked once */
	peer_say(&r->init, WIRE_DATA, WIRE_STDOUT, 1, "aa", 2);
	hear_bytes(r, p, WIRE_STDOUT, 'a', 2);
	say_exit(r, 1, 3);
	CHECK_EQ(peer_exit(r, p, 9).exit_code, 3);
	/* And after its end, in the foreground and in the background. */
	CHECK_EQ(wire_exec_encode(&p->out, 10, 0, &m), 0);
	CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 10);
	hear_bytes(r, p, WIRE_STDOUT, 'a', 6);
	CHECK_EQ(peer_exit(r, p, 10).stdout_bytes, 6);
	m.background = 1;
	CHECK_EQ(wire_exec_encode(&p->out, 11, 0, &m), 0);
	CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 11);
	CHECK(peer_silent(r, p));
	CHECK_EQ(r->k.exec_count, 1);
}

/* At once, before init has answered the first one. */
KEEPER_TEST(two_at_once)
{
	struct wire_exec m = with_token("x");
	struct peer *q;

	q = rig_client(r);
	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
	CHECK_EQ(wire_exec_encode(&q->out, 1, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK(peer_silent(r, &r->init));
	say_started(r, 1);
	CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 1);
	CHECK_EQ(peer_next(r, q, WIRE_STARTED).id, 1);
	say_exit(r, 1, 0);
	peer_exit(r, p, 1);
	peer_exit(r, q, 1);
}

KEEPER_TEST(other_arguments_are_a_conflict)
{
	struct wire_exec m = with_token("t");
	char large[EXEC_TOKEN_MAX + 2];

	start_command(r, p, 1, &m);
	m.cwd = "/";
	CHECK_EQ(refused(r, p, 2, &m), ERR_CONFLICT);
	m = with_token("t");
	m.timeout_ms = 5;
	CHECK_EQ(refused(r, p, 3, &m), ERR_CONFLICT);
	m = with_token("");
	CHECK_EQ(refused(r, p, 4, &m), ERR_INVALID);
	m = with_token("a b");
	CHECK_EQ(refused(r, p, 5, &m), ERR_INVALID);
	m = with_token("a\nb");
	CHECK_EQ(refused(r, p, 6, &m), ERR_INVALID);
	m = with_token("\xc3\xa4");
	CHECK_EQ(refused(r, p, 7, &m), ERR_INVALID);
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = 0;
	m = with_token(large);
	CHECK_EQ(refused(r, p, 8, &m), ERR_INVALID);
	large[EXEC_TOKEN_MAX] = 0;
	CHECK_EQ(start_command(r, p, 9, &m), 2);
}

/* kill -9 of the keeper: what ran has an unknown end, and is not run again. */
KEEPER_TEST(a_new_keeper_knows)
{
	struct wire_exec m = with_token("t"), n = with_token("u");
	struct exec_record end;

	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0); /* asked, not even started */
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &n), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	say_started(r, 2);
	say_exit(r, 2, 7);
	rig_run(r);
	for (int i = 0; i < 2; i++) {
		rig_restart(r);
		p = &r->clients[0];
		CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
		CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 1);
		end = peer_exit(r, p, 1);
		CHECK(!end.has_exit);
		CHECK_STR(end.cause, "interrupted");
		CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &n), 0);
		CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 2);
		CHECK_EQ(peer_exit(r, p, 2).exit_code, 7);
		CHECK(peer_silent(r, &r->init));
		n.line = "other";
		CHECK_EQ(refused(r, p, 3, &n), ERR_CONFLICT);
		n.line = "echo x";
	}
}

/* The record went to make room, the token did not; not after a restart and a rewrite either. */
KEEPER_TEST(a_forgotten_command_is_not_run_again)
{
	struct wire_exec m = with_token("t"), plain = plain_command();

	for (uint32_t i = 1; i <= KEEPER_EXECS_MAX + 1; i++) {
		start_command(r, p, i, i == 1 ? &m : &plain);
		peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, i, NULL, 0);
		peer_say(&r->init, WIRE_EOF, WIRE_STDERR, i, NULL, 0);
		say_exit(r, i, 0);
		peer_exit(r, p, i);
	}
	CHECK(!keeper_exec_find(&r->k, 1));
	CHECK_EQ(refused(r, p, 5000, &m), ERR_CONFLICT);
	rig_restart(r);
	CHECK_EQ(refused(r, p, 1, &m), ERR_CONFLICT);
}

/* kill -9 between the line that makes the list too long and its being written anew: the next keeper
 * writes it anew, with all of it. */
KEEPER_TEST(a_list_that_is_too_long_at_the_start)
{
	struct wire_exec m = with_token("t"), plain = plain_command();
	struct buf text;
	struct stat st;
	char line[32];
	int fd;

	snprintf(line, sizeof(line), "%08x late 1 1 1\n", crc32c("late 1 1 1", 10));
	start_command(r, &r->clients[0], 1, &plain); /* never ends */
	start_command(r, &r->clients[0], 2, &m);
	say_exit(r, 2, 7);
	rig_run(r);
	buf_init(&text, KEEPER_JOURNAL_MAX);
	while (buf_len(&text) <= KEEPER_JOURNAL_MAX / 2)
		CHECK_EQ(buf_append(&text, line, strlen(line)), 0);
	fd = openat(r->k.logs.dir_fd, "execs", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK_EQ(fd_write_full(fd, buf_data(&text), buf_len(&text)), 0);
	close(fd);
	buf_done(&text);
	for (int i = 0; i < 2; i++) {
		rig_restart(r);
		CHECK_EQ(fstatat(r->k.logs.box_fd, "logs/execs", &st, 0), 0);
		CHECK(st.st_size < 4096); /* it was written anew */
		CHECK_EQ(r->k.next_exec, 3);
		CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
		CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 1);
		CHECK_EQ(peer_exit(r, p, 1).exit_code, 7);
		CHECK(peer_silent(r, &r->init));
	}
}

/* A token that may be in a line which cannot be read is not taken, until somebody has looked and
 * the box was started once more. The file is kept, and what stands in the good lines counts. */
KEEPER_TEST(a_damaged_list_takes_no_new_token)
{
	struct wire_exec m = with_token("t"), other = with_token("u"), plain = plain_command();
	struct stat st;
	int fd;

	start_command(r, p, 1, &m);
	say_exit(r, 1, 7);
	rig_run(r);
	fd = openat(r->k.logs.dir_fd, "execs", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK_EQ(fd_write_full(fd, "00000000 start 2 5 6 0 - x\n", 27), 0);
	close(fd);
	rig_restart(r);
	CHECK_EQ(r->k.damaged_lines, 1);
	CHECK(strstr(buf_cstr(&r->k.notes), "damaged") != NULL);
	CHECK_EQ(fstatat(r->k.logs.box_fd, "logs/execs.damaged", &st, 0), 0);
	CHECK_EQ(refused(r, p, 1, &other), ERR_DAMAGED);
	CHECK_EQ(start_command(r, p, 2, &plain), 3);
	CHECK_EQ(wire_exec_encode(&p->out, 3, 0, &m), 0);
	CHECK_EQ(peer_next(r, p, WIRE_STARTED).id, 3);
	CHECK_EQ(peer_exit(r, p, 3).exit_code, 7);
	rig_restart(r);
	CHECK_EQ(r->k.damaged_lines, 0);
	start_command(r, p, 1, &other);
}

/* What comes for a command while its start is being synced comes to init behind it. */
KEEPER_TEST(the_loop_goes_on_while_a_start_is_synced)
{
	struct wire_exec m = with_token("t"), other = with_token("u");

	m.has_stdin = 1;
	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 1, "abc", 3);
	CHECK_EQ(wire_signal_encode(&p->out, 1, 0, &(struct wire_signal){.signal = 15}), 0);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 1, NULL, 0);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &other), 0); /* waits for the next sync */
	peer_say(p, WIRE_STATUS, 0, 3, NULL, 0);
	CHECK_EQ(peer_next(r, p, WIRE_STATUS).id, 3);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EXEC).id, 1);
	CHECK_EQ(peer_next(r, &r->init, WIRE_DATA).id, 1);
	CHECK_EQ(peer_next(r, &r->init, WIRE_SIGNAL).id, 1);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EOF).id, 1);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EXEC).id, 2);
}

/* As if another command's start were on its way to a slow disk, until hang_sync(r, false). */
static void hang_sync(struct rig *r, bool on)
{
	r->sync_hangs = r->k.syncing = on;
	if (!on)
		keeper_sync_begin(&r->k);
}

/* What waits for a slow sync is held back at its client, and does not flood init behind it. */
KEEPER_TEST(what_waits_for_a_sync_is_bounded)
{
	enum { COUNT = 24, FRAMES = WIRE_WINDOW / WIRE_DATA_MAX };
	static const char bytes[WIRE_DATA_MAX];
	struct wire_exec m = {.line = "cat", .has_stdin = 1};
	struct peer *q = rig_client(r);
	unsigned execs = 0;
	size_t held = 0;
	char token[8];

	hang_sync(r, true);
	for (uint32_t id = 1; id <= COUNT; id++) {
		snprintf(token, sizeof(token), "t%u", (unsigned)id);
		m.token = token;
		CHECK_EQ(wire_exec_encode(&p->out, id, 0, &m), 0);
		for (unsigned i = 0; i < FRAMES; i++)
			peer_say(p, WIRE_DATA, WIRE_STDIN, id, bytes, sizeof(bytes));
		rig_run(r);
	}
	for (size_t i = 0; i < r->k.exec_count; i++)
		held += buf_len(&r->k.execs[i]->run->unsynced);
	CHECK(held < 2 * KEEPER_INIT_QUEUE);
	/* Others go on meanwhile, and what init takes of theirs lets nobody else send more. */
	start_command(r, q, 1, &(struct wire_exec){.line = "true"});
	start_command(r, q, 2, &(struct wire_exec){.line = "true"});
	for (size_t i = 0; i < r->k.exec_count; i++)
		held -= buf_len(&r->k.execs[i]->run->unsynced);
	CHECK_EQ(held, 0);
	hang_sync(r, false);
	for (unsigned i = 0; i < COUNT * (FRAMES + 1); i++) {
		struct wire_frame f = {0};

		while (wire_decoder_next(&r->init.decoder, &f) == 0)
			rig_run(r);
		execs += f.type == WIRE_EXEC;
	}
	CHECK_EQ(execs, COUNT);
	CHECK_EQ(r->ends, 0);
}

/* Then it is on the disk already. */
KEEPER_TEST(a_list_written_anew_before_a_sync)
{
	struct wire_exec m = with_token("t"), plain = plain_command();

	start_command(r, p, 1, &plain);
	hang_sync(r, true);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &m), 0);
	rig_run(r);
	r->k.journal.bytes = KEEPER_JOURNAL_MAX;
	say_exit(r, 1, 0);
	peer_exit(r, p, 1);
	CHECK_EQ(r->k.journal.fd, -1);
	hang_sync(r, false);
	CHECK_EQ(peer_next(r, &r->init, WIRE_EXEC).id, 2);
}

/* What was never passed to init has not used its token up, for a later keeper neither. */
KEEPER_TEST(a_token_that_could_not_be_synced_is_free)
{
	struct wire_exec m = with_token("t");
	char text[4096];
	int pair[2], fd;
	ssize_t n;

	start_command(r, p, 1, &(struct wire_exec){.line = "true"});
	/* A pipe takes the lines and cannot be synced; they reach the file all the same. */
	CHECK_EQ(pipe2(pair, O_CLOEXEC), 0);
	CHECK_EQ(dup3(pair[1], r->k.journal.fd, O_CLOEXEC), r->k.journal.fd);
	close(pair[1]);
	CHECK_EQ(wire_exec_encode(&p->out, 2, 0, &m), 0);
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 2);
	CHECK(peer_silent(r, &r->init));
	CHECK(!tokens_has(&r->k.tokens, token_key("t")));
	n = read(pair[0], text, sizeof(text));
	fd = openat(r->k.logs.dir_fd, "execs", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(n > 0 && fd_write_full(fd, text, (size_t)n) == 0);
	close(fd);
	close(pair[0]);
	rig_restart(r);
	CHECK_EQ(start_command(r, p, 3, &m), 3);
}

/* What did not start may be asked for again with its token. */
KEEPER_TEST(a_failed_start_frees_its_token)
{
	struct wire_exec m = with_token("t");
	struct wire_error no = {.kind = ERR_NOT_FOUND, .code = ENOENT, .msg = "no such program"};

	CHECK_EQ(wire_exec_encode(&p->out, 1, 0, &m), 0);
	peer_next(r, &r->init, WIRE_EXEC);
	CHECK_EQ(wire_error_encode(&r->init.out, 1, 0, &no), 0);
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 1);
	rig_restart(r);
	CHECK_EQ(start_command(r, p, 2, &m), 2);
}

/* The command gets each byte of its input once, although the second client sends all of it. */
TEST(input_is_not_sent_twice)
{
	struct wire_exec m = with_token("t");
	struct wire_frame f;
	struct peer *p;
	struct rig r;

	m.has_stdin = 1;
	rig_init(&r, true);
	start_command(&r, &r.clients[0], 1, &m);
	peer_say(&r.clients[0], WIRE_DATA, WIRE_STDIN, 1, "abc", 3);
	peer_next(&r, &r.init, WIRE_DATA);
	peer_close(&r.clients[0]);
	rig_run(&r);
	p = rig_client(&r);
	CHECK_EQ(wire_exec_encode(&p->out, 4, 0, &m), 0);
	CHECK_EQ(peer_next(&r, p, WIRE_STARTED).id, 4);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 4, "ab", 2);
	peer_say(p, WIRE_DATA, WIRE_STDIN, 4, "cde", 3);
	peer_say(p, WIRE_EOF, WIRE_STDIN, 4, NULL, 0);
	f = peer_next(&r, &r.init, WIRE_DATA);
	CHECK_EQ(f.len, 2);
	CHECK_MEM(f.payload, "de", 2);
	peer_next(&r, &r.init, WIRE_EOF);
	CHECK_EQ(peer_next(&r, p, WIRE_CREDIT).id, 4);
	rig_done(&r);
}

/* Bytes of a Cove before there were ranges, features and tokens: its client says HELLO with one
 * number, or nothing, and its init answers with one number. */
TEST(an_older_client_and_init)
{
	static const uint8_t hello[] = {13, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1,
					8,  0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0};
	static const uint8_t exec[] = {10, 0, 0, 0, 8, 0, 0,   0,   7,	 0,   0,
				       0,  1, 5, 0, 0, 0, 't', 'r', 'u', 'e', 0};
	struct peer *p;
	struct rig r;

	rig_init(&r, false);
	CHECK_EQ(buf_append(&r.init.out, hello, sizeof(hello)), 0);
	rig_run(&r);
	CHECK(r.up);
	CHECK_EQ(r.k.init_peer.version, 1);
	for (uint32_t i = 1; i <= 2; i++) {
		p = rig_client(&r);
		if (i == 2)
			CHECK_EQ(buf_append(&p->out, hello, sizeof(hello)), 0);
		CHECK_EQ(buf_append(&p->out, exec, sizeof(exec)), 0);
		if (i == 1)
			peer_next(&r, &r.init, WIRE_HELLO);
		CHECK_EQ(peer_next(&r, &r.init, WIRE_EXEC).id, i);
		say_started(&r, i);
		CHECK_EQ(peer_next(&r, p, WIRE_STARTED).id, 7);
		say_exit(&r, i, 0);
		peer_exit(&r, p, 7);
		CHECK_EQ(r.k.clients->peer.version, i == 2 ? 1 : 0);
	}
	rig_done(&r);
}

/* ---- SUBSCRIBE ---- */

static struct wire_event next_event(struct rig *r, struct peer *p, uint32_t id)
{
	struct wire_frame f = peer_next(r, p, WIRE_EVENT);
	struct wire_event m;

	CHECK_EQ(f.id, id);
	CHECK_EQ(wire_event_decode(&f, &m), 0);
	return m;
}

static void subscribe(struct rig *r, struct peer *p, uint32_t id, uint64_t from, uint64_t next)
{
	CHECK_EQ(wire_subscribe_encode(&p->out, id, 0, &(struct wire_subscribe){.from = from}), 0);
	CHECK_EQ(next_event(r, p, id).seq, next);
}

static void run_one(struct rig *r, uint32_t id)
{
	struct wire_exec m = plain_command();

	start_command(r, &r->clients[0], id, &m);
	peer_say(&r->init, WIRE_EOF, WIRE_STDOUT, id, NULL, 0);
	peer_say(&r->init, WIRE_EOF, WIRE_STDERR, id, NULL, 0);
	say_exit(r, id, 0);
	peer_exit(r, &r->clients[0], id);
}

KEEPER_TEST(rows_as_they_come_and_from_a_number)
{
	struct wire_event m;

	run_one(r, 1); /* rows 1 and 2 */
	p = rig_client(r);
	subscribe(r, p, 5, 0, 3);
	CHECK(peer_silent(r, p));
	run_one(r, 2);
	m = next_event(r, p, 5);
	CHECK_EQ(m.seq, 3);
	CHECK_EQ(m.missed, 0);
	CHECK(strstr(m.text, "\"event\":\"command\"") && strstr(m.text, "{\"seq\":3,") == m.text);
	CHECK_EQ(next_event(r, p, 5).seq, 4);
	/* A second one on the same connection, from the first row on. */
	subscribe(r, p, 6, 1, 1);
	for (uint64_t i = 1; i <= 4; i++)
		CHECK_EQ(next_event(r, p, 6).seq, i);
	peer_say(p, WIRE_CANCEL, 0, 5, NULL, 0);
	rig_run(r);
	run_one(r, 3);
	CHECK_EQ(next_event(r, p, 6).seq, 5);
	CHECK_EQ(next_event(r, p, 6).seq, 6);
	CHECK(peer_silent(r, p));
	keeper_subscriptions_end(&r->k);
	keeper_answer_stops(&r->k, NULL);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 6);
	/* Numbers go on in the next keeper. */
	rig_restart(r);
	run_one(r, 4);
	p = rig_client(r);
	subscribe(r, p, 1, 6, 6);
	for (uint64_t i = 6; i <= 8; i++)
		CHECK_EQ(next_event(r, p, 1).seq, i);
}

/* A client that reads nothing holds up nobody, and gets everything in order once it does. */
KEEPER_TEST(a_slow_subscriber_reads_the_log)
{
	p = rig_client(r);
	subscribe(r, p, 1, 0, 1);
	p->deaf = true;
	for (uint32_t i = 1; i <= 1500; i++)
		run_one(r, i);
	p->deaf = false;
	for (uint64_t i = 1; i <= 3000; i++) {
		struct wire_event m = next_event(r, p, 1);

		CHECK_EQ(m.seq, i);
		CHECK_EQ(m.missed, 0);
	}
}

/* The log is rotated, and again, while one who reads it is in the first file. */
KEEPER_TEST(a_slow_subscriber_over_two_rotations)
{
	enum { MANY = 6000 }; /* more than a socket and a queue hold */

	for (uint32_t i = 1; i <= MANY + 2; i++) {
		if (i > MANY)
			r->k.events.bytes = KEEPER_EVENTS_MAX;
		run_one(r, i);
		if (i != MANY)
			continue;
		p = rig_client(r);
		subscribe(r, p, 1, 1, 1);
		p->deaf = true;
		rig_run(r);
	}
	p->deaf = false;
	for (uint64_t i = 1; i <= 2 * MANY + 4; i++) {
		struct wire_event m = next_event(r, p, 1);

		CHECK_EQ(m.seq, i);
		CHECK_EQ(m.missed, 0);
	}
}

/* Without a log rows that came too fast, or before, are counted. */
KEEPER_TEST(missed_rows_are_counted)
{
	struct wire_event m;

	run_one(r, 1);
	CHECK_EQ(unlinkat(r->k.logs.dir_fd, "events.jsonl", 0), 0);
	p = rig_client(r);
	subscribe(r, p, 1, 1, 1);
	keeper_subscriptions_end(&r->k);
	keeper_answer_stops(&r->k, NULL);
	m = next_event(r, p, 1);
	CHECK(!m.text);
	CHECK_EQ(m.missed, 2);
	CHECK_EQ(peer_next(r, p, WIRE_OK).id, 1);
}

KEEPER_TEST(broken_subscriptions)
{
	p = rig_client(r);
	peer_say(p, WIRE_SUBSCRIBE, 0, 1, "\1\3", 2);
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 0);
	p = rig_client(r);
	subscribe(r, p, 1, UINT64_MAX, UINT64_MAX);
	run_one(r, 1);
	CHECK(peer_silent(r, p));
	peer_say(p, WIRE_SUBSCRIBE, 0, 1, NULL, 0); /* the id is in use */
	CHECK_EQ(peer_next(r, p, WIRE_ERROR).id, 0);
}

/* Ranges without a common version end the connection with both ranges in the sentence. */
KEEPER_TEST(no_common_version)
{
	struct wire_hello m = {.lowest = WIRE_VERSION_MAX + 1, .highest = WIRE_VERSION_MAX + 5};
	struct wire_error e;
	struct wire_frame f;

	CHECK_EQ(wire_hello_encode(&p->out, 0, 0, &m), 0);
	e = peer_error(r, p, 0);
	CHECK_EQ(e.kind, ERR_UNSUPPORTED);
	CHECK(strstr(e.msg, "3 to 7") && strstr(e.msg, "1 to 2"));
	p = rig_client(r);
	m = (struct wire_hello){.lowest = 5, .highest = 2};
	CHECK_EQ(wire_hello_encode(&p->out, 0, 0, &m), 0);
	f = peer_next(r, p, WIRE_ERROR);
	CHECK_EQ(wire_error_decode(&f, &e), 0);
	CHECK_EQ(e.kind, ERR_PROTOCOL);
}

TAP_MAIN
