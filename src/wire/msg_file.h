/* The messages of file operations; see msg.h. */
#pragma once

#include "wire/msg_list.h"

#include <stdint.h>

enum wire_file_op {
	FILE_PUT = 1, /* asker: ENTRY, DATA(0)..., EOF(0) for each file, in order; ENTRY alone for a
		       * directory or link; CANCEL gives up. Ends the sequence with ENTRY type 'E'.
		       * Answer: OK, or the first ERROR: nothing more is taken then. */
	FILE_GET,     /* answer: ENTRY, DATA(1)..., EOF(1) for each file; ENTRY alone else; OK.
		       * Within a file, both ways: ENTRY 'z' where it has a hole. */
	FILE_STAT,    /* answer: one ENTRY, OK */
	FILE_LIST,    /* answer: one ENTRY per name (not "." and ".."), OK */
	FILE_MKDIR,   /* with parents; existing is fine */
	FILE_MOVE,    /* path -> to */
	FILE_REMOVE,  /* recursive with flag; never follows a link; missing is fine */
	FILE_CHMOD,
	FILE_LISTEN, /* answer: one ENTRY 't' per TCP socket that listens in the box, OK: its
		       * address as path, the port as size, its program as target and the process id
		       * as links, where they are known. The request's path is not used. */
	/* From here on, if the asker's keeper has the feature "tools": the answer is DATA(1) whose
	 * bytes are frames, EOF(1), then OK; msg_tool.h. */
	FILE_READ,  /* lines of a file: DATA, SUMMARY */
	FILE_EDIT,  /* texts in a file replaced, all or none: SUMMARY */
	FILE_GLOB,  /* names below a directory that match: ENTRY..., SUMMARY */
	FILE_GREP,  /* lines of the files below it that match: MATCH..., SUMMARY */
	FILE_WATCH, /* what changes in it: CHANGE..., until CANCEL */
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
	/* get: what the asker understands. Of a put WIRE_FEATURE_COPY says it. */
	uint64_t skip;	/* what cannot be read below the path comes as 'x' */
	uint64_t links; /* further names of a file that came come as 'h' */
	uint64_t holes; /* and holes as 'z' */
	/* read, edit, glob, grep. A maximum of 0 is init's own. */
	uint64_t from;	     /* read: the first line wanted, from 1 on; get: the first byte */
	uint64_t count;	     /* at most so many lines, names or matches */
	uint64_t bytes;	     /* read: at most so many of all lines; get: of a file, 0: all */
	uint64_t line_bytes; /* read, grep: and of one, which is cut there */
	uint64_t time_ms;    /* then it ends: ERROR with ERR_TIMEOUT, or truncated */
	const char *pattern; /* glob, grep */
	const char *glob;    /* grep: only in files that it matches */
	uint64_t regex;	     /* grep: pattern is a POSIX extended regular expression */
	uint64_t ignore_case;
	uint64_t context;	/* grep: lines before and after each match */
	uint64_t any_type;	/* glob: not only files */
	uint64_t binary;	/* read: its text, too, if it does not look like text */
	struct wire_list edits; /* three each: "all" or "one", what is there, what is to be */
	/* edit: only if the file is still so; NULL, 0: not asked */
	const char *if_sha256;
	uint64_t if_mtime_ns, if_size; /* the size only with the time */
};

struct wire_entry {
	/* 'f' file, 'd' directory, 'l' link, 'o' other, 'E' end of a put; 'h' hard link to target,
	 * the path of an earlier file; 'z' a hole of size bytes; 'x' left out, target says why */
	uint64_t type;
	const char *path;   /* relative to the operation's path; "" is that path itself */
	const char *target; /* link */
	uint64_t mode;	    /* permission bits; a put with 0 gets 0644, a directory 0755 */
	uint64_t size;	    /* a hint: the data frames decide */
	uint64_t mtime_ns;  /* since 1970 */
	uint64_t uid, gid;
	uint64_t links; /* how many names a file has */
};
