/*
 * Read, edit, glob, grep and watch of the cove-init named by COVE_INIT, in a directory of the
 * test's own. What an answer says is written into a log, a line per frame.
 */
#pragma once

#include "file_client.h"

#include <stdbool.h>

/* An answer, read. */
struct tool_answer {
	int code;
	char msg[256];
	struct wire_summary s;
	bool has_summary;
	struct buf text, log; /* of DATA; a line per other frame */
	const char *lines;
};

/* With its directory, which is where init's user starts. */
struct client tool_start(void);
void tool_finish(struct client *c);

/* In that directory. The path is valid for four calls. */
const char *tool_at(const char *rel);
void tool_write(const char *rel, const void *p, size_t n);
void tool_write_text(const char *rel, const char *text);
void tool_check_file(const char *rel, const char *text);
int tool_count_names(void);

struct tool_answer tool_ask(struct client *c, const struct wire_file *m);
void tool_answer_done(struct tool_answer *a);
