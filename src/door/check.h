/* Verbs of cove-door that need no box; argv[0] is the verb. */
#pragma once

/* check [--home DIR] [--name NAME] [FILE|-]: reads a policy (standard input without FILE or with
 * "-"), and looks for every secret that it names. Fine: exit 0, and warnings on standard error.
 * Not: exit 1, and the sentence there. Exit 2: wrong use. */
int check_main(int argc, char **argv);
/* preset NAME: prints its text; exit 2 without one of that name. */
int preset_main(int argc, char **argv);
