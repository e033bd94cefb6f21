/* The user's terminal: raw while a box has it, and given back on every way out. */
#pragma once

#include <stdbool.h>

/* Is fd a terminal that this process may use now (not started in the background)? */
bool term_is_ours(int fd);

/* Raw mode on stdin. term_restore undoes it, also at exit and when the program crashes; without a
 * term_raw before it does nothing. */
int term_raw(void);
void term_restore(void);
/* While it is raw, lines of ours end in "\r\n". */
const char *term_eol(void);

/* False, and 24 x 80, if fd is no terminal. */
bool term_size(int fd, unsigned *ret_rows, unsigned *ret_cols);

/* The TERM to use inside: the user's own if every image knows it, else one that behaves alike. */
const char *term_type(void);
