/*
 * What a command is started with: who, where and which environment, from the box's own arguments
 * and the request. Used for every process init starts, commands and shells alike.
 */
#pragma once

#include "base/err.h"
#include "init/init.h"
#include "init/user.h"
#include "wire/msg.h"

#include <stdbool.h>

/* Who is meant by a request: asked, or NULL for the box's. Root of a strict box is refused. */
int env_find_user(const struct init *in, const char *asked, struct user *ret, struct err *e);

/* The user of a request: asked (a name, UID or UID:GID), or NULL for the box's. With --single it is
 * always who init is; asking for somebody else is an error that says so. */
int env_user(const struct init *in, const char *asked, struct user *ret, struct err *e);

/* The directory: asked (relative to the box's start directory), or NULL for that. The user's home
 * is replaced by "/" if it does not exist; anything else is left for spawn to complain about. */
int env_cwd(const struct init *in, const struct user *u, const char *asked, char *ret, size_t size,
	    struct err *e);

/* Makes the start directory, if it is not there, as the box's user's. Where that cannot be done
 * commands say that it is missing. */
void env_make_cwd(const struct init *in);

/* PATH, HOME, USER, LOGNAME, SHELL, LANG (and TERM with tty), then the box's, then the request's;
 * later wins. One allocation: free(*ret). Strings of the box and the request are borrowed. */
int env_build(const struct init *in, const struct user *u, const struct wire_list *add, bool tty,
	      char ***ret, struct err *e);
