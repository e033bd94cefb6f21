/*
 * The files of a shell's line; see shell.c.
 *
 * The directory is open to the box's user for creating but not for listing, and names are random,
 * so other processes of the box find nothing there. What init makes is given to the shell's user:
 * in a sticky directory the kernel lets nobody open another's FIFO for writing
 * (fs.protected_fifos).
 *
 * Whether Tc was read is seen by its access time, which is set to 1970 before. The kernel moves it
 * with the first read, even where it otherwise does not keep it exact (relatime), but not on a
 * filesystem without access times: that is tried once.
 */
#include "init/shell.h"

#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { FILE_MODE = 0600, STATUS_MODE = 0644, DELIMITER_MAX = 128 };

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

static bool is_plain_path(const char *s)
{
	return s[0] == '/' &&
	       s[strspn(s, "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] ==
		       '\0';
}

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

int shell_dir_open(struct shell_table *t, struct err *e)
{
	const char *dir = t->in->shell_dir ? t->in->shell_dir : INIT_SHELL_DIR;
	int r;

	if (t->dir_fd >= 0)
		return 0;
	if (!is_plain_path(dir) || !str_copy(t->dir, sizeof(t->dir), dir))
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

static int open_fifo(const struct line_io *io, char kind, int flags)
{
	struct name n = name_of(io->token, kind);
	int fd = openat(io->table->dir_fd, n.text, flags | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int make_text(struct line_io *io, const struct user *u)
{
	struct name n = name_of(io->token, 'c');

	io->text_fd = openat(io->table->dir_fd, n.text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
			     FILE_MODE);
	if (io->text_fd < 0)
		return -errno;
	forget_read(io->text_fd);
	return give(io, n.text, u);
}

static int make_output(struct line_io *io, int i, const struct user *u)
{
	static const char kinds[] = {'o', 'e'};
	struct init *in = io->table->in;
	int r = make_fifo(io, kinds[i], u), fd;

	if (r < 0)
		return r;
	fd = open_fifo(io, kinds[i], O_RDONLY);
	if (fd < 0)
		return fd;
	io->hold_fd[i] = open_fifo(io, kinds[i], O_WRONLY);
	io->out[i].on_end = line_on_stream_end;
	io->out[i].on_room = line_on_stream_room;
	r = out_stream_start(&io->out[i], in->ev, &in->link, fd, 0, (uint8_t)(WIRE_STDOUT + i));
	return io->hold_fd[i] < 0 ? io->hold_fd[i] : r;
}

int line_io_new(struct shell_table *t, const struct user *u, struct line_io **ret)
{
	struct line_io *io = calloc(1, sizeof(*io));
	int r;

	if (!io)
		return -ENOMEM;
	io->table = t;
	io->text_fd = io->hold_fd[0] = io->hold_fd[1] = io->start.fd = io->input_fd = -1;
	rand_hex(io->token, TOKEN_BYTES);
	io->named = true;
	r = make_text(io, u);
	for (int i = 0; i < 2 && r == 0; i++)
		r = make_output(io, i, u);
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
	const char *kinds = io->input ? "coesi" : io->start_taken ? "coe" : "coes";

	if (!io->named)
		return;
	io->named = false;
	/* What is not there was never made, or the user removed it. */
	for (; *kinds; kinds++)
		unlinkat(io->table->dir_fd, name_of(io->token, *kinds).text, 0);
	fd_close(&io->text_fd);
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

/* Blank lines and comments only: braces around nothing would not parse. */
static bool is_nothing(const char *s)
{
	while (*s) {
		s += strspn(s, " \t\n");
		if (*s && *s != '#')
			return false;
		s += strcspn(s, "\n");
	}
	return true;
}

/* The word after <<, as far as it is needed to find its line: without quotes. */
static size_t take_delimiter(const char **at, char *ret)
{
	const char *s = *at + strspn(*at, " \t");
	size_t n = 0;
	char quote = '\0';

	for (; *s && *s != '\n' && n < DELIMITER_MAX; s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"')
			quote = quote ? '\0' : *s;
		else if (!quote && strchr(" \t;&|<>()", *s))
			break;
		else if (*s != '\\')
			ret[n++] = *s;
	}
	*at = s;
	return n;
}

static bool has_line(const char *s, const char *line, size_t n, bool tabs)
{
	while ((s = strchr(s, '\n'))) {
		s++;
		if (tabs)
			s += strspn(s, "\t");
		if (strncmp(s, line, n) == 0 && (s[n] == '\n' || s[n] == '\0'))
			return true;
	}
	return false;
}

/* A here-document whose end is missing ends with the text, but not if braces follow. This may also
 * take 1<<N for one: that is harmless, as the other form only parses later. */
static bool has_open_heredoc(const char *s)
{
	char word[DELIMITER_MAX];

	while ((s = strstr(s, "<<"))) {
		bool tabs = s[2] == '-';
		size_t n;

		if (s[2] == '<') {
			s += 3;
			continue;
		}
		s += tabs ? 3 : 2;
		n = take_delimiter(&s, word);
		if (n > 0 && !has_line(s, word, n, tabs))
			return true;
	}
	return false;
}

/* 'text' with every ' as '\'' */
static int quote_text(struct buf *b, const char *text)
{
	const char *end;
	int r = buf_append(b, "'", 1);

	for (; r == 0 && (end = strchr(text, '\'')); text = end + 1) {
		r = buf_append(b, text, (size_t)(end - text));
		if (r == 0)
			r = buf_append_str(b, "'\\''");
	}
	if (r == 0)
		r = buf_append_str(b, text);
	return r < 0 ? r : buf_append(b, "'", 1);
}

/* $? is what the line before returned, except where `set -e` would take that for a failure. Not to
 * be seen with `set -x`. */
static int put_back_status(const struct shell *sh, char *ret, size_t size)
{
	const struct shell_table *t = sh->table;

	if (sh->status == 0)
		return 0;
	if (!sh->bash)
		return snprintf(ret, size, "(exit %u); ", sh->status);
	return snprintf(ret, size,
			"{ [[ $- == *e* ]] || \\builtin source %s/%s %u; } 2>/dev/null; ", t->dir,
			t->status_file, sh->status);
}

/* All before the text is in its first line, so that lines are counted right. Two newlines after it:
 * the first may be eaten by a backslash. */
static int write_braced(const struct line_io *io, const char *text, const struct shell *sh)
{
	static const char tail[] = "\n\n}\n";
	char head[2 * SHELL_DIR_MAX + 2 * TOKEN_LEN + 128];
	int n = snprintf(head, sizeof(head), ">%s/%ss; ", io->table->dir, io->token);

	n += put_back_status(sh, head + n, sizeof(head) - (size_t)n);
	n += snprintf(head + n, sizeof(head) - (size_t)n, "{ ");
	struct iovec parts[] = {
		{.iov_base = head, .iov_len = (size_t)n},
		{.iov_base = (char *)(uintptr_t)text, .iov_len = strlen(text)},
		{.iov_base = (char *)(uintptr_t)tail, .iov_len = sizeof(tail) - 1},
	};
	size_t all = parts[0].iov_len + parts[1].iov_len + parts[2].iov_len;
	ssize_t done = writev(io->text_fd, parts, 3);

	if (done < 0)
		return -errno;
	return (size_t)done == all ? 0 : -ENOSPC;
}

static int write_evaluated(const struct line_io *io, const char *text, const struct shell *sh)
{
	const char *whole;
	struct buf b;
	int r;

	/* At worst every byte becomes four. */
	buf_init(&b, 4 * WIRE_CONTROL_MAX + 1024);
	r = buf_append_str(&b, sh->bash ? "\\builtin eval " : "eval ");
	if (r == 0)
		r = quote_text(&b, text);
	whole = r == 0 ? buf_cstr(&b) : NULL;
	r = whole ? write_braced(io, whole, sh) : -ENOMEM;
	buf_done(&b);
	return r;
}

int line_io_write(struct line_io *io, const char *text, const struct shell *sh)
{
	if (is_nothing(text))
		text = ":";
	return has_open_heredoc(text) ? write_evaluated(io, text, sh) : write_braced(io, text, sh);
}

void line_io_remove_text(struct line_io *io)
{
	unlinkat(io->table->dir_fd, name_of(io->token, 'c').text, 0);
}

bool line_io_take_start(struct line_io *io)
{
	struct pollfd p = {.fd = io->start.fd, .events = POLLIN};

	if (io->input)
		return poll(&p, 1, 0) > 0;
	io->start_taken = unlinkat(io->table->dir_fd, name_of(io->token, 's').text, 0) == 0;
	return io->start_taken;
}

bool line_io_was_read(const struct line_io *io)
{
	return !io->table->sees_reads || was_read(io->text_fd);
}
