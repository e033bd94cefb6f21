/*
 * The process of a persistent shell; see shell.c.
 *
 * `-i` matters: only an interactive shell unwinds on SIGINT and keeps its state. Job control stays
 * off, as there is no terminal. The realtime signal is init's way to interrupt a line that ignores
 * or traps SIGINT: its trap runs between two commands, brings back the default and interrupts.
 */
#include "init/shell.h"

#include "base/fd.h"
#include "init/env.h"
#include "init/files.h"
#include "init/fsids.h"
#include "init/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum {
	SHELL_OOM_SCORE = 200,
	REPLY_BYTES = 4096,
	REPLY_READS = 65536 / REPLY_BYTES + 1,
	FILES_LEAN = 13,     /* bash keeps three at 10 and above while a line runs */
	FILES_LEAN_BASH = 8, /* or below, if it must */
	LIMITS_BYTES_MAX = 8192,
	OPTIONS_MAX = 31, /* letters of $- */
	/* Names of groups for lines: apart from those of commands, which are their ids. */
	GROUP_FIRST = 0x80000000u,
};

static const char bash_setup[] =
	"\\builtin set +o history +o histexpand; \\builtin history -c; "
	"\\builtin unset HISTFILE MAILCHECK; "
	"\\builtin trap '\\builtin trap - INT; \\builtin kill -INT $$' 50\n";
static const char sh_setup[] = "trap 'trap - INT; kill -INT $$' 50\n";

/* --- what can be a shell --- */

static const char *const bash_argv[] = {"bash", "--noprofile", "--norc", "--noediting", "-i", NULL};

static const struct program {
	const char *path;
	const char *const *argv;
	bool bash;
} programs[] = {
	{"/bin/bash", bash_argv, true},
	{"/usr/bin/bash", bash_argv, true},
	{"/usr/local/bin/bash", bash_argv, true},
	{"/bin/sh", (const char *const[]){"sh", "-i", NULL}, false},
	{"/bin/dash", (const char *const[]){"dash", "-i", NULL}, false},
	{"/bin/busybox", (const char *const[]){"busybox", "sh", "-i", NULL}, false},
};

/* --- the group --- */

/* Has it children at all? If the kernel does not say, it may have. */
static bool may_have_children(const struct shell *sh)
{
	char path[64], byte;

	snprintf(path, sizeof(path), "task/%d/children", (int)sh->proc.pid);
	autoclose int fd = openat(sh->proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 || read(fd, &byte, 1) != 0;
}

static int renew_tree(struct shell *sh, struct err *e)
{
	struct shell_table *t = sh->table;
	struct init_tree fresh;
	int r = init_tree_init(&fresh, &t->in->groups, GROUP_FIRST | t->groups++);

	if (r == 0 && sh->alive)
		r = init_tree_enter(&fresh, sh->proc.pid, sh->user.uid);
	if (r < 0) {
		init_tree_done(&fresh);
		return err_errno(e, -r, "make a group for the line");
	}
	if (sh->alive && !init_tree_has_group(&fresh)) {
		fresh.root = sh->proc.pid;
		if (may_have_children(sh))
			init_tree_keep_current(&fresh, sh->proc.pid);
	}
	init_tree_done(&sh->tree);
	sh->tree = fresh;
	sh->seen = (struct usage){0};
	sh->ready = true;
	return 0;
}

/* Soft limit of open files, from /proc where the kernel does not let init ask (another user). */
static uint64_t open_files_max(const struct shell *sh)
{
	static const char title[] = "Max open files";
	autofree char *text = NULL;
	struct rlimit files;
	const char *at;

	if (prlimit(sh->proc.pid, RLIMIT_NOFILE, NULL, &files) == 0)
		return files.rlim_cur;
	if (fd_read_file(sh->proc_fd, "limits", LIMITS_BYTES_MAX, &text, NULL) < 0)
		return UINT64_MAX;
	at = strstr(text, title);
	return at ? strtoull(at + strlen(title), NULL, 10) : UINT64_MAX;
}

int shell_refresh(struct shell *sh, struct err *e)
{
	uint64_t files = open_files_max(sh);

	/* After `ulimit -n 7` every line would fail. */
	sh->lean = files < FILES_LEAN;
	if (files < (sh->bash ? FILES_LEAN_BASH : FILES_LEAN)) {
		shell_drop(sh);
		sh->lost = true;
		return 0;
	}
	/* Most lines leave no process behind: then the group serves again. To move a process to
	 * another waits for the whole machine, milliseconds if that is the first in a while. */
	if (init_tree_has_group(&sh->tree) && init_tree_signal(&sh->tree, 0, sh->proc.pid) == 0) {
		usage_reset_peak(&sh->tree);
		sh->ready = true;
		return 0;
	}
	return renew_tree(sh, e);
}

/* --- feed and reply --- */

void shell_feed(struct shell *sh, const char *sentence)
{
	/* A shell that cannot take a sentence is dead or dying: its end is an event of its own. */
	ssize_t n = write(sh->feed_fd, sentence, strlen(sentence));

	(void)n;
}

int shell_unread(const struct shell *sh)
{
	int n = 0;

	return ioctl(sh->feed_fd, FIONREAD, &n) < 0 ? 0 : n;
}

/* A number of so many digits at the most, and what comes after it. */
static bool take_number(const char **at, unsigned digits, unsigned *ret)
{
	const char *s = *at;

	for (*ret = 0; s < *at + digits && *s >= '0' && *s <= '9'; s++)
		*ret = *ret * 10 + (unsigned)(*s - '0');
	if (s == *at || *s != ':')
		return false;
	*at = s + 1;
	return true;
}

/* [xROUND]:STATUS:OPTIONS: after the token */
static bool parse_end(const char *s, size_t n, unsigned *ret_round, unsigned *ret_status,
		      char ret_options[OPTIONS_MAX + 1])
{
	char text[OPTIONS_MAX + 16];
	const char *at = text + 1;

	*ret_round = 0;
	n = n < sizeof(text) - 1 ? n : sizeof(text) - 1;
	memcpy(text, s, n);
	text[n] = '\0';
	if (text[0] == 'x' ? !take_number(&at, 5, ret_round) : text[0] != ':')
		return false;
	if (!take_number(&at, 3, ret_status))
		return false;
	n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
	if (n == 0 || n > OPTIONS_MAX || at[n] != ':')
		return false;
	memcpy(ret_options, at, n);
	ret_options[n] = '\0';
	return true;
}

/* The end of the latest round in what was said; if it was said twice, the first has the status. */
static bool find_end(struct shell *sh, const char *p, size_t n, unsigned *ret_round,
		     unsigned *ret_status)
{
	const char *token = sh->current && sh->current->io ? sh->current->io->token : NULL;
	const char *at = p, *end = p + n;
	char options[OPTIONS_MAX + 1];
	unsigned round = 0, status = 0;
	bool found = false;

	while (token && (at = memmem(at, (size_t)(end - at), token, TOKEN_LEN))) {
		at += TOKEN_LEN;
		if (!parse_end(at, (size_t)(end - at), &round, &status, options) ||
		    (found && round <= *ret_round))
			continue;
		*ret_round = round;
		*ret_status = status;
		sh->nounset = strchr(options, 'u');
		sh->errexit = strchr(options, 'e');
		found = true;
	}
	return found;
}

/* Nothing can be said any more: it closed its descriptors, or became another program. */
static void close_reply(struct shell *sh)
{
	ev_io_remove(sh->table->in->ev, &sh->reply);
	fd_close(&sh->reply.fd);
}

bool shell_listen(struct shell *sh, unsigned *ret_round, unsigned *ret_status)
{
	char text[REPLY_KEEP + REPLY_BYTES];
	unsigned round = 0, status = 0;
	bool found = false;
	ssize_t n;

	/* Whatever was in the pipe, but not for ever. */
	for (int i = 0; i < REPLY_READS && sh->reply.fd >= 0; i++) {
		size_t all, keep;

		memcpy(text, sh->kept, sh->kept_len);
		n = read(sh->reply.fd, text + sh->kept_len, REPLY_BYTES);
		if (n == 0)
			close_reply(sh);
		if (n <= 0)
			break;
		all = sh->kept_len + (size_t)n;
		if (find_end(sh, text, all, &round, &status) && (!found || round > *ret_round)) {
			*ret_round = round;
			*ret_status = status;
			found = true;
		}
		keep = all < REPLY_KEEP ? all : REPLY_KEEP;
		memcpy(sh->kept, text + all - keep, keep);
		sh->kept_len = keep;
		if (n < REPLY_BYTES)
			break;
	}
	if (found)
		sh->kept_len = 0;
	return found;
}

static void on_reply(struct ev_io *io, uint32_t events)
{
	struct shell *sh = container(io, struct shell, reply);
	unsigned round, status;

	if (shell_listen(sh, &round, &status))
		shell_on_end(sh, round, status);
	else
		shell_on_noise(sh);
}

/* --- life --- */

static void on_exit_proc(struct init_proc *p, int wait_status)
{
	shell_on_death(container(p, struct shell, proc), wait_status);
}

/* It runs, or not: then what was made for it is undone by shell_drop. */
static void on_started(struct init_proc *p, const struct err *why)
{
	struct shell *sh = container(p, struct shell, proc);
	struct err e = {0};
	char path[32];
	int r;

	if (why) {
		shell_on_started(sh, why);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d", (int)sh->tree.root);
	sh->proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = sh->proc_fd < 0 ? -errno : ev_io_add(sh->table->in->ev, &sh->reply, EPOLLIN);
	if (r < 0)
		err_errno(&e, -r, "watch a shell");
	sh->alive = true;
	shell_feed(sh, sh->bash ? bash_setup : sh_setup);
	shell_on_started(sh, r < 0 ? &e : NULL);
}

bool shell_is_starting(const struct shell *sh)
{
	return !sh->alive && sh->proc.pid > 0;
}

static int make_pipes(struct shell *sh, int child[2], struct err *e)
{
	int feed[2], reply[2];

	if (pipe2(feed, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make a pipe");
	sh->feed_fd = feed[1];
	child[0] = feed[0];
	if (pipe2(reply, O_CLOEXEC) < 0)
		return err_errno(e, errno, "make a pipe");
	sh->reply.fd = reply[0];
	child[1] = reply[1];
	if (fd_set_nonblock(sh->feed_fd, true) < 0 || fd_set_nonblock(sh->reply.fd, true) < 0)
		return err_errno(e, errno, "make a pipe");
	return 0;
}

static int spawn_shell(struct shell *sh, const struct line *l, const struct program *p,
		       struct err *e)
{
	const struct wire_list add = {l->ask.env, l->ask.env_bytes, l->ask.env_count};
	struct init *in = sh->table->in;
	char cwd[BOX_PATH_MAX];
	autofree char **env = NULL;
	int child[2] = {-1, -1}, r;

	r = env_cwd(in, &sh->user, l->ask.cwd, cwd, sizeof(cwd), e);
	if (r == 0)
		r = env_build(in, &sh->user, &add, false, &env, e);
	if (r == 0)
		r = make_pipes(sh, child, e);
	struct spawn s = {
		.path = p->path,
		.argv = (char *const *)(uintptr_t)p->argv,
		.env = env,
		.cwd = cwd,
		.user = &sh->user,
		.subreaper = !init_tree_has_group(&sh->tree),
		.in = child[0],
		.out = child[1],
		.err = child[1],
		.own_pipes = true, /* what is written to them is what init goes by */
		.tty = -1,
		.tree = &sh->tree,
		.oom_score_adj = SHELL_OOM_SCORE,
	};
	sh->proc.on_started = on_started;
	sh->proc.on_exit = on_exit_proc;
	if (r == 0)
		r = init_proc_start(&sh->proc, in, &s, e);
	fd_close(&child[0]);
	fd_close(&child[1]);
	return r;
}

int shell_start(struct shell *sh, struct line *l, struct err *e)
{
	const struct program *p = programs, *end = p + sizeof(programs) / sizeof(*programs);
	int r = 0;

	while (p < end && !path_is_program(p->path))
		p++;
	if (p == end)
		return err_set(e, ERR_NOT_FOUND, ENOENT,
			       "this image has no shell: neither bash nor sh");
	/* A line that goes to a second shell stays with who ran the first. */
	if (!l->rerun || l->ask.user)
		r = env_user(sh->table->in, l->ask.user, &sh->user, e);
	if (r == 0)
		r = renew_tree(sh, e);
	if (r == 0)
		r = spawn_shell(sh, l, p, e);
	if (r < 0) {
		shell_drop(sh);
		return r;
	}
	sh->bash = p->bash;
	sh->path = p->path;
	sh->tree.root = sh->proc.pid;
	sh->reply.on_event = on_reply;
	sh->kept_len = 0;
	sh->status = 0;
	sh->login = sh->login_due = l->ask.login;
	sh->used = sh->may_abort = sh->lean = sh->traced = sh->plain = sh->nounset = sh->errexit =
		false;
	return 0;
}

void shell_signal(struct shell *sh, int sig)
{
	if (sh->alive)
		init_proc_signal(&sh->proc, sig);
}

/* Both its pipes are closed, so it reads and says nothing any more and ends by itself. A copy of it
 * in the background may still have them: then it is only never at its prompt. */
bool shell_is_replaced(const struct shell *sh)
{
	struct pollfd p = {.fd = sh->feed_fd};

	return sh->reply.fd < 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

bool shell_is_stopped(const struct shell *sh)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)sh->proc.pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == sh->proc.pid;
}

/* Only the user's own ids may look there: init has no right to trace other users' processes. */
char *shell_cwd(const struct shell *sh)
{
	static const char mark[] = " (deleted)";
	const size_t mark_len = sizeof(mark) - 1;
	char path[BOX_PATH_MAX + sizeof(mark)];
	struct stat st;
	bool is_gone;
	ssize_t n;

	if (!sh->table->in->single && !fs_ids_enter_proc(sh->user.uid, sh->user.gid))
		return NULL;
	n = readlinkat(sh->proc_fd, "cwd", path, sizeof(path) - 1);
	is_gone = n > 0 && fstatat(sh->proc_fd, "cwd", &st, 0) == 0 && st.st_nlink == 0;
	if (!sh->table->in->single)
		fs_ids_leave();
	if (n <= 0)
		return NULL;
	path[n] = '\0';
	/* A directory may really be called like that; one that is gone has no links. */
	if (is_gone && (size_t)n > mark_len && strcmp(path + n - mark_len, mark) == 0)
		path[(size_t)n - mark_len] = '\0';
	return strdup(path);
}

void shell_drop(struct shell *sh)
{
	struct ev *ev = sh->table->in->ev;

	init_proc_signal(&sh->proc, SIGKILL);
	init_proc_drop(&sh->proc); /* the reaper takes it */
	sh->alive = false;
	if (sh->current && sh->current->job.state < JOB_ENDED)
		line_measure(sh->current);
	ev_timer_stop(ev, &sh->watch);
	ev_defer_cancel(ev, &sh->prepare);
	close_reply(sh);
	fd_close(&sh->feed_fd);
	fd_close(&sh->proc_fd);
	init_tree_done(&sh->tree);
	sh->tree.root = 0;
	sh->ready = false;
	line_io_free(take_ptr(sh->premade));
}
