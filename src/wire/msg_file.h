/* The messages of file operations; see msg.h. */
#pragma once

#include <stdint.h>

enum wire_file_op {
	FILE_PUT = 1, /* asker: ENTRY, DATA(0)..., EOF(0) for each file, in order; ENTRY alone for a
		       * directory or link; CANCEL gives up. Ends the sequence with ENTRY type 'E'.
		       * Answer: OK, or the first ERROR: nothing more is taken then. */
	FILE_GET,     /* answer: ENTRY, DATA(1)..., EOF(1) for each file; ENTRY alone else; OK */
	FILE_STAT,    /* answer: one ENTRY, OK */
	FILE_LIST,    /* answer: one ENTRY per name (not "." and ".."), OK */
	FILE_MKDIR,   /* with parents; existing is fine */
	FILE_MOVE,    /* path -> to */
	FILE_REMOVE,  /* recursive with flag; never follows a link; missing is fine */
	FILE_CHMOD,
	FILE_OP_COUNT
};

struct wire_file {
	uint64_t op;
	const char *path; /* absolute, relative to the box's start directory, or ~ and ~/x: home */
	const char *to;
	const char *user; /* NULL: the box's user */
	uint64_t mode;
	uint64_t recursive;
	uint64_t follow; /* stat: follow a final link */
};

struct wire_entry {
	uint64_t type;	    /* 'f' file, 'd' directory, 'l' link, 'o' other, 'E' end of a put */
	const char *path;   /* relative to the operation's path; "" is that path itself */
	const char *target; /* link */
	uint64_t mode;	    /* permission bits; a put with 0 gets 0644, a directory 0755 */
	uint64_t size;	    /* a hint: the data frames decide */
	uint64_t mtime_ns;  /* since 1970 */
	uint64_t uid, gid;
};
