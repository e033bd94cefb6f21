/*
 * What a box trusts: its door's certificate authority, in the places where programs look for such.
 *
 *	GUEST_TRUST_FILE    the image's own bundle and the authority; the variables name it
 *	the image's bundle  the same, bound over whichever of the usual files it has
 *	Java's store       the same in Java's form, where the image has one
 *
 * All of it is in memory of the box, read-only for it. Taken in the new process, once its tree is
 * whole: the tree may be one that a hostile box wrote, so nothing is followed out of its root, and
 * what is not a plain file of sane size is passed over.
 */
#pragma once

#include "guest/guest.h"

#define GUEST_TRUST_FILE     "/dev/cove-trust/bundle.pem" /* the image's bundle and the authority */
#define GUEST_TRUST_OWN_FILE "/dev/cove-trust/box.pem"	  /* without the image's */

/* Once /dev is shown and nothing more is mounted. pem: the authority, and roots of the host's. */
int guest_trust_show(struct guest *g, const char *pem);
