/* How `cove sbx` spells what other verbs spell otherwise: further rows of options.h. */
#pragma once

/* clang-format off */
#define OPTIONS_SBX(X) \
	X(SBX_TEMPLATE, "template", 't', TEXT, box.image, "IMAGE", \
		"what the box starts from: an image of `cove image ls`; default 'base'") \
	X(SBX_MEMORY, "memory", 'm', LIMIT_SIZE, box.mem_bytes, "SIZE", \
		"memory, page cache included (512m, 8g, 8gb); default 2g") \
	X(SBX_DETACH, "detach", 'd', FLAG, background, NULL, "do not wait; print the exec id") \
	X(SBX_FORCE, "force", 'f', FLAG, force, NULL, "also a running box") \
	X(SBX_OUTPUT, "output", 'o', TEXT, output, "text|json", "text for people, or JSON") \
	X(SBX_DEBUG, "debug", 'D', FLAG, verbose, NULL, \
		"say what happens, as [cove] lines on stderr")
/* clang-format on */
