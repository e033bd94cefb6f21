/* Lines of persistent shells for tests; see shell_client.h. */
#include "shell_client.h"

#include "tap.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

char shell_dir[64];
char shell_work[64];

struct client *shells_begin(void)
{
	return shells_begin_in(-1);
}

struct client *shells_begin_in(int group_fd)
{
	static const char *const group[] = {"--cgroup", NULL};
	static const char *const none[] = {NULL};

	return shells_begin_with(&(struct inherited){.fd = {group_fd}, .count = group_fd >= 0},
				 group_fd < 0 ? none : group);
}

struct client *shells_begin_with(const struct inherited *inherited, const char *const more[])
{
	const char *args[24] = {"--single", "--shell-dir", shell_dir, "--cwd",
				shell_work, "--env",	   "BOX=1"};
	size_t n = 7;

	for (; *more && n < 23; more++)
		args[n++] = *more;
	strcpy(shell_dir, "/tmp/cove-shell-XXXXXX");
	strcpy(shell_work, "/tmp/cove-work-XXXXXX");
	CHECK(mkdtemp(shell_dir) != NULL);
	CHECK(mkdtemp(shell_work) != NULL);
	CHECK_EQ(chmod(shell_dir, 01733), 0);
	return client_start_with(inherited, false, args);
}

static void remove_all(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	CHECK(d != NULL);
	while ((e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	rmdir(path);
}

void shells_end(struct client *c)
{
	CHECK_EQ(client_stop(c), 0);
	remove_all(shell_dir);
	remove_all(shell_work);
}

struct run *ask(struct client *c, const char *text, uint64_t timeout_ms)
{
	struct wire_exec m = {.line = text, .shell = "default", .timeout_ms = timeout_ms};

	return run_start(c, &m);
}

struct run *line(struct client *c, const char *text)
{
	struct run *r = ask(c, text, 0);

	run_wait(c, r);
	return r;
}

struct run *line_in(struct client *c, const char *shell, const char *text)
{
	struct wire_exec m = {.line = text, .shell = shell};
	struct run *r = run_start(c, &m);

	run_wait(c, r);
	return r;
}

struct run *expect(struct client *c, const char *text, int code, const char *out)
{
	struct run *r = line(c, text);

	CHECK_STR(r->msg, "");
	if (!r->exit.has_exit || r->exit.exit_code != code || strcmp(run_out(r), out) != 0)
		printf("# line '%.200s': stderr '%.400s'\n", text, run_err(r));
	CHECK_STR(run_out(r), out);
	CHECK_EQ(r->exit.has_exit, 1);
	CHECK_EQ(r->exit.exit_code, code);
	CHECK_EQ(r->exit.stdout_bytes, strlen(out));
	CHECK_STR(r->cause, "exit");
	return r;
}

struct run *kept(struct client *c, const char *text, int code, const char *out)
{
	struct run *r = expect(c, text, code, out);

	CHECK_EQ(r->exit.shell_state, SHELL_KEPT);
	return r;
}

void mark(struct client *c)
{
	kept(c, "mark=1", 0, "");
}

void check_mark(struct client *c)
{
	kept(c, "echo mark $mark", 0, "mark 1\n");
}

struct run *ask_with_input(struct client *c, const char *text)
{
	struct wire_exec m = {.line = text, .shell = "default", .has_stdin = 1};

	return run_start(c, &m);
}

struct run *timed(struct client *c, const char *text, uint64_t ms)
{
	struct run *r = ask(c, text, ms);

	run_wait(c, r);
	CHECK_STR(r->msg, "");
	CHECK_EQ(r->exit.timed_out, 1);
	CHECK_EQ(r->exit.has_exit, 0);
	CHECK_STR(r->cause, "timeout");
	return r;
}

char *many_lines(const char *first, const char *line, size_t count)
{
	size_t n = strlen(line), head = strlen(first);
	char *text = malloc(head + count * n + 64);

	CHECK(text != NULL);
	memcpy(text, first, head);
	for (size_t i = 0; i < count; i++)
		memcpy(text + head + i * n, line, n);
	strcpy(text + head + count * n, "echo $n");
	return text;
}
