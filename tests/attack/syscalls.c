/* B1, B3, B4, B5, B6, B7, B13, B21: system calls that a box has no business making. */
#include "attack.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- B1 ---- */

CASE(B1_filter_is_on, "B1", AS_BOTH, "/proc/self/status says Seccomp: 2")
{
	return status_number("Seccomp", 10) == 2 ? held("filter mode")
						 : broke("mode %lld", status_number("Seccomp", 10));
}

struct sweep {
	long nr;
	unsigned long junk;
};

static bool ends_itself(long nr)
{
	return nr == SYS_exit || nr == SYS_exit_group || nr == SYS_pause ||
	       nr == SYS_rt_sigreturn || nr == SYS_fork || nr == SYS_vfork || nr == SYS_clone ||
	       nr == SYS_rt_sigsuspend || nr == SYS_kill || nr == SYS_tkill || nr == SYS_tgkill ||
	       nr == SYS_munmap || nr == SYS_reboot || nr == SYS_kexec_load || nr == SYS_sync;
}

static int sweep_one(void *arg)
{
	const struct sweep *s = arg;
	const struct itimerval soon = {.it_value = {.tv_usec = 200000}};

	setitimer(ITIMER_REAL, &soon, NULL);
	/* The descriptors of the case are not to be closed or filled by chance. */
	for (int fd = 0; fd < 3; fd++)
		close(fd);
	syscall(s->nr, s->junk, s->junk, s->junk, s->junk, s->junk, s->junk);
	return 0;
}

static int sweep(unsigned long junk)
{
	unsigned survived = 0, ended = 0;

	for (long nr = 0; nr <= 600; nr++) {
		struct sweep s = {.nr = nr, .junk = junk};
		int status;

		if (ends_itself(nr))
			continue;
		status = in_child(sweep_one, &s, 4);
		if (status >= 0 && WIFEXITED(status))
			survived++;
		else
			ended++;
	}
	return held("%u returned, %u ended their process", survived, ended);
}

CASE(B1_sweep_zero_arguments, "B1", AS_BOTH, "600 system calls with zeros: box and host survive")
{
	return sweep(0);
}

CASE(B1_sweep_junk_arguments, "B1", AS_BOTH, "600 system calls with junk: box and host survive")
{
	return sweep(0xdeadbeefcafef00dul);
}

CASE(B1_sweep_minus_one, "B1", AS_BOTH, "600 system calls with -1: box and host survive")
{
	return sweep(~0ul);
}

CASE(B1_unknown_numbers, "B1", AS_BOTH, "numbers that no kernel of today needs answer ENOSYS")
{
	for (long nr = NR_KNOWN_END; nr <= 1100; nr++) {
		if (syscall(nr, -1, -1, -1, -1, -1, -1) >= 0)
			return broke("%ld succeeded", nr);
		if (errno != ENOSYS)
			return broke("%ld: %s", nr, strerror(errno));
	}
	return held("ENOSYS");
}

#ifdef __x86_64__
static int foreign_call(void *arg)
{
	long result;

	/* getpid by the 32-bit table. */
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(20L)
			 : "memory", "r8", "r9", "r10", "r11");
	return result > 0 ? 42 : 43;
}

CASE(B1_foreign_architecture, "B1", AS_BOTH, "a 32-bit system call (int 0x80) ends its process")
{
	int status = in_child(foreign_call, NULL, 5);

	if (status >= 0 && WIFSIGNALED(status))
		return held("signal %d", WTERMSIG(status));
	return broke("it returned (status %d)", status);
}

static int x32_call(void *arg)
{
	return syscall(0x40000000L + SYS_getpid) > 0 ? 42 : 43;
}

CASE(B1_x32_numbers, "B1", AS_BOTH, "system calls by the x32 table do not work")
{
	int status = in_child(x32_call, NULL, 5);

	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 42)
		return broke("getpid by x32 worked");
	return held("refused");
}
#endif

CASE(B1_filter_of_its_own, "B1", AS_BOTH,
     "a box loads no filter of its own: their memory is all the host's, and ours stays the only "
     "one")
{
	struct {
		unsigned short code;
		unsigned char jt, jf;
		unsigned k;
	} allow = {0x06, 0, 0, 0x7fff0000};
	struct {
		unsigned short len;
		void *filter;
	} prog = {1, &allow};
	const long high = 1l << 32;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, 2 /* filter */, &prog) == 0 ||
	    syscall(SYS_prctl, high | PR_SET_SECCOMP, 2, &prog, 0, 0) == 0)
		return broke("prctl loads one");
	if (errno != EINVAL)
		return broke("prctl does not say that there are none: %s", strerror(errno));
	for (long flags = 0; flags < 64; flags = flags ? 2 * flags : 1)
		if (syscall(SYS_seccomp, 1, flags, &prog) >= 0 || errno != ENOSYS)
			return broke("seccomp(2) with flags %ld: %s", flags, strerror(errno));
	if (status_number("Seccomp_filters", 10) > 1)
		return broke("there is another filter");
	return refused("io_uring_setup after that", syscall(NR_io_uring_setup, 1, NULL));
}

CASE(B1_filter_listener, "B1", AS_BOTH,
     "a user-notification filter of the box's own cannot answer in place of ours")
{
	struct {
		unsigned short code;
		unsigned char jt, jf;
		unsigned k;
	} notify = {0x06, 0, 0, 0x7fc00000};
	struct {
		unsigned short len;
		void *filter;
	} prog = {1, &notify};
	const struct itimerval soon = {.it_value = {.tv_usec = 200000}};
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		setitimer(ITIMER_REAL, &soon, NULL);
		syscall(SYS_seccomp, 1, 8, &prog);
		_exit(syscall(SYS_bpf, 0, 0, 0) >= 0 ? 42 : 0);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 42 ? broke("bpf was answered")
							      : held("no gain");
}

/* ---- B3 ---- */

static const struct {
	const char *name;
	unsigned long flag;
} spaces[] = {{"mnt", 0x20000},	    {"cgroup", 0x2000000}, {"uts", 0x4000000},	{"ipc", 0x8000000},
	      {"user", 0x10000000}, {"pid", 0x20000000},   {"net", 0x40000000}, {"time", 0x80}};

CASE(B3_unshare_each_namespace, "B3", AS_BOTH, "unshare is refused for every CLONE_NEW* bit")
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		if (syscall(SYS_unshare, spaces[i].flag) == 0)
			return broke("%s", spaces[i].name);
		if (!is_refusal(errno) && errno != ENOSPC)
			return broke("%s: %s", spaces[i].name, strerror(errno));
	}
	return held("8 kinds");
}

CASE(B3_unshare_user_is_filtered, "B3", AS_BOTH,
     "unshare(NEWUSER) is refused by the filter, before the sysctl's ENOSPC")
{
	return refused("unshare", syscall(SYS_unshare, 0x10000000ul));
}

CASE(B3_clone_each_namespace, "B3", AS_BOTH, "clone is refused for every CLONE_NEW* bit")
{
	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		long pid;

		if (spaces[i].flag == 0x80) /* only clone3 has it; these bits are a signal here */
			continue;
		pid = syscall(SYS_clone, spaces[i].flag | SIGCHLD, 0, 0, 0, 0);
		if (pid == 0)
			_exit(0);
		if (pid > 0)
			return broke("%s", spaces[i].name);
		if (!is_refusal(errno))
			return broke("%s: %s", spaces[i].name, strerror(errno));
	}
	return held("7 kinds");
}

CASE(B3_clone_high_bits, "B3", AS_BOTH, "namespace bits are seen whatever else is set in clone")
{
	long pid = syscall(SYS_clone, 0x10000000ul | 0xffffffff00000000ul | SIGCHLD, 0, 0, 0, 0);

	if (pid == 0)
		_exit(0);
	return failed("clone", pid);
}

CASE(B3_clone3, "B3", AS_BOTH, "clone3, whose flags no filter can read, answers ENOSYS")
{
	uint64_t args[11] = {0x10000000ull, 0, 0, 0, SIGCHLD};
	long pid = syscall(NR_clone3, args, sizeof(args));

	if (pid == 0)
		_exit(0);
	if (pid > 0)
		return broke("clone3 made a user namespace");
	return errno == ENOSYS ? held("ENOSYS") : broke("%s", strerror(errno));
}

CASE(B3_setns_each, "B3", AS_BOTH, "setns into init's and one's own namespaces is refused")
{
	static const char *const names[] = {"mnt", "cgroup", "uts", "ipc", "user", "pid", "net"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "/proc/self/ns/%s", names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && syscall(SYS_setns, fd, 0) == 0)
			return broke("%s", names[i]);
		if (fd >= 0)
			close(fd);
	}
	return refused("setns", syscall(SYS_setns, -1, 0));
}

CASE(B3_setns_by_pidfd, "B3", AS_BOTH, "setns with a pidfd of init is refused")
{
	long fd = syscall(NR_pidfd_open, 1, 0);

	return refused("setns", syscall(SYS_setns, fd, 0x20000));
}

CASE(B3_parent_namespace_ioctl, "B3", AS_BOTH,
     "NS_GET_PARENT and NS_GET_USERNS of one's own namespace lead to no host namespace")
{
	int fd = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return held("%s", strerror(errno));
	return failed("NS_GET_PARENT", syscall(SYS_ioctl, fd, 0xb702, 0));
}

/* ---- B4 ---- */

CASE(B4_ptrace_attach_init, "B4", AS_BOTH, "init cannot be attached to")
{
	return refused("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, 1, 0, 0));
}

CASE(B4_ptrace_seize_init, "B4", AS_BOTH, "init cannot be seized")
{
	return refused("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, 1, 0, 0));
}

CASE(B4_process_vm_readv_init, "B4", AS_BOTH, "init's memory cannot be read")
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};

	return refused("process_vm_readv",
		       syscall(SYS_process_vm_readv, 1, &local, 1, &remote, 1, 0));
}

CASE(B4_process_vm_writev_init, "B4", AS_BOTH, "init's memory cannot be written")
{
	char byte = 0;
	struct iovec local = {&byte, 1}, remote = {(void *)0x400000, 1};

	return refused("process_vm_writev",
		       syscall(SYS_process_vm_writev, 1, &local, 1, &remote, 1, 0));
}

CASE(B4_proc_mem_of_init, "B4", AS_BOTH, "/proc/1/mem does not open")
{
	return failed("open", open("/proc/1/mem", O_RDWR | O_CLOEXEC));
}

CASE(B4_pidfd_getfd_init, "B4", AS_BOTH, "no descriptor can be taken from init")
{
	long pidfd = syscall(NR_pidfd_open, 1, 0);

	for (int fd = 0; fd < 16; fd++)
		if (syscall(NR_pidfd_getfd, pidfd, fd, 0) >= 0)
			return broke("descriptor %d", fd);
	return refused("pidfd_getfd", syscall(NR_pidfd_getfd, pidfd, 0, 0));
}

CASE(B4_kcmp_init, "B4", AS_BOTH, "kcmp against init is refused")
{
	return refused("kcmp", syscall(SYS_kcmp, getpid(), 1, 1, 0, 0));
}

CASE(B4_process_madvise_init, "B4", AS_BOTH, "process_madvise on init is refused")
{
	struct iovec range = {(void *)0x400000, 4096};
	long pidfd = syscall(NR_pidfd_open, 1, 0);

	return refused("process_madvise",
		       syscall(NR_process_madvise, pidfd, &range, 1, 4 /* DONTNEED */, 0));
}

CASE(B4_prlimit_init, "B4", AS_BOTH, "init's resource limits cannot be changed")
{
	struct rlimit none = {0, 0};

	return failed("prlimit", prlimit(1, RLIMIT_NOFILE, &none, NULL));
}

CASE(B4_init_descriptors_hidden, "B4", AS_BOTH, "/proc/1/fd cannot be listed")
{
	return failed("open", open("/proc/1/fd/0", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
}

CASE(B4_affinity_and_priority_of_init, "B4", AS_BOTH, "init's affinity and priority are its own")
{
	struct sched_param param = {0};
	int before = getpriority(PRIO_PROCESS, 1), more = before + 1;
	cpu_set_t set;

	/* To where it is already: one that works does no harm. */
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return broke("%s", strerror(errno));
	if (setpriority(PRIO_PROCESS, 1, more) == 0 || setpriority(PRIO_PGRP, 1, more) == 0)
		return broke("its priority was changed");
	setpriority(PRIO_USER, getuid(), more);
	if (getpriority(PRIO_PROCESS, 1) != before)
		return broke("its priority was changed with its user's");
	if (syscall(SYS_sched_setscheduler, 1, SCHED_BATCH, &param) == 0 ||
	    syscall(SYS_sched_setparam, 1, &param) == 0 ||
	    syscall(SYS_ioprio_set, 1, 1, 3 << 13) == 0)
		return broke("its scheduling was changed");
	return refused("sched_setaffinity", sched_setaffinity(1, sizeof(set), &set));
}

/* ---- calls that are refused before their arguments are looked at ---- */

#define DENIED(id, line, text, ...)                         \
	CASE(id, line, AS_BOTH, text " is refused")         \
	{                                                   \
		return refused(text, syscall(__VA_ARGS__)); \
	}

DENIED(B5_keyctl, "B5", "keyctl", SYS_keyctl, 0, -3, 0, 0, 0)
DENIED(B5_add_key, "B5", "add_key", SYS_add_key, "user", "k", "v", 1, -3)
DENIED(B5_request_key, "B5", "request_key", SYS_request_key, "user", "k", NULL, 0)
DENIED(B6_bpf, "B6", "bpf", SYS_bpf, 0, NULL, 0)
DENIED(B6_perf_event_open, "B6", "perf_event_open", SYS_perf_event_open, NULL, 0, -1, -1, 0)
DENIED(B6_userfaultfd, "B6", "userfaultfd", SYS_userfaultfd, 0)
DENIED(B6_userfaultfd_user_mode, "B6", "userfaultfd(USER_MODE_ONLY)", SYS_userfaultfd, 1)
DENIED(B6_io_uring_setup, "B6", "io_uring_setup", NR_io_uring_setup, 1, NULL)
DENIED(B7_io_uring_enter, "B7", "io_uring_enter", NR_io_uring_enter, -1, 0, 0, 0, NULL, 0)
DENIED(B7_io_uring_register, "B7", "io_uring_register", NR_io_uring_register, -1, 0, NULL, 0)
DENIED(B6_kexec_load, "B6", "kexec_load", SYS_kexec_load, 0, 0, NULL, ~0ul)
DENIED(B6_kexec_file_load, "B6", "kexec_file_load", SYS_kexec_file_load, -1, -1, 0, NULL, ~0ul)
DENIED(B6_init_module, "B6", "init_module", SYS_init_module, NULL, 0, "")
DENIED(B6_finit_module, "B6", "finit_module", SYS_finit_module, -1, "", 0)
DENIED(B6_delete_module, "B6", "delete_module", SYS_delete_module, "", 0)
DENIED(B6_quotactl, "B6", "quotactl", SYS_quotactl, 0x80000100, NULL, 0, NULL)
DENIED(B6_quotactl_fd, "B6", "quotactl_fd", NR_quotactl_fd, -1, 0, 0, NULL)
DENIED(B6_swapon, "B6", "swapon", SYS_swapon, "/nowhere", 0)
DENIED(B6_swapoff, "B6", "swapoff", SYS_swapoff, "/nowhere")
/* With wrong magic numbers, so that a hole would be seen and not felt. */
DENIED(B6_reboot, "B6", "reboot", SYS_reboot, 1, 2, 3, NULL)
DENIED(B6_acct, "B6", "acct", SYS_acct, "/nowhere")
DENIED(B6_vhangup, "B6", "vhangup", SYS_vhangup)
DENIED(B6_fanotify_init, "B6", "fanotify_init", SYS_fanotify_init, ~0u, 0)
DENIED(B6_lookup_dcookie, "B6", "lookup_dcookie", SYS_lookup_dcookie, 0ul, NULL, 0)
DENIED(B6_move_pages, "B6", "move_pages of init", SYS_move_pages, 1, 0, NULL, NULL, NULL, 0)
DENIED(B6_migrate_pages, "B6", "migrate_pages", SYS_migrate_pages, 1, 0, NULL, NULL)
DENIED(B6_memfd_secret, "B6", "memfd_secret", NR_memfd_secret, ~0u)
DENIED(B6_sethostname, "B6", "sethostname", SYS_sethostname, NULL, -1)
DENIED(B6_setdomainname, "B6", "setdomainname", SYS_setdomainname, NULL, -1)
DENIED(B6_map_shadow_stack, "B6", "map_shadow_stack", NR_map_shadow_stack, 1, 0, ~0u)
DENIED(B6_lsm_set_self_attr, "B6", "lsm_set_self_attr", NR_lsm_set_self_attr, 0, NULL, 0, 0)
DENIED(B6_open_tree_attr, "B6", "open_tree_attr", NR_open_tree_attr, -1, "", 1, NULL, 0)
#ifdef __x86_64__
DENIED(B6_iopl, "B6", "iopl", SYS_iopl, 4)
DENIED(B6_ioperm, "B6", "ioperm", SYS_ioperm, 0, 0, 0)
DENIED(B6_modify_ldt, "B6", "modify_ldt", SYS_modify_ldt, 17, NULL, 0)
DENIED(B6_uselib, "B6", "uselib", SYS_uselib, "/nowhere")
DENIED(B6_ustat, "B6", "ustat", SYS_ustat, 0, NULL)
DENIED(B6_sysfs, "B6", "sysfs", SYS_sysfs, 9)
#endif
DENIED(B21_settimeofday, "B21", "settimeofday", SYS_settimeofday, 1, NULL)
DENIED(B21_clock_settime, "B21", "clock_settime", SYS_clock_settime, 0, 1)

/* ---- B13 ---- */

CASE(B13_pr_set_mm, "B13", AS_BOTH, "PR_SET_MM is refused")
{
	return refused("PR_SET_MM", prctl(PR_SET_MM, 9 /* EXE_FILE */, -1, 0, 0));
}

CASE(B13_set_ptracer_changes_nothing, "B13", AS_BOTH,
     "PR_SET_PTRACER and PR_SET_DUMPABLE give no way to init")
{
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	prctl(0x59616d61, -1, 0, 0, 0);
	return refused("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, 1, 0, 0));
}

CASE(B13_personality, "B13", AS_BOTH, "personality(READ_IMPLIES_EXEC) and odd values are refused")
{
	return refused("personality", syscall(SYS_personality, 0x0400000));
}

CASE(B13_securebits, "B13", AS_BOTH,
     "securebits cannot be changed, nor ambient capabilities raised")
{
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0) == 0)
		return broke("CAP_SYS_ADMIN raised");
	return failed("PR_SET_SECUREBITS", prctl(PR_SET_SECUREBITS, 0x2f, 0, 0, 0));
}

CASE(B13_capset, "B13", AS_BOTH, "capset cannot add CAP_SYS_ADMIN")
{
	uint32_t head[2] = {0x20080522, 0};
	uint32_t data[6] = {1u << 21, 1u << 21, 1u << 21, 0, 0, 0};

	return failed("capset", syscall(SYS_capset, head, data));
}

CASE(B13_no_capability_outside_list, "B13", AS_BOTH,
     "no process has a capability beyond the named eight")
{
	long long cap = status_number("CapPrm", 16) | status_number("CapEff", 16) |
			status_number("CapInh", 16) | status_number("CapAmb", 16) |
			status_number("CapBnd", 16);

	return cap & ~0x4fbll ? broke("%llx", cap) : held("%llx", cap);
}

CASE(B13_user_has_no_capability, "B13", AS_USER, "an ordinary user inside has no capability at all")
{
	long long cap = status_number("CapPrm", 16) | status_number("CapEff", 16) |
			status_number("CapAmb", 16);

	return cap && geteuid() ? broke("%llx", cap) : held("none");
}

CASE(B13_io_port_and_tsc, "B13", AS_BOTH, "PR_SET_IO_FLUSHER and PR_SCHED_CORE on others fail")
{
	if (prctl(57, 1, 0, 0, 0) == 0)
		return broke("PR_SET_IO_FLUSHER");
	return failed("PR_SCHED_CORE share to init", prctl(62, 2, 1, 0, 0));
}

/* ---- B21 ---- */

CASE(B21_clock_adjtime, "B21", AS_BOTH, "the clock cannot be steered")
{
	struct timex t = {.modes = ADJ_TICK, .tick = 1};

	return failed("clock_adjtime", syscall(SYS_clock_adjtime, 0, &t));
}

CASE(B21_adjtimex, "B21", AS_BOTH, "adjtimex cannot set anything")
{
	struct timex t = {.modes = ADJ_TICK, .tick = 1};

	return failed("adjtimex", syscall(SYS_adjtimex, &t));
}

CASE(B21_time_namespace, "B21", AS_BOTH, "timens_offsets cannot be written")
{
	int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return held("%s", strerror(errno));
	return failed("write", write(fd, "monotonic 86400 0\n", 18));
}
