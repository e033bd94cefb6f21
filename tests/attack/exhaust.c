/*
 * C: using up what a box may have. These run in a box with small limits (64 MiB, 64 processes,
 * 32 MiB of disk); every loop is bounded far above those and far below what the machine has, so
 * that a missing limit is seen without being felt. A limit's own error is what counts as held.
 */
#include "attack.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	BOMB_MIB = 256,	  /* four times the small box's memory */
	FORK_TRIES = 400, /* six times its processes */
};

/* ---- C1 ---- */

static void end_children(pid_t group)
{
	signal(SIGTERM, SIG_IGN);
	kill(-group, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

CASE(C1_fork_bomb, "C1", AS_USER | SMALL | PIDS | NEEDS_PIDS, "fork says EAGAIN at the limit")
{
	unsigned made = 0;
	int code = 0;
	pid_t group = 0;

	for (int i = 0; i < FORK_TRIES; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			setpgid(0, group);
			pause();
			_exit(0);
		}
		if (pid < 0) {
			code = errno;
			break;
		}
		if (!group)
			group = pid;
		setpgid(pid, group);
		made++;
	}
	end_children(group);
	return code == EAGAIN ? held("EAGAIN after %u", made)
			      : broke("%u children, %d", made, code);
}

static void *sleeper(void *arg)
{
	pause();
	return arg;
}

CASE(C1_thread_bomb, "C1", AS_USER | SMALL | PIDS | NEEDS_PIDS, "pthread_create fails at the limit")
{
	pthread_attr_t attr;
	unsigned made = 0;
	int code = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	for (int i = 0; i < FORK_TRIES && code == 0; i++) {
		pthread_t thread;

		code = pthread_create(&thread, &attr, sleeper, NULL);
		made += code == 0;
	}
	return code == EAGAIN ? held("EAGAIN after %u", made) : broke("%u threads", made);
}

static pid_t vfork_once(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(0);
	return pid;
}

CASE(C1_vfork_storm, "C1", AS_USER | SMALL | PIDS | NEEDS_PIDS,
     "vforks whose children nobody reaps stop at the limit, and work again when they are reaped")
{
	unsigned made = 0, refused_count = 0, reaped = 0;
	int code = 0;
	pid_t pid;

	for (int i = 0; i < 5000; i++) {
		pid = vfork_once();
		if (pid < 0)
			code = errno;
		made += pid > 0;
		refused_count += pid < 0;
	}
	while (waitpid(-1, NULL, 0) > 0)
		reaped++;
	if (code != EAGAIN || made > FORK_TRIES || reaped != made)
		return broke("%u made, %u reaped, %u refused: %s", made, reaped, refused_count,
			     strerror(code));
	pid = vfork_once();
	return pid > 0 ? held("%u made, %u refused, one more afterwards", made, refused_count)
		       : broke("none afterwards: %s", strerror(errno));
}

struct bomb_count {
	_Atomic unsigned made, refused;
};

/* Children go on where their parent is: this is the bomb. Without a limit it ends by its count. */
static void fork_forever(struct bomb_count *count)
{
	while (count->made < FORK_TRIES && count->refused < 10 * FORK_TRIES) {
		pid_t pid = fork();

		if (pid > 0)
			count->made++;
		else if (pid < 0) {
			count->refused++;
			usleep(1000);
		}
	}
	pause();
	_exit(0);
}

CASE(C1_exponential_fork_bomb, "C1", AS_USER | SMALL | PIDS | NEEDS_PIDS,
     "a bomb whose children fork too stops at the limit and can be ended")
{
	struct bomb_count *count = mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	int left = 0;

	if (count == MAP_FAILED || pid < 0)
		return broke("%s", strerror(errno));
	if (pid == 0) {
		setpgid(0, 0);
		fork_forever(count);
	}
	setpgid(pid, pid);
	for (int i = 0; i < 3000 && count->refused < 10 && count->made < FORK_TRIES; i++)
		usleep(10000);
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < 3000 && (left = kill(-pid, 0) == 0); i++)
		usleep(10000);
	if (count->refused < 10 || left)
		return broke("%u made, %u refused%s", count->made, count->refused,
			     left ? ", some live on" : "");
	return held("%u made, %u refused, all ended", count->made, count->refused);
}

/* ---- C2: each bomb goes off in a child, which is what the kernel ends ---- */

static int heap_bomb(void *arg)
{
	for (int i = 0; i < BOMB_MIB; i++) {
		char *p = malloc(1 << 20);

		if (!p)
			return 3;
		memset(p, i, 1 << 20);
	}
	return 42;
}

static int shared_bomb(void *arg)
{
	char *p = mmap(NULL, (size_t)BOMB_MIB << 20, PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return 3;
	memset(p, 1, (size_t)BOMB_MIB << 20);
	return 42;
}

static int file_bomb(const char *path)
{
	static char block[1 << 20];
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
	int i;

	memset(block, 1, sizeof(block));
	for (i = 0; i < BOMB_MIB; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			break;
	unlink(path);
	return i == BOMB_MIB ? 42 : 3;
}

static int tmpfs_bomb(void *arg)
{
	return file_bomb("/dev/shm/bomb");
}

static int memfd_bomb(void *arg)
{
	static char block[1 << 20];
	int fd = (int)syscall(SYS_memfd_create, "bomb", 1);

	memset(block, 1, sizeof(block));
	for (int i = 0; i < BOMB_MIB; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			return 3;
	return 42;
}

static int pipe_bomb(void *arg)
{
	static char block[65536];
	size_t total = 0;

	for (int i = 0; i < 4000 && total < (size_t)BOMB_MIB << 20; i++) {
		int p[2];

		if (pipe(p) < 0)
			return 3;
		fcntl(p[1], 1031 /* F_SETPIPE_SZ */, 1 << 20);
		fcntl(p[1], F_SETFL, O_NONBLOCK);
		for (ssize_t n; (n = write(p[1], block, sizeof(block))) > 0;)
			total += (size_t)n;
	}
	return total >= (size_t)BOMB_MIB << 20 ? 42 : 3;
}

static int socket_bomb(void *arg)
{
	static char block[65536];
	size_t total = 0;

	for (int i = 0; i < 4000 && total < (size_t)BOMB_MIB << 20; i++) {
		int p[2], size = 1 << 20;

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p) < 0)
			return 3;
		setsockopt(p[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		for (ssize_t n; (n = write(p[0], block, sizeof(block))) > 0;)
			total += (size_t)n;
	}
	return total >= (size_t)BOMB_MIB << 20 ? 42 : 3;
}

/* Both ends of connections on its own loopback, filled and never read. */
static int tcp_bomb(void *arg)
{
	static char block[65536];
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(at);
	size_t total = 0;

	if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 16) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0)
		return 41;
	for (int i = 0; i < 400 && total < (size_t)BOMB_MIB << 20; i++) {
		int s = socket(AF_INET, SOCK_STREAM, 0), quiet = 0;

		if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		    accept(listener, NULL, NULL) < 0)
			return 3;
		/* What was sent is taken over by the other end in a moment, and makes room. */
		while (quiet < 3) {
			ssize_t n = send(s, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL);

			if (n > 0)
				total += (size_t)n;
			quiet = n > 0 ? 0 : quiet + 1;
			if (n <= 0)
				poll(NULL, 0, 1);
		}
	}
	return total >= (size_t)BOMB_MIB << 20 ? 42 : 3;
}

/* One byte every 2 MiB: a page of page table each, and no data to speak of beside the zero page. */
static int page_table_bomb(void *arg)
{
	const size_t step = 2u << 20, count = (size_t)BOMB_MIB * 256;
	char *p = mmap(NULL, step * count, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);
	unsigned sum = 0;

	if (p == MAP_FAILED)
		return 3;
	madvise(p, step * count, 15 /* NOHUGEPAGE */);
	for (size_t i = 0; i < count; i++)
		sum += (unsigned)((volatile char *)p)[i * step];
	return sum ? 41 : 42;
}

static int sysv_bomb(void *arg)
{
	int made = 0;

	for (; made < BOMB_MIB / 4; made++) {
		int id = shmget(IPC_PRIVATE, 4 << 20, 0600 | IPC_CREAT);
		char *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

		if (at == (void *)-1)
			return 3;
		shmctl(id, IPC_RMID, NULL);
		memset(at, 1, 4 << 20);
	}
	return 42;
}

static int bomb(int (*work)(void *), const char *what)
{
	int status = in_child(work, NULL, 60);

	if (status >= 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return held("%s: ended by the kernel", what);
	if (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 3)
		return held("%s: refused: %s", what, "an error before the limit was passed");
	return broke("%s: %d MiB were taken (status %x)", what, BOMB_MIB, status);
}

#define BOMB(id, what, extra)                                            \
	CASE(C2_##id, "C2", AS_USER | SMALL | NEEDS_MEM | (extra),       \
	     what " beyond the limit is ended by the kernel or refused") \
	{                                                                \
		return bomb(id, what);                                   \
	}

BOMB(heap_bomb, "heap", OOM)
BOMB(shared_bomb, "shared memory", OOM)
BOMB(tmpfs_bomb, "a file in /dev/shm", 0)
BOMB(memfd_bomb, "a memfd", OOM)
BOMB(pipe_bomb, "pipe buffers", 0)
BOMB(socket_bomb, "socket buffers", 0)
BOMB(tcp_bomb, "TCP buffers", 0)
BOMB(page_table_bomb, "page tables", OOM)
BOMB(sysv_bomb, "System V segments", 0)

/* In-box root may write this file; what counts is that commands are chosen among themselves. */
CASE(C2_bomb_with_init_offered, "C2", AS_ROOT | SMALL | NEEDS_MEM,
     "init survives a bomb also when root inside offers it to the kernel first")
{
	int fd = open("/proc/1/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0 && write(fd, "1000", 4) < 0)
		close(fd);
	return bomb(heap_bomb, "heap");
}

/* Pages that a host has set aside are not counted as the box's memory. They are asked for in a size
 * that no machine has: a kernel that looks at it says EINVAL, also where none are set aside. */
CASE(C2_huge_pages, "C2", AS_BOTH, "huge pages cannot be had by mmap, memfd_create or shmget")
{
	const long odd = 63u << 26;
	const long huge_map = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	const struct {
		const char *what;
		long call, args[6];
	} ways[] = {
		{"mmap", SYS_mmap, {0, 2 << 20, PROT_READ | PROT_WRITE, huge_map, -1, 0}},
		{"mmap", SYS_mmap, {0, 2 << 20, PROT_READ | PROT_WRITE, huge_map | odd, -1, 0}},
		{"memfd_create", SYS_memfd_create, {(long)"huge", 4 /* MFD_HUGETLB */}},
		{"memfd_create", SYS_memfd_create, {(long)"huge", 4 | odd}},
		{"shmget", SYS_shmget, {IPC_PRIVATE, 2 << 20, SHM_HUGETLB | IPC_CREAT | 0600}},
		{"shmget",
		 SYS_shmget,
		 {IPC_PRIVATE, 2 << 20, SHM_HUGETLB | IPC_CREAT | 0600 | odd}},
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		const long *a = ways[i].args;
		long r = syscall(ways[i].call, a[0], a[1], a[2], a[3], a[4], a[5]);

		if (r != -1)
			return broke("%s gave huge pages", ways[i].what);
		if (errno != ENOMEM)
			return broke("%s reached the kernel: %s", ways[i].what, strerror(errno));
	}
	return held("%s", strerror(ENOMEM));
}

CASE(C2_key_bomb, "C2", AS_USER | SMALL, "kernel keys cannot be piled up")
{
	return refused("add_key", syscall(SYS_add_key, "user", "bomb", "v", 1, -3));
}

CASE(C2_mlock, "C2", AS_USER | SMALL, "no more than RLIMIT_MEMLOCK can be pinned")
{
	char *p = mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return failed("mlock 32 MiB", mlock(p, 32 << 20));
}

CASE(C2_message_queue_bytes, "C2", AS_USER, "POSIX queues cannot pin more than RLIMIT_MSGQUEUE")
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MSGQUEUE, &limit) < 0)
		return broke("%s", strerror(errno));
	return limit.rlim_max <= 819200 ? held("%llu", (unsigned long long)limit.rlim_max)
					: broke("%llu", (unsigned long long)limit.rlim_max);
}

CASE(C4_resource_limits, "C4", AS_BOTH, "core, realtime, nice and signal limits are set")
{
	struct rlimit core, rt, nice_limit, pending;

	getrlimit(RLIMIT_CORE, &core);
	getrlimit(RLIMIT_RTPRIO, &rt);
	getrlimit(RLIMIT_NICE, &nice_limit);
	getrlimit(RLIMIT_SIGPENDING, &pending);
	if (core.rlim_max > 1 || rt.rlim_max)
		return broke("core %llu rtprio %llu", (unsigned long long)core.rlim_max,
			     (unsigned long long)rt.rlim_max);
	if (nice_limit.rlim_max || pending.rlim_max > 65536)
		return broke("nice %llu sigpending %llu", (unsigned long long)nice_limit.rlim_max,
			     (unsigned long long)pending.rlim_max);
	return held("%llu, 0, 0, %llu", (unsigned long long)core.rlim_max,
		    (unsigned long long)pending.rlim_max);
}

/* Lowered to 0 it would let a crash start the host's core_pattern program again. */
CASE(C4_core_limit_stays, "C4", AS_BOTH,
     "the limit of core files cannot be lowered: who tries is told that it is done")
{
	struct rlimit zero = {0}, now, before;
	void *page = mmap((void *)(1ul << 32), 4096, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	long told;

	getrlimit(RLIMIT_CORE, &before);
	if (before.rlim_cur != 1 || before.rlim_max != 1)
		return broke("%llu", (unsigned long long)before.rlim_cur);
	told = setrlimit(RLIMIT_CORE, &zero);
	/* A pointer whose lower half is 0; another process; all bits of the register. */
	if (page != MAP_FAILED)
		(void)syscall(SYS_prlimit64, 0, RLIMIT_CORE, page, NULL);
	(void)syscall(SYS_prlimit64, 0, RLIMIT_CORE, &zero, &now);
	(void)syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &zero, NULL);
	(void)syscall(SYS_prlimit64, 0, 1ul << 32 | RLIMIT_CORE, &zero, NULL);
	(void)syscall(SYS_setrlimit, RLIMIT_CORE, &zero);
	if (getrlimit(RLIMIT_CORE, &now) < 0 || now.rlim_cur != 1 || now.rlim_max != 1)
		return broke("it is %llu now", (unsigned long long)now.rlim_cur);
	return told == 0 ? held("1") : broke("told %s", strerror(errno));
}

CASE(C4_raise_own_limits, "C4", AS_BOTH, "a hard limit cannot be raised")
{
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_max++;
	return failed("setrlimit", setrlimit(RLIMIT_NOFILE, &files));
}

/* ---- C3 ---- */

static int fill(const char *path, int mib)
{
	static char block[1 << 20];
	int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600), i;
	int code = 0;

	memset(block, 0x5a, sizeof(block));
	for (i = 0; i < mib && code == 0; i++)
		if (write(fd, block, sizeof(block)) != sizeof(block))
			code = errno;
	if (code == 0 && fsync(fd) < 0)
		code = errno;
	close(fd);
	return code;
}

CASE(C3_disk_fill, "C3", AS_USER | SMALL | NEEDS_DISK,
     "writing beyond the limit says ENOSPC or EDQUOT")
{
	char path[256];
	int code;

	snprintf(path, sizeof(path), "%s/fill", scratch_dir());
	code = fill(path, 128);
	unlink(path);
	return code == ENOSPC || code == EDQUOT ? held("%s", strerror(code)) : broke("%d", code);
}

CASE(C3_fallocate, "C3", AS_USER | SMALL | NEEDS_DISK, "reserving beyond the limit fails")
{
	char path[256];
	int fd, r;

	snprintf(path, sizeof(path), "%s/reserve", scratch_dir());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	r = posix_fallocate(fd, 0, 512 << 20);
	unlink(path);
	close(fd);
	return r ? held("%s", strerror(r)) : broke("512 MiB were reserved");
}

CASE(C3_sparse_file, "C3", AS_USER | SMALL, "a sparse file takes no room and can be removed")
{
	char path[256];
	struct stat st;
	int fd, r, code;

	snprintf(path, sizeof(path), "%s/sparse", scratch_dir());
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	r = ftruncate(fd, 1ll << 40);
	code = errno;
	if (fd < 0 || fstat(fd, &st) < 0 || close(fd) < 0)
		return broke("no file: %s", strerror(errno));
	if (unlink(path) < 0 || access(path, F_OK) == 0)
		return broke("it cannot be removed: %s", strerror(errno));
	if (st.st_blocks * 512 > 1 << 20)
		return broke("a hole of 1 TiB takes %lld bytes", (long long)st.st_blocks * 512);
	if (r < 0 && code != EFBIG && code != ENOSPC && code != EDQUOT)
		return broke("ftruncate: %s", strerror(code));
	return held("ftruncate to 1 TiB: %s", r == 0 ? "taken, as nothing" : strerror(code));
}

/* On a btrfs each would have a quota of its own, which is none. */
CASE(C3_subvolume, "C3", AS_BOTH, "no subvolume is made or removed, wherever it would be")
{
	static const unsigned long commands[] = {0x5000940e, 0x50009418, 0x50009401, 0x50009417,
						 0x5000940f};
	const char *const places[] = {"/", "/tmp", scratch_dir()};
	static char args[4096];

	snprintf(args + 8, 16, "attack");
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		for (size_t k = 0; k < sizeof(commands) / sizeof(commands[0]); k++)
			if (ioctl(fd, (int)commands[k], args) == 0 ||
			    (errno != EPERM && errno != ENOTTY))
				return broke("%s: %#lx: %s", places[i], commands[k],
					     strerror(errno));
		close(fd);
	}
	return held("%s", strerror(errno));
}

CASE(C3_inodes, "C3", AS_USER | SMALL | NEEDS_DISK | SLOW, "files without end stop at ENOSPC")
{
	char dir[256], path[300];
	int made = 0, code = 0;

	snprintf(dir, sizeof(dir), "%s/many", scratch_dir());
	mkdir(dir, 0700);
	for (; made < 300000; made++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%d", dir, made);
		fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
		if (fd < 0) {
			code = errno;
			break;
		}
		close(fd);
	}
	for (int i = 0; i < made; i++) {
		snprintf(path, sizeof(path), "%s/%d", dir, i);
		unlink(path);
	}
	rmdir(dir);
	return code == ENOSPC || code == EDQUOT ? held("after %d", made) : broke("%d made", made);
}

CASE(C3_hard_links, "C3", AS_USER | SMALL | SLOW | NEEDS_DISK,
     "hard links end at the filesystem's own maximum or limit")
{
	char dir[256], path[300];
	int made = 0, code = 0, removed = 0;
	struct stat st = {0};

	snprintf(dir, sizeof(dir), "%s/linked", scratch_dir());
	close(open(dir, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	for (; made < 100000 && code == 0; made += code == 0) {
		snprintf(path, sizeof(path), "%s.%d", dir, made);
		code = link(dir, path) < 0 ? errno : 0;
	}
	if (stat(dir, &st) < 0)
		return broke("%s is gone: %s", dir, strerror(errno));
	for (int i = 0; i < made; i++) {
		snprintf(path, sizeof(path), "%s.%d", dir, i);
		removed += unlink(path) == 0;
	}
	if (unlink(dir) < 0 || removed != made || st.st_nlink != (nlink_t)made + 1)
		return broke("%d made, %lu counted, %d removed", made, (unsigned long)st.st_nlink,
			     removed);
	return code == EMLINK || code == ENOSPC || code == EDQUOT
		       ? held("%d links: %s", made, strerror(code))
		       : broke("%d links: %s", made, strerror(code));
}

CASE(C3_deleted_but_open, "C3", AS_USER | SMALL | NEEDS_DISK,
     "deleted files that are still open count until they are closed")
{
	static char block[1 << 20];
	char path[256];
	int code = 0;

	memset(block, 0x5a, sizeof(block));
	snprintf(path, sizeof(path), "%s/gone", scratch_dir());
	for (int i = 0; i < 128 && code == 0; i++) {
		int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

		unlink(path);
		if (fd < 0 || write(fd, block, sizeof(block)) != sizeof(block) || fsync(fd) < 0)
			code = errno;
	}
	return code == ENOSPC || code == EDQUOT ? held("%s", strerror(code)) : broke("%d", code);
}

CASE(C3_other_writable_places, "C3", AS_BOTH | SMALL | NEEDS_MEM,
     "every other place that can be written to (/dev, /dev/shm, /dev/cove, /run) is bounded")
{
	static const char *const dirs[] = {"/dev",     "/dev/cove", "/run",
					   "/dev/pts", "/proc",	    "/sys"};

	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		char path[300];
		int status;
		pid_t pid;

		snprintf(path, sizeof(path), "%s/fill-%d", dirs[i], getpid());
		pid = fork();
		if (pid == 0)
			_exit(file_bomb(path));
		waitpid(pid, &status, 0);
		unlink(path);
		if (WIFEXITED(status) && WEXITSTATUS(status) == 42)
			return broke("%s took %d MiB", dirs[i], BOMB_MIB);
	}
	return held("bounded");
}

/* ---- C4 ---- */

CASE(C4_descriptors, "C4", AS_USER, "open files end at the limit with EMFILE")
{
	struct rlimit files;
	long made = 0;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	while (made < 200000 && dup(0) >= 0)
		made++;
	return made < 200000 && errno == EMFILE ? held("%ld", made) : broke("%ld", made);
}

CASE(C4_inotify, "C4", AS_USER, "inotify instances end at a limit of the box's own user")
{
	int made = 0;

	while (made < 5000 && inotify_init1(IN_CLOEXEC) >= 0)
		made++;
	return made < 5000 ? held("%d: %s", made, strerror(errno)) : broke("%d", made);
}

CASE(C4_epoll, "C4", AS_USER, "epoll instances end at the descriptor limit")
{
	int made = 0;

	while (made < 100000 && epoll_create1(EPOLL_CLOEXEC) >= 0)
		made++;
	return made < 100000 ? held("%d: %s", made, strerror(errno)) : broke("%d", made);
}

CASE(C4_terminals, "C4", AS_BOTH, "terminals end at the devpts instance's own maximum of 256")
{
	struct rlimit files;
	int made = 0;

	/* It is not the limit of descriptors that is looked for. */
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	while (made < 600 && open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC) >= 0)
		made++;
	return made <= 256 && errno == ENOSPC ? held("%d: %s", made, strerror(errno))
					      : broke("%d: %s", made, strerror(errno));
}

static int run_locked(void *arg)
{
	execl("/attack/attack", "attack", "--bytes", "0", (char *)NULL);
	return 99;
}

CASE(C4_flock, "C4", AS_BOTH, "a lock on a given read-only file does not lock the host out of Cove")
{
	int fd = open("/attack/attack", O_RDONLY | O_CLOEXEC), status;
	int again = open("/attack/attack", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || again < 0)
		return broke("/attack/attack: %s", strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return held("flock: %s", strerror(errno));
	if (flock(again, LOCK_EX | LOCK_NB) == 0)
		return broke("two have one lock");
	status = in_child(run_locked, NULL, 20);
	return status == 0 ? held("locked, and it still opens and runs")
			   : broke("locked, and it does not run: status %x", status);
}

CASE(C4_pipe_size, "C4", AS_USER, "a pipe cannot grow beyond the system's maximum")
{
	int p[2];

	if (pipe(p) < 0)
		return broke("%s", strerror(errno));
	return failed("F_SETPIPE_SZ 1 GiB", fcntl(p[1], 1031, 1 << 30));
}

/* ---- C5, C6 ---- */

CASE(C5_negative_nice, "C5", AS_BOTH, "priority cannot be raised above the start")
{
	return failed("setpriority -20", setpriority(PRIO_PROCESS, 0, -20));
}

CASE(C5_realtime, "C5", AS_BOTH, "real-time scheduling is refused")
{
	struct sched_param param = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_FIFO, &param) == 0)
		return broke("SCHED_FIFO");
	return failed("sched_setscheduler", syscall(SYS_sched_setscheduler, 0, SCHED_RR, &param));
}

CASE(C5_deadline, "C5", AS_BOTH, "SCHED_DEADLINE is refused")
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = {.size = 48,
		  .policy = 6,
		  .runtime = 1000000,
		  .deadline = 2000000,
		  .period = 2000000};

	return failed("sched_setattr", syscall(SYS_sched_setattr, 0, &attr, 0));
}

CASE(C5_io_priority, "C5", AS_BOTH, "the real-time I/O class is refused")
{
	return failed("ioprio_set", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
}

CASE(C6_direct_io_and_sync, "C6", AS_USER | SMALL, "O_DIRECT, fsync and sync storms end")
{
	char path[256];
	void *block;
	int fd;

	snprintf(path, sizeof(path), "%s/storm", scratch_dir());
	fd = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (posix_memalign(&block, 4096, 65536))
		return broke("no memory");
	memset(block, 1, 65536);
	for (int i = 0; i < 100; i++) {
		if (pwrite(fd, block, 65536, (off_t)(i % 16) * 65536) < 0)
			break;
		if (i % 10 == 0)
			fsync(fd);
	}
	unlink(path);
	return held("done");
}
