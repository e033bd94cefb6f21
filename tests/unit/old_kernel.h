/* A kernel that lacks the newer system calls: a filter answers ENOSYS to them. */
#pragma once

#include "base/fd.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define LACKS(call)                                      \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)

/* For this process and all it starts, for good: each test has a process of its own. */
static inline void become_old(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		LACKS(SYS_openat2),
		LACKS(SYS_clone3),
		LACKS(SYS_close_range),
		LACKS(SYS_pidfd_open),
		LACKS(SYS_pidfd_send_signal),
		LACKS(SYS_landlock_create_ruleset),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof(code) / sizeof(*code), .filter = code};

	CHECK_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	CHECK_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	CHECK_EQ(fd_openat2(AT_FDCWD, "/", O_PATH, 0, 0), -ENOSYS);
}
