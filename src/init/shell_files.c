/*
 * The files of a shell's line; see shell.c.
 *
 * The directory is open to the box's user for creating but not for listing, and names are random,
 * so other processes of the box find nothing there. What init makes is given to the shell's user:
 * in a sticky directory the kernel does not let one user open another's FIFO for writing
 * (fs.protected_fifos).
 *
 * Whether Tc was read is seen by its access time, which is set to 1970 before. The kernel moves it
 * with the first read, even where it otherwise does not keep it exact (relatime), but not on a
 * filesystem without access times: that is tried once.
 */
#include "init/shell.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "init/shell_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	FILE_MODE = 0600,
	STATUS_MODE = 0644,
	DIR_MODE = 01733,
	TEXT_ROOM = 2 << 20, /* for what stands between INIT_BRACED_MAX parts */
	FUNCTIONS_MAX = 1 << 20,
};

struct name {
	char text[TOKEN_LEN + 2];
};

static struct name name_of(const char *token, char kind)
{
	struct name n;

	snprintf(n.text, sizeof(n.text), "%s%c", token, kind);
	return n;
}

/* --- the directory --- */

static void forget_read(int fd)
{
	const struct timespec times[2] = {{0}, {.tv_nsec = UTIME_OMIT}};

	/* If it fails the probe says that reads cannot be seen. */
	futimens(fd, times);
}

static bool was_read(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 || st.st_atim.tv_sec != 0;
}

/* The file with which $? is put back; reading it for the first time is the probe. */
static int make_status_file(struct shell_table *t)
{
	static const char text[] = "\\builtin return $1\n";
	char token[TOKEN_LEN + 1], back[sizeof(text)];
	int r;

	rand_hex(token, TOKEN_BYTES);
	memcpy(t->status_file, name_of(token, 'r').text, sizeof(t->status_file));
	autoclose int fd = openat(t->dir_fd, t->status_file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
				  STATUS_MODE);
	if (fd < 0)
		return -errno;
	r = fd_write_full(fd, text, strlen(text));
	if (r == 0 && fchmod(fd, STATUS_MODE) < 0)
		r = -errno;
	if (r < 0)
		return r;
	forget_read(fd);
	t->sees_reads = !was_read(fd) && pread(fd, back, sizeof(back), 0) > 0 && was_read(fd);
	return 0;
}

void shell_dir_mend(const struct shell_table *t)
{
	/* Where it fails the next shell says so. */
	if (fchmod(t->dir_fd, DIR_MODE) < 0)
		log_debug("the shells' directory: %s", strerror(errno));
}

int shell_dir_open(struct shell_table *t, struct err *e)
{
	/* What the driver's sentences need no quotes for. */
	static const char plain[] =
		"/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const char *dir = t->in->shell_dir ? t->in->shell_dir : INIT_SHELL_DIR;
	int r;

	if (t->dir_fd >= 0)
		return 0;
	if (dir[0] != '/' || dir[strspn(dir, plain)] || !str_copy(t->dir, sizeof(t->dir), dir))
		return err_set(e, ERR_INVALID, EINVAL, "shells cannot use the directory '%.100s'",
			       dir);
	t->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->dir_fd < 0)
		return err_errno(e, errno, "shells need the directory %s", dir);
	r = make_status_file(t);
	if (r < 0) {
		fd_close(&t->dir_fd);
		return err_errno(e, -r, "shells cannot use the directory %s", dir);
	}
	return 0;
}

/* --- making and removing --- */

static int give(struct line_io *io, const char *name, const struct user *u)
{
	if (io->table->in->single)
		return 0;
	return fchownat(io->table->dir_fd, name, u->uid, u->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno
											  : 0;
}

static int make_fifo(struct line_io *io, char kind, const struct user *u)
{
	struct name n = name_of(io->token, kind);

	if (mkfifoat(io->table->dir_fd, n.text, FILE_MODE) < 0)
		return -errno;
	return give(io, n.text, u);
}

/* A file of the shell's user, with nothing in it; or -errno. */
static int make_file(struct line_io *io, char kind, int flags, const struct user *u)
{
	struct name n = name_of(io->token, kind);
	autoclose int fd =
		openat(io->table->dir_fd, n.text, flags | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
	int r = fd < 0 ? -errno : give(io, n.text, u);

	if (r == 0)
		return take_fd(fd);
	if (fd >= 0)
		unlinkat(io->table->dir_fd, n.text, 0);
	return r;
}

static int open_fifo(const struct line_io *io, char kind, int flags)
{
	struct name n = name_of(io->token, kind);
	int fd = openat(io->table->dir_fd, n.text, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int line_io_new(struct shell_table *t, const struct user *u, struct line_io **ret)
{
	static const char kinds[] = {'o', 'e'};
	struct line_io *io = calloc(1, sizeof(*io));
	int r;

	if (!io)
		return -ENOMEM;
	io->table = t;
	io->text_fd = io->hold_fd[0] = io->hold_fd[1] = io->start.fd = io->input_fd = -1;
	io->functions_fd = -1;
	rand_hex(io->token, TOKEN_BYTES);
	snprintf(io->shown, sizeof(io->shown), "%s/%sc: ", t->dir, io->token);
	io->out[1].hide = io->shown;
	io->named = true;
	r = io->text_fd = make_file(io, 'c', O_WRONLY, u);
	if (r >= 0)
		forget_read(r);
	for (int i = 0; i < 2 && r >= 0; i++) {
		r = make_fifo(io, kinds[i], u);
		if (r == 0)
			r = open_fifo(io, kinds[i], O_RDONLY);
		if (r < 0)
			break;
		io->hold_fd[i] = open_fifo(io, kinds[i], O_WRONLY);
		r = out_stream_start(&io->out[i], t->in->ev, &t->in->link, r, 0,
				     (uint8_t)(WIRE_STDOUT + i));
		if (io->hold_fd[i] < 0)
			r = io->hold_fd[i];
	}
	if (r < 0) {
		line_io_free(io);
		return r;
	}
	*ret = io;
	return 0;
}

int line_io_add_input(struct line_io *io, const struct user *u)
{
	int r = make_fifo(io, 'i', u);

	io->input = true;
	if (r == 0)
		r = make_fifo(io, 's', u);
	if (r < 0)
		return r;
	io->start.fd = open_fifo(io, 's', O_RDONLY);
	if (io->start.fd < 0)
		return io->start.fd;
	io->start.on_event = line_on_started;
	r = ev_io_add(io->table->in->ev, &io->start, EPOLLIN);
	if (r < 0)
		return r;
	io->input_fd = open_fifo(io, 'i', O_RDWR);
	return io->input_fd < 0 ? io->input_fd : 0;
}

void line_io_forget(struct line_io *io)
{
	const char *kinds = io->input ? "coesi" : "coe";

	if (!io->named)
		return;
	io->named = false;
	/* What is not there was never made, or the user removed it. */
	for (; *kinds; kinds++)
		unlinkat(io->table->dir_fd, name_of(io->token, *kinds).text, 0);
	fd_close(&io->text_fd);
	if (io->functions_fd >= 0)
		unlinkat(io->table->dir_fd, name_of(io->token, 'f').text, 0);
	fd_close(&io->functions_fd);
	if (io->braced)
		unlinkat(io->table->dir_fd, name_of(io->token, 'p').text, 0);
	ev_io_remove(io->table->in->ev, &io->start);
	fd_close(&io->start.fd);
	fd_close(&io->input_fd);
}

void line_io_free(struct line_io *io)
{
	if (!io)
		return;
	line_io_forget(io);
	for (int i = 0; i < 2; i++) {
		out_stream_done(&io->out[i]);
		fd_close(&io->hold_fd[i]);
	}
	free(io);
}

/* --- the text --- */

/* Adds no line before the text's last, so that lines are counted right. After it a newline for a
 * last backslash to eat. What ends a part and begins the next carries $? over, and nothing of it is
 * traced. */
static int put_braced(struct buf *out, const struct shell *sh, const char *text)
{
	size_t len = text_head_len(text);
	int r = buf_append(out, text, len);

	for (unsigned n = 1; r == 0; n++) {
		text += len;
		len = sh->lean ? 0 : text_part_len(text);
		r = buf_append_str(out, "{ ");
		if (r < 0 || len == 0)
			break;
		r = buf_append(out, text, len);
		if (r == 0)
			r = buf_printf(out, "; }; { __cove=m%u:$?; } 2>/dev/null", n);
		if (r == 0)
			r = buf_append(out, text + len, 1);
		len++;
		if (r == 0)
			r = buf_printf(out,
				       "{ [[ ${__cove-} == m%u:* ]] || \\builtin return 1; "
				       "\\builtin source %s/%s \"${__cove#*:}\" '' && :; } "
				       "2>/dev/null; ",
				       n, sh->table->dir, sh->table->status_file);
	}
	if (r == 0)
		r = buf_append_str(out, text);
	return r < 0 ? r : buf_append_str(out, "\n\n}\n");
}

int line_io_write(struct line_io *io, const char *text, struct shell *sh)
{
	autoclose int plain = -1;
	bool may_abort;
	size_t len = strlen(text);
	struct buf out;
	int r = 0;

	sh->may_abort = sh->may_abort || text_defines_abort(text);
	may_abort = sh->may_abort || sh->nounset || text_sets_nounset(text);
	buf_init(&out, 2 * len + TEXT_ROOM);
	if (sh->bash && sh->may_abort && !sh->lean && !sh->plain)
		r = io->functions_fd = make_file(io, 'f', O_RDWR, &sh->user);
	if (r >= 0 && sh->bash && may_abort && text_needs_braces(text, sh->errexit)) {
		/* The text without braces, for the shell to take if it does not parse within. */
		r = plain = make_file(io, 'p', O_WRONLY, &sh->user);
		io->braced = plain >= 0;
		if (r >= 0)
			r = fd_write_full(plain, text, len);
		if (r == 0)
			r = put_braced(&out, sh, text);
	} else if (r >= 0) {
		r = buf_append(&out, text, len);
		/* A file without a byte is never read. */
		if (r == 0 && (len == 0 || text[len - 1] == '\\'))
			r = buf_append_str(&out, "\n");
	}
	if (r == 0)
		r = fd_write_full(io->text_fd, buf_data(&out), buf_len(&out));
	buf_done(&out);
	return r;
}

bool line_io_may_abort(const struct line_io *io)
{
	autofree char *text = malloc(FUNCTIONS_MAX + 1);
	ssize_t n = text ? pread(io->functions_fd, text, FUNCTIONS_MAX, 0) : FUNCTIONS_MAX;

	if (n < 0 || n == FUNCTIONS_MAX)
		return true;
	text[n] = '\0';
	return text_has_must_be_set(text);
}

void line_io_remove_text(struct line_io *io)
{
	unlinkat(io->table->dir_fd, name_of(io->token, 'c').text, 0);
}

bool line_io_was_read(const struct line_io *io)
{
	return !io->table->sees_reads || was_read(io->text_fd);
}
