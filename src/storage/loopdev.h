/*
 * Loop devices: a file as a block device, for as long as somebody has the device open or mounted.
 *
 * Two devices over one file would destroy what is in it, so there is only ever one: its number is
 * kept in an attribute of the file, and whoever wants the file again finds the device there. The
 * number proves nothing by itself; the device is asked which file it has. A file's identity (device
 * and inode) cannot be taken by another file while the loop device holds it, so the answer cannot
 * be about a namesake. Should the number be lost, a lock that the device holds on the file tells.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>

struct loopdev {
	int fd; /* owned; the device detaches itself when the last descriptor and mount are gone */
	char path[32];
};

/* Can loop devices be had? ERR_UNSUPPORTED with the remedy. */
int loopdev_check(struct err *e);

/* The device of a file, attached if it has none. file_fd is open for writing; it must not hold a
 * lock of its own, since the device keeps the open file. The caller holds a lock that every other
 * caller for this file holds too, and keeps it until it has mounted the device. With alone no
 * other process can ever have this file, so it is neither looked for nor recorded. */
int loopdev_open(int file_fd, bool alone, struct loopdev *ret, struct err *e);

/* Does a live device have this file? */
bool loopdev_has(int file_fd);
