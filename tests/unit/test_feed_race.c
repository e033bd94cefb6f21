/*
 * A reader of the host's events against its writer, in the one order that matters: the reader is at
 * the end of a segment, rows come, the next segment begins, and then the reader looks which there
 * are. openat(2) of this program is where the writer has its turn.
 */
#include "store_home.h"
#include "tap.h"

#include "base/limits.h"
#include "store/event.h"
#include "store/feed.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static struct state st;
static struct feed_writer w;
static void (*on_look)(void); /* once, when the directory is opened */

int openat(int dir, const char *name, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	if (on_look && strcmp(name, "events") == 0) {
		void (*turn)(void) = on_look;

		on_look = NULL;
		turn();
	}
	return (int)syscall(SYS_openat, dir, name, flags, mode);
}

static void put(size_t pad)
{
	char *row = malloc(pad + 64);
	size_t n =
		(size_t)snprintf(row, 64, "{\"seq\":%llu,\"pad\":\"", (unsigned long long)w.next);

	memset(row + n, 'x', pad);
	n += pad;
	memcpy(row + n, "\"}\n", 3);
	CHECK_EQ(feed_append(&w, row, n + 3, 1), 0);
	free(row);
}

/* The segment is filled, and rows of the next are there. */
static void fill_it(void)
{
	while (w.bytes < FEED_SEGMENT_BYTES)
		put(15000);
	put(10);
	CHECK(w.bytes < FEED_SEGMENT_BYTES);
}

static bool on_row(void *arg, uint64_t seq, char *row, size_t len)
{
	uint64_t *last = arg;

	CHECK_EQ(seq, *last + 1);
	*last = seq;
	return true;
}

TEST(rows_before_a_new_segment_are_not_passed_over)
{
	struct feed_reader reader;
	struct err e;
	uint64_t last = 0;
	int n;

	home_open(&st);
	CHECK_EQ(feed_open(&w, &st, &e), 0);
	put(10);
	feed_reader_init(&reader, &st, 0);
	while ((n = feed_read(&reader, on_row, &last)) > 0)
		;
	CHECK(n == 0 && last == 1);
	on_look = fill_it;
	while ((n = feed_read(&reader, on_row, &last)) > 0)
		;
	CHECK(!on_look && n == 0);
	CHECK_EQ(last, w.next - 1);
	feed_reader_done(&reader);
	feed_close(&w);
	state_close(&st);
}

TAP_MAIN
