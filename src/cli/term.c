/*
 * The user's terminal; see term.h.
 *
 * The saved settings are static because the ways out that are not planned (a crash, exit in a
 * library) have no other way to find them.
 */
#include "cli/term.h"

#include "base/str.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios saved;
static volatile sig_atomic_t is_raw;

bool term_is_ours(int fd)
{
	return isatty(fd) && tcgetpgrp(fd) == getpgrp();
}

void term_restore(void)
{
	if (is_raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
	is_raw = 0;
}

const char *term_eol(void)
{
	return is_raw ? "\r\n" : "\n";
}

static void on_crash(int sig)
{
	term_restore();
	/* The handler was reset when it was called: this time it is the end. */
	raise(sig);
}

static void restore_at_end(void)
{
	static const int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
	static bool done;

	if (done)
		return;
	done = true;
	atexit(term_restore);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i],
			  &(struct sigaction){.sa_handler = on_crash,
					      .sa_flags = (int)SA_RESETHAND | SA_NODEFER},
			  NULL);
}

int term_raw(void)
{
	struct termios raw;

	if (is_raw)
		return 0;
	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return -errno;
	restore_at_end();
	raw = saved;
	cfmakeraw(&raw);
	is_raw = 1;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		is_raw = 0;
		return -errno;
	}
	return 0;
}

bool term_size(int fd, unsigned *ret_rows, unsigned *ret_cols)
{
	struct winsize w;

	*ret_rows = 24;
	*ret_cols = 80;
	if (ioctl(fd, TIOCGWINSZ, &w) < 0 || !w.ws_row || !w.ws_col)
		return false;
	*ret_rows = w.ws_row;
	*ret_cols = w.ws_col;
	return true;
}

const char *term_type(void)
{
	/* What a minimal Debian describes (ncurses-base). */
	static const char *const known[] = {
		"xterm", "xterm-256color",  "xterm-color", "screen",
		"tmux",	 "screen-256color", "linux",	   "vt100",
		"vt102", "tmux-256color",   "vt220",	   "rxvt",
		"ansi",	 "rxvt-unicode",    "dumb",	   "rxvt-unicode-256color"};
	const char *type = getenv("TERM");

	for (size_t i = 0; type && i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(type, known[i]) == 0)
			return known[i];
	return "xterm-256color";
}
