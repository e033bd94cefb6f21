/*
 * A box that is made ahead of time: what it is before it is taken.
 *
 *	boxes/.new-<hex>	its directory, with its volume; no record. Its maker (who holds its
 *				keeper's socket, too) has it locked, as of any directory that is
 *				being made, so that it is swept when the maker is gone
 *	~<hex>			what its groups and its authority are called (cgroup, net.h). The
 *				groups keep that name: those of v2 cannot be renamed
 *
 * Its keeper waits on the socket it was born with:
 *
 *	keeper	PREMADE_READY once all is made that is the same for any box
 *	maker	a byte with one descriptor: the configuration (keeper/config.h) of the box it is to
 *		be. From here on both do what they do at the start of any box
 *		closes its end: the keeper takes all back, but the directory, and ends
 */
#pragma once

#include "base/err.h"
#include "store/spec.h"
#include "store/state.h"

#include <stdbool.h>

#define PREMADE_READY 'r'

/* The groups' name for the directory of that name; "" where that is no such directory. */
enum { PREMADE_NAME_SIZE = 24 };
void premade_name(const char *dir, char ret[PREMADE_NAME_SIZE]);
/* Is that such a name? And of one that was not taken yet? */
bool premade_is_name(const char *name);
bool premade_is_there(const struct state *st, const char *name);

/* May the box that was made so become the one that is asked for? In all that cannot be changed any
 * more they are the same. */
bool premade_fits(const struct spec *made, const struct spec *asked);

/* keeper: 0 and the configuration; -ECANCELED: it is not wanted; -ECHILD: pidfd has ended. */
int premade_await(int sock, int pidfd, int *ret_config_fd);
