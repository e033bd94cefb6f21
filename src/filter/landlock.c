/* The three calls of Landlock, by number: neither musl nor older glibc names them. */
#include "filter/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The numbers are the same everywhere. */
#define CALL_LANDLOCK_CREATE   444
#define CALL_LANDLOCK_ADD      445
#define CALL_LANDLOCK_RESTRICT 446

enum { CREATE_VERSION = 1, RULE_PATH_BENEATH = 1 };

struct ruleset {
	uint64_t fs, net, scope;
};

struct beneath {
	uint64_t fs;
	int32_t parent_fd;
} __attribute__((packed));

int landlock_abi(void)
{
	long abi = syscall(CALL_LANDLOCK_CREATE, NULL, 0, CREATE_VERSION);

	if (abi < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
	return (int)abi;
}

int landlock_refused(int code, struct err *e)
{
	return err_set(e, ERR_UNSUPPORTED, code,
		       "whether there is Landlock cannot be asked here (%s): allow "
		       "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self to "
		       "the container or service that Cove runs in",
		       strerror(code));
}

static uint64_t known_fs(int abi)
{
	enum { FIRST = (1 << 13) - 1, IOCTL_DEV = 1 << 15 };

	return FIRST | (abi >= 2 ? LANDLOCK_REFER : 0) | (abi >= 3 ? LANDLOCK_TRUNCATE : 0) |
	       (abi >= 5 ? IOCTL_DEV : 0);
}

int landlock_new(int abi, uint64_t net, uint64_t scope)
{
	struct ruleset rules = {
		.fs = known_fs(abi),
		.net = abi >= 4 ? net : 0,
		.scope = abi >= 6 ? scope : 0,
	};
	/* A kernel takes a longer form if what it does not know is 0. */
	long fd = syscall(CALL_LANDLOCK_CREATE, &rules, sizeof(rules), 0);

	return fd < 0 ? -errno : (int)fd;
}

int landlock_allow(int set, int abi, int fd, uint64_t fs)
{
	struct beneath rule = {.fs = fs & known_fs(abi), .parent_fd = fd};

	return syscall(CALL_LANDLOCK_ADD, set, RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

int landlock_allow_all(int set, int abi, int fd)
{
	return landlock_allow(set, abi, fd, known_fs(abi));
}

int landlock_enter(int set)
{
	return syscall(CALL_LANDLOCK_RESTRICT, set, 0) < 0 ? -errno : 0;
}
