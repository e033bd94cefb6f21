/* The files of persistent shells: their directory, and those of one line. See shell.c. */
#pragma once

#include "base/err.h"
#include "ev/ev.h"
#include "init/stream.h"
#include "init/user.h"

#include <stdbool.h>

enum {
	TOKEN_BYTES = 8,
	TOKEN_LEN = 2 * TOKEN_BYTES,
	SHELL_DIR_MAX = 128,
};

struct line;
struct shell;
struct shell_table;

/* The files of one line and its output: made ahead, for whichever line comes next. */
struct line_io {
	struct shell_table *table;
	struct line *line; /* NULL until one came */
	char token[TOKEN_LEN + 1];
	char shown[SHELL_DIR_MAX + TOKEN_LEN + 8]; /* what bash calls Tc in messages */
	bool named, input; /* the names exist; Ti and a FIFO Ts among them */
	bool braced;	   /* Tc has braces, and Tp the text without them */
	int text_fd;	   /* Tc; owned */
	int functions_fd;  /* Tf, or -1 if the shell is not asked for them; owned */
	int hold_fd[2];	   /* writing ends of To and Te, while the line runs; owned */
	struct out_stream out[2];
	struct ev_io start; /* with input: reads Ts; fd owned */
	int input_fd;	    /* Ti, until the line's input takes it; owned */
};

int shell_dir_open(struct shell_table *t, struct err *e);
void shell_dir_mend(const struct shell_table *t); /* gives it back its mode */
int line_io_new(struct shell_table *t, const struct user *u, struct line_io **ret);
void line_io_free(struct line_io *io);
void line_io_forget(struct line_io *io); /* removes the names, keeps the streams */
/* For a line with input: Ti, opened both ways, and Ts as a FIFO: its opening is an event. */
int line_io_add_input(struct line_io *io, const struct user *u);
int line_io_write(struct line_io *io, const char *text, struct shell *sh);
/* Can an unset variable be an error in one of the functions in Tf? */
bool line_io_may_abort(const struct line_io *io);
void line_io_remove_text(struct line_io *io); /* it cannot be run from here on */
/* Was Tc ever read? True where the filesystem cannot tell: what is in doubt is not run again. */
bool line_io_was_read(const struct line_io *io);
