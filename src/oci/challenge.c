/* WWW-Authenticate; see challenge.h. */
#include "oci/challenge.h"

#include <string.h>
#include <strings.h>

struct challenge_cursor {
	const char *p, *end;
};

static bool is_token_char(char c)
{
	return c > ' ' && c < 127 && !strchr("()<>@,;:\\\"/[]?={}", c);
}

static void skip(struct challenge_cursor *c, const char *set)
{
	while (c->p < c->end && *c->p && strchr(set, *c->p))
		c->p++;
}

/* A token; false where there is none. */
static bool take_token(struct challenge_cursor *c, const char **ret, size_t *ret_len)
{
	*ret = c->p;
	while (c->p < c->end && is_token_char(*c->p))
		c->p++;
	*ret_len = (size_t)(c->p - *ret);
	return *ret_len > 0;
}

/* The value of a parameter, a token or quoted, into ret (NULL: dropped). */
static bool take_value(struct challenge_cursor *c, char *ret, size_t size)
{
	size_t n = 0;
	bool quoted = c->p < c->end && *c->p == '"';

	if (quoted)
		c->p++;
	for (; c->p < c->end && (quoted ? *c->p != '"' : is_token_char(*c->p)); c->p++) {
		if (quoted && *c->p == '\\' && ++c->p == c->end)
			return false;
		if ((unsigned char)*c->p < ' ' || *c->p == 127)
			return false;
		if (ret && n + 1 >= size)
			return false;
		if (ret)
			ret[n++] = *c->p;
	}
	if (ret)
		ret[n] = 0;
	if (!quoted)
		return true;
	return c->p < c->end && *c->p++ == '"';
}

static bool is_word(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

/* The parameters after a scheme, up to the next one's. */
static bool take_params(struct challenge_cursor *c, struct oci_challenge *ret)
{
	for (;;) {
		struct challenge_cursor before;
		const char *name;
		char *to = NULL;
		size_t n, size = 0;

		skip(c, " \t,");
		before = *c;
		if (!take_token(c, &name, &n))
			return c->p == c->end;
		skip(c, " \t");
		if (c->p == c->end || *c->p != '=') {
			*c = before;
			return true;
		}
		c->p++;
		skip(c, " \t");
		if (is_word(name, n, "realm"))
			to = ret->realm, size = sizeof(ret->realm);
		else if (is_word(name, n, "service"))
			to = ret->service, size = sizeof(ret->service);
		if (to && *to)
			return false;
		if (!take_value(c, to, size))
			return false;
		skip(c, " \t");
		if (c->p < c->end && *c->p != ',')
			return false;
	}
}

bool oci_challenge_parse(const char *value, size_t n, struct oci_challenge *ret)
{
	struct challenge_cursor c = {value, value + n};
	struct oci_challenge best = {0};

	for (;;) {
		struct oci_challenge one = {0};
		const char *scheme;

		skip(&c, " \t,");
		if (c.p == c.end)
			break;
		if (!take_token(&c, &scheme, &n))
			return false;
		if (c.p < c.end && *c.p != ' ' && *c.p != '\t' && *c.p != ',')
			return false;
		if (is_word(scheme, n, "Bearer"))
			one.scheme = OCI_SCHEME_BEARER;
		else if (is_word(scheme, n, "Basic"))
			one.scheme = OCI_SCHEME_BASIC;
		if (!take_params(&c, &one))
			return false;
		if (one.scheme == OCI_SCHEME_BEARER && !one.realm[0])
			return false;
		if (one.scheme > best.scheme)
			best = one;
	}
	if (best.scheme == OCI_SCHEME_NONE)
		return false;
	*ret = best;
	return true;
}
