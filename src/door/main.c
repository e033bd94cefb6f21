/*
 * cove-door. A keeper starts it without arguments; people and other parts of Cove use its verbs:
 *
 *	make-ca DIR COUNT    certificate authorities made ahead of time
 */
#include "base/limits.h"
#include "base/str.h"
#include "door/ca.h"

#include <stdio.h>
#include <string.h>

static int make_ca(const char *dir, const char *count)
{
	struct err e;
	uint64_t n;

	if (!str_parse_u64(count, DOOR_SPARES_MAX, &n) || n == 0) {
		fprintf(stderr, "cove-door: COUNT must be 1 to %u\n", DOOR_SPARES_MAX);
		return 2;
	}
	if (ca_make_many(dir, (unsigned)n, &e) < 0) {
		fprintf(stderr, "cove-door: %s\n", e.msg);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "make-ca") == 0)
		return make_ca(argv[2], argv[3]);
	fprintf(stderr, "cove-door is started by cove; its verbs are: make-ca DIR COUNT\n");
	return 2;
}
