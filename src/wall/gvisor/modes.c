/*
 * A filter for runsc's own processes, in the host's kernel; see gvisor.h.
 *
 * A file with the set-user-ID bit in a writable directory of the host's would have it on the host
 * as well. The box's own filter (filter/box.syscalls, "shared") refuses to make one, inside
 * gVisor's kernel; this one is for a box that has taken over that kernel and asks the gofer.
 *
 * It says nothing of other calls, or of calls of another architecture: gVisor's own filters are
 * lists of what is allowed. openat2 is among them, whose mode is in memory where no filter sees it;
 * without it the gofer can make no hard link.
 */
#include "filter/filter.h"
#include "wall/gvisor/gvisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* From the kernel's headers, which musl does not bring. */
#if defined(__x86_64__)
#define NATIVE_ARCH 0xc000003eu
#elif defined(__aarch64__)
#define NATIVE_ARCH 0xc00000b7u
#else
#error "say here what this processor is called"
#endif

#define RET_ALLOW 0x7fff0000u
#define RET_ERRNO 0x00050000u

enum { AT_NR = 0, AT_ARCH = 4, AT_ARGS = 16 };
enum { LOAD = 0x20, JEQ = 0x15, JSET = 0x45, RET = 0x06 };
enum { FCHMODAT2 = 452, TMPFILE = 020000000, NO_ARG = -1 };

/* Of each call which argument is the mode, and which the flags that say whether there is one. */
static const struct {
	uint32_t nr;
	int mode, flags;
} calls[] = {
#ifdef SYS_chmod
	{SYS_chmod, 1, NO_ARG},	  {SYS_creat, 1, NO_ARG},    {SYS_mknod, 1, NO_ARG},
	{SYS_open, 2, 1},
#endif
	{SYS_fchmod, 1, NO_ARG},  {SYS_fchmodat, 2, NO_ARG}, {FCHMODAT2, 2, NO_ARG},
	{SYS_mknodat, 2, NO_ARG}, {SYS_openat, 3, 2},
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]), OPS = 4 + 9 * CALLS };

static uint32_t at_argument(int n)
{
	return AT_ARGS + (uint32_t)sizeof(uint64_t) * (uint32_t)n;
}

int gvisor_hold_modes(void)
{
	struct filter_op ops[OPS];
	struct filter_program p = {.ops = ops};
	const struct filter_op allow = {RET, 0, 0, RET_ALLOW};
	unsigned n = 0;

	ops[n++] = (struct filter_op){LOAD, 0, 0, AT_ARCH};
	ops[n++] = (struct filter_op){JEQ, 1, 0, NATIVE_ARCH};
	ops[n++] = allow;
	for (size_t i = 0; i < CALLS; i++) {
		unsigned is_other;

		ops[n++] = (struct filter_op){LOAD, 0, 0, AT_NR};
		is_other = n++;
		if (calls[i].flags != NO_ARG) {
			ops[n++] = (struct filter_op){LOAD, 0, 0, at_argument(calls[i].flags)};
			ops[n++] = (struct filter_op){JSET, 1, 0, O_CREAT | TMPFILE};
			ops[n++] = allow;
		}
		ops[n++] = (struct filter_op){LOAD, 0, 0, at_argument(calls[i].mode)};
		ops[n++] = (struct filter_op){JSET, 0, 1, S_ISUID | S_ISGID};
		ops[n++] = (struct filter_op){RET, 0, 0, RET_ERRNO | EPERM};
		ops[n++] = allow;
		ops[is_other] =
			(struct filter_op){JEQ, 0, (uint8_t)(n - is_other - 1), calls[i].nr};
	}
	ops[n++] = allow;
	p.count = n;
	return filter_load_program(&p, NULL);
}
