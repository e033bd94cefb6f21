/* A request as one text; see request.h. */
#include "cli/request.h"

#include "base/str.h"
#include "cli/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { WHAT_MAX = 8192 };

static const char *or_none(const char *s)
{
	return s ? s : "";
}

void door_request(const struct cove_ask *ask, char *ret, size_t size)
{
	const char *host = or_none(ask->host);
	bool is_v6 = ask->port && strchr(host, ':');
	char port[24] = "";

	if (ask->port)
		snprintf(port, sizeof(port), ":%llu", (unsigned long long)ask->port);
	snprintf(ret, size, "%s%s%s%s%s%s%s%s%s", or_none(ask->method), ask->method ? " " : "",
		 is_v6 ? "[" : "", host, is_v6 ? "]" : "", port, or_none(ask->path),
		 ask->query ? "?" : "", or_none(ask->query));
}

int door_answer_text(struct buf *b, const char *result, uint64_t for_ms,
		     const struct cove_ask *scope)
{
	bool is_request = scope && scope->method;
	char what[WHAT_MAX] = "", time[16] = "";
	int r;

	if (scope)
		door_request(scope, what, sizeof(what));
	if (for_ms && is_request)
		what[strcspn(what, "?")] = 0;
	if (for_ms)
		text_duration(time, for_ms);
	r = buf_printf(b, "%s%s%s", result, for_ms ? " for " : "", time);
	if (r == 0 && scope)
		r = buf_append_str(b, is_request ? ": " : ": connections to ");
	if (r == 0)
		r = str_escape(b, what, strlen(what));
	return r < 0 ? r : buf_printf(b, "%s\n", for_ms && is_request ? ", any query" : "");
}
