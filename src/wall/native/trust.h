/*
 * What a box trusts: its door's certificate authority, in the places where programs look for such.
 *
 *	WALL_TRUST_FILE    the image's own bundle and the authority; the variables name it
 *	the image's bundle  the same, bound over whichever of the usual files it has
 *	Java's store       the same in Java's form, where the image has one
 *
 * All of it is in memory of the box, read-only for it. Taken in the new process, once its tree is
 * whole: the tree may be one that a hostile box wrote, so nothing is followed out of its root, and
 * what is not a plain file of sane size is passed over.
 */
#pragma once

/* root is the box's tree, dev its /dev (shown already), scratch the tmpfs it is built on. */
int trust_show(int root, int dev, int scratch, const char *pem);
