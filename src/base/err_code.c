/* The names of errnos; see err.h. */
#include "base/err.h"

#include <errno.h>
#include <string.h>

/* The C libraries know no common way to ask for it. In order from 1 on, as the kernel numbers them
 * for all machines that Cove runs on. */
static const char names[] =
	"EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM "
	"EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE "
	"EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM ERANGE "
	"EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG "
	"EL2NSYNC EL3HLT EL3RST ELNRNG EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO "
	"EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET ENOPKG EREMOTE "
	"ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ "
	"EBADFD EREMCHG ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART "
	"ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT "
	"EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT "
	"EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED "
	"ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT "
	"ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN "
	"ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY "
	"EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL "
	"EHWPOISON";

_Static_assert(EHWPOISON == 133, "the list is another machine's");

const char *err_code_name(int code, char ret[ERR_CODE_NAME])
{
	const char *at = names;
	size_t n;

	for (int i = 1; i < code && at; i++) {
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	if (code <= 0 || !at || *at == '-')
		return NULL;
	n = strcspn(at, " ");
	memcpy(ret, at, n);
	ret[n] = 0;
	return ret;
}

int err_code_find(const char *name)
{
	size_t n = strlen(name);
	const char *at = names;

	for (int code = 1; at && n > 0 && *name == 'E'; code++) {
		if (strncmp(at, name, n) == 0 && (at[n] == ' ' || !at[n]))
			return code;
		at = strchr(at, ' ');
		at = at ? at + 1 : NULL;
	}
	return 0;
}
