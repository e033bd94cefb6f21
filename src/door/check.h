/* Verbs of cove-door that need no box; argv[0] is the verb. */
#pragma once

/* check [--home DIR] [--owner KEY] [--name NAME] [FILE|-]: reads a policy (standard input without
 * FILE or with "-"), and looks for every secret that it names, in that API key's namespace. Fine:
 * exit 0, and warnings on standard error. Not: exit 1, and the sentence there. Exit 2: wrong
 * use. */
int check_main(int argc, char **argv);
/* preset NAME[,GROUP...]: prints the text (presets.h). Exit 2 where there is none, and the sentence
 * in its place. */
int preset_main(int argc, char **argv);
/* groups: a line for each group: its name, what it is for and its hosts with a space between, with
 * a tab between these. */
int groups_main(void);
