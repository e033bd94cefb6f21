/*
 * cove-door. A keeper starts it with `run`; people and other parts of Cove use its other verbs:
 *
 *	run                  be a box's door (door.h), with descriptors 3 and 4 as config.h says
 *	make-ca DIR COUNT    certificate authorities made ahead of time
 *	check [FILE]         is it a policy (check.h)
 *	preset NAME[,GROUP]  a policy that is built in
 *	groups               the groups that are
 *	suggest BOX          what a policy lacks for what was denied (suggest.h)
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "door/check.h"
#include "door/door.h"
#include "door/suggest.h"
#include "net/ca.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static int make_ca(const char *dir, const char *count)
{
	struct err e;
	uint64_t n;

	if (!str_parse_u64(count, DOOR_PREMADE_MAX, &n) || n == 0) {
		fprintf(stderr, "cove-door: COUNT must be 1 to %u\n", DOOR_PREMADE_MAX);
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
	bool is_run = argc == 1 || (argc == 2 && strcmp(argv[1], "run") == 0);

	fd_fill_low();
	if (is_run && fcntl(DOOR_CONFIG_FD, F_GETFD) >= 0 && fcntl(DOOR_LINK_FD, F_GETFD) >= 0)
		return door_run();
	if (argc == 4 && strcmp(argv[1], "make-ca") == 0)
		return make_ca(argv[2], argv[3]);
	if (argc > 1 && strcmp(argv[1], "check") == 0)
		return check_main(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "preset") == 0)
		return preset_main(argc - 1, argv + 1);
	if (argc == 2 && strcmp(argv[1], "groups") == 0)
		return groups_main();
	if (argc == 3 && strcmp(argv[1], "suggest") == 0)
		return suggest_main(argv[2]);
	fprintf(stderr, "cove-door is started by a box's keeper; by hand: make-ca DIR COUNT, "
			"check, preset, groups, suggest\n");
	return 2;
}
