/*
 * The error value: what kind, which errno, and a human-readable sentence.
 *
 * The caller owns it and passes its address down; nothing is allocated or can leak. Functions
 * that take one return 0 or positive on success and a negative errno otherwise. A NULL error is
 * allowed everywhere: the sentence is then dropped, the return value stays.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

enum err_kind {
	ERR_NONE = 0,
	ERR_INVALID,	 /* the request itself is wrong */
	ERR_NOT_FOUND,	 /* no such box, image, workspace, exec or path */
	ERR_EXISTS,	 /* the name is taken */
	ERR_CONFLICT,	 /* not in this state: stopped, busy, being removed */
	ERR_DENIED,	 /* permission */
	ERR_LIMIT,	 /* a named maximum was reached */
	ERR_FULL,	 /* disk or memory full */
	ERR_UNSUPPORTED, /* this host cannot; the sentence names what is missing */
	ERR_TIMEOUT,	 /* the time given ran out */
	ERR_INTERRUPTED, /* the outcome is unknown; it was not tried again */
	ERR_PROTOCOL,	 /* the other side broke the protocol */
	ERR_INTERNAL,	 /* anything else the kernel said */
	ERR_DAMAGED,	 /* a file that Cove keeps is not as it was written */
	ERR_KIND_COUNT
};

struct err {
	enum err_kind kind;
	int code; /* positive errno, 0 if there is none */
	char msg[232];
};

/* Sets *e (if not NULL) and returns -code, or -EIO where code is 0. The sentence gets the errno's
 * own words appended after ": " when code is not 0 and kind is ERR_INTERNAL. */
int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* The kind that an errno usually means (ENOENT -> ERR_NOT_FOUND, ENOSPC -> ERR_FULL, ...). */
enum err_kind err_kind_of(int code);

/* err_set with the kind taken from the errno and its words appended. */
int err_errno(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "what: " before the sentence already in *e. */
void err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* One table: kind -> word in JSON, exit status of the CLI. */
const char *err_kind_name(enum err_kind kind);
enum err_kind err_kind_find(const char *name); /* ERR_INTERNAL where there is none of that name */
int err_kind_exit(enum err_kind kind);

/* "ENOENT"; NULL where it has no name. And back: 0 where there is none of that name. */
enum { ERR_CODE_NAME = 24 };
const char *err_code_name(int code, char ret[ERR_CODE_NAME]);
int err_code_find(const char *name);

/* Of a command that could not be started: 127 there is none, 126 it cannot be executed, else the
 * kind's. */
int err_exec_exit(enum err_kind kind, int code);

/* Our own bugs, always compiled in: prints file, line and condition, then aborts. */
void assert_failed(const char *cond, const char *file, int line) __attribute__((noreturn, cold));
#define ASSERT(cond) ((cond) ? (void)0 : assert_failed(#cond, __FILE__, __LINE__))
