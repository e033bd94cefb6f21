/* Rows of the table in options.h: looking after the state directory. */
#pragma once

/* clang-format off */
#define OPTIONS_SYSTEM(X) \
	X(DRY_RUN, "dry-run", 'n', FLAG, dry_run, NULL, \
		"say what would be done, do nothing") \
	X(PRUNE_ALL, "all", 'a', FLAG, all, NULL, \
		"also images that no box uses, what is premade, and the build cache") \
	X(PRUNE_BOXES, "boxes", 0, FLAG, boxes, NULL, "also boxes that do not run") \
	X(WITH_SECRETS, "secrets", 0, FLAG, with_secrets, NULL, \
		"also secrets, with their values") \
	X(REPLACE, "force", 'f', FLAG, force, NULL, "replace what is there already") \
	X(DEEP, "deep", 0, FLAG, deep, NULL, "read every file of every layer")
/* clang-format on */
