/* B12, B16, B17: terminals, System V and POSIX objects of the host, signals. */
#include "attack.h"

#include "numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

/* ---- B12 ---- */

static int open_pty(void)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master >= 0 && (grantpt(master) < 0 || unlockpt(master) < 0)) {
		close(master);
		return -1;
	}
	return master;
}

static int typed(unsigned long request)
{
	char c = 'x';
	int fd = isatty(0) ? 0 : open_pty();

	if (fd < 0)
		return not_applicable("no terminal: %s", strerror(errno));
	return refused("ioctl", syscall(SYS_ioctl, fd, request, &c));
}

CASE(B12_tiocsti, "B12", AS_BOTH | TTY, "TIOCSTI (typing for someone else) is refused")
{
	return typed(0x5412);
}

CASE(B12_tiocsti_high_bits, "B12", AS_BOTH | TTY,
     "TIOCSTI with its upper 32 bits set is refused too")
{
	return typed(0x100005412ul);
}

CASE(B12_tioclinux, "B12", AS_BOTH | TTY, "TIOCLINUX is refused")
{
	return typed(0x541c);
}

CASE(B12_tioclinux_high_bits, "B12", AS_BOTH | TTY, "TIOCLINUX with its upper bits set is refused")
{
	return typed(0xdead0000541cul);
}

/* The first one owns a terminal; the second one, of another session, tries to take it by force. */
static int take_terminal(void *arg)
{
	int slave = *(int *)arg;

	setsid();
	return ioctl(slave, TIOCSCTTY, 1) == 0 ? 0 : errno;
}

/* Says by a byte whether the terminal is its own, and keeps it. */
static pid_t start_owner(int slave, int *ret_said)
{
	int p[2];
	pid_t pid;

	if (pipe(p) < 0 || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		char mine;

		setsid();
		mine = ioctl(slave, TIOCSCTTY, 0) == 0;
		if (write(p[1], &mine, 1) == 1)
			pause();
		_exit(0);
	}
	close(p[1]);
	*ret_said = p[0];
	return pid;
}

CASE(B12_steal_terminal, "B12", AS_BOTH,
     "TIOCSCTTY with force takes no terminal from another session")
{
	int master = open_pty(), slave, status, said = -1;
	char name[64] = "", mine = 0;
	pid_t owner, session;

	if (master < 0 || ptsname_r(master, name, sizeof(name)) != 0)
		return not_applicable("no terminal: %s", strerror(errno));
	slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	owner = slave < 0 ? -1 : start_owner(slave, &said);
	if (owner < 0)
		return broke("%s has no owner: %s", name, strerror(errno));
	if (read(said, &mine, 1) != 1 || !mine) {
		kill(owner, SIGKILL);
		return broke("its first session did not get the terminal");
	}
	status = in_child(take_terminal, &slave, 5);
	session = tcgetsid(master);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	/* A kernel that does not tell whose it is has still refused. */
	if (status < 0 || !WIFEXITED(status) || WEXITSTATUS(status) == 0 ||
	    (session != owner && session != -1))
		return broke("taken: status %x, session %d of %d", status, session, owner);
	return WEXITSTATUS(status) == EPERM ? held("%s", strerror(EPERM))
					    : broke("%s", strerror(WEXITSTATUS(status)));
}

CASE(B12_console, "B12", AS_BOTH, "TIOCCONS and /dev/console give nothing of the host's console")
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int pty = open_pty();

	if (fd >= 0)
		return broke("/dev/console opened");
	if (pty < 0)
		return held("no terminal");
	return failed("TIOCCONS", ioctl(pty, TIOCCONS, 0));
}

CASE(B12_line_discipline, "B12", AS_BOTH,
     "another line discipline is refused before the kernel looks for its code")
{
	int pty = open_pty(), discipline = 21; /* n_gsm, of several exploits */

	if (pty < 0)
		return not_applicable("no terminal: %s", strerror(errno));
	if (ioctl(pty, TIOCSETD, &discipline) == 0 || errno != EPERM)
		return broke("TIOCSETD of %d reached the kernel", discipline);
	discipline = 0; /* the usual one: the number makes no difference */
	return refused("TIOCSETD", ioctl(pty, TIOCSETD, &discipline));
}

CASE(B12_no_controlling_terminal, "B12", AS_BOTH, "a command without a terminal has no /dev/tty")
{
	return failed("open", open("/dev/tty", O_RDWR | O_CLOEXEC));
}

CASE(B12_host_terminals, "B12", AS_BOTH, "the only terminals in /dev/pts are the box's own")
{
	char path[64];

	for (int i = 1; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/pts/%d", i);
		if (access(path, F_OK) == 0)
			return broke("%s is there", path);
	}
	return held("none");
}

/* ---- B16 ---- */

CASE(B16_host_shared_memory, "B16", AS_BOTH, "the host's System V segment cannot be attached")
{
	long id = canary_number("CANARY_SHM"), key = canary_number("CANARY_SHM_KEY");
	void *at = id >= 0 ? shmat((int)id, NULL, SHM_RDONLY) : (void *)-1;

	if (at != (void *)-1 && memcmp(at, canary_mark(), strlen(canary_mark())) == 0)
		return broke("attached");
	if (key >= 0 && shmget((key_t)key, 0, 0) >= 0)
		return broke("found by its key");
	return held("%s", strerror(errno));
}

CASE(B16_host_message_queue, "B16", AS_BOTH, "the host's System V queue cannot be found")
{
	long key = canary_number("CANARY_MSG_KEY");

	return failed("msgget", msgget((key_t)key, 0));
}

CASE(B16_host_semaphore, "B16", AS_BOTH, "the host's semaphores cannot be found")
{
	long key = canary_number("CANARY_SEM_KEY");

	return failed("semget", semget((key_t)key, 0, 0));
}

CASE(B16_posix_queue, "B16", AS_BOTH, "the host's POSIX queue is not there")
{
	long fd = syscall(SYS_mq_open, canary_text("CANARY_MQ"), O_RDONLY | O_NONBLOCK, 0, NULL);

	return failed("mq_open", fd);
}

CASE(B16_dev_shm, "B16", AS_BOTH, "/dev/shm is the box's own")
{
	char path[300];

	snprintf(path, sizeof(path), "/dev/shm/%s", canary_text("CANARY_SHM_FILE"));
	return access(path, F_OK) == 0 ? broke("the host's file is there") : held("not there");
}

CASE(B16_semaphore_lists, "B16", AS_BOTH, "/proc/sysvipc lists nothing of the host")
{
	char text[4096];
	unsigned lines = 0;

	if (slurp("/proc/sysvipc/shm", text, sizeof(text)) < 0)
		return held("not there");
	for (char *c = text; *c; c++)
		lines += *c == '\n';
	return lines <= 1 ? held("empty") : broke("%u lines", lines);
}

/* ---- B17 ---- */

CASE(B17_kill_host_pid, "B17", AS_BOTH, "a host process number names nothing here")
{
	long pid = canary_number("CANARY_PID");

	return kill((pid_t)pid, SIGKILL) < 0 ? held("%s", strerror(errno))
					     : broke("signalled %ld", pid);
}

CASE(B17_kill_everything, "B17", AS_BOTH, "kill(-1, SIGKILL) ends neither init nor anybody outside")
{
	pid_t pid = fork();

	if (pid == 0) {
		kill(-1, SIGSTOP);
		kill(-1, SIGCONT);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	signal(SIGTERM, SIG_IGN);
	kill(-1, SIGTERM);
	return held_by_init("still here");
}

CASE(B17_signals_to_init, "B17", AS_BOTH, "no signal ends or stops init")
{
	for (int sig = 1; sig <= 64; sig++)
		kill(1, sig);
	return held_by_init("all sent");
}

CASE(B17_realtime_storm, "B17", AS_BOTH, "a storm of queued signals to init harms nobody")
{
	union sigval value = {.sival_int = 1};
	unsigned sent = 0;

	for (int i = 0; i < 20000; i++)
		sent += sigqueue(1, SIGRTMIN, value) == 0;
	return held_by_init(sent ? "some were taken" : "none was taken");
}

CASE(B17_pidfd_of_init, "B17", AS_BOTH, "a pidfd of init cannot end it")
{
	long fd = syscall(NR_pidfd_open, 1, 0);

	if (fd < 0)
		return held("pidfd_open: %s", strerror(errno));
	syscall(NR_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	return held_by_init("sent");
}

CASE(B17_pidfd_of_host_process, "B17", AS_BOTH, "pidfd_open of a host process number fails")
{
	return failed("pidfd_open", syscall(NR_pidfd_open, canary_number("CANARY_PID"), 0));
}

CASE(B17_pidfd_from_proc, "B17", AS_BOTH, "/proc/1 used as a pidfd does not signal init to death")
{
	int fd = open("/proc/1", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return held("%s", strerror(errno));
	syscall(NR_pidfd_send_signal, fd, SIGKILL, NULL, 0);
	return held_by_init("sent");
}

CASE(B17_forged_siginfo, "B17", AS_BOTH, "a queued signal cannot claim to come from the kernel")
{
	siginfo_t info = {.si_signo = SIGCHLD, .si_code = SI_KERNEL};

	return failed("rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, 1, SIGCHLD, &info));
}

CASE(B17_file_owner_signals, "B17", AS_BOTH, "F_SETOWN and F_NOTIFY cannot make init get a signal")
{
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	fcntl(fd, 8 /* F_SETOWN */, 1);
	fcntl(fd, 10 /* F_SETSIG */, SIGKILL);
	fcntl(fd, 1026 /* F_NOTIFY */, 0x7fffffff);
	close(open("/tmp/notify", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	unlink("/tmp/notify");
	return held_by_init("done");
}
