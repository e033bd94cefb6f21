/* For verbs that clean up before they end: signals that ask to end become readable instead. */
#pragma once

/* A descriptor that can be read once SIGINT, SIGTERM or SIGHUP came; what is ignored (nohup) stays
 * so. -1: none can be had, and a signal ends the program as ever. */
int cancel_catch(void);

/* For verbs that such a signal ends where they are: the line that is written to stderr then, which
 * stays valid. */
void cancel_say(const char *line);

/* Which one came; 0: none. */
int cancel_signal(void);
