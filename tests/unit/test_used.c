/* What was used of budgets: the highest of all that was said is kept, and read again. */
#include "tap.h"

#include "base/fd.h"
#include "door/ledger.h"
#include "door/policy_form.h"
#include "door/used.h"

#include <fcntl.h>
#include <sys/stat.h>

static int add(struct used *u, const char *text)
{
	return used_add(u, text, strlen(text));
}

TEST(the_highest_is_kept)
{
	struct used u = {0};
	struct buf text;

	CHECK_EQ(add(&u, "5 10 20 rule 1\n0 7 0 \n"), 0);
	CHECK_EQ(add(&u, "4 11 19 rule 1\n"), 0);
	buf_init(&text, USED_TEXT_MAX);
	CHECK_EQ(used_write(&u, &text), 0);
	CHECK_STR(buf_cstr(&text), "5 11 20 rule 1\n0 7 0 \n");
	buf_done(&text);
	used_done(&u);
}

TEST(what_is_malformed_counts_for_nothing)
{
	static const char *const texts[] = {"1",	  "1 2 3",	"1 2 3\n",    "1 2 x a\n",
					    "-1 2 3 a\n", "1 2 3 a\n4", "1  2 3 a\n", "\n"};
	char name[POLICY_NAME_MAX + 16] = "1 2 3 ";
	struct used u = {0};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		CHECK_EQ(add(&u, texts[i]), -EBADMSG);
	memset(name + 6, 'a', POLICY_NAME_MAX + 1);
	name[6 + POLICY_NAME_MAX + 1] = '\n';
	CHECK_EQ(add(&u, name), -EBADMSG);
	CHECK_EQ(used_add(&u, "1 2 3 a\0b\n", 10), -EBADMSG);
	CHECK_EQ(u.count, 0);
	CHECK_EQ(add(&u, ""), 0);
	used_done(&u);
}

TEST(there_are_only_so_many_lines)
{
	struct used u = {0};
	char text[64];

	for (unsigned i = 0; i < USED_LINES_MAX + 2; i++) {
		snprintf(text, sizeof(text), "1 2 3 r%u\n", i);
		CHECK_EQ(add(&u, text), 0);
	}
	CHECK_EQ(u.count, USED_LINES_MAX);
	CHECK_STR(u.lines[0].name, "r2");
	used_done(&u);
}

TEST(it_is_saved_and_read_again)
{
	char dir[] = "/tmp/test-used.XXXXXX";
	struct used u = {0}, again = {0};

	CHECK(mkdtemp(dir));
	autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(used_load(&u, fd), 0);
	CHECK_EQ(add(&u, "5 10 20 rule 1\n"), 0);
	CHECK_EQ(used_save(&u, fd), 0);
	CHECK(!u.is_changed);
	CHECK_EQ(used_load(&again, fd), 0);
	CHECK_EQ(again.count, 1);
	CHECK_EQ(again.lines[0].down, 20);
	CHECK_EQ(fd_write_file(fd, USED_FILE, "x", 1, 0600, false), 0);
	CHECK_EQ(used_load(&again, fd), -EBADMSG);
	CHECK_EQ(unlinkat(fd, USED_FILE, 0), 0);
	CHECK_EQ(rmdir(dir), 0);
	used_done(&u);
	used_done(&again);
}

static const char text[] = "version: 1\nrules:\n"
			   "  - {name: a, allow: a.test, rate: 2/h}\n"
			   "  - {name: b, allow: b.test, bytes_up: 100}\n"
			   "  - {name: c, allow: c.test}\n";

TEST(a_ledger_reports_what_changed_and_goes_on_from_what_it_loads)
{
	struct door_ledger l = {0}, next = {0};
	struct used_line box;
	struct policy *p;
	struct buf out;
	struct err e;

	CHECK_EQ(policy_parse(&p, "p", text, strlen(text), &e), 0);
	buf_init(&out, USED_TEXT_MAX);
	ledger_report(&l, &out);
	CHECK_EQ(buf_len(&out), 0);
	CHECK(ledger_take(&l, &p->entries[0].rule, 1000));
	CHECK(ledger_take(&l, &p->entries[0].rule, 1000));
	CHECK(ledger_count(&l, &p->entries[1].rule, 60, 5));
	CHECK(ledger_count(&l, &p->entries[2].rule, 60, 5));
	ledger_report(&l, &out);
	CHECK(!strstr(buf_cstr(&out), " c\n")); /* it has no budget */
	CHECK_EQ(ledger_load(&next, buf_cstr(&out), buf_len(&out), &box), 0);
	CHECK(!ledger_take(&next, &p->entries[0].rule, 1000));
	CHECK_EQ(ledger_room(&next, &p->entries[1].rule, true), 40);
	/* Neither has anything new. */
	buf_clear(&out);
	ledger_report(&l, &out);
	ledger_report(&next, &out);
	CHECK_EQ(buf_len(&out), 0);
	CHECK_EQ(ledger_load(&next, "0 9 1 \n", 7, &box), 0);
	CHECK_EQ(box.up, 9);
	CHECK(ledger_load(&next, "0 9 1", 5, &box) < 0);
	/* A rule that is not there any more is forgotten. */
	p->entry_count = 1;
	ledger_retain(&next, p);
	CHECK_EQ(next.count, 1);
	buf_done(&out);
	ledger_done(&l);
	ledger_done(&next);
	policy_free(p);
}

/* A door that ends before the rule is used again must have said what was used without a budget. */
TEST(what_was_used_before_there_was_a_budget_is_reported)
{
	static const char later[] = "version: 1\nrules:\n"
				    "  - {name: c, allow: c.test, bytes_up: 100}\n";
	struct door_ledger l = {0};
	struct policy *p, *q;
	struct buf out;
	struct err e;

	CHECK_EQ(policy_parse(&p, "p", text, strlen(text), &e), 0);
	CHECK_EQ(policy_parse(&q, "p", later, strlen(later), &e), 0);
	buf_init(&out, USED_TEXT_MAX);
	CHECK(ledger_count(&l, &p->entries[2].rule, 60, 5));
	ledger_report(&l, &out);
	CHECK_EQ(buf_len(&out), 0);
	ledger_retain(&l, q);
	ledger_report(&l, &out);
	CHECK_STR(buf_cstr(&out), "0 60 5 c\n");
	/* And back: without a budget there is nothing to report. */
	CHECK(ledger_count(&l, &q->entries[0].rule, 1, 0));
	ledger_retain(&l, p);
	buf_clear(&out);
	ledger_report(&l, &out);
	CHECK_EQ(buf_len(&out), 0);
	buf_done(&out);
	ledger_done(&l);
	policy_free(p);
	policy_free(q);
}

TAP_MAIN
