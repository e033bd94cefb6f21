/* Signals through a pipe; see signals.h. The two descriptors are what a handler can reach. */
#include "cli/signals.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

static int pipe_fds[2] = {-1, -1};

static void on_signal(int sig)
{
	int saved = errno;
	unsigned char byte = (unsigned char)sig;
	/* A full pipe holds more signals than anybody will act on. */
	ssize_t ignored = write(pipe_fds[1], &byte, 1);

	(void)ignored;
	errno = saved;
}

static void on_nothing(int sig)
{
	(void)sig;
}

void signals_at_start(void)
{
	/* Not SIG_IGN: that would be inherited by the programs we start. */
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = on_nothing}, NULL);
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
}

int signals_catch(void)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};

	if (pipe_fds[0] >= 0)
		return 0;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		struct sigaction old;

		/* What was ignored when we started (nohup) stays ignored. */
		sigaction(caught[i], &(struct sigaction){.sa_handler = on_signal}, &old);
		if (old.sa_handler == SIG_IGN)
			sigaction(caught[i], &old, NULL);
	}
	return 0;
}

int signals_fd(void)
{
	return pipe_fds[0];
}

int signals_next(void)
{
	unsigned char byte;

	if (pipe_fds[0] < 0 || read(pipe_fds[0], &byte, 1) != 1)
		return 0;
	return byte;
}

int signals_next_end(void)
{
	int sig;

	do {
		sig = signals_next();
	} while (sig == SIGWINCH || sig == SIGTSTP);
	return sig;
}

int signals_wait_ms(int ms)
{
	uint64_t end = clock_mono_ms() + (uint64_t)ms, now;
	int sig = 0;

	while (sig == 0 && (now = clock_mono_ms()) < end) {
		struct pollfd p = {.fd = pipe_fds[0], .events = POLLIN};

		(void)poll(&p, 1, (int)(end - now));
		sig = signals_next_end();
	}
	return sig;
}
