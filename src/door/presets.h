/* The policies that are built in: presets/NAME.yaml, made into C by make-presets. */
#pragma once

struct preset {
	const char *name, *text;
};

extern const struct preset presets[]; /* ends with a name that is NULL */
