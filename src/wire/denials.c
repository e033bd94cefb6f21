/* The list of a command's denials; see denials.h. */
#include "wire/denials.h"

#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int wire_denials_add(struct buf *list, const struct wire_denial *d)
{
	struct wire_list have = wire_list_of(list);
	char text[DENIAL_TEXT_MAX];
	const char *item;
	uint32_t pos = 0;
	size_t n = (size_t)snprintf(text, sizeof(text), "%s\t%llu\t%s\t%s\t%s\t%u\t%s",
				    d->host ? d->host : "", (unsigned long long)d->port,
				    d->method ? d->method : "", d->reason ? d->reason : "",
				    d->remedy ? d->remedy : "", d->shared, d->why ? d->why : "");

	if (n >= sizeof(text))
		return -ENOBUFS;
	while ((item = wire_list_next(&have, &pos)))
		if (strcmp(item, text) == 0)
			return 0;
	return have.count >= DENIALS_MAX ? -ENOBUFS : wire_list_add(list, text);
}

bool wire_denials_next(const struct wire_list *list, uint32_t *pos, char text[DENIAL_TEXT_MAX],
		       struct wire_denial *ret)
{
	enum { HOST, PORT, METHOD, REASON, REMEDY, SHARED, WHY, COUNT };
	const char *item;

	while ((item = wire_list_next(list, pos))) {
		char *fields[COUNT], *rest = text;
		uint64_t shared = 0;
		unsigned n = 0;

		if (!str_copy(text, DENIAL_TEXT_MAX, item))
			continue;
		while (n < COUNT && rest)
			fields[n++] = strsep(&rest, "\t");
		*ret = (struct wire_denial){0};
		if (n < WHY || !str_parse_u64(fields[PORT], UINT16_MAX, &ret->port) ||
		    !str_parse_u64(fields[SHARED], 1, &shared))
			continue;
		ret->host = fields[HOST];
		ret->method = fields[METHOD][0] ? fields[METHOD] : NULL;
		ret->reason = fields[REASON];
		ret->remedy = fields[REMEDY][0] ? fields[REMEDY] : NULL;
		ret->shared = shared;
		ret->why = n > WHY && fields[WHY][0] ? fields[WHY] : NULL;
		return true;
	}
	return false;
}
