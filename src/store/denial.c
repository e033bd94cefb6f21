/* Reasons of denials and their remedies; see denial.h. */
#include "store/denial.h"

#include <stdio.h>
#include <string.h>

/* In a remedy %b is the box, %p the pattern, %h the host, %m the method, %r the rule. One that
 * needs what is not known is left out, and the second is said. */
static const struct {
	const char *word, *reason;
	const char *remedies[2];
} table[DENIAL_COUNT] = {
	[DENIAL_UNMATCHED] = {"unmatched",
			      "no rule allows it",
			      {"cove allow %b %p, or --allow %p at its start", "cove allow %b %p"}},
	[DENIAL_REQUEST] = {"request",
			    "no rule allows this request",
			    {"allow %m on %h by a rule of the box's policy: cove policy show %b",
			     "a rule of the box's policy: cove policy show %b"}},
	[DENIAL_RULE] = {"rule",
			 "a rule denies it",
			 {"change the rule '%r' in the box's policy: cove policy show %b",
			  "a rule of the box's policy: cove policy show %b"}},
	[DENIAL_PRIVATE] = {"private",
			    "it is no public address",
			    {"a rule for %h with 'private: true' in the box's policy: cove policy "
			     "apply %b FILE",
			     "a rule with 'private: true' in the box's policy: cove policy apply "
			     "%b FILE"}},
	[DENIAL_METADATA] = {"metadata", "it is a cloud's metadata service", {NULL}},
	[DENIAL_BUDGET] = {"budget",
			   "a budget is used up",
			   {"raise the budget of the rule '%r' in the box's policy: cove policy "
			    "show %b",
			    "raise the budget in the box's policy: cove policy show %b"}},
	[DENIAL_LIMIT] = {"limit",
			  "a limit of the box is reached",
			  {"cove audit %b --denied says which; 'limits' of the box's policy, "
			   "--net-conns and --net-bytes set them"}},
	[DENIAL_PERSON] = {"person", "it was not allowed when asked for", {"cove asks"}},
	[DENIAL_CREDENTIAL] = {"credential",
			       "its credential cannot be sent",
			       {"cove audit %b --denied says why"}},
	[DENIAL_FORM] = {"form", "what was sent cannot be judged", {NULL}},
	[DENIAL_POLICY] = {"policy", "the policy cannot be read", {"cove inspect %b"}},
};

const char *denial_word(enum denial why)
{
	return table[why].word;
}

bool denial_parse(const char *word, enum denial *ret)
{
	for (unsigned i = 0; word && i < DENIAL_COUNT; i++)
		if (strcmp(word, table[i].word) == 0) {
			*ret = (enum denial)i;
			return true;
		}
	return false;
}

const char *denial_reason(enum denial why)
{
	return table[why].reason;
}

bool denial_pattern(const struct denied *d, char *dst, size_t size)
{
	bool six = d->host && strchr(d->host, ':');
	/* The host's loopback is given by ports alone (net/host.h). */
	bool by_port = d->host && strcmp(d->host, "host.cove.internal") == 0;
	char port[24] = "";

	if (by_port && !d->port)
		snprintf(port, sizeof(port), ":PORT");
	else if (d->port && (by_port || (d->port != 443 && d->port != 80)))
		snprintf(port, sizeof(port), ":%llu", (unsigned long long)d->port);
	return d->host && (size_t)snprintf(dst, size, "%s%s%s%s", six ? "[" : "", d->host,
					   six ? "]" : "", port) < size;
}

/* False where it needs what is not there, or does not fit. */
static bool fill(const struct denied *d, const char *form, char *dst, size_t size)
{
	char pattern[300];
	size_t n = 0;

	for (; *form; form++) {
		const char *with = form;
		size_t len = 1;

		if (*form == '%') {
			form++;
			with = *form == 'b'				     ? d->box
			       : *form == 'h'				     ? d->host
			       : *form == 'm'				     ? d->method
			       : *form == 'r'				     ? d->rule
			       : denial_pattern(d, pattern, sizeof(pattern)) ? pattern
									     : NULL;
			len = with ? strlen(with) : 0;
		}
		if (!with || n + len >= size)
			return false;
		memcpy(dst + n, with, len);
		n += len;
	}
	dst[n] = 0;
	return true;
}

void denial_remedy(const struct denied *d, char *dst, size_t size)
{
	const char *const *forms = table[d->why].remedies;

	if (!(forms[0] && fill(d, forms[0], dst, size)) &&
	    !(forms[1] && fill(d, forms[1], dst, size)))
		dst[0] = 0;
}
