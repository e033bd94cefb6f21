/* What no two boxes may share, made anew in one that begins with the files of another. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Gives the box a machine id of its own where it had one, and removes the seeds of random numbers
 * and ssh's host keys. Follows no link. *ret_keys: there were keys. What could not be done is added
 * to notes, in lines. */
void guest_renew(bool *ret_keys, char *notes, size_t size);

/* Where ssh-keygen is there: starts it, as a child that makes new host keys. */
void guest_renew_keys(void);
