/* The arguments of cove-init; init.h lists them. */
#pragma once

#include "init/init.h"

/* Fills *in, which was zeroed but for descriptors of -1. A failure was said on descriptor 2.
 * in->env is allocated, and lives as long as the process. */
int init_options_parse(struct init *in, int argc, char **argv);
/* A socket that init made itself, instead of the descriptor that this option stands for. */
int init_options_give_socket(struct init *in, const char *option, int fd);
