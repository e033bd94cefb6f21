/* References to images of registries; see ref.h. */
#include "oci/ref.h"

#include "base/str.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int bad(struct err *e, const char *text, const char *why)
{
	return err_set(e, ERR_INVALID, EINVAL, "'%.100s' is no image of a registry: %s", text, why);
}

static bool is_low(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* One part of a path: letters and digits, between them '.', '_', '__' or dashes. */
static bool is_part(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t from = i;

		while (i < n && is_low(p[i]))
			i++;
		if (i == from)
			return false;
		if (i == n)
			return true;
		from = i;
		if (p[i] == '-')
			while (i < n && p[i] == '-')
				i++;
		else if (p[i] == '.')
			i++;
		else
			while (i < n && p[i] == '_' && i - from < 2)
				i++;
		if (i == from)
			return false;
	}
	return false;
}

static bool is_path(const char *path)
{
	for (;;) {
		size_t n = strcspn(path, "/");

		if (!is_part(path, n))
			return false;
		if (!path[n])
			return true;
		path += n + 1;
	}
}

/* Names and IPv4 addresses; [IPv6]. The port is checked apart. */
static bool is_host(const char *host, size_t n)
{
	if (n > 2 && host[0] == '[')
		return host[n - 1] == ']' && strspn(host + 1, "0123456789abcdef:.") == n - 2 &&
		       memchr(host, ':', n);
	for (size_t i = 0; i < n; i++) {
		bool edge = i == 0 || i == n - 1 || host[i - 1] == '.' || host[i + 1] == '.';

		if (!is_low(host[i]) && (edge || (host[i] != '-' && host[i] != '.')))
			return false;
	}
	return n > 0;
}

static bool is_port(const char *port)
{
	uint64_t n;

	return port[0] != '0' && str_parse_u64(port, 65535, &n) && n > 0;
}

/* Where the host ends and a port begins: at the colon, or at its end. */
static size_t name_length(const char *host)
{
	const char *close = host[0] == '[' ? strchr(host, ']') : NULL;

	return close ? (size_t)(close + 1 - host) : strcspn(host, ":");
}

static int take_host(const char *text, const char **rest, struct oci_ref *ret, struct err *e)
{
	size_t n = strcspn(text, "/"), name;
	bool has = text[n] == '/' &&
		   (memchr(text, '.', n) || memchr(text, ':', n) || text[0] == '[' ||
		    (n == strlen("localhost") && strncasecmp(text, "localhost", n) == 0));

	if (!has) {
		str_copy(ret->host, sizeof(ret->host), OCI_HUB);
		*rest = text;
		return 0;
	}
	if (n > OCI_HOST_MAX)
		return bad(e, text, "the host is too long");
	for (size_t i = 0; i < n; i++)
		ret->host[i] = (char)tolower((unsigned char)text[i]);
	ret->host[n] = 0;
	name = name_length(ret->host);
	if (!is_host(ret->host, name) ||
	    (ret->host[name] && (ret->host[name] != ':' || !is_port(ret->host + name + 1))))
		return bad(e, text, "what stands before the first '/' is no host");
	if (strcmp(ret->host, "index.docker.io") == 0 ||
	    strcmp(ret->host, "registry-1.docker.io") == 0)
		str_copy(ret->host, sizeof(ret->host), OCI_HUB);
	*rest = text + n + 1;
	return 0;
}

static int take_digest(const char *text, char *rest, struct oci_ref *ret, struct err *e)
{
	char *at = strchr(rest, '@');

	if (!at)
		return 0;
	*at++ = 0;
	if (!str_starts(at, "sha256:") || !blobs_is_digest(at + strlen("sha256:")))
		return bad(e, text, "after '@' comes sha256: and 64 hex digits in lower case");
	str_copy(ret->digest, sizeof(ret->digest), at + strlen("sha256:"));
	return 0;
}

static bool is_tag(const char *tag)
{
	size_t n = strlen(tag);

	if (n == 0 || n > OCI_TAG_MAX || tag[0] == '.' || tag[0] == '-')
		return false;
	return strspn(tag, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") ==
	       n;
}

static int take_tag(const char *text, char *rest, struct oci_ref *ret, struct err *e)
{
	char *at = strchr(rest, ':');

	if (!at) {
		if (!ret->digest[0])
			str_copy(ret->tag, sizeof(ret->tag), "latest");
		return 0;
	}
	*at++ = 0;
	if (!is_tag(at))
		return bad(e, text,
			   "a tag has at most 128 letters, digits, '.', '_' and '-', and "
			   "begins with none of the last two but '_'");
	str_copy(ret->tag, sizeof(ret->tag), at);
	return 0;
}

int oci_ref_parse(const char *text, struct oci_ref *ret, struct err *e)
{
	char copy[OCI_PATH_MAX + OCI_TAG_MAX + BLOB_DIGEST + 16];
	struct oci_ref ref = {0};
	const char *rest = text;
	int r;

	if (!text || !*text)
		return err_set(e, ERR_INVALID, EINVAL, "the name of the image is empty");
	if (strstr(text, "://"))
		return bad(e, text, "leave out what stands before '://', and that itself");
	r = take_host(text, &rest, &ref, e);
	if (r < 0)
		return r;
	if (!str_copy(copy, sizeof(copy), rest))
		return bad(e, text, "it is too long");
	r = take_digest(text, copy, &ref, e);
	if (r == 0)
		r = take_tag(text, copy, &ref, e);
	if (r < 0)
		return r;
	if (!is_path(copy))
		return bad(e, text,
			   "a path has lower-case letters and digits, with single '.', '_' or "
			   "dashes between them, in parts that '/' divides");
	if (snprintf(ref.path, sizeof(ref.path), "%s%s",
		     strcmp(ref.host, OCI_HUB) == 0 && !strchr(copy, '/') ? "library/" : "",
		     copy) >= (int)sizeof(ref.path))
		return bad(e, text, "the path is too long");
	*ret = ref;
	return 0;
}

const char *oci_ref_format(const struct oci_ref *ref, char ret[OCI_REF_TEXT])
{
	snprintf(ret, OCI_REF_TEXT, "%s/%s%s%s%s%s", ref->host, ref->path, ref->tag[0] ? ":" : "",
		 ref->tag, ref->digest[0] ? "@sha256:" : "", ref->digest);
	return ret;
}

const char *oci_ref_server(const struct oci_ref *ref)
{
	return strcmp(ref->host, OCI_HUB) == 0 ? "registry-1.docker.io" : ref->host;
}

bool oci_host_is_loopback(const char *host)
{
	size_t n = host[0] == '[' ? name_length(host) : strcspn(host, ":/");
	char name[16];
	unsigned a[4];
	int end = 0;

	if (host[n] && host[n] != ':' && host[n] != '/')
		return false;
	if (n == strlen("localhost") && strncasecmp(host, "localhost", n) == 0)
		return true;
	if (n == strlen("[::1]") && memcmp(host, "[::1]", n) == 0)
		return true;
	if (n >= sizeof(name) || strspn(host, "0123456789.") < n)
		return false;
	memcpy(name, host, n);
	name[n] = 0;
	/* Only the usual form: 127.1 and 0177.0.0.1 mean what the resolver makes of them. */
	return sscanf(name, "%3u.%3u.%3u.%3u%n", &a[0], &a[1], &a[2], &a[3], &end) == 4 &&
	       name[end] == 0 && a[0] == 127 && name[0] == '1' && a[1] < 256 && a[2] < 256 &&
	       a[3] < 256;
}
