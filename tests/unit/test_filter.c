/* The compiled filters: run here instruction by instruction, as the kernel would, and loaded. */
#include "filter/filter.h"

#include "base/limits.h"
#include "tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#else
#define NATIVE AUDIT_ARCH_AARCH64
#endif

/* Otherwise an errno. FAKED: not carried out, and told that it was. */
enum { ALLOWED = 0, KILLED = -1, FAKED = -2 };

struct data {
	uint32_t nr, arch;
	uint64_t ip, args[6];
};

static int answer(uint32_t value)
{
	if (value == 0x7fff0000)
		return ALLOWED;
	if (value == 0x80000000)
		return KILLED;
	if (value == 0x00050000)
		return FAKED;
	CHECK_EQ(value >> 16, 5);
	return (int)(value & 0xffff);
}

/* The filter's answer to a call. Ends: every jump goes forward, which is checked. */
static int run(const struct filter_program *p, const struct data *d)
{
	uint32_t a = 0;

	for (unsigned at = 0;; at++) {
		const struct filter_op *op = &p->ops[at];
		bool is;

		CHECK(at < p->count);
		switch (op->code) {
		case 0x20:
			CHECK(op->k % 4 == 0 && op->k + 4 <= sizeof(*d));
			memcpy(&a, (const char *)d + op->k, sizeof(a));
			continue;
		case 0x54:
			a &= op->k;
			continue;
		case 0x05:
			at += op->k;
			continue;
		case 0x06:
			return answer(op->k);
		case 0x15:
			is = a == op->k;
			break;
		case 0x35:
			is = a >= op->k;
			break;
		default:
			CHECK_EQ(op->code, 0x45);
			is = (a & op->k) != 0;
			break;
		}
		at += is ? op->jump_true : op->jump_false;
	}
}

static int ask(enum filter_kind kind, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct data data = {.nr = (uint32_t)nr, .arch = NATIVE, .args = {a, b, c, d, 1, 1}};

	return run(filter_program(kind), &data);
}

#define BOX(nr, ...)	ask_box(nr, (uint64_t[4]){__VA_ARGS__})
#define SHARED(nr, ...) ask_shared(nr, (uint64_t[4]){__VA_ARGS__})

static int ask_box(long nr, const uint64_t *a)
{
	return ask(FILTER_BOX, nr, a[0], a[1], a[2], a[3]);
}

static int ask_shared(long nr, const uint64_t *a)
{
	return ask(FILTER_BOX_SHARED, nr, a[0], a[1], a[2], a[3]);
}

TEST(at_most_250_calls_are_allowed)
{
	CHECK(filter_allowed(FILTER_BOX) <= 250);
	CHECK(filter_allowed(FILTER_BOX) >= 180);
	CHECK(filter_allowed(FILTER_BOX_SHARED) <= filter_allowed(FILTER_BOX));
	CHECK(filter_programs[FILTER_KEEPER].allowed <= 130);
	CHECK(filter_programs[FILTER_KEEPER_ROOT].allowed <= 120);
}

/* What doctor reckons with. */
TEST(filters_fit_the_memory_that_is_reckoned_for_a_box)
{
	CHECK((filter_programs[FILTER_BOX_SHARED_PTRACE].count +
	       filter_programs[FILTER_KEEPER].count + filter_programs[FILTER_DOOR].count) *
		      16 <=
	      FILTERS_BYTES_MAX);
}

TEST(ordinary_calls_are_allowed_and_dangerous_ones_are_not)
{
	static const long denied[] = {SYS_unshare,
				      SYS_setns,
				      SYS_mount,
				      SYS_pivot_root,
				      SYS_chroot,
				      SYS_ptrace,
				      SYS_bpf,
				      SYS_keyctl,
				      SYS_add_key,
				      SYS_init_module,
				      SYS_kexec_load,
				      SYS_userfaultfd,
				      SYS_perf_event_open,
				      SYS_reboot,
				      SYS_swapon,
				      SYS_settimeofday,
				      SYS_clock_settime,
				      SYS_open_by_handle_at,
				      SYS_process_vm_readv,
				      SYS_kcmp,
				      SYS_quotactl,
				      SYS_syslog,
				      SYS_acct,
				      SYS_fsopen,
				      SYS_move_mount,
				      SYS_open_tree,
				      SYS_pidfd_getfd};
	static const long allowed[] = {SYS_read,  SYS_openat, SYS_execve,      SYS_exit_group,
				       SYS_futex, SYS_statx,  SYS_getrandom,   SYS_rseq,
				       SYS_mmap,  SYS_ioctl,  SYS_close_range, SYS_execveat};

	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_EQ(BOX(denied[i], 0), EPERM);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		CHECK_EQ(BOX(allowed[i], 0), ALLOWED);
	CHECK_EQ(BOX(SYS_io_uring_setup, 0), ENOSYS);
	CHECK_EQ(BOX(SYS_seccomp, 0), ENOSYS);
	CHECK_EQ(BOX(SYS_mincore, 0), ENOSYS);
	CHECK_EQ(BOX(SYS_sync, 0), FAKED);
	CHECK_EQ(BOX(SYS_syncfs, 3), FAKED);
}

/* Reading or writing that tells what is cached, or drops it, is as on a file system without. */
TEST(the_page_cache_is_neither_asked_nor_emptied)
{
	static const long calls[] = {SYS_preadv2, SYS_pwritev2};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (int bit = 0; bit < 64; bit++) {
			struct data d = {.nr = (uint32_t)calls[i], .arch = NATIVE};
			bool asks = bit == 3 || bit == 7;

			d.args[5] = 1ull << bit;
			CHECK_EQ(run(filter_program(FILTER_BOX), &d), asks ? EOPNOTSUPP : ALLOWED);
			CHECK_EQ(run(filter_program(FILTER_BOX_SHARED), &d),
				 asks ? EOPNOTSUPP : ALLOWED);
		}
}

TEST(flags_of_memory_files_that_no_kernel_knows_are_invalid)
{
	CHECK_EQ(BOX(SYS_memfd_create, 0, ~0ull), EINVAL);
	CHECK_EQ(BOX(SYS_memfd_create, 0, 0xffffffff), EINVAL);
	/* Without the one bit it is the kernel that says so. */
	CHECK_EQ(BOX(SYS_memfd_create, 0, 0xffffffff & ~MFD_HUGETLB), ALLOWED);
	for (int bit = 5; bit < 26; bit++)
		CHECK_EQ(BOX(SYS_memfd_create, 0, MFD_HUGETLB | 1u << bit), EINVAL);
}

TEST(no_real_time_class_at_the_disks)
{
	const uint64_t high = 1ull << 32, class = 1 << 13;

	for (uint64_t c = 0; c < 8; c++) {
		CHECK_EQ(BOX(SYS_ioprio_set, 1, 0, c * class | 4), c == 1 ? EPERM : ALLOWED);
		CHECK_EQ(BOX(SYS_ioprio_set, 2, 7, high | c * class), c == 1 ? EPERM : ALLOWED);
	}
	CHECK_EQ(BOX(SYS_ioprio_set, 3, 0, 2 * class), EPERM); /* all of a user's */
	CHECK_EQ(BOX(SYS_ioprio_set, high | 3, 0, 2 * class), EPERM);
	CHECK_EQ(BOX(SYS_ioprio_get, 3, 0), ALLOWED);
}

TEST(unknown_numbers_do_not_exist)
{
	for (long nr = 470; nr < 5000; nr++)
		CHECK_EQ(BOX(nr, 0), ENOSYS);
	CHECK_EQ(BOX(0x3fffffff, 0), ENOSYS);
	CHECK_EQ(BOX(-1, 0), ENOSYS);
}

TEST(other_architectures_end_the_process)
{
	for (int kind = 0; kind < FILTER_KIND_COUNT; kind++) {
		struct data i386 = {.nr = 20, .arch = AUDIT_ARCH_I386};
		struct data arm = {.nr = 20, .arch = AUDIT_ARCH_ARM};

		CHECK_EQ(run(filter_program(kind), &i386), KILLED);
		CHECK_EQ(run(filter_program(kind), &arm), KILLED);
#if defined(__x86_64__)
		for (long nr = 0; nr < 600; nr++)
			CHECK_EQ(ask(kind, 0x40000000 | nr, 0, 0, 0, 0), KILLED);
#endif
	}
}

TEST(no_call_makes_a_namespace)
{
	static const uint64_t bits[] = {0x80,	   0x20000,    0x2000000,  0x4000000,
					0x8000000, 0x10000000, 0x20000000, 0x40000000};

	CHECK_EQ(BOX(SYS_clone, SIGCHLD), ALLOWED);
	CHECK_EQ(BOX(SYS_clone, 0x3d0f00), ALLOWED); /* a thread */
	for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
		CHECK_EQ(BOX(SYS_clone, bits[i] | SIGCHLD), EPERM);
		CHECK_EQ(BOX(SYS_clone, bits[i] | 1ull << 40), EPERM);
	}
}

TEST(only_four_socket_families)
{
	for (uint64_t family = 0; family < 64; family++)
		for (uint64_t type = 0; type < 16; type++)
			for (uint64_t protocol = 0; protocol < 300; protocol++) {
				bool plain = type == SOCK_STREAM || type == SOCK_DGRAM;
				bool inet = (family == AF_INET || family == AF_INET6) && plain &&
					    (protocol == 0 || protocol == 1 || protocol == 6 ||
					     protocol == 17 || protocol == 58);
				bool local = family == AF_UNIX && (plain || type == SOCK_SEQPACKET);
				bool route = family == AF_NETLINK && protocol == 0;
				int want = inet || local || route ? ALLOWED : EAFNOSUPPORT;

				CHECK_EQ(BOX(SYS_socket, family, type, protocol), want);
				CHECK_EQ(BOX(SYS_socket, family, type | SOCK_CLOEXEC, protocol),
					 want);
			}
	CHECK_EQ(BOX(SYS_socketpair, AF_UNIX, SOCK_STREAM), ALLOWED);
	CHECK_EQ(BOX(SYS_socketpair, AF_INET, SOCK_STREAM), EAFNOSUPPORT);
	CHECK_EQ(BOX(SYS_socketpair, 40, SOCK_STREAM), EAFNOSUPPORT);
}

/* The kernel reads the lower half of these registers only. */
TEST(the_upper_half_of_a_register_hides_nothing)
{
	uint64_t high = 1ull << 32;

	CHECK_EQ(BOX(SYS_ioctl, 0, TIOCSTI), EPERM);
	CHECK_EQ(BOX(SYS_ioctl, 0, high | TIOCSTI), EPERM);
	CHECK_EQ(BOX(SYS_ioctl, 0, high | 0x541c), EPERM);
	CHECK_EQ(BOX(SYS_ioctl, 0, TIOCSETD), EPERM);
	CHECK_EQ(BOX(SYS_ioctl, 0, high | TIOCSETD), EPERM);
	CHECK_EQ(BOX(SYS_ioctl, 0, 0x5413), ALLOWED);
	CHECK_EQ(BOX(SYS_socket, high | 40, SOCK_STREAM), EAFNOSUPPORT);
	CHECK_EQ(BOX(SYS_setsockopt, 0, high | 6, high | 31), EPERM);
	CHECK_EQ(BOX(SYS_personality, high | 0x400000), EPERM);
}

TEST(arguments_that_are_looked_at)
{
	static const uint64_t good[] = {0, 8, 0x20000, 0x20008, 0xffffffff};

	CHECK_EQ(BOX(SYS_setsockopt, 0, 6, 31), EPERM);
	CHECK_EQ(BOX(SYS_setsockopt, 0, 6, 1), ALLOWED);
	CHECK_EQ(BOX(SYS_setsockopt, 0, 17, 100), EPERM);
	CHECK_EQ(BOX(SYS_setsockopt, 0, 17, 103), ALLOWED);
	CHECK_EQ(BOX(SYS_setsockopt, 0, 1, 31), ALLOWED);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		CHECK_EQ(BOX(SYS_personality, good[i]), ALLOWED);
	for (int bit = 0; bit < 31; bit++)
		if (bit != 3 && bit != 17)
			CHECK_EQ(BOX(SYS_personality, 1u << bit), EPERM);
	CHECK_EQ(BOX(SYS_prctl, PR_SET_MM), EPERM);
	CHECK_EQ(BOX(SYS_prctl, PR_SET_NAME), ALLOWED);
}

/* Socket options that take a program of the kernel's. */
static bool takes_program(uint64_t option)
{
	return option == SO_ATTACH_FILTER || option == SO_ATTACH_BPF ||
	       option == SO_ATTACH_REUSEPORT_CBPF || option == SO_ATTACH_REUSEPORT_EBPF;
}

TEST(no_program_of_the_kernels_from_a_box_its_keeper_or_its_door)
{
	static const enum filter_kind own[] = {FILTER_KEEPER, FILTER_KEEPER_ROOT, FILTER_DOOR};
	const uint64_t high = 1ull << 32;

	for (uint64_t option = 0; option < 200; option++) {
		int want = takes_program(option) ? EPERM : ALLOWED;

		CHECK_EQ(BOX(SYS_setsockopt, 3, SOL_SOCKET, option), want);
		CHECK_EQ(BOX(SYS_setsockopt, 3, high | SOL_SOCKET, high | option), want);
		CHECK_EQ(SHARED(SYS_setsockopt, 3, SOL_SOCKET, option), want);
		for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
			CHECK_EQ(ask(own[i], SYS_setsockopt, 3, SOL_SOCKET, option, 0), want);
	}
	/* The same numbers mean something else elsewhere. */
	CHECK_EQ(BOX(SYS_setsockopt, 3, IPPROTO_IPV6, SO_ATTACH_FILTER), ALLOWED);
	CHECK_EQ(BOX(SYS_prctl, PR_SET_SECCOMP, 2), EINVAL);
	CHECK_EQ(BOX(SYS_prctl, high | PR_SET_SECCOMP, 2), EINVAL);
	CHECK_EQ(SHARED(SYS_prctl, PR_SET_SECCOMP, 2), EINVAL);
	CHECK_EQ(BOX(SYS_prctl, PR_GET_SECCOMP), ALLOWED);
}

static int answered(uint64_t resource, uint64_t new, uint64_t old, uint64_t pid)
{
	struct data d = {.nr = SYS_prlimit64, .arch = NATIVE, .args = {pid, resource, new, old}};
	const struct filter_program *p = filter_program(FILTER_BOX);

	return run(p, &d);
}

/* A pointer is looked at whole: half of one may be 0. */
TEST(the_limit_of_core_files_is_read_and_not_set)
{
	const uint64_t there = 1ull << 32, low = 0x1000;

	CHECK_EQ(answered(RLIMIT_CORE, 0, low, 0), ALLOWED);
	CHECK_EQ(answered(RLIMIT_CORE, there, low, 0), EPERM);
	CHECK_EQ(answered(RLIMIT_CORE, there, 0, 0), FAKED);
	CHECK_EQ(answered(RLIMIT_CORE, low, 0, 0), FAKED);
	CHECK_EQ(answered(1ull << 32 | RLIMIT_CORE, low, 0, 9), FAKED);
	CHECK_EQ(answered(RLIMIT_CORE, low, there, 0), EPERM);
	CHECK_EQ(answered(RLIMIT_CORE, low, low, 7), EPERM);
	CHECK_EQ(answered(1ull << 32 | RLIMIT_CORE, low, low, 7), EPERM);
	CHECK_EQ(answered(RLIMIT_CORE, 0, low, 1), EPERM);
	CHECK_EQ(answered(RLIMIT_CORE, low, 0, 1), EPERM);
	CHECK_EQ(answered(RLIMIT_NOFILE, low, low, 0), ALLOWED);
}

/* With any size in the upper bits, and in both kinds of box. */
TEST(huge_pages_are_out_of_memory)
{
	for (uint64_t size = 0; size < 64; size++) {
		uint64_t more = size << 26;

		CHECK_EQ(BOX(SYS_mmap, 0, 1 << 21, 3, MAP_HUGETLB | 0x22 | more), ENOMEM);
		CHECK_EQ(SHARED(SYS_mmap, 0, 1 << 21, 3, MAP_HUGETLB | 0x22 | more), ENOMEM);
		CHECK_EQ(BOX(SYS_memfd_create, 0, MFD_HUGETLB | more), ENOMEM);
		CHECK_EQ(BOX(SYS_shmget, 0, 1 << 21, SHM_HUGETLB | 0600 | more), ENOMEM);
	}
	for (int bit = 0; bit < 26; bit++) {
		uint64_t flag = 1u << bit;

		CHECK_EQ(BOX(SYS_mmap, 0, 4096, 3, flag), flag == MAP_HUGETLB ? ENOMEM : ALLOWED);
		CHECK_EQ(BOX(SYS_memfd_create, 0, flag), flag == MFD_HUGETLB ? ENOMEM : ALLOWED);
		CHECK_EQ(BOX(SYS_shmget, 0, 9, flag), flag == SHM_HUGETLB ? ENOMEM : ALLOWED);
	}
}

static bool is_for_tracing(long nr)
{
#ifdef SYS_getdents
	if (nr == SYS_getdents)
		return true;
#endif
	return nr == SYS_ptrace || nr == SYS_process_vm_readv || nr == SYS_process_vm_writev;
}

/* And of init never; all else is as in a box without. */
TEST(processes_trace_each_other_where_the_box_was_made_so)
{
	static const enum filter_kind with[] = {FILTER_BOX_PTRACE, FILTER_BOX_SHARED_PTRACE};
	const uint64_t high = 1ull << 32, attach = 16;

	for (size_t i = 0; i < sizeof(with) / sizeof(with[0]); i++) {
		CHECK_EQ(ask(with[i], SYS_ptrace, 0, 0, 0, 0), ALLOWED); /* TRACEME */
		CHECK_EQ(ask(with[i], SYS_ptrace, attach, 7, 0, 0), ALLOWED);
		CHECK_EQ(ask(with[i], SYS_ptrace, attach, 1, 0, 0), EPERM);
		CHECK_EQ(ask(with[i], SYS_ptrace, attach, high | 1, 0, 0), EPERM);
		CHECK_EQ(ask(with[i], SYS_process_vm_readv, 7, 0, 0, 0), ALLOWED);
		CHECK_EQ(ask(with[i], SYS_process_vm_readv, 1, 0, 0, 0), EPERM);
		CHECK_EQ(ask(with[i], SYS_process_vm_writev, high | 1, 0, 0, 0), EPERM);
		CHECK_EQ(ask(with[i], SYS_pidfd_getfd, 0, 0, 0, 0), EPERM);
		CHECK(filter_allowed(with[i]) <= 250);
		for (long nr = 0; nr < 500; nr++)
			if (!is_for_tracing(nr))
				CHECK_EQ(ask(with[i], nr, 1, 2, 04644, 04755),
					 ask(with[i] & FILTER_BOX_SHARED, nr, 1, 2, 04644, 04755));
	}
	CHECK_EQ(SHARED(SYS_ptrace, 0), EPERM);
}

static int ask_engine(unsigned kind, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	struct data data = {.nr = (uint32_t)nr, .arch = NATIVE, .args = {a, b, c, d, 1, 1}};

	return run(&filter_engine[kind], &data);
}

/* Behind a kernel that would let root inside; all else is as in a native box. */
TEST(init_is_ended_by_nobody_behind_an_engine)
{
	enum { SET_OWNER = 8, SET_SIGNAL = 10, SET_OWNER_EX = 15, FIO_SET_OWNER = 0x8901 };
	static const long calls[] = {SYS_kill,	 SYS_tkill,
				     SYS_tgkill, SYS_rt_sigqueueinfo,
				     SYS_fcntl,	 SYS_rt_tgsigqueueinfo,
				     SYS_ioctl,	 SYS_pidfd_send_signal,
				     SYS_getcpu};
	const uint64_t high = 1ull << 32;

	for (unsigned kind = 0; kind < FILTER_ENGINE_COUNT; kind++) {
		for (size_t i = 0; i < 4; i++) {
			CHECK_EQ(ask_engine(kind, calls[i], 1, 9, 0, 0), EPERM);
			CHECK_EQ(ask_engine(kind, calls[i], high | 1, 9, 0, 0), EPERM);
			CHECK_EQ(ask_engine(kind, calls[i], 7, 9, 0, 0), ALLOWED);
		}
		CHECK_EQ(ask_engine(kind, SYS_kill, 1, 0, 0, 0), ALLOWED);
		CHECK_EQ(ask_engine(kind, SYS_setpgid, 0, 1, 0, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_setpgid, 0, 0, 0, 0), ALLOWED);
		CHECK_EQ(ask_engine(kind, SYS_getcpu, 0, 0, 0, 0), ALLOWED);
		CHECK_EQ(ask_engine(kind, SYS_tgkill, 7, 1, 9, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_rt_tgsigqueueinfo, 1, 7, 9, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_pidfd_send_signal, 3, 9, 0, 0), ENOSYS);
		CHECK_EQ(ask_engine(kind, SYS_fcntl, 3, SET_OWNER, 1, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_fcntl, 3, SET_OWNER, UINT64_MAX, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_fcntl, 3, SET_OWNER, 7, 0), ALLOWED);
		CHECK_EQ(ask_engine(kind, SYS_fcntl, 3, SET_OWNER_EX, 7, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_fcntl, 3, SET_SIGNAL, 9, 0), ALLOWED);
		CHECK_EQ(ask_engine(kind, SYS_ioctl, 3, FIO_SET_OWNER, 1, 0), EPERM);
		CHECK_EQ(ask_engine(kind, SYS_ioctl, 3, TCGETS, 1, 0), ALLOWED);
		for (long nr = 0; nr < 500; nr++) {
			bool is_other = false;

			for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
				is_other = is_other || nr == calls[i];
			if (!is_other)
				CHECK_EQ(ask_engine(kind, nr, 1, 2, 04644, 04755),
					 ask(kind, nr, 1, 2, 04644, 04755));
		}
	}
}

TEST(init_is_scheduled_by_nobody_inside)
{
	static const long calls[] = {SYS_prlimit64, SYS_sched_setaffinity, SYS_sched_setscheduler,
				     SYS_sched_setparam};
	const uint64_t high = 1ull << 32;

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		CHECK_EQ(BOX(calls[i], 0), ALLOWED);
		CHECK_EQ(BOX(calls[i], 2), ALLOWED);
		CHECK_EQ(BOX(calls[i], 1), EPERM);
		CHECK_EQ(BOX(calls[i], high | 1), EPERM);
	}
	for (uint64_t who = 0; who < 4; who++) {
		CHECK_EQ(BOX(SYS_setpriority, PRIO_PROCESS, who), who == 1 ? EPERM : ALLOWED);
		CHECK_EQ(BOX(SYS_setpriority, PRIO_PGRP, high | who), who == 1 ? EPERM : ALLOWED);
		CHECK_EQ(BOX(SYS_setpriority, PRIO_USER, who), EPERM);
	}
	CHECK_EQ(BOX(SYS_sched_setattr, 1), ENOSYS);
	CHECK_EQ(BOX(SYS_ioprio_set, 1, 1), EPERM);
	CHECK_EQ(BOX(SYS_ioprio_set, 2, high | 1), EPERM);
}

TEST(no_set_id_bits_reach_a_directory_of_the_host)
{
	static const uint64_t bad[] = {04755, 02755, 06777};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHECK_EQ(SHARED(SYS_fchmod, 3, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_fchmodat, 3, 0, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_mknodat, 3, 0, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_openat, 3, 0, O_CREAT | O_WRONLY, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_openat, 3, 0, O_TMPFILE | O_RDWR, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_openat, 3, 0, O_DIRECTORY, bad[i]), ALLOWED);
		CHECK_EQ(BOX(SYS_fchmod, 3, bad[i]), ALLOWED);
#ifdef SYS_chmod
		CHECK_EQ(SHARED(SYS_chmod, 0, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_creat, 0, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_mknod, 0, bad[i]), EPERM);
		CHECK_EQ(SHARED(SYS_open, 0, O_CREAT, bad[i]), EPERM);
#endif
	}
	CHECK_EQ(SHARED(SYS_fchmod, 3, 01777), ALLOWED);
	CHECK_EQ(SHARED(SYS_openat, 3, 0, O_CREAT, 0644), ALLOWED);
	CHECK_EQ(SHARED(SYS_openat2, 3, 0, 0, 24), ENOSYS);
	CHECK_EQ(BOX(SYS_openat2, 3, 0, 0, 24), ALLOWED);
}

/* Loads in a child and returns what fn said there. */
static int loaded(enum filter_kind kind, const void *secret, int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(kind, secret) < 0)
			_exit(125);
		_exit(fn());
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const uint64_t word[2] = {0x1122334455667788, 0x99aabbccddeeff00};

static int open_how(uint64_t one, uint64_t two)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {O_PATH, 0, 0};

	return syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how), one, two) >= 0 ? 0 : errno;
}

static int try_secret(void)
{
	if (open_how(word[0], word[1]) != 0)
		return 1;
	for (int bit = 0; bit < 64; bit++)
		if (open_how(word[0] ^ 1ull << bit, word[1]) != ENOSYS ||
		    open_how(word[0], word[1] ^ 1ull << bit) != ENOSYS)
			return 2;
	if (syscall(SYS_clone3, NULL, 0, 0, 0, word[0], word[1]) >= 0 || errno == ENOSYS)
		return 3;
	if (syscall(SYS_clone3, NULL, 0, 0, 0, word[0], word[0]) >= 0 || errno != ENOSYS)
		return 4;
	return 0;
}

static int try_no_secret(void)
{
	return open_how(word[0], word[1]) == ENOSYS && open_how(0, 0) == ENOSYS ? 0 : 1;
}

TEST(the_secret_opens_inits_own_calls_and_every_bit_of_it_counts)
{
	CHECK_EQ(loaded(FILTER_BOX_SHARED, word, try_secret), 0);
	CHECK_EQ(loaded(FILTER_BOX_SHARED, NULL, try_no_secret), 0);
}

static int try_box(void)
{
	if (unshare(CLONE_NEWUSER) == 0 || errno != EPERM)
		return 1;
	if (syscall(600) >= 0 || errno != ENOSYS)
		return 2;
	if (socket(40, SOCK_STREAM, 0) >= 0 || errno != EAFNOSUPPORT)
		return 3;
	return getppid() > 0 ? 0 : 4;
}

TEST(a_loaded_filter_answers_as_it_was_read)
{
	CHECK_EQ(loaded(FILTER_BOX, NULL, try_box), 0);
}

#if defined(__x86_64__)
static int try_int80(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory");
	return 0;
}

static int try_x32(void)
{
	return syscall(0x40000000L + SYS_getpid) > 0 ? 0 : 1;
}

TEST(a_call_of_another_architecture_is_the_last)
{
	CHECK_EQ(loaded(FILTER_BOX, NULL, try_int80), 128 + SIGSYS);
	CHECK_EQ(loaded(FILTER_BOX, NULL, try_x32), 128 + SIGSYS);
}
#endif

static int ask_keeper(enum filter_kind kind, long nr, const uint64_t *a)
{
	struct data data = {.nr = (uint32_t)nr, .arch = NATIVE, .args = {a[0], a[1], a[2], a[3]}};

	/* Not the one for sanitizers, which allows more. */
	return run(&filter_programs[kind], &data);
}

#define USERS(nr, ...) ask_keeper(FILTER_KEEPER, nr, (uint64_t[4]){__VA_ARGS__})
#define ROOTS(nr, ...) ask_keeper(FILTER_KEEPER_ROOT, nr, (uint64_t[4]){__VA_ARGS__})

TEST(the_keeper_starts_nothing_and_maps_nothing_executable)
{
	for (enum filter_kind kind = FILTER_KEEPER; kind <= FILTER_KEEPER_ROOT; kind++) {
		CHECK_EQ(ask_keeper(kind, SYS_execve, (uint64_t[4]){0}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_mmap, (uint64_t[4]){0, 4096, 3}), ALLOWED);
		CHECK_EQ(ask_keeper(kind, SYS_mmap, (uint64_t[4]){0, 4096, 5}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_socket, (uint64_t[4]){AF_INET, SOCK_STREAM}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_setns, (uint64_t[4]){3, CLONE_NEWNS}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_unshare, (uint64_t[4]){CLONE_NEWUSER}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_prlimit64, (uint64_t[4]){1}), EPERM);
		CHECK_EQ(ask_keeper(kind, SYS_prlimit64, (uint64_t[4]){0}), ALLOWED);
	}
}

TEST(only_an_ordinary_users_keeper_enters_a_namespace)
{
	CHECK_EQ(USERS(SYS_setns, 3, CLONE_NEWUSER), ALLOWED);
	CHECK_EQ(ROOTS(SYS_setns, 3, CLONE_NEWUSER), EPERM);
	CHECK_EQ(USERS(SYS_unshare, CLONE_NEWNS), ALLOWED);
	CHECK_EQ(ROOTS(SYS_unshare, CLONE_NEWNS), EPERM);
	CHECK_EQ(ROOTS(SYS_setresuid, 0, 0, 0), EPERM);
	CHECK(filter_programs[FILTER_KEEPER_ROOT].allowed < filter_programs[FILTER_KEEPER].allowed);
}

TEST(the_keeper_makes_no_set_user_id_file)
{
	for (uint64_t mode = 0; mode < 010000; mode++) {
		bool sets_id = mode & 06000;

		CHECK_EQ(USERS(SYS_openat, 3, 0, O_CREAT | O_WRONLY, mode),
			 sets_id ? EPERM : ALLOWED);
		CHECK_EQ(ROOTS(SYS_openat, 3, 0, O_CREAT | O_WRONLY, mode),
			 sets_id ? EPERM : ALLOWED);
		CHECK_EQ(ROOTS(SYS_openat, 3, 0, O_TMPFILE | O_WRONLY, mode),
			 sets_id ? EPERM : ALLOWED);
		CHECK_EQ(USERS(SYS_fchmodat, 3, 0, mode), mode == 0700 ? ALLOWED : EPERM);
		CHECK_EQ(ROOTS(SYS_fchmodat, 3, 0, mode), EPERM);
		CHECK_EQ(ROOTS(SYS_fchmod, 3, mode), mode == 0700 ? ALLOWED : EPERM);
#ifdef SYS_chmod
		CHECK_EQ(USERS(SYS_chmod, 0, mode), mode == 0700 ? ALLOWED : EPERM);
		CHECK_EQ(ROOTS(SYS_chmod, 0, mode), EPERM);
		CHECK_EQ(USERS(SYS_open, 0, O_CREAT | O_WRONLY, mode), sets_id ? EPERM : ALLOWED);
#endif
	}
	/* Without O_CREAT the register may hold anything. */
	CHECK_EQ(ROOTS(SYS_openat, 3, 0, O_RDONLY, 06777), ALLOWED);
	CHECK_EQ(ROOTS(SYS_fchownat, 3, 0, 0, 0), EPERM);
}

#define DOOR(nr, ...) ask_keeper(FILTER_DOOR, nr, (uint64_t[4]){__VA_ARGS__})

TEST(the_door_has_no_files_and_starts_nothing)
{
	static const long denied[] = {SYS_openat, SYS_openat2, SYS_execve,     SYS_execveat,
				      SYS_clone,  SYS_clone3,  SYS_kill,       SYS_tgkill,
				      SYS_ptrace, SYS_listen,  SYS_accept4,    SYS_unlinkat,
				      SYS_statx,  SYS_prctl,   SYS_socketpair, SYS_ioctl};

	CHECK(filter_programs[FILTER_DOOR].allowed <= 75);
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_EQ(DOOR(denied[i], 0), EPERM);
	CHECK_EQ(DOOR(SYS_mmap, 0, 4096, 3), ALLOWED);
	CHECK_EQ(DOOR(SYS_mmap, 0, 4096, 5), EPERM);
	CHECK_EQ(DOOR(SYS_mprotect, 0, 4096, 4), EPERM);
}

TEST(the_door_has_sockets_for_tcp_and_udp_only)
{
	for (uint64_t family = 0; family < 64; family++)
		for (uint64_t type = 0; type < 16; type++) {
			bool is_ip = (family == AF_INET || family == AF_INET6) &&
				     (type == SOCK_STREAM || type == SOCK_DGRAM);
			bool is_link = family == AF_NETLINK;

			CHECK_EQ(DOOR(SYS_socket, family, type | SOCK_CLOEXEC, 0),
				 is_ip || is_link ? ALLOWED : EPERM);
			/* Of netlink only what tells addresses; of IP no ICMP, no SCTP. */
			CHECK_EQ(DOOR(SYS_socket, family, type, IPPROTO_ICMP), EPERM);
			CHECK_EQ(DOOR(SYS_socket, family, type, 132), EPERM);
		}
	CHECK_EQ(DOOR(SYS_setsockopt, 3, SOL_SOCKET, SO_LINGER), ALLOWED);
	CHECK_EQ(DOOR(SYS_setsockopt, 3, IPPROTO_TCP, 31), EPERM);
	CHECK_EQ(DOOR(SYS_setsockopt, 3, IPPROTO_IP, 1), EPERM);
}

#define READER(nr, ...) ask_keeper(FILTER_READER, nr, (uint64_t[4]){__VA_ARGS__})

TEST(who_reads_trees_changes_nothing_and_starts_nothing)
{
	static const long denied[] = {SYS_openat,   SYS_execve,	   SYS_clone,	  SYS_clone3,
				      SYS_socket,   SYS_kill,	   SYS_ptrace,	  SYS_unlinkat,
				      SYS_renameat, SYS_mkdirat,   SYS_fchmodat,  SYS_fchownat,
				      SYS_linkat,   SYS_symlinkat, SYS_fsetxattr, SYS_ftruncate,
				      SYS_mknodat,  SYS_mount,	   SYS_ioctl,	  SYS_prctl};

	CHECK(filter_programs[FILTER_READER].allowed <= 45);
	for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++)
		CHECK_EQ(READER(denied[i], 0), EPERM);
	CHECK_EQ(ask_keeper(FILTER_WRITER, SYS_renameat, (uint64_t[4]){0}), EPERM);
	CHECK_EQ(ask_keeper(FILTER_WRITER, SYS_mknodat, (uint64_t[4]){3, 0, S_IFCHR}), ALLOWED);
	CHECK_EQ(ask_keeper(FILTER_WRITER, SYS_mknodat, (uint64_t[4]){3, 0, S_IFBLK}), EPERM);
	CHECK_EQ(READER(SYS_openat2, 3), ALLOWED);
	CHECK_EQ(READER(SYS_mmap, 0, 4096, 3), ALLOWED);
	CHECK_EQ(READER(SYS_mmap, 0, 4096, 5), EPERM);
}

TAP_MAIN
