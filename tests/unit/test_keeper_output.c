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

static void begin(struct logs *l)
{
	strcpy(where, "/tmp/cove-output-XXXXXX");
	CHECK(mkdtemp(where));
	box_fd = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	logs_init(l, box_fd);
}

static void end(struct logs *l)
{
	logs_done(l);
	close(box_fd);
	remove_temporary(where);
}

#define LOGS_TEST(name) \
	TEST_IN(name, (struct logs * l), struct logs logs; begin(&logs); body(&logs); end(&logs);)

static long size_of(const char *name)
{
	struct stat st;

	return fstatat(box_fd, name, &st, 0) < 0 ? -1 : (long)st.st_size;
}

LOGS_TEST(nothing_is_made_before_the_first_byte)
{
	struct output out[OUTPUT_COUNT];

	outputs_init(out);
	outputs_close(l, out);
	CHECK_EQ(size_of("logs"), -1);
	output_append(l, 1, out, OUTPUT_ERR, "x", 1);
	CHECK_EQ(size_of("logs/1.err"), 1);
	CHECK_EQ(size_of("logs/1.out"), -1);
	outputs_close(l, out);
	CHECK_EQ(l->open, 0);
}

LOGS_TEST(cut_at_the_share_of_a_command)
{
	struct output out[OUTPUT_COUNT];
	char back[64];

	l->exec_bytes_max = 10;
	outputs_init(out);
	output_append(l, 1, out, OUTPUT_OUT, "abcdef", 6);
	output_append(l, 1, out, OUTPUT_ERR, "123", 3);
	output_append(l, 1, out, OUTPUT_OUT, "ghi", 3);
	CHECK_EQ(out[0].bytes, 9);
	CHECK_EQ(out[0].kept, 7);
	CHECK(out[0].cut);
	CHECK(!out[1].cut);
	output_append(l, 1, out, OUTPUT_ERR, "4", 1);
	CHECK(out[1].cut);
	CHECK_EQ(out[1].kept, 3);
	CHECK_EQ(out[1].bytes, 4);
	CHECK_EQ(l->bytes, 10);
	CHECK_EQ(output_read(l, 1, &out[0], 0, 2, back, sizeof(back)), 5);
	CHECK_MEM(back, "cdefg", 5);
	CHECK_EQ(output_read(l, 1, &out[0], 0, 7, back, sizeof(back)), 0);
	CHECK_EQ(size_of("logs/1.out"), 7);
	outputs_remove(l, 1, out);
	CHECK_EQ(l->bytes, 0);
	CHECK_EQ(l->open, 0);
	CHECK_EQ(size_of("logs/1.out"), -1);
}

/* Space that comes back later must not make a hole. */
LOGS_TEST(never_a_hole)
{
	struct output a[OUTPUT_COUNT], b[OUTPUT_COUNT];

	l->bytes_max = 8;
	outputs_init(a);
	outputs_init(b);
	output_append(l, 1, a, 0, "aaaa", 4);
	output_append(l, 2, b, 0, "bbbbbb", 6);
	CHECK_EQ(b[0].kept, 4);
	outputs_remove(l, 1, a);
	output_append(l, 2, b, 0, "cc", 2);
	CHECK_EQ(b[0].kept, 4);
	CHECK_EQ(b[0].bytes, 8);
	CHECK_EQ(l->bytes, 4);
	outputs_close(l, b);
}

LOGS_TEST(few_descriptors)
{
	struct output out[100][OUTPUT_COUNT];
	char c;

	for (uint32_t i = 0; i < 100; i++)
		outputs_init(out[i]);
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 100; i++)
			output_append(l, i + 1, out[i], 0, &"xyz"[round], 1);
	CHECK(l->open <= KEEPER_LOG_FDS_MAX);
	for (uint32_t i = 0; i < 100; i++) {
		CHECK_EQ(out[i][0].kept, 3);
		CHECK_EQ(output_read(l, i + 1, &out[i][0], 0, 2, &c, 1), 1);
		CHECK_EQ(c, 'z');
		outputs_close(l, out[i]);
	}
	CHECK_EQ(l->open, 0);
}

LOGS_TEST(what_an_earlier_keeper_kept)
{
	struct output out[OUTPUT_COUNT], again[OUTPUT_COUNT];
	char back[8];

	outputs_init(out);
	output_append(l, 5, out, 1, "hello", 5);
	outputs_close(l, out);
	logs_done(l);
	logs_init(l, box_fd);
	outputs_init(again);
	outputs_load(l, 5, again);
	CHECK_EQ(again[0].kept, 0);
	CHECK_EQ(again[1].kept, 5);
	CHECK_EQ(l->bytes, 5);
	CHECK_EQ(output_read(l, 5, &again[1], 1, 1, back, sizeof(back)), 4);
	CHECK_MEM(back, "ello", 4);
	outputs_close(l, again);
}

TAP_MAIN
