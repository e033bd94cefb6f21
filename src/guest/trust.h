/*
 * What a box trusts: its door's certificate authority, in the places where programs look for such.
 *
 *	GUEST_TRUST_FILE    the image's own bundle and the authority; the variables name it
 *	the image's bundle  the same, bound over whichever of the usual files it has
 *	Java's store       the same in Java's form, where the image has one
 *
 * A Debian or Alpine makes its bundle anew whenever a certificate is added
 * (update-ca-certificates), by rename, which a file that is bound there does not let happen. There
 * the bundle is in a layer of its own, between the image and what the box writes, and beside it the
 * authority, in the directories where that program and its hooks look for what an administrator
 * added:
 *
 *	/etc/ssl/certs/ca-certificates.crt
 *	/etc/ssl/certs/cove-box.pem -> /usr/local/share/ca-certificates/cove-box.crt
 *	/usr/local/share/ca-certificates/cove-box.crt
 *
 * A bundle that the box has made of these has the authority of that start. Each later start adds
 * its own at the end of it, in place of the one before.
 *
 * The rest is in memory of the box, read-only for it. Taken in the new process, once its tree is
 * whole: the tree may be one that a hostile box wrote, so nothing is followed out of its root, and
 * what is not a plain file of sane size is passed over.
 */
#pragma once

#include "guest/guest.h"

#define GUEST_TRUST_FILE     "/dev/cove-trust/bundle.pem" /* the image's bundle and the authority */
#define GUEST_TRUST_OWN_FILE "/dev/cove-trust/box.pem"	  /* without the image's */

/* The directory on the scratch that is the layer. */
#define GUEST_TRUST_LAYER "trust"
/* Before the tree is mounted: lowers are what it is made of, top first. Then g->trust_layer says
 * whether there is one: not where the image keeps such files elsewhere. */
int guest_trust_layer(struct guest *g, const int *lowers, size_t count, const char *pem);

/* Once /dev is shown and nothing more is mounted. pem: the authority, and roots of the host's. */
int guest_trust_show(struct guest *g, const char *pem);
