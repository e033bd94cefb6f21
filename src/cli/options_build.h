/* What `image build` and `image make` take beside what they share with others: further rows of
 * options.h. */
#pragma once

#include <stdbool.h>

/* clang-format off */
#define OPTIONS_BUILD(X) \
	X(BUILD_TAG, "tag", 't', LIST, build_tags, "NAME", \
		"name of the image; default: the first digits of its id; repeatable") \
	X(BUILD_FILE, "file", 'f', TEXT, build.file, "FILE", \
		"the Dockerfile, - for stdin; default: Dockerfile in DIR") \
	X(BUILD_ARG, "build-arg", 0, ENV, build_args, "NAME[=VALUE]", \
		"the value of an ARG; without VALUE, your own variable's; repeatable") \
	X(BUILD_TARGET, "target", 0, TEXT, build.target, "STAGE", \
		"build this stage; default: the last") \
	X(BUILD_NO_CACHE, "no-cache", 0, FLAG, build.no_cache, NULL, "make every step anew") \
	X(BUILD_SECRET, "secret", 0, LIST, build_secrets, "id=ID,src=FILE|env=NAME", \
		"for RUN --mount=type=secret,id=ID; in no layer; repeatable") \
	X(BUILD_PLATFORM, "platform", 0, TEXT, build.platform, "OS/ARCH", \
		"only this machine's own can be built") \
	X(BUILD_PROGRESS, "progress", 0, TEXT, build.progress, "plain|steps", \
		"plain: also what commands print; default steps: only of one that fails") \
	X(BUILD_QUIET, "quiet", 'q', FLAG, quiet, NULL, "print nothing but the image's name") \
	X(BUILD_TIMEOUT, "timeout", 0, MS, box.timeout_ms, "TIME", \
		"end a RUN that takes longer (90, 10m; 0: never)") \
	X(MAKE_SUITE, "suite", 0, TEXT, build.suite, "NAME", "the Debian to begin with") \
	X(MAKE_ADD, "add", 0, LIST, build_packages, "PKG,...", \
		"packages on top of an image (--from), as one more layer") \
	X(MAKE_FROM, "from", 0, TEXT, build.from, "IMAGE", \
		"the image to add packages to; default 'base'")
/* clang-format on */

/* Their values. */
struct options_build {
	const char *file, *target, *platform, *progress, *suite, *from;
	bool no_cache;
};
