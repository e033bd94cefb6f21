/* The list of commands on disk. */
#include "base/fd.h"
#include "keeper/journal.h"
#include "keeper/output.h"
#include "keeper_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

struct place {
	char path[64];
	struct keeper_logs logs;
	int box_fd;
	struct journal j;
};

static void place_init(struct place *p)
{
	strcpy(p->path, "/tmp/cove-journal-XXXXXX");
	CHECK(mkdtemp(p->path));
	p->box_fd = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	keeper_logs_init(&p->logs, p->box_fd);
	CHECK(keeper_logs_dir(&p->logs) >= 0);
	journal_init(&p->j);
}

static void place_done(struct place *p)
{
	journal_done(&p->j);
	keeper_logs_done(&p->logs);
	close(p->box_fd);
	remove_temporary(p->path);
}

#define PLACE_TEST(name)                                                                        \
	TEST_IN(name, (struct place * p), struct place place; place_init(&place); body(&place); \
		place_done(&place);)

static struct exec_record sample(uint32_t id)
{
	struct exec_record r = {
		.exec_id = id,
		.started_ms = 1700000000000 + id,
		.pid = 40 + id,
		.background = true,
		.has_exit = true,
		.exit_code = 3,
		.duration_ms = 12,
		.bytes = {70000, 5},
		.truncated = true,
		.shell_state = 2,
		.cpu_us = 1500000,
		.mem_peak_bytes = 1ull << 33,
		.io_read_bytes = 4096,
		.io_write_bytes = UINT64_MAX,
		.limit_value = 64 << 20,
	};

	strcpy(r.command, "echo 'a  b' \\ \t \x1b[0m \xc3\xa4");
	strcpy(r.shell, "default");
	strcpy(r.cause, "init died");
	return r;
}

PLACE_TEST(missing_is_empty)
{
	struct journal_list l;

	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 0);
	CHECK_EQ(l.next, 1);
	journal_list_done(&l);
}

PLACE_TEST(round_trip)
{
	struct exec_record r = sample(7);
	struct journal_list l;

	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	r.state = EXEC_DONE;
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_END, &r), 0);
	r.bytes[1] = 9;
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_LATE, &r), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 1);
	CHECK_EQ(l.next, 8);
	CHECK_EQ(l.records[0].exec_id, 7);
	CHECK_EQ(l.records[0].state, EXEC_DONE);
	CHECK_EQ(l.records[0].started_ms, r.started_ms);
	CHECK_EQ(l.records[0].pid, r.pid);
	CHECK_EQ(l.records[0].background, 1);
	CHECK_EQ(l.records[0].has_exit, 1);
	CHECK_EQ(l.records[0].exit_code, 3);
	CHECK_EQ(l.records[0].bytes[0], 70000);
	CHECK_EQ(l.records[0].bytes[1], 9);
	CHECK_EQ(l.records[0].truncated, 1);
	CHECK_EQ(l.records[0].shell_state, 2);
	CHECK_EQ(l.records[0].cpu_us, 1500000);
	CHECK_EQ(l.records[0].mem_peak_bytes, 1ull << 33);
	CHECK_EQ(l.records[0].io_read_bytes, 4096);
	CHECK(l.records[0].io_write_bytes == UINT64_MAX);
	CHECK_EQ(l.records[0].limit_value, 64 << 20);
	CHECK_STR(l.records[0].command, r.command);
	CHECK_STR(l.records[0].shell, "default");
	CHECK_STR(l.records[0].cause, "init died");
	journal_list_done(&l);
}

PLACE_TEST(start_without_end_is_running)
{
	struct exec_record r = sample(1);
	struct journal_list l;

	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 1);
	CHECK_EQ(l.records[0].state, EXEC_RUNNING);
	journal_list_done(&l);
}

/* Lines of a Cove that did not know what a command used. */
PLACE_TEST(older_lines)
{
	static const char text[] = "start 1 5 6 0 - first\n"
				   "end 1 done 1 7 0 0 1 0 10 20 30 0 init died\n"
				   "used 1 5 6 7\n"
				   "used 9 5 6 7 8\n"
				   "used 1 5 6 7 -8\n";
	struct journal_list l;

	CHECK_EQ(fd_write_file(p->logs.dir_fd, "execs", text, sizeof(text) - 1, 0600, false), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 1);
	CHECK_EQ(l.records[0].state, EXEC_DONE);
	CHECK_EQ(l.records[0].exit_code, 7);
	CHECK_EQ(l.records[0].oom_killed, 1);
	CHECK_STR(l.records[0].cause, "init died");
	CHECK_EQ(l.records[0].cpu_us, 0);
	CHECK_EQ(l.records[0].io_write_bytes, 0);
	journal_list_done(&l);
}

/* A damaged line costs itself only, a line without its newline is not read. */
PLACE_TEST(damage)
{
	static const char text[] = "start 1 5 6 0 - first\n"
				   "start garbage\n"
				   "nonsense\n"
				   "end 99 done 1 0 0 0 0 0 1 1 1 0 exit\n"
				   "end 1 flying 1 0 0 0 0 0 1 1 1 0 exit\n"
				   "end 1 done 1 99999999999 0 0 0 0 1 1 1 0 exit\n"
				   "start 1 5 6 0 - again\n"
				   "start 3 5 6 0 - third\n"
				   "start 2147483648 5 6 0 - too large\n"
				   "end 3 done 1 0 0 0 0 0 1 1";
	struct journal_list l;

	CHECK_EQ(fd_write_file(p->logs.dir_fd, "execs", text, sizeof(text) - 1, 0600, false), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 2);
	CHECK_EQ(l.damaged, 6); /* the end of a command that is not there is not one */
	CHECK_EQ(l.next, 10);	/* each of them may have had an id */
	CHECK_STR(l.records[0].command, "first");
	CHECK_EQ(l.records[0].state, EXEC_RUNNING);
	CHECK_STR(l.records[1].command, "third");
	CHECK_EQ(l.records[1].state, EXEC_RUNNING);
	journal_list_done(&l);
}

/* Three commands: their lines, and what reading them gives. */
static size_t write_three(struct place *p, char *ret, size_t size)
{
	int fd;
	ssize_t n;

	for (uint32_t id = 1; id <= 3; id++) {
		struct exec_record r = sample(id);

		strcpy(r.command, "echo * JJ end 1 done");
		snprintf(r.token, sizeof(r.token), "t%u", id);
		CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START | JOURNAL_TOKEN, &r), 0);
		r.state = EXEC_DONE;
		CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_END, &r), 0);
	}
	fd = openat(p->logs.dir_fd, "execs", O_RDONLY | O_CLOEXEC);
	n = read(fd, ret, size);
	CHECK(n > 0 && n < (ssize_t)size);
	close(fd);
	return (size_t)n;
}

static bool is_same(const struct exec_record *a, const struct exec_record *b)
{
	return a->exec_id == b->exec_id && a->state == b->state && a->exit_code == b->exit_code &&
	       a->started_ms == b->started_ms && a->cpu_us == b->cpu_us &&
	       strcmp(a->command, b->command) == 0 && strcmp(a->token, b->token) == 0 &&
	       strcmp(a->cause, b->cause) == 0;
}

/* No flip of a single bit is used or dropped in silence: it is counted, the other commands are as
 * they were, and no id is free that may have been used. */
PLACE_TEST(every_flipped_bit_is_seen)
{
	struct journal_list whole, l;
	char text[4096];
	size_t n = write_three(p, text, sizeof(text));

	CHECK_EQ(journal_read(p->box_fd, &whole), 0);
	CHECK(whole.count == 3 && whole.damaged == 0 && whole.has_sums && !whole.is_older);
	for (size_t bit = 0; bit < n * 8; bit++) {
		size_t same = 0;

		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
		CHECK_EQ(fd_write_file(p->logs.dir_fd, "execs", text, n, 0600, false), 0);
		CHECK_EQ(journal_read(p->box_fd, &l), 0);
		CHECK(l.damaged == 1 || l.damaged == 2); /* it may make two lines of one */
		CHECK(l.next >= 4 && l.count >= 2);
		for (size_t i = 0; i < l.count; i++)
			for (size_t k = 0; k < 3; k++)
				same += is_same(&l.records[i], &whole.records[k]);
		CHECK(same >= 1);
		journal_list_done(&l);
		text[bit / 8] = (char)(text[bit / 8] ^ 1 << bit % 8);
	}
	/* Cut anywhere, it is what a crash leaves. */
	for (size_t cut = 0; cut < n; cut++) {
		CHECK_EQ(fd_write_file(p->logs.dir_fd, "execs", text, cut, 0600, false), 0);
		CHECK_EQ(journal_read(p->box_fd, &l), 0);
		CHECK_EQ(l.damaged, 0);
		journal_list_done(&l);
	}
	journal_list_done(&whole);
}

/* A line without a sum counts before the first with one, never after it. */
PLACE_TEST(older_lines_stand_first)
{
	static const char old[] = "start 1 5 6 0 - first\n";
	struct exec_record r = sample(2);
	struct journal_list l;

	CHECK_EQ(fd_write_file(p->logs.dir_fd, "execs", old, strlen(old), 0600, false), 0);
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	CHECK_EQ(fd_write_full(p->j.fd, "start 3 5 6 0 - third\n", 22), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 2);
	CHECK_EQ(l.damaged, 1);
	CHECK(l.is_older && l.has_sums);
	journal_list_done(&l);
}

/* A crash in the middle of a line costs that line, and not the one that is written next. */
TEST(a_torn_line_takes_no_other_with_it)
{
	static const char text[] = "start 1 5 6 0 - first\nend 1 done 1 0 0 0 0 0 1 1";
	struct exec_record r = sample(2);
	struct journal_list l;
	struct place p;

	strcpy(r.token, "two");
	for (size_t n = 0; n < sizeof(text); n++) {
		place_init(&p);
		CHECK_EQ(fd_write_file(p.logs.dir_fd, "execs", text, n, 0600, false), 0);
		CHECK_EQ(journal_add(&p.j, p.logs.dir_fd, JOURNAL_START | JOURNAL_TOKEN, &r), 0);
		CHECK_EQ(journal_read(p.box_fd, &l), 0);
		CHECK_EQ(l.count, n < strcspn(text, "\n") + 1 ? 1 : 2);
		CHECK_STR(l.records[l.count - 1].token, "two");
		journal_list_done(&l);
		place_done(&p);
	}
}

PLACE_TEST(reader_is_bounded)
{
	struct exec_record r = sample(1);
	struct journal_list l;

	for (uint32_t i = 1; i <= KEEPER_EXECS_MAX + 20; i++) {
		r.exec_id = i;
		CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	}
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_DROP,
			     &(struct exec_record){.exec_id = 500}),
		 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, KEEPER_EXECS_MAX - 1);
	CHECK_EQ(l.records[0].exec_id, 21);
	CHECK_EQ(l.next, KEEPER_EXECS_MAX + 21);
	for (size_t i = 0; i < l.count; i++)
		CHECK(l.records[i].exec_id != 500);
	journal_list_done(&l);
}

struct two {
	struct exec_record list[2];
	size_t at;
};

static const struct exec_record *next_of_two(void *arg)
{
	struct two *t = arg;

	return t->at < 2 ? &t->list[t->at++] : NULL;
}

PLACE_TEST(rewrite)
{
	struct two two = {.list = {sample(3), sample(9)}};
	struct exec_record r = sample(1);
	struct journal_list l;

	for (uint32_t i = 1; i <= 9; i++) {
		r.exec_id = i;
		CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	}
	CHECK(!journal_is_large(&p->j));
	two.list[0].state = EXEC_INTERRUPTED;
	CHECK_EQ(journal_rewrite(&p->j, p->logs.dir_fd, 12, &(struct token_set){0}, next_of_two,
				 &two),
		 0);
	r.exec_id = 12;
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START, &r), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 3);
	CHECK_EQ(l.next, 13);
	CHECK_EQ(l.records[0].exec_id, 3);
	CHECK_EQ(l.records[0].state, EXEC_INTERRUPTED);
	CHECK_EQ(l.records[1].exec_id, 9);
	CHECK_EQ(l.records[1].state, EXEC_RUNNING);
	CHECK_EQ(l.records[2].exec_id, 12);
	journal_list_done(&l);
}

/* Tokens: with their record, after that was dropped, and over a rewrite. */
PLACE_TEST(tokens)
{
	struct two two = {.list = {sample(2), sample(3)}};
	struct exec_record r = sample(1);
	struct token_set all = {0};
	struct journal_list l;

	strcpy(r.token, "one");
	r.arguments = UINT64_MAX;
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_START | JOURNAL_TOKEN, &r), 0);
	CHECK_EQ(journal_sync(&p->j, p->logs.dir_fd, p->box_fd), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_STR(l.records[0].token, "one");
	CHECK(l.records[0].arguments == UINT64_MAX);
	CHECK_EQ(l.spent.count, 0);
	journal_list_done(&l);
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_DROP, &r), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.count, 0);
	CHECK(tokens_has(&l.spent, token_key("one")));
	journal_list_done(&l);
	strcpy(two.list[1].token, "three");
	CHECK_EQ(tokens_add(&all, token_key("one")), 0);
	CHECK_EQ(tokens_add(&all, token_key("three")), 0);
	CHECK_EQ(journal_rewrite(&p->j, p->logs.dir_fd, 12, &all, next_of_two, &two), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_EQ(l.spent.count, 1); /* the other one is with its record */
	CHECK_STR(l.records[1].token, "three");
	journal_list_done(&l);
	/* A token that is free again. */
	two.list[1].token[0] = 0;
	CHECK_EQ(journal_add(&p->j, p->logs.dir_fd, JOURNAL_TOKEN, &two.list[1]), 0);
	CHECK_EQ(journal_read(p->box_fd, &l), 0);
	CHECK_STR(l.records[1].token, "");
	journal_list_done(&l);
	tokens_done(&all);
}

TAP_MAIN
