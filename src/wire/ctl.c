/* Words of cove-ctl; see ctl.h. */
#include "wire/ctl.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *const verbs[WIRE_CTL_VERB_COUNT] = {
	[WIRE_CTL_INFO] = "info",
	[WIRE_CTL_BUDGET] = "budget",
	[WIRE_CTL_SNAPSHOT] = "snapshot",
};

#define JSON_WORD "json "

const char *wire_ctl_verb_name(enum wire_ctl_verb verb)
{
	return verbs[verb];
}

int wire_ctl_verb_find(const char *name)
{
	for (int i = 0; i < WIRE_CTL_VERB_COUNT; i++)
		if (strcmp(verbs[i], name) == 0)
			return i;
	return -1;
}

bool wire_ctl_is_name(const char *name)
{
	return str_is_plain_name(name, CTL_NAME_MAX);
}

static int bad_line(struct err *e)
{
	return err_set(e, ERR_INVALID, EINVAL,
		       "a request is info, budget or snapshot NAME; a name has 1 to %u lower-case "
		       "letters, digits and inner dashes",
		       CTL_NAME_MAX);
}

int wire_ctl_line_parse(const char *p, size_t n, struct wire_ctl_line *ret, struct err *e)
{
	struct wire_ctl_line l = {0};
	char text[CTL_LINE_MAX], *at = text, *name;
	int verb;

	if (n >= sizeof(text) || memchr(p, 0, n))
		return bad_line(e);
	memcpy(text, p, n);
	text[n] = 0;
	l.json = str_starts(at, JSON_WORD);
	if (l.json)
		at += strlen(JSON_WORD);
	name = strchr(at, ' ');
	if (name)
		*name++ = 0;
	verb = wire_ctl_verb_find(at);
	if (verb < 0 || (verb == WIRE_CTL_SNAPSHOT) != (name != NULL) ||
	    (name && !wire_ctl_is_name(name)))
		return bad_line(e);
	l.verb = (enum wire_ctl_verb)verb;
	if (name)
		str_copy(l.name, sizeof(l.name), name);
	*ret = l;
	return 0;
}

size_t wire_ctl_line_format(const struct wire_ctl_line *l, char ret[CTL_LINE_MAX])
{
	return (size_t)snprintf(ret, CTL_LINE_MAX, "%s%s%s%s\n", l->json ? JSON_WORD : "",
				verbs[l->verb], l->name[0] ? " " : "", l->name);
}

/* One word of the setting, cut out of it. */
static int take_word(char *word, struct wire_ctl_set *to)
{
	char *number = strchr(word, '=');
	uint64_t count = CTL_SNAPSHOTS;
	int verb;

	if (number)
		*number++ = 0;
	if (number && (!str_parse_u64(number, CTL_SNAPSHOTS_MAX, &count) || count == 0))
		return -ERANGE;
	verb = wire_ctl_verb_find(word);
	if (verb < 0 || (number && verb != WIRE_CTL_SNAPSHOT) || to->verbs & 1u << verb)
		return -EINVAL;
	to->verbs |= 1u << verb;
	if (verb == WIRE_CTL_SNAPSHOT)
		to->snapshots = count;
	return 0;
}

static int bad_set(const char *text, int r, struct err *e)
{
	if (r == -ERANGE)
		return err_set(e, ERR_INVALID, EINVAL,
			       "a box may have 1 to %u snapshots of its own making: snapshot=N",
			       CTL_SNAPSHOTS_MAX);
	return err_set(e, ERR_INVALID, EINVAL,
		       "'%.60s' is not what a box may ask: info, budget and snapshot[=N], with "
		       "commas between",
		       text);
}

int wire_ctl_set_parse(const char *text, struct wire_ctl_set *ret, struct err *e)
{
	struct wire_ctl_set set = {0};
	char words[64], *at = words, *word;
	int r = 0;

	*ret = set;
	if (!text || !*text)
		return 0;
	if (!str_copy(words, sizeof(words), text))
		return bad_set(text, -EINVAL, e);
	while (r == 0 && (word = strsep(&at, ",")))
		r = take_word(word, &set);
	if (r < 0)
		return bad_set(text, r, e);
	*ret = set;
	return 0;
}
