/* Signals that ask to end; see cancel.h. */
#include "cli/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
static const char *end_sentence;
static pid_t end_of;
static int cancel_end = -1;
static volatile sig_atomic_t cancelled_by;

static void on_signal(int sig)
{
	int saved = errno;

	cancelled_by = sig;
	(void)!write(cancel_end, "x", 1);
	errno = saved;
}

int cancel_catch(void)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -1;
	cancel_end = fds[1];
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction old;

		sigaction(ends[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(ends[i],
				  &(struct sigaction){.sa_handler = on_signal,
						      .sa_flags = SA_RESTART},
				  NULL);
	}
	return fds[0];
}

/* It says why the program ends, and ends it as the signal would have. */
static void on_end(int sig)
{
	if (getpid() == end_of) /* and no child of its */
		(void)!write(STDERR_FILENO, end_sentence, strlen(end_sentence));
	(void)signal(sig, SIG_DFL);
	(void)raise(sig);
}

void cancel_say(const char *line)
{
	end_sentence = line;
	end_of = getpid();
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct sigaction old;

		sigaction(ends[i], NULL, &old);
		if (old.sa_handler != SIG_IGN)
			sigaction(
				ends[i],
				&(struct sigaction){.sa_handler = on_end, .sa_flags = SA_RESETHAND},
				NULL);
	}
}

int cancel_signal(void)
{
	return cancelled_by;
}
