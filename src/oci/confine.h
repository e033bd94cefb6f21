/*
 * A process that unpacks confines itself first: no new privileges, of its capabilities those that
 * owners and modes need, and by Landlock no file but those below the tree that it fills, no
 * network, no signal to others. Whatever an archive could make of it stays in that tree.
 */
#pragma once

#include "base/err.h"

/* A kernel without Landlock, or with one that refuses hard links (before 5.19), leaves the rest. */
int oci_confine_unpack(int root_fd, struct err *e);
