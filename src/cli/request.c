/* A request as one text; see request.h. */
#include "cli/request.h"

#include "base/str.h"
#include "cli/fields.h"
#include "cli/table.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { HOST_MAX = 320, PATH_SHOWN = 1024, WHAT_MAX = 8192 };

void door_request(const char *json, char *ret, size_t size)
{
	char host[HOST_MAX], method[64], path[PATH_SHOWN], query[PATH_SHOWN];
	uint64_t port = field_u64(json, "port");
	bool is_v6;

	field_text(json, "host", host, sizeof(host));
	field_text(json, "method", method, sizeof(method));
	field_text(json, "path", path, sizeof(path));
	field_text(json, "query", query, sizeof(query));
	is_v6 = port && strchr(host, ':');
	if (port)
		snprintf(ret, size, "%s%s%s%s%s:%llu%s%s%s", method, method[0] ? " " : "",
			 is_v6 ? "[" : "", host, is_v6 ? "]" : "", (unsigned long long)port, path,
			 query[0] ? "?" : "", query);
	else
		snprintf(ret, size, "%s%s%s%s", method, method[0] ? " " : "", host, path);
}

int door_answer_text(struct buf *b, const char *result, uint64_t for_ms, const char *scope)
{
	bool is_request = scope && strstr(scope, "\"method\":");
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
