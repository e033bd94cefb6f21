/* Running a command for a user, as run, exec, sh and shell do it: terminal or not, stdin or not,
 * live output or one JSON result, and the exit status that follows. */
#pragma once

#include "cli/cli.h"

#include <stdbool.h>

/* What `cove shell` runs: bash where there is one, reading its profile as a login does. */
#define COMMAND_LOGIN "exec $(command -v bash || echo sh) -l"

enum command_flag {
	COMMAND_TERMINAL = 1, /* also without -t, where 0 and 1 are one */
	COMMAND_STDIN = 2,    /* also without -i, where it is no terminal */
	COMMAND_ONE_SHOT = 4, /* the box ends with this process */
};

/* Fills in the terminal and stdin part of command from the options and what 0 and 1 are, runs it
 * and returns the exit status. flags: enum command_flag. */
int command_run(struct cli *c, struct cove_box *box, struct cove_command *command, unsigned flags);

/* Whether there is a stdin worth passing: not closed, not /dev/null, not a terminal of others. */
bool command_has_stdin(void);

/* Starts it and prints its id. With -i or -t its stdin stays open for `cove attach`. */
int command_background(struct cli *c, struct cove_box *box, struct cove_command *command);
