/*
 * What holds a box's processes; see hold.h.
 *
 * With strict the bounding set is empty, and init, the one process that is root then, keeps what it
 * needs to become others through its inheritable set: a program of the image that root runs would
 * get that too, so init runs none as root (its option --strict), and no_new_privs lets no other
 * become root.
 */
#include "guest/hold.h"

#include "base/caps.h"

#include <errno.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>

/* ---- rlimits ---- */

enum { NOFILE_SOFT = 1024, NOFILE_HARD = 65536 };

/* Raising is refused, so what was lower stays. */
static int lower(int what, rlim_t soft, rlim_t hard)
{
	struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};

	if (setrlimit(what, &limit) == 0)
		return 0;
	if (errno != EPERM || getrlimit(what, &limit) < 0)
		return -errno;
	if (limit.rlim_max > hard)
		return -EPERM;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	return setrlimit(what, &limit) < 0 ? -errno : 0;
}

static rlim_t half_of(int what, rlim_t most)
{
	struct rlimit limit;

	return getrlimit(what, &limit) == 0 && limit.rlim_cur / 2 < most ? limit.rlim_cur / 2
									 : most;
}

int guest_hold_rlimits(uint64_t files, bool half)
{
	static const struct {
		int what;
		rlim_t value;
		bool is_users; /* counted for all of a user's processes */
	} fixed[] = {
		{RLIMIT_MEMLOCK, 8 << 20, true}, {RLIMIT_MSGQUEUE, 819200, true},
		{RLIMIT_SIGPENDING, 1024, true}, {RLIMIT_RTPRIO, 0, false},
		{RLIMIT_NICE, 0, false},
	};
	rlim_t hard = files ? files : NOFILE_HARD;
	struct rlimit stack;
	int r = lower(RLIMIT_NOFILE, hard < NOFILE_SOFT ? hard : NOFILE_SOFT, hard);

	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && r == 0; i++) {
		rlim_t value = half && fixed[i].is_users ? half_of(fixed[i].what, fixed[i].value)
							 : fixed[i].value;

		r = lower(fixed[i].what, value, value);
	}
	/* A program may ask for more stack, and none is given more than others by accident. */
	if (r == 0 && getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur > 8 << 20) {
		stack.rlim_cur = 8 << 20;
		r = setrlimit(RLIMIT_STACK, &stack) < 0 ? -errno : 0;
	}
	return r;
}

/* ---- capabilities ---- */

/* In-box root may do these and nothing else; ordinary users have none, and setuid programs cannot
 * give more. */
#define KEPT_CAPS                                                                              \
	(CAP_BIT(CAP_CHOWN) | CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |                \
	 CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_KILL) | CAP_BIT(CAP_SETGID) | CAP_BIT(CAP_SETUID) | \
	 CAP_BIT(CAP_NET_BIND_SERVICE))

const char *guest_hold_caps_text(bool strict)
{
	return strict ? "none"
		      : "chown dac_override fowner fsetid kill setgid setuid net_bind_service";
}

int guest_hold_caps(bool strict)
{
	/* What is to be inherited must be so before it is out of bounds. */
	int r = strict ? caps_keep(KEPT_CAPS | CAP_BIT(CAP_SETPCAP), KEPT_CAPS, NULL) : 0;

	if (r == 0)
		r = caps_bound(strict ? 0 : KEPT_CAPS);
	if (r < 0)
		return r;
	if (strict && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return caps_keep(KEPT_CAPS, strict ? KEPT_CAPS : 0, NULL);
}

int guest_hold_engine_caps(bool strict)
{
	if (strict && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return caps_keep(KEPT_CAPS | CAP_BIT(CAP_SYS_PTRACE), strict ? KEPT_CAPS : 0, NULL);
}
