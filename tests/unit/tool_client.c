/* Operations of tools, asked of a real init; see tool_client.h. */
#include "tool_client.h"

#include "tap.h"

#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

static char dir[64]; /* this test's own */

static void remove_dir(void)
{
	char cmd[] = "rm", flag[] = "-rf";
	char *argv[] = {cmd, flag, dir, NULL};
	pid_t pid = fork();

	if (pid == 0) {
		execvp(cmd, argv);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

struct client tool_start(void)
{
	const char *const args[] = {"--single", "--cwd", dir, NULL};

	snprintf(dir, sizeof(dir), "/tmp/cove-tools-XXXXXX");
	CHECK(mkdtemp(dir) != NULL);
	return client_start(args);
}

void tool_finish(struct client *c)
{
	client_stop(c);
	remove_dir();
}

const char *tool_at(const char *rel)
{
	static char paths[4][8192];
	static unsigned n;
	char *p = paths[n++ % 4];

	snprintf(p, sizeof(paths[0]), "%s/%s", dir, rel);
	return p;
}

void tool_write(const char *rel, const void *p, size_t n)
{
	int fd = open(tool_at(rel), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0);
	CHECK_EQ(fd_write_full(fd, p, n), 0);
	close(fd);
}

void tool_write_text(const char *rel, const char *text)
{
	tool_write(rel, text, strlen(text));
}

void tool_check_file(const char *rel, const char *text)
{
	char *got = NULL;
	size_t len;

	CHECK_EQ(fd_read_file(AT_FDCWD, tool_at(rel), 64u << 20, &got, &len), 0);
	CHECK_STR(got, text);
	free(got);
}

int tool_count_names(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	CHECK(d != NULL);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void take(struct tool_answer *a, const struct wire_frame *f)
{
	struct wire_match match;
	struct wire_entry entry;

	CHECK(!a->has_summary);
	switch (f->type) {
	case WIRE_DATA:
		CHECK_EQ(buf_append(&a->text, f->payload, f->len), 0);
		break;
	case WIRE_ENTRY:
		CHECK_EQ(wire_entry_decode(f, &entry), 0);
		CHECK_EQ(buf_printf(&a->log, "%c %s%s%s\n", (int)entry.type, entry.path,
				    entry.target ? " -> " : "", entry.target ? entry.target : ""),
			 0);
		break;
	case WIRE_MATCH:
		CHECK_EQ(wire_match_decode(f, &match), 0);
		CHECK_EQ(buf_printf(&a->log, "%s%c%d%c%d %s%s\n", match.path ? match.path : "",
				    match.is_context ? '-' : ':', (int)match.line,
				    match.is_cut ? '!' : ':', (int)match.column,
				    match.text ? match.text : "",
				    match.text_column ? " later" : ""),
			 0);
		break;
	default:
		CHECK_EQ(f->type, WIRE_SUMMARY);
		CHECK_EQ(wire_summary_decode(f, &a->s), 0);
		a->s.sha256 = NULL;
		a->has_summary = true;
	}
}

static struct tool_answer tool_read_answer(struct client_result *r)
{
	struct tool_answer a = {.code = r->code};
	struct wire_decoder d;
	struct wire_frame f;
	int got;

	memcpy(a.msg, r->msg, sizeof(a.msg));
	buf_init(&a.text, 32u << 20);
	buf_init(&a.log, 32u << 20);
	wire_decoder_init(&d);
	while (buf_len(&r->data) > 0) {
		size_t room, n = buf_len(&r->data);
		uint8_t *space = wire_decoder_space(&d, &room);

		n = n < room ? n : room;
		memcpy(space, buf_data(&r->data), n);
		wire_decoder_fill(&d, n);
		buf_consume(&r->data, n);
		while ((got = wire_decoder_next(&d, &f)) > 0)
			take(&a, &f);
		CHECK_EQ(got, 0);
	}
	wire_decoder_done(&d);
	CHECK(a.code != 0 || a.has_summary);
	a.lines = buf_cstr(&a.log);
	client_result_done(r);
	return a;
}

struct tool_answer tool_ask(struct client *c, const struct wire_file *m)
{
	struct client_result r = client_file(c, m);

	return tool_read_answer(&r);
}

void tool_answer_done(struct tool_answer *a)
{
	buf_done(&a->text);
	buf_done(&a->log);
}
