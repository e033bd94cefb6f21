/* What needs no state; see plain.h. */
#include "core/plain.h"

#include "base/limits.h"
#include "base/str.h"

#include <errno.h>
#include <string.h>

_Static_assert((int)COVE_INTERNAL == (int)ERR_INTERNAL && (int)COVE_INVALID == (int)ERR_INVALID &&
		       (int)COVE_FULL == (int)ERR_FULL && (int)COVE_DAMAGED == ERR_KIND_COUNT - 1,
	       "the public kinds are ours, in our order");
_Static_assert(sizeof(((struct cove_error *)0)->message) == sizeof(((struct err *)0)->msg),
	       "a sentence fits");

const char *cove_version(void)
{
	return COVE_VERSION;
}

int cove_abi(void)
{
	return COVE_ABI;
}

const char *cove_error_name(enum cove_error_kind kind)
{
	return err_kind_name((enum err_kind)kind);
}

int core_error_fill(int r, const struct err *e, struct cove_error *err)
{
	if (!err)
		return r;
	if (r >= 0) {
		*err = (struct cove_error){0};
		return r;
	}
	err->kind = (enum cove_error_kind)(e->kind == ERR_NONE ? ERR_INTERNAL : e->kind);
	err->code = e->code ? e->code : -r;
	str_copy(err->message, sizeof(err->message), e->msg[0] ? e->msg : strerror(-r));
	return r;
}

int core_copy_sized(void *dst, size_t size, const void *src, struct err *e)
{
	size_t given;

	memset(dst, 0, size);
	if (!src)
		return 0;
	memcpy(&given, src, sizeof(given));
	if (given < sizeof(given) || given > 65536)
		return err_set(
			e, ERR_INVALID, EINVAL,
			"a struct given to Cove has no size: set .size = sizeof(struct ...)");
	memcpy(dst, src, given < size ? given : size);
	return 0;
}

const char *core_show(char *dst, size_t size, const char *text)
{
	struct buf b;
	const char *shown;

	buf_init(&b, 4 * BOX_PATH_MAX + 8);
	if (str_escape(&b, text, strnlen(text, BOX_PATH_MAX)) < 0 || !(shown = buf_cstr(&b)))
		shown = "?";
	str_copy(dst, size, shown);
	buf_done(&b);
	return dst;
}
