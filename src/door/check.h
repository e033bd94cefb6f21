/* Verbs of cove-door that need no box; argv[0] is the verb. */
#pragma once

/* check [--json] [--home DIR] [--name NAME] [FILE|-]: reads a policy (standard input without FILE
 * or with "-"), and looks for every secret that it names. Fine: exit 0, nothing printed, or
 * {"ok":true}. Not: exit 1, the sentence on standard error, or
 * {"ok":false,"line":12,"error":"NAME:12: ..."} on standard output, line 0 where there is none.
 * Exit 2: wrong use. */
int check_main(int argc, char **argv);
/* preset NAME: prints its text; exit 2 without one of that name. */
int preset_main(int argc, char **argv);
