/* The error value; see err.h. */
#include "base/err.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name;
	int exit_status;
} kinds[ERR_KIND_COUNT] = {
	[ERR_NONE] = {"none", 0},
	[ERR_INVALID] = {"invalid", 2},
	[ERR_NOT_FOUND] = {"not_found", 125},
	[ERR_EXISTS] = {"exists", 125},
	[ERR_CONFLICT] = {"conflict", 125},
	[ERR_DENIED] = {"denied", 125},
	[ERR_LIMIT] = {"limit", 125},
	[ERR_FULL] = {"full", 125},
	[ERR_UNSUPPORTED] = {"unsupported", 125},
	[ERR_TIMEOUT] = {"timeout", 124},
	[ERR_INTERRUPTED] = {"interrupted", 125},
	[ERR_PROTOCOL] = {"protocol", 125},
	[ERR_INTERNAL] = {"internal", 125},
	[ERR_DAMAGED] = {"damaged", 125},
};

static int err_vset(struct err *e, enum err_kind kind, int code, const char *fmt, va_list ap)
{
	if (e) {
		e->kind = kind;
		e->code = code;
		vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	}
	return code > 0 ? -code : -EIO;
}

static void append_errno(struct err *e, int code)
{
	size_t len = strlen(e->msg);

	snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", strerror(code));
}

int err_set(struct err *e, enum err_kind kind, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_vset(e, kind, code, fmt, ap);
	va_end(ap);
	if (e && code > 0 && kind == ERR_INTERNAL)
		append_errno(e, code);
	return r;
}

enum err_kind err_kind_of(int code)
{
	switch (code) {
	case EINVAL:
	case ENAMETOOLONG:
	case E2BIG:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
		return ERR_INVALID;
	case ENOENT:
		return ERR_NOT_FOUND;
	case EEXIST:
	case ENOTEMPTY:
		return ERR_EXISTS;
	case EBUSY:
		return ERR_CONFLICT;
	case EACCES:
	case EPERM:
	case EROFS:
		return ERR_DENIED;
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return ERR_LIMIT;
	case ENOSPC:
	case EDQUOT:
	case ENOMEM:
		return ERR_FULL;
	case ENOSYS:
	case EOPNOTSUPP:
		return ERR_UNSUPPORTED;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case EPROTO:
	case EBADMSG:
		return ERR_PROTOCOL;
	default:
		return ERR_INTERNAL;
	}
}

int err_errno(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_vset(e, err_kind_of(code), code, fmt, ap);
	va_end(ap);
	if (e && code > 0)
		append_errno(e, code);
	return r;
}

void err_prefix(struct err *e, const char *fmt, ...)
{
	char rest[sizeof(e->msg)];
	size_t n;
	va_list ap;

	if (!e)
		return;
	memcpy(rest, e->msg, sizeof(rest));
	va_start(ap, fmt);
	vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	va_end(ap);
	n = strlen(e->msg);
	str_copy(e->msg + n, sizeof(e->msg) - n, ": ");
	n = strlen(e->msg);
	str_copy(e->msg + n, sizeof(e->msg) - n, rest);
}

const char *err_kind_name(enum err_kind kind)
{
	return (unsigned)kind < ERR_KIND_COUNT ? kinds[kind].name : "internal";
}

enum err_kind err_kind_find(const char *name)
{
	for (unsigned k = 1; k < ERR_KIND_COUNT; k++)
		if (strcmp(kinds[k].name, name) == 0)
			return (enum err_kind)k;
	return ERR_INTERNAL;
}

int err_kind_exit(enum err_kind kind)
{
	return (unsigned)kind < ERR_KIND_COUNT ? kinds[kind].exit_status : 125;
}

int err_exec_exit(enum err_kind kind, int code)
{
	int status = err_kind_exit(kind);

	if (status != 125 && status != 2)
		return status;
	if (code == ENOENT)
		return 127;
	return code == EACCES || code == ENOEXEC || code == EISDIR || code == ELIBBAD ? 126
										      : status;
}

void assert_failed(const char *cond, const char *file, int line)
{
	char msg[256];
	int n = snprintf(msg, sizeof(msg), "cove: bug: %s (%s:%d)\n", cond, file, line);

	if (n > 0 && write(STDERR_FILENO, msg, (size_t)n) < 0)
		abort();
	abort();
}
