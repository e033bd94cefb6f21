/* The ledger: what was acknowledged is in the journals, whoever looks and whatever was killed. */
#include "store_home.h"
#include "tap.h"

#include "rails/ledger.h"
#include "rails/ledger_parts.h"

#include <pthread.h>
#include <sys/stat.h>

struct line {
	struct rails_name name;
	uint64_t offset;
	const char *text;
	struct rails_epoch seen;
};

static struct rails_name name_of(unsigned n)
{
	struct rails_name name = {.space = RAILS_RUNS};

	snprintf(name.id, sizeof(name.id), "%020x", n);
	return name;
}

static int on_line(void *arg, struct rails_batch *b, struct err *e)
{
	struct line *line = arg;

	line->seen = rails_epoch_of(b);
	rails_add(b, &line->name, line->offset, line->text, strlen(line->text));
	return 0;
}

static int append(struct rails *l, unsigned n, uint64_t offset, const char *text, struct err *e)
{
	struct line line = {name_of(n), offset, text, {0}};

	return rails_commit(l, strlen(text) + RAILS_ROW_COST, on_line, &line, e);
}

static void must_have(const struct rails *l, unsigned n, const char *text)
{
	struct rails_name name = name_of(n);
	char got[256] = "";
	int fd;

	CHECK_EQ(rails_journal_open(l, &name, &fd), 0);
	CHECK_EQ(read(fd, got, sizeof(got) - 1), (long)strlen(text));
	CHECK_STR(got, text);
	close(fd);
}

static struct rails *open_rails(struct state *s, uint32_t log_bytes)
{
	struct rails_options o = {.log_bytes = log_bytes};
	struct err e = {0};
	struct rails *l = NULL;

	if (rails_open(&l, s, &o, &e) < 0)
		FAIL(e.msg);
	return l;
}

HOME_TEST(rows_are_there_for_all)
{
	struct rails *l = open_rails(s, 0), *other;
	struct rails_name none = name_of(9);
	struct err e = {0};
	char **ids;
	size_t count;
	int fd;

	CHECK_EQ(rails_list(l, RAILS_RUNS, &ids, &count, &e), 0);
	CHECK_EQ(count, 0);
	CHECK_EQ(append(l, 1, 0, "one", &e), 0);
	other = open_rails(s, 0);
	CHECK_EQ(append(other, 1, 3, "two", &e), 0);
	CHECK_EQ(append(l, 1, 6, "three", &e), 0);
	CHECK_EQ(append(l, 2, 0, "else", &e), 0);
	must_have(other, 1, "onetwothree");
	must_have(l, 2, "else");
	CHECK_EQ(rails_journal_open(l, &none, &fd), -ENOENT);
	CHECK_EQ(rails_list(l, RAILS_RUNS, &ids, &count, &e), 0);
	CHECK_EQ(count, 2);
	CHECK_STR(ids[0], name_of(1).id);
	state_names_free(ids, count);
	rails_close(l);
	rails_close(other);
}

HOME_TEST(another_writer_is_noticed)
{
	struct rails *l = open_rails(s, 0), *other = open_rails(s, 0);
	struct line line = {name_of(1), 0, "x", {0}};
	struct rails_epoch first;
	struct err e;

	CHECK_EQ(rails_commit(l, 64, on_line, &line, &e), 0);
	first = line.seen;
	line.offset = 1;
	CHECK_EQ(rails_commit(l, 64, on_line, &line, &e), 0);
	CHECK_EQ(line.seen.more, first.more);
	CHECK_EQ(append(other, 1, 2, "y", &e), 0);
	line.offset = 3;
	CHECK_EQ(rails_commit(l, 64, on_line, &line, &e), 0);
	CHECK(line.seen.more > first.more);
	CHECK_EQ(line.seen.lost, first.lost);
	must_have(l, 1, "xxyx");
	rails_close(l);
	rails_close(other);
}

enum { THREADS = 8, EACH = 200 };

struct writer {
	struct rails *l;
	unsigned number;
};

static void *write_many(void *arg)
{
	struct writer *w = arg;
	struct err e = {0};

	for (unsigned i = 0; i < EACH; i++)
		if (append(w->l, w->number, 4u * i, "row\n", &e) < 0)
			FAIL(e.msg);
	return NULL;
}

static void check_rows(const struct rails *l, unsigned n, unsigned rows)
{
	struct rails_name name = name_of(n);
	char row[4];
	int fd;

	CHECK_EQ(rails_journal_open(l, &name, &fd), 0);
	for (unsigned i = 0; i < rows; i++) {
		CHECK_EQ(read(fd, row, 4), 4);
		CHECK_MEM(row, "row\n", 4);
	}
	CHECK_EQ(read(fd, row, 1), 0);
	close(fd);
}

/* Half of them of another ledger, as of another process; logs that are full soon. */
HOME_TEST(threads_and_processes_append_together)
{
	struct rails *l = open_rails(s, 8192), *other = open_rails(s, 8192);
	struct writer writers[THREADS];
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){i % 2 ? l : other, i};
		CHECK_EQ(pthread_create(&threads[i], NULL, write_many, &writers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < THREADS; i++)
		check_rows(l, i, EACH);
	rails_close(l);
	rails_close(other);
	l = open_rails(s, 8192);
	for (unsigned i = 0; i < THREADS; i++)
		check_rows(l, i, EACH);
	rails_close(l);
}

/* As after a crash of the machine: the journals have nothing of what is in the logs. */
static void forget_journals(struct state *s)
{
	char path[sizeof(s->home) + 16];

	snprintf(path, sizeof(path), "%s/rails", s->home);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(tree_remove(fd, "runs", NULL), 0);
	CHECK_EQ(unlinkat(fd, "lock", 0), 0);
	close(fd);
}

HOME_TEST(the_log_has_what_journals_may_lack)
{
	struct rails *l = open_rails(s, 0);
	struct err e = {0};

	CHECK_EQ(append(l, 1, 0, "one", &e), 0);
	CHECK_EQ(append(l, 2, 0, "two", &e), 0);
	CHECK_EQ(append(l, 1, 3, "more", &e), 0);
	rails_close(l);
	forget_journals(s);
	l = open_rails(s, 0);
	must_have(l, 1, "onemore");
	must_have(l, 2, "two");
	CHECK_EQ(append(l, 1, 7, "!", &e), 0);
	must_have(l, 1, "onemore!");
	rails_close(l);
}

static int on_removal(void *arg, struct rails_batch *b, struct err *e)
{
	rails_add_removal(b, arg);
	return 0;
}

HOME_TEST(what_was_removed_does_not_come_back)
{
	struct rails *l = open_rails(s, 0);
	struct rails_name name = name_of(1);
	struct err e = {0};
	int fd;

	CHECK_EQ(append(l, 1, 0, "one", &e), 0);
	CHECK_EQ(rails_commit(l, RAILS_ROW_COST, on_removal, &name, &e), 0);
	CHECK_EQ(rails_journal_open(l, &name, &fd), -ENOENT);
	CHECK_EQ(rails_commit(l, RAILS_ROW_COST, on_removal, &name, &e), 0);
	rails_close(l);
	forget_journals(s);
	l = open_rails(s, 0);
	CHECK_EQ(rails_journal_open(l, &name, &fd), -ENOENT);
	CHECK_EQ(append(l, 1, 0, "again", &e), 0);
	rails_close(l);
	forget_journals(s);
	l = open_rails(s, 0);
	must_have(l, 1, "again");
	rails_close(l);
}

/* Changes a byte of the log, that of the batch which begins there. */
static void change_log(struct state *s, off_t at)
{
	char path[sizeof(s->home) + 16], byte;

	snprintf(path, sizeof(path), "%s/rails/log-1", s->home);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	CHECK_EQ(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

static void two_batches(struct state *s, off_t change_at)
{
	struct rails *l = open_rails(s, 0);
	struct err e = {0};

	CHECK_EQ(append(l, 1, 0, "one", &e), 0);
	CHECK_EQ(append(l, 1, 3, "two", &e), 0);
	rails_close(l);
	forget_journals(s);
	change_log(s, change_at);
}

HOME_TEST(a_torn_last_batch_is_dropped)
{
	struct rails *l;
	struct err e = {0};

	two_batches(s, 64 + 128 + 50);
	l = open_rails(s, 0);
	must_have(l, 1, "one");
	CHECK_EQ(append(l, 1, 3, "three", &e), 0);
	rails_close(l);
	l = open_rails(s, 0);
	must_have(l, 1, "onethree");
	rails_close(l);
}

HOME_TEST(a_bad_batch_before_a_good_one_is_damage)
{
	struct rails_options o = {0};
	struct rails *l = NULL;
	struct err e = {0};

	two_batches(s, 64 + 50);
	CHECK_EQ(rails_open(&l, s, &o, &e), -EBADMSG);
	CHECK_EQ(e.kind, ERR_DAMAGED);
}

HOME_TEST(a_full_log_is_used_again)
{
	struct rails *l = open_rails(s, 1024);
	struct err e = {0};

	for (unsigned i = 0; i < 40; i++)
		CHECK_EQ(append(l, 1, 3 * i, "row", &e), 0);
	CHECK_EQ(l->head.number, 6);
	CHECK_EQ(l->older, 0);
	/* lock, log-6, log-next, runs, values */
	CHECK_EQ(count_names(l->dir_fd), 5);
	rails_close(l);
	l = open_rails(s, 1024);
	CHECK_EQ(append(l, 1, 120, "row", &e), 0);
	rails_close(l);
}

/* As a crash leaves it when the journals of a full log are not fsynced yet: two logs. */
static void two_logs(struct state *s, bool change)
{
	struct rails *l = open_rails(s, 1024);
	struct err e = {0};
	char *text;
	size_t len;

	for (unsigned i = 0; i < 7; i++)
		CHECK_EQ(append(l, 1, 3 * i, "row", &e), 0);
	CHECK_EQ(fd_read_file(l->dir_fd, "log-1", 4096, &text, &len), 0);
	CHECK_EQ(append(l, 1, 21, "end", &e), 0);
	CHECK_EQ(l->head.number, 2);
	/* In its last batch. */
	text[len - 100] ^= change;
	CHECK_EQ(fd_write_file(l->dir_fd, "log-1", text, len, 0600, false), 0);
	free(text);
	rails_close(l);
	forget_journals(s);
}

HOME_TEST(both_logs_are_replayed)
{
	struct rails *l;
	struct err e = {0};

	two_logs(s, false);
	l = open_rails(s, 1024);
	must_have(l, 1, "rowrowrowrowrowrowrowend");
	CHECK_EQ(l->older, 1);
	for (unsigned i = 0; i < 20; i++)
		CHECK_EQ(append(l, 1, 24 + 3 * i, "row", &e), 0);
	CHECK_EQ(l->older, 0);
	rails_close(l);
}

HOME_TEST(the_end_of_a_log_that_another_follows_is_not_torn)
{
	struct rails_options o = {.log_bytes = 1024};
	struct rails *l = NULL;
	struct err e = {0};

	two_logs(s, true);
	CHECK_EQ(rails_open(&l, s, &o, &e), -EBADMSG);
	CHECK_EQ(e.kind, ERR_DAMAGED);
}

static int on_refusal(void *arg, struct rails_batch *b, struct err *e)
{
	return err_set(e, ERR_CONFLICT, EBUSY, "no");
}

HOME_TEST(an_error_in_a_turn_is_its_own)
{
	struct rails *l = open_rails(s, 0);
	struct err e = {0};

	CHECK_EQ(append(l, 1, 0, "one", &e), 0);
	CHECK_EQ(rails_commit(l, 64, on_refusal, NULL, &e), -EBUSY);
	CHECK_EQ(e.kind, ERR_CONFLICT);
	CHECK_EQ(rails_commit(l, LEDGER_BATCH_MAX, on_refusal, NULL, &e), -E2BIG);
	CHECK_EQ(append(l, 1, 3, "two", &e), 0);
	must_have(l, 1, "onetwo");
	rails_close(l);
}

TAP_MAIN
