/* What run, exec, sh and shells take beside what they share with others: further rows of
 * options.h. */
#pragma once

/* clang-format off */
#define OPTIONS_COMMAND(X) \
	X(MAX_OUTPUT, "max-output", 0, LIMIT_SIZE, max_output, "SIZE", \
		"of each stream only the first and last half of SIZE; says what is cut") \
	X(MERGE, "merge", 0, FLAG, merge, NULL, \
		"stderr goes where stdout goes: both in the order they were written") \
	X(IN, "in", 0, IN, inputs, "F[:DST]", \
		"first put this file or directory into the box; -:DST is stdin; repeatable") \
	X(OUT, "out", 0, OUT, outputs, "P[:DST]", \
		"at the end bring this path of the box here; P:- is stdout; repeatable") \
	X(TOKEN, "token", 0, TEXT, token, "TOKEN", \
		"your name for this request: repeated, it finds the command it started") \
	X(SHELL, "shell", 0, TEXT, shell, "NAME", \
		"which of the box's shells; default 'default'; made when first used") \
	X(LOGIN, "login", 0, FLAG, login, NULL, \
		"a shell that LINE starts reads the profile and ~/.bashrc first") \
	X(SHELL_FORCE, "force", 'f', FLAG, force, NULL, \
		"also one with lines that run or wait; one that is not there is fine")
/* clang-format on */
