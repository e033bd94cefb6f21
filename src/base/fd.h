/*
 * Descriptors: owned ones close themselves, all are CLOEXEC from birth, and reads and writes either
 * finish or say why. Also the few raw system calls that libc has no name for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

void fd_closep(int *fd); /* autoclose */

static inline void ptr_freep(void *p)
{
	free(*(void **)p);
}

#define autoclose __attribute__((cleanup(fd_closep)))
#define autofree  __attribute__((cleanup(ptr_freep)))

/* Moves ownership out of an autoclose or autofree variable. */
#define take_fd(fd)             \
	({                      \
		int fd_ = (fd); \
		(fd) = -1;      \
		fd_;            \
	})
#define take_ptr(p)                     \
	({                              \
		__typeof__(p) p_ = (p); \
		(p) = NULL;             \
		p_;                     \
	})

/* First thing in a program: opens /dev/null wherever 0, 1 or 2 is closed. The next file opened
 * would take that place, and get what is printed. */
void fd_fill_low(void);

/* Closes *fd if it is open and leaves -1: idempotent. */
void fd_close(int *fd);

/* The same for many, neighbours with one call. At most FD_CLOSE_MAX of them. */
enum { FD_CLOSE_MAX = 512 };
void fd_close_all(int *const *fds, size_t count);

/* In a child that is about to execute a program, which closes everything: from here on neither
 * autoclose nor fd_close closes anything, but for what is open beyond the first FD_LEFT_MAX. */
enum { FD_LEFT_MAX = 128 };
void fd_leave_open(void);

/* A copy from `least` on. fcntl(2) of musl sets its flag once more, as open(2) below. */
int fd_copy(int fd, int least);

/* open(2) with O_CLOEXEC, in one system call: musl's own sets the flag once more, for kernels that
 * did not know it. */
int fd_open(const char *path, int flags);

/* Loops over short counts and EINTR. fd_read_full returns the bytes read, fewer only at end of
 * file; fd_write_full returns 0. Negative errno on failure. For blocking descriptors. */
ssize_t fd_read_full(int fd, void *p, size_t n);
int fd_write_full(int fd, const void *p, size_t n);
/* For a file that only whole lines are appended to, before the first of this process: cuts off what
 * a crash left behind its last newline, so that the next line is one of its own. fd is open for
 * reading too. *ret_bytes is its length then. */
int fd_cut_torn_line(int fd, uint64_t *ret_bytes);

int fd_set_nonblock(int fd, bool on);
/* Asks for a socket's send buffer of so many bytes. The kernel may give less, which costs speed
 * only. */
void fd_set_send_room(int fd, unsigned bytes);

/* Has the caller asked to end, by making it readable? False for none (0 or less). */
bool fd_is_cancelled(int cancel_fd);

/* A directory below another, made (0700, durably) if it is missing; not through a link. Returns a
 * descriptor or -errno. */
int fd_open_below(int dir_fd, const char *name, bool make);

/* Reads a whole small file relative to dir_fd (or AT_FDCWD) without following a final link. The
 * result is owned and NUL-terminated. -EFBIG beyond max. */
int fd_read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len);
/* The same of a file on a disk, or of /proc that fits a page, with one call less: less than
 * was asked for is all of it. And of such a file that is open. */
int fd_read_plain(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len);
int fd_read_regular(int fd, size_t max, char **ret, size_t *ret_len);

/* Writes a file so that readers see the old or the new content, never a part: a temporary name in
 * the same directory, then rename. With durable, file and directory are fsynced. */
int fd_write_file(int dir_fd, const char *name, const void *p, size_t n, mode_t mode, bool durable);

/* A small text from one process to another: a memory file sealed against change, and
 * reading it from its beginning, whatever was read through this descriptor before. The result is
 * owned and NUL-terminated; -EBADMSG where it is empty or beyond max. */
int fd_seal(const char *name, const void *p, size_t n, int *ret_fd);
int fd_read_sealed(int fd, size_t max, char **ret, size_t *ret_len);

/* openat2(2). resolve takes the RESOLVE_ flags below. Returns a descriptor or -errno. The kernel
 * says EAGAIN when anything on the machine was renamed or mounted while it resolved a `..`: it is
 * asked again, a bounded number of times. */
#define FD_BENEATH	 0x08u /* RESOLVE_BENEATH */
#define FD_IN_ROOT	 0x10u /* RESOLVE_IN_ROOT */
#define FD_NO_MAGICLINKS 0x02u /* RESOLVE_NO_MAGICLINKS */
#define FD_NO_SYMLINKS	 0x04u /* RESOLVE_NO_SYMLINKS */
#define FD_NO_XDEV	 0x01u /* RESOLVE_NO_XDEV */
int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve);

/* When the file came to be, in ns since 1970; 0 where its file system does not say. O_PATH will
 * do. */
uint64_t fd_birth_ns(int fd);

/* One name as getdents64(2) gives it: libc does not declare it everywhere. */
struct fd_dirent {
	uint64_t ino;
	int64_t off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

/* Takes the box's secret (filter/filter.h) out of the environment, so that fd_openat2 and
 * sys_clone3 show it to the filter beside their arguments. cove-init does this first of all; in any
 * other process there is none, and no filter asks. */
void sys_secret_take(void);
/* In a copy of init that reads what the box wrote: from here on it is such a process. */
void sys_secret_forget(void);

/* clone3's arguments, from the kernel's headers, which musl does not bring. */
#define KERNEL_CLONE_INTO_CGROUP 0x200000000ull
struct kernel_clone_args {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
	uint64_t set_tid, set_tid_size, cgroup;
};

/* Raw calls, -errno on failure. */
int sys_clone3(const void *args, size_t size);
int sys_pidfd_open(pid_t pid);
int sys_pidfd_send_signal(int pidfd, int sig);
int sys_close_range(unsigned first, unsigned last, unsigned flags);
int sys_memfd_create(const char *name, unsigned flags);
int sys_execveat(int fd, char *const argv[], char *const envp[]);
