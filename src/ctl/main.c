/*
 * cove-ctl: what a program in a box asks of the box's keeper. It knows nothing and decides nothing:
 * it says one line to init (wire/ctl.h) and prints what comes back.
 *
 * Exit status: 0, or as `cove` has it for the same kind of error; 2 for a request that is none.
 */
#include "base/fd.h"
#include "base/str.h"
#include "wire/ctl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static const char usage[] =
	"usage: cove-ctl info|budget|snapshot NAME [--json]\n"
	"  info            what this box is\n"
	"  budget          what it may still use: time, memory, disk, processes, network\n"
	"  snapshot NAME   keep its state as it is now\n"
	"What of this the box may ask is one of its settings (cove create --ctl).\n";

static int parse(int argc, char **argv, struct wire_ctl_line *ret)
{
	const char *words[2] = {NULL, NULL};
	size_t count = 0;
	int verb;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0)
			ret->json = true;
		else if (argv[i][0] == '-' || count == 2)
			return -EINVAL;
		else
			words[count++] = argv[i];
	}
	verb = count ? wire_ctl_verb_find(words[0]) : -1;
	if (verb < 0 || (verb == WIRE_CTL_SNAPSHOT) != (count == 2))
		return -EINVAL;
	ret->verb = (enum wire_ctl_verb)verb;
	if (!words[1])
		return 0;
	return wire_ctl_is_name(words[1]) && str_copy(ret->name, sizeof(ret->name), words[1])
		       ? 0
		       : -ENAMETOOLONG;
}

/* While many others ask there is no room in the queue. Linux waits by itself, other kernels say
 * so. */
static int connect_patiently(int fd)
{
	enum { TRIES = 600, PAUSE_MS = 50 };
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(WIRE_CTL_SOCKET));

	memcpy(at.sun_path + 1, WIRE_CTL_SOCKET, strlen(WIRE_CTL_SOCKET));
	for (int i = 0; connect(fd, (const struct sockaddr *)&at, len) < 0; i++) {
		if ((errno != EAGAIN && errno != EINTR) || i == TRIES)
			return -errno;
		(void)poll(NULL, 0, PAUSE_MS);
	}
	return 0;
}

static int ask(const struct wire_ctl_line *l, int *ret_fd)
{
	autoclose int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char line[CTL_LINE_MAX];
	size_t len = wire_ctl_line_format(l, line);
	int r = fd < 0 ? -errno : connect_patiently(fd);

	if (r == 0)
		r = fd_write_full(fd, line, len);
	if (r < 0)
		return r;
	*ret_fd = take_fd(fd);
	return 0;
}

/* "error KIND SENTENCE\n" */
static int complain(char *text)
{
	char *kind = text + strlen("error "), *sentence = strchr(kind, ' ');

	text[strcspn(text, "\n")] = 0;
	if (!sentence)
		sentence = kind;
	else
		*sentence++ = 0;
	dprintf(2, "cove-ctl: %s\n", sentence);
	return err_kind_exit(err_kind_find(kind));
}

int main(int argc, char **argv)
{
	static char text[CTL_TEXT_MAX + 512];
	struct wire_ctl_line line = {0};
	int fd = -1, r = parse(argc, argv, &line);
	ssize_t n;

	if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
		return fd_write_full(1, usage, sizeof(usage) - 1) < 0;
	if (r == -ENAMETOOLONG)
		dprintf(2,
			"cove-ctl: a name has 1 to %u lower-case letters, digits and inner "
			"dashes\n",
			CTL_NAME_MAX);
	else if (r < 0)
		dprintf(2, "%s", usage);
	if (r < 0)
		return 2;
	r = ask(&line, &fd);
	n = r < 0 ? r : fd_read_full(fd, text, sizeof(text) - 1);
	if (n < 0) {
		dprintf(2, "cove-ctl: the box does not answer: %s\n", strerror((int)-n));
		return err_kind_exit(ERR_INTERNAL);
	}
	text[n] = 0;
	if (str_starts(text, "ok\n"))
		return fd_write_full(1, text + 3, (size_t)n - 3) < 0;
	if (str_starts(text, "error "))
		return complain(text);
	dprintf(2, "cove-ctl: the box is ending\n");
	return err_kind_exit(ERR_INTERRUPTED);
}
