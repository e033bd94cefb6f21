/* Building images and saying what happens; used by `image build` and `image make --add`. */
#pragma once

#include "cli/cli.h"

/* Runs a build: its progress goes to stderr, the image's name to stdout. Fills in what the command
 * line says of limits, network and progress. Returns the exit status. */
int image_build_run(struct cli *c, struct cove_build_options *options);

/* `image make` with packages: they become a layer on top of an image. */
int image_packages_make(struct cli *c, const char *name);
