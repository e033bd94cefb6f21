/* Files of a server's boxes: what put.c and get.c share. */
#pragma once

#include "remote/remote.h"

/* 1 and the type of what is there, a link followed; 0: nothing is. */
int remote_probe(struct cove_box *box, const char *path, char *ret_type, struct err *e);
int remote_make_dir(struct cove_box *box, const char *path, unsigned mode,
		    const struct cove_copy *how, struct err *e);
