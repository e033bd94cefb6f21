/* Descriptors and raw system calls; see fd.h. */
#include "base/fd.h"

#include "base/err.h"
#include "base/rand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { FD_OPEN_TRIES = 64 };

void fd_fill_low(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	fd_close(&fd);
}

static bool leaves_open;

void fd_leave_open(void)
{
	leaves_open = true;
}

void fd_closep(int *fd)
{
	if (*fd >= 0 && (!leaves_open || *fd >= FD_LEFT_MAX))
		close(*fd);
}

void fd_close(int *fd)
{
	fd_closep(fd);
	*fd = -1;
}

void fd_close_all(int *const *fds, size_t count)
{
	int open[FD_CLOSE_MAX];
	size_t n = 0, last;

	ASSERT(count <= FD_CLOSE_MAX);
	for (size_t i = 0; i < count; i++) {
		int fd = *fds[i];
		size_t at = n;

		*fds[i] = -1;
		if (fd < 0)
			continue;
		for (; at > 0 && open[at - 1] > fd; at--)
			open[at] = open[at - 1];
		open[at] = fd;
		n++;
	}
	for (size_t i = 0; i < n; i = last + 1) {
		for (last = i; last + 1 < n && open[last + 1] == open[last] + 1; last++)
			continue;
		/* A kernel that lacks it closes them one by one. */
		if (last > i && sys_close_range((unsigned)open[i], (unsigned)open[last], 0) == 0)
			continue;
		for (size_t at = i; at <= last; at++)
			close(open[at]);
	}
}

int fd_copy(int fd, int least)
{
	long copy = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);

	return copy < 0 ? -errno : (int)copy;
}

int fd_open(const char *path, int flags)
{
	return openat(AT_FDCWD, path, flags | O_CLOEXEC);
}

ssize_t fd_read_full(int fd, void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = read(fd, (char *)p + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			break;
		done += (size_t)r;
	}
	return (ssize_t)done;
}

int fd_write_full(int fd, const void *p, size_t n)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = write(fd, (const char *)p + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		done += (size_t)r;
	}
	return 0;
}

int fd_cut_torn_line(int fd, uint64_t *ret_bytes)
{
	struct stat st;
	char tail[4096];
	off_t end;

	if (fstat(fd, &st) < 0)
		return -errno;
	end = st.st_size;
	while (end > 0) {
		off_t from = end > (off_t)sizeof(tail) ? end - (off_t)sizeof(tail) : 0;
		ssize_t n = pread(fd, tail, (size_t)(end - from), from);
		const char *newline = n > 0 ? memrchr(tail, '\n', (size_t)n) : NULL;

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		end = newline ? from + (newline + 1 - tail) : from;
		if (newline)
			break;
	}
	if (end < st.st_size && ftruncate(fd, end) < 0)
		return -errno;
	*ret_bytes = (uint64_t)end;
	return 0;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL), wanted;

	if (flags < 0)
		return -errno;
	wanted = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return wanted != flags && fcntl(fd, F_SETFL, wanted) < 0 ? -errno : 0;
}

void fd_set_send_room(int fd, unsigned bytes)
{
	int value = (int)bytes;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value));
}

/* A file of /proc gives what it has in parts; of a regular one less than was asked for is all. */
static ssize_t read_part(int fd, bool regular, char *to, size_t room)
{
	ssize_t n;

	if (!regular)
		return fd_read_full(fd, to, room);
	n = read(fd, to, room);
	return n < 0 ? -errno : n;
}

/* Most files are small: read here first they take memory of their own size, which the allocator has
 * at hand; 4 KiB each it maps and unmaps. */
static int read_whole(int fd, bool regular, size_t max, char **ret, size_t *ret_len)
{
	autofree char *text = NULL;
	char first[4096];
	size_t cap = sizeof(first) > max ? max + 1 : sizeof(first), len = 0;
	ssize_t n = read_part(fd, regular, first, cap);

	while (n >= 0) {
		bool whole = len + (size_t)n < cap;
		char *grown;

		len += (size_t)n;
		if (len > max) {
			n = -EFBIG;
			break;
		}
		if (!whole)
			cap = cap > max / 2 ? max + 1 : 2 * cap;
		grown = realloc(text, (whole ? len : cap) + 1);
		if (!grown) {
			n = -ENOMEM;
			break;
		}
		if (!text)
			memcpy(grown, first, len);
		text = grown;
		if (whole)
			break;
		n = read_part(fd, regular, text + len, cap - len);
	}
	explicit_bzero(first, len < sizeof(first) ? len : sizeof(first));
	if (n < 0)
		return (int)n;
	text[len] = 0;
	*ret = take_ptr(text);
	if (ret_len)
		*ret_len = len;
	return 0;
}

int fd_read_file(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	autoclose int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd < 0 ? -errno : read_whole(fd, false, max, ret, ret_len);
}

int fd_read_plain(int dir_fd, const char *path, size_t max, char **ret, size_t *ret_len)
{
	autoclose int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

	return fd < 0 ? -errno : read_whole(fd, true, max, ret, ret_len);
}

int fd_read_regular(int fd, size_t max, char **ret, size_t *ret_len)
{
	return read_whole(fd, true, max, ret, ret_len);
}

int fd_write_file(int dir_fd, const char *name, const void *p, size_t n, mode_t mode, bool durable)
{
	char tmp[300], token[17];
	int r;

	rand_hex(token, 8);
	if (snprintf(tmp, sizeof(tmp), ".%.200s.%s", name, token) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	autoclose int fd = openat(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, p, n);
	if (r == 0 && durable && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, tmp, dir_fd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir_fd, tmp, 0);
		return r;
	}
	return durable && fsync(dir_fd) < 0 ? -errno : 0;
}

/* In registers that the kernel does not read for these calls. */
static uint64_t secret[2];

void sys_secret_take(void)
{
	char *text = getenv("COVE_SECRET");
	unsigned char bytes[sizeof(secret)];

	if (!text || strlen(text) != 2 * sizeof(bytes))
		return;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		char pair[] = {text[2 * i], text[2 * i + 1], 0};

		bytes[i] = (unsigned char)strtoul(pair, NULL, 16);
	}
	memcpy(secret, bytes, sizeof(secret));
	explicit_bzero(text, strlen(text));
	unsetenv("COVE_SECRET");
}

void sys_secret_forget(void)
{
	explicit_bzero(secret, sizeof(secret));
}

int sys_clone3(const void *args, size_t size)
{
	long r = syscall(SYS_clone3, args, size, 0, 0, secret[0], secret[1]);

	return r < 0 ? -errno : (int)r;
}

int fd_seal(const char *name, const void *p, size_t n, int *ret_fd)
{
	autoclose int fd = sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return fd;
	r = fd_write_full(fd, p, n);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

int fd_read_sealed(int fd, size_t max, char **ret, size_t *ret_len)
{
	autofree char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size <= 0 || (uint64_t)st.st_size > max)
		return -EBADMSG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	n = pread(fd, text, (size_t)st.st_size, 0);
	if (n < 0)
		return -errno;
	if (n != st.st_size)
		return -EBADMSG;
	text[n] = 0;
	*ret = take_ptr(text);
	*ret_len = (size_t)n;
	return 0;
}

int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = {(uint64_t)(unsigned)flags | O_CLOEXEC, mode, resolve};
	unsigned tries = 0;
	long r;

	do {
		r = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how), secret[0], secret[1]);
	} while (r < 0 && (errno == EINTR || (errno == EAGAIN && ++tries < FD_OPEN_TRIES)));
	return r < 0 ? -errno : (int)r;
}

int sys_pidfd_open(pid_t pid)
{
	long r = syscall(SYS_pidfd_open, pid, 0);

	return r < 0 ? -errno : (int)r;
}

int sys_pidfd_send_signal(int pidfd, int sig)
{
	return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) < 0 ? -errno : 0;
}

int sys_close_range(unsigned first, unsigned last, unsigned flags)
{
	return syscall(SYS_close_range, first, last, flags) < 0 ? -errno : 0;
}

int sys_memfd_create(const char *name, unsigned flags)
{
	long r = syscall(SYS_memfd_create, name, flags);

	return r < 0 ? -errno : (int)r;
}

int sys_execveat(int fd, char *const argv[], char *const envp[])
{
	syscall(SYS_execveat, fd, "", argv, envp, 0x1000 /* AT_EMPTY_PATH */);
	return -errno;
}

bool fd_is_cancelled(int cancel_fd)
{
	struct pollfd p = {.fd = cancel_fd, .events = POLLIN};

	return cancel_fd > 0 && poll(&p, 1, 0) > 0;
}

int fd_open_below(int dir_fd, const char *name, bool make)
{
	enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
	int fd = openat(dir_fd, name, FLAGS);

	if (fd < 0 && errno == ENOENT && make) {
		if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
			return -errno;
		if (fsync(dir_fd) < 0)
			return -errno;
		fd = openat(dir_fd, name, FLAGS);
	}
	return fd < 0 ? -errno : fd;
}

/* statx(2), which musl has no name for yet; from the kernel's headers, which it does not bring. */
uint64_t fd_birth_ns(int fd)
{
	enum { BIRTH = 0x800, EMPTY_PATH = 0x1000 };
	struct {
		uint32_t mask;
		uint8_t before[76];
		int64_t birth_s;
		uint32_t birth_ns;
		uint8_t after[164];
	} st = {0};

	_Static_assert(sizeof(st) == 256, "as the kernel has it");
	if (syscall(SYS_statx, fd, "", EMPTY_PATH, BIRTH, &st) < 0 || !(st.mask & BIRTH))
		return 0;
	return (uint64_t)st.birth_s * 1000000000u + st.birth_ns;
}
