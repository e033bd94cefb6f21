/* Paths as text; see path.h. */
#include "base/path.h"

#include "base/limits.h"

#include <string.h>

bool path_join(char *dst, size_t size, const char *a, const char *b)
{
	size_t na = strlen(a), nb;

	while (na > 1 && a[na - 1] == '/')
		na--;
	while (*b == '/')
		b++;
	nb = strlen(b);
	if (na + 1 + nb + 1 > size)
		return false;
	memmove(dst, a, na);
	if (na > 0 && a[na - 1] != '/')
		dst[na++] = '/';
	memcpy(dst + na, b, nb + 1);
	return true;
}

bool path_is_absolute(const char *p)
{
	return p[0] == '/' && strlen(p) < BOX_PATH_MAX;
}

bool path_is_safe_relative(const char *p)
{
	if (!*p || strlen(p) >= BOX_PATH_MAX)
		return false;
	for (;;) {
		size_t n = strcspn(p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		if (!p[n])
			return true;
		p += n + 1;
	}
}

const char *path_base(const char *p)
{
	const char *slash = strrchr(p, '/');

	if (!slash)
		return p;
	return slash == p && !slash[1] ? p : slash + 1;
}

bool path_normalize(char *dst, size_t size, const char *p)
{
	size_t len = 0;

	if (p[0] != '/' || size < 2)
		return false;
	while (*p) {
		size_t n;

		while (*p == '/')
			p++;
		n = strcspn(p, "/");
		if (n == 2 && p[0] == '.' && p[1] == '.') {
			while (len > 0 && dst[--len] != '/')
				;
		} else if (n > 0 && !(n == 1 && p[0] == '.')) {
			if (len + 1 + n + 1 > size)
				return false;
			dst[len++] = '/';
			memcpy(dst + len, p, n);
			len += n;
		}
		p += n;
	}
	if (len == 0)
		dst[len++] = '/';
	dst[len] = 0;
	return true;
}

bool path_is_within(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	n -= n > 0 && outer[n - 1] == '/';
	return n == 0 || (strncmp(inner, outer, n) == 0 && (inner[n] == 0 || inner[n] == '/'));
}
