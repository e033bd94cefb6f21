/*
 * Where the helper programs are: $COVE_LIBEXEC if it is set (and nowhere else then); beside the
 * running program, as installed (../libexec/cove) or as built (../keeper, ../init, ../helper and so
 * on); below the prefix that libcove.so was loaded from, wherever that is now; the directory chosen
 * when Cove was configured.
 */
#include "base/str.h"
#include "core/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef COVE_LIBEXEC_DIR
#define COVE_LIBEXEC_DIR "/usr/local/libexec/cove"
#endif

/* The directory that a program is built in: the module's. */
static const char *module_of(const char *program)
{
	if (strcmp(program, "cove-store") == 0)
		return "helper"; /* src/store is what it stands on */
	return str_starts(program, "cove-") ? program + strlen("cove-") : "cli";
}

/* dir/cove-keeper as installed, or dir/keeper/cove-keeper as built. */
static bool find_in(const char *dir, const char *program, char *ret, size_t size)
{
	snprintf(ret, size, "%s/%s", dir, program);
	if (access(ret, X_OK) == 0)
		return true;
	snprintf(ret, size, "%s/%s/%s", dir, module_of(program), program);
	return access(ret, X_OK) == 0;
}

enum { SELF_MAX = 400 };

/* The directory above the one of this program: a prefix, or src/ of a build. False: not known. */
static bool find_self(char self[SELF_MAX])
{
	ssize_t n = readlink("/proc/self/exe", self, SELF_MAX - 1);
	char *slash;

	self[n > 0 ? n : 0] = 0;
	for (int up = 0; up < 2; up++) {
		slash = strrchr(self, '/');
		if (!slash)
			return false;
		*slash = 0;
	}
	return true;
}

/* Of a program that is not below Cove's prefix: libcove.so is, in lib or in lib/<machine>. */
static bool find_by_library(const char *program, char *ret, size_t size)
{
	char place[SELF_MAX], dir[SELF_MAX + 40], *slash;
	Dl_info self;

	if (dladdr((const void *)(uintptr_t)spawn_find_program, &self) == 0 || !self.dli_fname ||
	    strlen(self.dli_fname) >= sizeof(place))
		return false;
	str_copy(place, sizeof(place), self.dli_fname);
	for (int up = 0; up < 3 && (slash = strrchr(place, '/')) != NULL; up++) {
		*slash = 0;
		snprintf(dir, sizeof(dir), "%s/libexec/cove", place);
		if (up > 0 && find_in(dir, program, ret, size))
			return true;
	}
	return false;
}

int spawn_find_program(const char *program, char *ret, size_t size, struct err *e)
{
	const char *dir = secure_getenv("COVE_LIBEXEC");
	char self[SELF_MAX], installed[SELF_MAX + 40];
	bool has_self;

	if (dir && *dir) {
		if (find_in(dir, program, ret, size))
			return 0;
		ret[0] = 0;
		return err_set(e, ERR_UNSUPPORTED, ENOENT,
			       "no helper program '%s' in COVE_LIBEXEC=%.120s; unset it or point "
			       "it at them",
			       program, dir);
	}
	has_self = find_self(self);
	snprintf(installed, sizeof(installed), "%s/libexec/cove", self);
	if ((has_self &&
	     (find_in(installed, program, ret, size) || find_in(self, program, ret, size))) ||
	    find_by_library(program, ret, size) || find_in(COVE_LIBEXEC_DIR, program, ret, size))
		return 0;
	ret[0] = 0;
	return err_set(e, ERR_UNSUPPORTED, ENOENT,
		       "no %s below '%.70s' nor in '%.60s': build it (make) or install Cove again "
		       "(make install)",
		       program, has_self ? self : COVE_LIBEXEC_DIR, COVE_LIBEXEC_DIR);
}
