/* How much a group read and wrote; see iocount.h. */
#include "base/iocount.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAJOR_LOOP = 7 };

void io_count(const char *text, uint64_t *ret_read, uint64_t *ret_write)
{
	static const char *const names[2][2] = {{" rbytes=", " Read "}, {" wbytes=", " Write "}};
	uint64_t loop[2] = {0}, other[2] = {0};

	for (const char *line = text; *line;) {
		size_t len = strcspn(line, "\n");
		uint64_t *sum = strtoul(line, NULL, 10) == MAJOR_LOOP ? loop : other;

		for (int i = 0; i < 4; i++) {
			const char *name = names[i / 2][i % 2];
			const char *at = memmem(line, len, name, strlen(name));

			if (at)
				sum[i / 2] += strtoull(at + strlen(name), NULL, 10);
		}
		line += len + (line[len] == '\n');
	}
	*ret_read = loop[0] > other[0] ? loop[0] : other[0];
	*ret_write = loop[1] > other[1] ? loop[1] : other[1];
}
