/*
 * Asking docker-credential-NAME; see login.h. The program is the user's own, named in a file of the
 * user's: it gets the caller's environment, as it would from Docker, and none of our descriptors.
 */
#include "oci/login_helper.h"

#include "base/child.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct helper_question {
	const struct oci_env *env;
	const char *program;
	int in, out; /* the child's ends */
};

static int become_helper(void *arg)
{
	struct helper_question *q = arg;
	char *const argv[] = {(char *)q->program, "get", NULL};
	autoclose int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (dup2(q->in, 0) < 0 || dup2(q->out, 1) < 0 || dup2(null, 2) < 0)
		return 125;
	child_close_but(3, NULL, 0);
	child_reset_signals(child_ignored_signals());
	execvpe(q->program, argv, (char *const *)q->env->vars);
	return 127;
}

/* Reads what is there; 1 at the end. */
static int read_some(int fd, struct buf *b)
{
	uint8_t *to = buf_reserve(b, 4096);
	ssize_t n;

	if (!to)
		return -EFBIG;
	n = read(fd, to, 4096);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	buf_commit(b, (size_t)n);
	return n == 0;
}

/* What it prints until it ends, or closes its output: something that it left running may hold that
 * open. -ETIMEDOUT, or -EFBIG beyond the maximum. */
static int read_answer(int fd, int pid_fd, struct buf *b)
{
	uint64_t end = clock_mono_ms() + OCI_HELPER_MS;
	int r = 0;

	while (r == 0) {
		struct pollfd p[] = {{.fd = fd, .events = POLLIN},
				     {.fd = pid_fd, .events = POLLIN}};
		uint64_t now = clock_mono_ms();

		if (now >= end)
			return -ETIMEDOUT;
		if (poll(p, 2, (int)(end - now)) <= 0)
			continue;
		if (p[0].revents)
			r = read_some(fd, b);
		else if (p[1].revents)
			return 0;
	}
	return r < 0 ? r : 0;
}

static int run_helper(struct helper_question *q, const char *server, struct buf *out,
		      int *ret_status)
{
	int to[2], from[2], r;
	struct child_forked child;

	if (pipe2(to, O_CLOEXEC) < 0)
		return -errno;
	if (pipe2(from, O_CLOEXEC) < 0) {
		r = -errno;
		close(to[0]);
		close(to[1]);
		return r;
	}
	q->in = to[0];
	q->out = from[1];
	/* Far less than a pipe holds, so that a helper may read it or not. */
	r = fd_write_full(to[1], server, strlen(server));
	close(to[1]);
	if (r == 0)
		r = child_fork(become_helper, q, &child);
	close(to[0]);
	close(from[1]);
	if (r == 0) {
		autoclose int pid_fd = sys_pidfd_open(child.between);

		r = read_answer(from[0], pid_fd, out);
		if (r < 0)
			kill(child.pid, SIGKILL);
		*ret_status = child_forked_wait(&child);
	}
	close(from[0]);
	return r;
}

/* All of Docker's helpers say it so, on stdout. */
static bool says_none(struct buf *out)
{
	const char *text = buf_cstr(out);

	return text && (strstr(text, "credentials not found") || strstr(text, "no credentials"));
}

int oci_login_ask_helper(const struct oci_env *env, const char *name, const struct oci_ref *ref,
			 struct oci_login *ret, struct err *e)
{
	const char *server =
		strcmp(ref->host, OCI_HUB) == 0 ? "https://index.docker.io/v1/" : ref->host;
	char program[sizeof("docker-credential-") + OCI_HELPER_NAME];
	struct helper_question q = {.env = env, .program = program};
	int status = -1, r;
	struct buf out;

	*ret = (struct oci_login){0};
	snprintf(program, sizeof(program), "docker-credential-%s", name);
	buf_init(&out, OCI_HELPER_MAX);
	r = buf_set_secret(&out, true);
	if (r == 0)
		r = run_helper(&q, server, &out, &status);
	if (r == -ETIMEDOUT)
		r = err_set(e, ERR_TIMEOUT, ETIMEDOUT, "%s did not answer in %u s", program,
			    OCI_HELPER_MS / 1000);
	else if (r == -EFBIG)
		r = err_set(e, ERR_PROTOCOL, EFBIG, "%s printed more than %u bytes", program,
			    OCI_HELPER_MAX);
	else if (r < 0)
		r = err_errno(e, -r, "run %s", program);
	else if (status == 127)
		r = err_set(e, ERR_UNSUPPORTED, ENOENT,
			    "they are kept by %s, which is not in PATH: install it, or log in "
			    "without it and name that file in REGISTRY_AUTH_FILE",
			    program);
	else if (status != 0 && says_none(&out))
		r = 0;
	else if (status != 0)
		r = err_set(e, ERR_DENIED, EACCES,
			    "%s failed for %.60s (exit status %d); try: echo %.60s | %s get",
			    program, server, status, server, program);
	else if ((r = oci_login_parse_helper((const char *)buf_data(&out), buf_len(&out), ret, e)) <
		 0)
		err_prefix(e, "%s", program);
	buf_done(&out);
	return r;
}
