/* Logs: a prefix is kept, counts stay true. */
#include "base/fd.h"
#include "base/limits.h"
#include "keeper/output.h"
#include "keeper_rig.h"
#include "tap.h"

#include <fcntl.h>
#include <sys/stat.h>

static char where[64];
static int box_fd;

static void begin(struct keeper_logs *l)
{
	strcpy(where, "/tmp/cove-output-XXXXXX");
	CHECK(mkdtemp(where));
	box_fd = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	keeper_logs_init(l, box_fd);
}

static void end(struct keeper_logs *l)
{
	keeper_logs_done(l);
	close(box_fd);
	remove_temporary(where);
}

#define LOGS_TEST(name)                                                                \
	TEST_IN(name, (struct keeper_logs * l), struct keeper_logs logs; begin(&logs); \
		body(&logs); end(&logs);)

static long size_of(const char *name)
{
	struct stat st;

	return fstatat(box_fd, name, &st, 0) < 0 ? -1 : (long)st.st_size;
}

LOGS_TEST(nothing_is_made_before_the_first_byte)
{
	struct keeper_output out[OUTPUT_COUNT];

	keeper_outputs_init(out);
	keeper_outputs_close(l, out);
	CHECK_EQ(size_of("logs"), -1);
	keeper_output_append(l, 1, out, OUTPUT_ERR, "x", 1);
	CHECK_EQ(size_of("logs/1.err"), 1);
	CHECK_EQ(size_of("logs/1.out"), -1);
	keeper_outputs_close(l, out);
	CHECK_EQ(l->open, 0);
}

LOGS_TEST(cut_at_the_share_of_a_command)
{
	struct keeper_output out[OUTPUT_COUNT];
	char back[64];

	l->exec_bytes_max = 10;
	keeper_outputs_init(out);
	keeper_output_append(l, 1, out, OUTPUT_OUT, "abcdef", 6);
	keeper_output_append(l, 1, out, OUTPUT_ERR, "123", 3);
	keeper_output_append(l, 1, out, OUTPUT_OUT, "ghi", 3);
	CHECK_EQ(out[0].bytes, 9);
	CHECK_EQ(out[0].kept, 7);
	CHECK(out[0].cut);
	CHECK(!out[1].cut);
	keeper_output_append(l, 1, out, OUTPUT_ERR, "4", 1);
	CHECK(out[1].cut);
	CHECK_EQ(out[1].kept, 3);
	CHECK_EQ(out[1].bytes, 4);
	CHECK_EQ(l->bytes, 10);
	CHECK_EQ(keeper_output_read(l, 1, &out[0], 0, 2, back, sizeof(back)), 5);
	CHECK_MEM(back, "cdefg", 5);
	CHECK_EQ(keeper_output_read(l, 1, &out[0], 0, 7, back, sizeof(back)), 0);
	CHECK_EQ(size_of("logs/1.out"), 7);
	keeper_outputs_remove(l, 1, out);
	CHECK_EQ(l->bytes, 0);
	CHECK_EQ(l->open, 0);
	CHECK_EQ(size_of("logs/1.out"), -1);
}

/* Space that comes back later must not make a hole. */
LOGS_TEST(never_a_hole)
{
	struct keeper_output a[OUTPUT_COUNT], b[OUTPUT_COUNT];

	l->bytes_max = 8;
	keeper_outputs_init(a);
	keeper_outputs_init(b);
	keeper_output_append(l, 1, a, 0, "aaaa", 4);
	keeper_output_append(l, 2, b, 0, "bbbbbb", 6);
	CHECK_EQ(b[0].kept, 4);
	keeper_outputs_remove(l, 1, a);
	keeper_output_append(l, 2, b, 0, "cc", 2);
	CHECK_EQ(b[0].kept, 4);
	CHECK_EQ(b[0].bytes, 8);
	CHECK_EQ(l->bytes, 4);
	keeper_outputs_close(l, b);
}

LOGS_TEST(few_descriptors)
{
	struct keeper_output out[100][OUTPUT_COUNT];
	char c;

	for (uint32_t i = 0; i < 100; i++)
		keeper_outputs_init(out[i]);
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 100; i++)
			keeper_output_append(l, i + 1, out[i], 0, &"xyz"[round], 1);
	CHECK(l->open <= KEEPER_LOG_FDS_MAX);
	for (uint32_t i = 0; i < 100; i++) {
		CHECK_EQ(out[i][0].kept, 3);
		CHECK_EQ(keeper_output_read(l, i + 1, &out[i][0], 0, 2, &c, 1), 1);
		CHECK_EQ(c, 'z');
		keeper_outputs_close(l, out[i]);
	}
	CHECK_EQ(l->open, 0);
}

LOGS_TEST(what_an_earlier_keeper_kept)
{
	struct keeper_output out[OUTPUT_COUNT], again[OUTPUT_COUNT];
	char back[8];

	keeper_outputs_init(out);
	keeper_output_append(l, 5, out, 1, "hello", 5);
	keeper_outputs_close(l, out);
	keeper_logs_done(l);
	keeper_logs_init(l, box_fd);
	keeper_outputs_init(again);
	keeper_outputs_load(l, 5, again);
	CHECK_EQ(again[0].kept, 0);
	CHECK_EQ(again[1].kept, 5);
	CHECK_EQ(l->bytes, 5);
	CHECK_EQ(keeper_output_read(l, 5, &again[1], 1, 1, back, sizeof(back)), 4);
	CHECK_MEM(back, "ello", 4);
	keeper_outputs_close(l, again);
}

TAP_MAIN
