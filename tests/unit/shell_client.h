/*
 * Lines of persistent shells for tests, over exec_client.h: a cove-init with a directory for its
 * shells and one to work in, which go away again. Every call below waits for the end of its line.
 */
#pragma once

#include "exec_client.h"

extern char shell_dir[64];  /* where the files of lines are */
extern char shell_work[64]; /* where shells start */

struct client *shells_begin(void);
/* With a cgroup directory, or -1. */
struct client *shells_begin_in(int group_fd);
/* With descriptors and options of their own. */
struct client *shells_begin_with(const struct inherited *inherited, const char *const more[]);
void shells_end(struct client *c);

/* A test with such a client. */
#define SHELL_TEST(name)                                                                     \
	TEST_IN(name, (struct client * c), struct client *made = shells_begin(); body(made); \
		shells_end(made);)

/* Only asks; timeout 0 is none. The shell is the default one. */
struct run *ask(struct client *c, const char *text, uint64_t timeout_ms);
struct run *ask_with_input(struct client *c, const char *text);

struct run *line(struct client *c, const char *text);
struct run *line_in(struct client *c, const char *shell, const char *text);
/* It ends by itself with this code, having printed this. */
struct run *expect(struct client *c, const char *text, int code, const char *out);
/* And the shell lives on. */
struct run *kept(struct client *c, const char *text, int code, const char *out);
/* It does not end within that time. */
struct run *timed(struct client *c, const char *text, uint64_t ms);

/* The second succeeds in the shell in which the first was called, and in no other. */
void mark(struct client *c);
void check_mark(struct client *c);
/* The first line, so many others, and `echo $n`; to be freed. */
char *many_lines(const char *first, const char *line, size_t count);
