/*
 * Terminals; see pty.h. The slave is opened through the master (TIOCGPTPEER) and not by its name:
 * no path in the box is trusted to be what it is called. /dev/ptmx itself is opened without
 * waiting, and if it is not a terminal master the next call says so.
 */
#include "init/pty.h"

#include "base/fd.h"
#include "guest/open.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

/* From the kernel's headers, which musl does not bring. */
#ifndef TIOCGPTPEER
#define TIOCGPTPEER 0x5441
#endif

int pty_open(uid_t owner, int *ret_master, int *ret_slave, struct err *e)
{
	autoclose int master = guest_open_at(AT_FDCWD, "/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK,
					     FD_NO_MAGICLINKS);
	autoclose int slave = -1;
	int unlock = 0;

	if (master < 0)
		return err_errno(e, -master, "open a terminal (/dev/ptmx)");
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_errno(e, errno, "unlock a terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return err_errno(e, errno, "open a terminal's other end");
	/* Programs that insist on owning their terminal complain themselves if this is refused. */
	if (owner != (uid_t)-1 && fchown(slave, owner, (gid_t)-1) < 0 && errno != EPERM)
		return err_errno(e, errno, "give the terminal to its user");
	*ret_master = take_fd(master);
	*ret_slave = take_fd(slave);
	return 0;
}

static unsigned short clamp(uint64_t v, unsigned short usual)
{
	return v == 0 ? usual : v > 4096 ? 4096 : (unsigned short)v;
}

void pty_resize(int master, uint64_t rows, uint64_t cols)
{
	struct winsize size = {.ws_row = clamp(rows, 24), .ws_col = clamp(cols, 80)};

	/* It fails only when the other end is gone, and then there is no window. */
	ioctl(master, TIOCSWINSZ, &size);
}

void pty_type_eof(int master, bool at_line_start)
{
	struct termios t;
	char keys[2];

	if (tcgetattr(master, &t) < 0 || !(t.c_lflag & ICANON))
		return;
	keys[0] = keys[1] = (char)t.c_cc[VEOF];
	/* A terminal whose input is full has an end to come anyway: that of its reader. */
	if (write(master, keys, at_line_start ? 1 : 2) < 0)
		return;
}

pid_t pty_foreground(int master)
{
	pid_t group = tcgetpgrp(master);

	return group > 0 ? group : 0;
}
