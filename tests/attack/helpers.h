/* Programs that cases of the host's side run inside a box: `attack --NAME ARG...`. */
#pragma once

int helper_run(const char *name, int count, char **args);

/* counters.c */
int helper_take(int count, char **args);
int helper_try(int count, char **args);

/* Run on the host. */
int helper_inject(int count, char **args);
