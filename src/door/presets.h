/*
 * What is built in: presets, which are whole policies (presets/NAME.yaml), and groups, which open
 * one thing more beside a preset (presets/groups/NAME.yaml). make-presets makes them C. They have
 * nothing but a version and rules, each with a name that is in none of the others.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct preset {
	const char *name, *text;
	bool is_group;
};

extern const struct preset presets[]; /* ends with a name that is NULL */

/* "none" is "closed". */
const struct preset *preset_find(const char *name);

/*
 * The text of a preset or a group as its file has it; or of a list, "balanced,huggingface": a
 * preset and groups, as a policy that uses them. The same set is the same text, in whatever order
 * and however often a name stands there. Owned. ERR_NOT_FOUND for one name that there is not,
 * ERR_INVALID for a list.
 */
int preset_text(const char *names, char **ret, struct err *e);
