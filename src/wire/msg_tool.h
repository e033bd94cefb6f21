/*
 * What file operations that read, edit, search and watch answer; see msg.h.
 *
 * These are no frames of a link. The answer of such an operation is bytes (DATA with credit, as a
 * file's), so that an asker that is slow holds up no other, and those bytes are frames, one after
 * the other, with id 0 and however the bytes were cut: DATA (text of a file), ENTRY (a name that
 * was found) and those here. The process that does the work writes them, init only passes them on,
 * and libcove is the first to read them. Of an unknown type one is skipped.
 */
#pragma once

#include <stdint.h>

/* A line that grep found, or one near it. */
struct wire_match {
	const char *path; /* below the operation's path; "": that path itself */
	uint64_t line;	  /* from 1 on */
	uint64_t column;  /* byte of the line at which the match begins, from 1 on; else 0 */
	const char *text; /* without its end */
	uint64_t
		text_column; /* of text's first byte, where the line's beginning is cut off; or 0 */
	uint64_t is_cut;     /* text is not the whole line */
	uint64_t is_context; /* it is near one that matches */
};

enum wire_change_kind {
	CHANGE_READY = 1, /* what happens from now on will be seen */
	CHANGE_CREATED,
	CHANGE_WRITTEN,
	CHANGE_REMOVED,
	CHANGE_RENAMED,	  /* path -> to, both below the watched directory */
	CHANGE_CHMOD,	  /* mode, owner, times or attributes */
	CHANGE_LOST,	  /* changes came faster than they were taken; READY comes again */
	CHANGE_UNWATCHED, /* this directory may not be read, or there are too many */
	CHANGE_KIND_COUNT
};

struct wire_change {
	uint64_t kind;
	const char *path; /* below the watched directory; "": itself */
	const char *to;
	uint64_t is_dir;
};

enum wire_truncated {
	TRUNCATED_NOT,
	TRUNCATED_COUNT, /* there is more than was asked for */
	TRUNCATED_TIME,
	TRUNCATED_SIZE, /* a directory has more names than are read */
	TRUNCATED_KIND_COUNT
};

/* The last of them, but for watch. */
struct wire_summary {
	uint64_t truncated; /* glob, grep: why it is not all */
	uint64_t count;	    /* names, matches, or texts replaced */
	uint64_t files;	    /* grep: searched */
	uint64_t left_out;  /* glob, grep: what could not be read, or lies too deep */
	/* read */
	uint64_t first, last; /* lines that came; 0: none */
	uint64_t total;	      /* WIRE_UNKNOWN: not counted */
	uint64_t at_end;      /* the last one that came is the file's last, or there is none */
	uint64_t is_binary;   /* it does not look like text; none came unless asked for */
	uint64_t cut_lines;   /* of those that came */
	/* read, edit: of the file, as it was read or is now */
	uint64_t size, mtime_ns;
	const char *sha256; /* edit */
};
