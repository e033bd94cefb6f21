/* The host's events on disk: numbers, rotation, readers, and what a crash leaves. */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "store/event.h"
#include "store/feed.h"

#include <stdlib.h>
#include <string.h>

static struct state st;
static struct err e;

static void put(struct feed_writer *w, size_t pad)
{
	char *row = malloc(pad + 64);
	size_t n =
		(size_t)snprintf(row, 64, "{\"seq\":%llu,\"pad\":\"", (unsigned long long)w->next);

	memset(row + n, 'x', pad);
	n += pad;
	memcpy(row + n, "\"}\n", 3);
	CHECK_EQ(feed_append(w, row, n + 3, 1), 0);
	free(row);
}

struct seen {
	uint64_t first, last, count, gaps;
	unsigned stop_after;
};

static struct feed_reader reader;

static bool on_row(void *arg, uint64_t seq, char *row, size_t len)
{
	struct seen *s = arg;

	CHECK_EQ(strlen(row), len);
	CHECK_EQ(event_row_seq(row), seq);
	CHECK(seq > s->last);
	s->gaps += seq > reader.next ? seq - reader.next : 0;
	s->first = s->first ? s->first : seq;
	s->last = seq;
	s->count++;
	return !s->stop_after || s->count < s->stop_after;
}

static void read_all(struct seen *s)
{
	int n;

	while ((n = feed_read(&reader, on_row, s)) > 0)
		;
	CHECK_EQ(n, 0);
}

TEST(rows_come_back_in_order_from_any_place)
{
	struct feed_writer w;
	struct seen s = {0};

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	for (int i = 0; i < 100; i++)
		put(&w, 10);
	feed_reader_init(&reader, &st, 0);
	read_all(&s);
	CHECK(s.first == 1 && s.last == 100 && s.count == 100);
	put(&w, 10);
	s = (struct seen){.last = 100};
	read_all(&s);
	CHECK(s.count == 1 && s.last == 101);
	feed_reader_done(&reader);
	feed_reader_init(&reader, &st, 42);
	s = (struct seen){.stop_after = 1};
	CHECK_EQ(feed_read(&reader, on_row, &s), 1);
	CHECK_EQ(s.first, 43);
	s.stop_after = 0;
	read_all(&s);
	CHECK(s.last == 101 && s.count == 59 && s.gaps == 0);
	feed_reader_done(&reader);
	feed_close(&w);
	state_close(&st);
}

TEST(one_process_writes)
{
	struct feed_writer w, other;

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	CHECK_EQ(feed_open(&other, &st, &e), -EBUSY);
	feed_close(&w);
	CHECK_EQ(feed_open(&other, &st, &e), 0);
	feed_close(&other);
	state_close(&st);
}

TEST(the_oldest_go_and_a_reader_sees_how_many)
{
	uint64_t oldest, newest;
	struct feed_writer w;
	struct seen s = {0};

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	feed_reader_init(&reader, &st, 0);
	put(&w, 10);
	read_all(&s);
	while (feed_range(&st, &oldest, &newest) < 0 || oldest == 1)
		put(&w, 15000);
	CHECK_EQ(newest, w.next - 1);
	/* What its descriptor still has is read to the end; then what is kept. */
	read_all(&s);
	CHECK_EQ(s.last, newest);
	feed_reader_done(&reader);
	feed_reader_init(&reader, &st, 1);
	s = (struct seen){.last = 1};
	read_all(&s);
	CHECK(s.first == oldest && s.gaps == oldest - 2 && s.count == newest - oldest + 1);
	feed_reader_done(&reader);
	feed_close(&w);
	state_close(&st);
}

TEST(a_torn_row_goes_and_its_number_is_given_again)
{
	struct feed_writer w;
	struct seen s = {0};
	int fd;

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	put(&w, 10);
	put(&w, 10);
	feed_close(&w);
	fd = openat(st.home_fd, "events/00000000000000000001", O_WRONLY | O_APPEND | O_CLOEXEC);
	CHECK(fd >= 0 && write(fd, "{\"seq\":3,\"x", 11) == 11);
	close(fd);
	feed_reader_init(&reader, &st, 0);
	read_all(&s);
	CHECK_EQ(s.last, 2);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	CHECK_EQ(w.next, 3);
	put(&w, 10);
	read_all(&s);
	CHECK(s.last == 3 && s.count == 3);
	feed_skip(&w, 1000);
	put(&w, 10);
	read_all(&s);
	CHECK(s.last == 1000 && s.gaps == 996);
	feed_reader_done(&reader);
	feed_close(&w);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	CHECK_EQ(w.next, 1001);
	feed_close(&w);
	state_close(&st);
}

TEST(the_newest_is_found_behind_long_rows_and_a_part_of_the_next)
{
	static const char part[] = "{\"seq\":4,\"pad\":\"xxx";
	uint64_t oldest, newest;
	struct feed_writer w;
	int fd;

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	for (int i = 0; i < 3; i++)
		put(&w, FEED_ROW_MAX - 100);
	fd = openat(st.home_fd, "events/00000000000000000001", O_WRONLY | O_APPEND | O_CLOEXEC);
	for (size_t n = 0; n < FEED_ROW_MAX / 2; n += sizeof(part) - 1)
		CHECK_EQ(write(fd, part, sizeof(part) - 1), (ssize_t)sizeof(part) - 1);
	CHECK_EQ(feed_range(&st, &oldest, &newest), 0);
	CHECK(oldest == 1 && newest == 3);
	close(fd);
	feed_close(&w);
	state_close(&st);
}

TEST(each_type_of_row_has_a_word)
{
	for (int i = 0; i < FEED_TYPES; i++)
		CHECK(feed_types[i] != NULL);
	CHECK(!feed_types[FEED_TYPES]);
	CHECK_STR(feed_types[FEED_ASK_ANSWERED], "ask.answered");
}
