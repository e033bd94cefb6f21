/* Building an image with the helper program make-base-image. */
#pragma once

#include "cli/cli.h"

/* Runs the builder with the given arguments (NULL-terminated) and imports what it writes as `name`.
 * Its progress goes to stderr. Returns the exit status. */
int base_image_make(struct cli *c, const char *name, const char **args);
