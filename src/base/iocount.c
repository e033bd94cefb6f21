/* How much a group read and wrote; see iocount.h. */
#include "base/iocount.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR_LOOP = 7 };

static void count_line(const char *line, size_t len, uint64_t *read_bytes, uint64_t *write_bytes)
{
	static const char *const names[2][2] = {{" rbytes=", " Read "}, {" wbytes=", " Write "}};
	uint64_t *to[2] = {read_bytes, write_bytes};

	for (int dir = 0; dir < 2; dir++)
		for (int i = 0; i < 2; i++) {
			size_t n = strlen(names[dir][i]);
			const char *at = memmem(line, len, names[dir][i], n);

			if (at)
				*to[dir] += strtoull(at + n, NULL, 10);
		}
}

void io_count(const char *text, uint64_t *ret_read, uint64_t *ret_write)
{
	uint64_t loop[2] = {0}, other[2] = {0};

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		uint64_t *sum = strtoul(line, NULL, 10) == MAJOR_LOOP ? loop : other;

		count_line(line, len, &sum[0], &sum[1]);
		line += len + (line[len] == '\n');
	}
	*ret_read = loop[0] > other[0] ? loop[0] : other[0];
	*ret_write = loop[1] > other[1] ? loop[1] : other[1];
}
