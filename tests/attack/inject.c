/*
 * `attack --inject PID`: makes a process of the host's side do what it was never written to do, as
 * if it had been taken over. Run on the host, as root: calls come on stdin, one per line, and are
 * made by the process itself, in its own confinement; what each returned goes to stdout.
 *
 *	openat -100 =/etc/passwd 1 0
 *
 * An argument after '=' is a string. The process is stopped in the middle of a system call, so what
 * stands before its next instruction is `syscall`: the registers are set for another, one step is
 * made, and in the end all is as it was and it goes on.
 */
#include "attack.h"
#include "helpers.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#ifndef PTRACE_SEIZE
#define PTRACE_SEIZE	 0x4206
#define PTRACE_INTERRUPT 0x4207
#endif

#if defined(__x86_64__)

enum { ARGS = 6, STRING_MAX = 512, LINE_MAX_BYTES = 4096, RED_ZONE = 128 };

static const struct {
	const char *name;
	long nr;
} calls[] = {
	{"getpid", SYS_getpid},
	{"fork", SYS_fork},
	{"kill", SYS_kill},
	{"open", SYS_open},
	{"unlink", SYS_unlink},
	{"mkdir", SYS_mkdir},
	{"clone", SYS_clone},
	{"listen", SYS_listen},
	{"process_vm_readv", SYS_process_vm_readv},
	{"pidfd_open", SYS_pidfd_open},
	{"memfd_create", SYS_memfd_create},
	{"openat", SYS_openat},
	{"openat2", SYS_openat2},
	{"close", SYS_close},
	{"unlinkat", SYS_unlinkat},
	{"mkdirat", SYS_mkdirat},
	{"renameat", SYS_renameat},
	{"symlinkat", SYS_symlinkat},
	{"linkat", SYS_linkat},
	{"mknodat", SYS_mknodat},
	{"chmod", SYS_chmod},
	{"fchmod", SYS_fchmod},
	{"fchmodat", SYS_fchmodat},
	{"chown", SYS_chown},
	{"fchownat", SYS_fchownat},
	{"truncate", SYS_truncate},
	{"setxattr", SYS_setxattr},
	{"mount", SYS_mount},
	{"umount2", SYS_umount2},
	{"chroot", SYS_chroot},
	{"pivot_root", SYS_pivot_root},
	{"execve", SYS_execve},
	{"socket", SYS_socket},
	{"connect", SYS_connect},
	{"bind", SYS_bind},
	{"ptrace", SYS_ptrace},
	{"unshare", SYS_unshare},
	{"setns", SYS_setns},
	{"prlimit64", SYS_prlimit64},
	{"bpf", SYS_bpf},
	{"keyctl", SYS_keyctl},
	{"mmap", SYS_mmap},
	{"mprotect", SYS_mprotect},
	{"open_tree", SYS_open_tree},
	{"memfd_create", 319},
	{"io_uring_setup", 425},
	{"setresuid", SYS_setresuid},
	{"capset", SYS_capset},
	{"init_module", SYS_init_module},
};

static int fail(const char *what)
{
	fprintf(stderr, "inject: %s: %s\n", what, strerror(errno));
	return 3;
}

static int wait_stop(pid_t pid)
{
	int status;

	return waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status) ? 0 : -1;
}

/* Writes whole words, so a little more than the text. */
static int put_string(pid_t pid, unsigned long at, const char *text)
{
	char padded[STRING_MAX] = {0};
	size_t len = strlen(text) + 1;

	if (len > sizeof(padded))
		return -1;
	memcpy(padded, text, len);
	for (size_t i = 0; i < len; i += sizeof(long)) {
		long word;

		memcpy(&word, padded + i, sizeof(word));
		if (ptrace(PTRACE_POKEDATA, pid, (void *)(at + i), (void *)word) < 0)
			return -1;
	}
	return 0;
}

static long call_number(const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].nr;
	return -1;
}

static int make_call(pid_t pid, const struct user_regs_struct *was, char *line, long *ret)
{
	unsigned long args[ARGS] = {0}, room = was->rsp - RED_ZONE - ARGS * STRING_MAX;
	struct user_regs_struct regs = *was;
	char *rest, *word = strtok_r(line, " \n", &rest);
	long nr = word ? call_number(word) : -1;

	if (nr < 0) {
		errno = EINVAL;
		return fail(word ? word : "empty line");
	}
	room &= ~15ul;
	for (int i = 0; i < ARGS && (word = strtok_r(NULL, " \n", &rest)); i++) {
		args[i] = *word == '=' ? room + (unsigned long)i * STRING_MAX
				       : strtoul(word, NULL, 0);
		if (*word == '=' && put_string(pid, args[i], word + 1) < 0)
			return fail("write its memory");
	}
	regs.rip -= 2;
	regs.orig_rax = ~0ull;
	regs.rax = (unsigned long)nr;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	regs.r8 = args[4];
	regs.r9 = args[5];
	if (ptrace(PTRACE_SETREGS, pid, NULL, &regs) < 0 ||
	    ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) < 0 || wait_stop(pid) < 0 ||
	    ptrace(PTRACE_GETREGS, pid, NULL, &regs) < 0)
		return fail("step");
	if (regs.rip != was->rip) {
		errno = EFAULT;
		return fail("it went elsewhere");
	}
	*ret = (long)regs.rax;
	return 0;
}

int helper_inject(int count, char **args)
{
	pid_t pid = (pid_t)strtol(args[0], NULL, 10);
	struct user_regs_struct was;
	char line[LINE_MAX_BYTES];
	int r = 0;
	long code, got;

	(void)count;
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || wait_stop(pid) < 0 ||
	    ptrace(PTRACE_GETREGS, pid, NULL, &was) < 0)
		return fail("stop it");
	code = ptrace(PTRACE_PEEKTEXT, pid, (void *)(was.rip - 2), NULL);
	if ((code & 0xffff) != 0x050f) {
		errno = EAGAIN; /* it was not in a system call */
		r = fail("find the instruction");
	}
	while (r == 0 && fgets(line, sizeof(line), stdin)) {
		r = make_call(pid, &was, line, &got);
		if (r == 0)
			printf("%ld\n", got);
	}
	if (ptrace(PTRACE_SETREGS, pid, NULL, &was) < 0 ||
	    ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		return fail("let it go");
	return r;
}

#else

int helper_inject(int count, char **args)
{
	(void)count;
	(void)args;
	fprintf(stderr, "inject: not written for this processor\n");
	return 65;
}

#endif
