/* Protocol scripts for forms; see multipart_script.h. */
#include "multipart_script.h"

#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void say(struct buf *said, const char *text)
{
	ASSERT(buf_append_str(said, text ? text : "-") == 0);
}

static void say_event(struct buf *said, int kind, const struct multipart_event *event)
{
	switch (kind) {
	case MULTIPART_PART:
		say(said, event->part->name);
		say(said, "|");
		say(said, event->part->filename);
		say(said, "|");
		say(said, event->part->content_type);
		say(said, "{");
		break;
	case MULTIPART_DATA:
		ASSERT(event->len > 0);
		ASSERT(buf_append(said, event->data, event->len) == 0);
		break;
	case MULTIPART_PART_END:
		say(said, "}");
	}
}

/* All of a piece, in a block of exactly its size, so that a sanitizer sees a step too far. False
 * when it was refused. */
static bool feed(struct multipart *m, const uint8_t *p, size_t n, struct buf *said)
{
	uint8_t *exact = malloc(n ? n : 1);
	struct multipart_event event;
	struct err e = {0};
	size_t at = 0, used;
	int r;

	ASSERT(exact);
	memcpy(exact, p, n);
	do {
		r = multipart_feed(m, exact + at, n - at, &used, &event, &e);
		ASSERT(r < 0 || used <= n - at);
		if (r > 0)
			say_event(said, r, &event);
		at += r >= 0 ? used : 0;
		ASSERT(r != 0 || at == n);
	} while (r > 0);
	free(exact);
	if (r == 0)
		return true;
	ASSERT(r == -EBADMSG && e.kind == ERR_PROTOCOL && e.code >= 400 && e.msg[0]);
	ASSERT(buf_printf(said, "refused %d", e.code) == 0);
	return false;
}

void multipart_script(const char *content_type, unsigned parts_max, const void *p, size_t n,
		      uint64_t cuts, struct buf *said)
{
	struct http_field field = {"Content-Type", content_type};
	struct http_head h = {.method = "POST", .fields = &field, .field_count = 1};
	struct multipart m;
	struct err e = {0};
	uint64_t state = cuts;
	bool ok = true;

	if (multipart_init(&m, &h, parts_max, &e) < 0) {
		ASSERT(e.code == 400 || e.code == 415);
		ASSERT(buf_printf(said, "refused %d", e.code) == 0);
		return;
	}
	for (size_t at = 0, take; at < n && ok; at += take) {
		take = cuts == SCRIPT_WHOLE   ? n
		       : cuts == SCRIPT_BYTES ? 1
					      : 1 + http_script_random(&state) % (1 + n / 4);
		take = take < n - at ? take : n - at;
		ok = feed(&m, (const uint8_t *)p + at, take, said);
	}
	if (ok)
		say(said, multipart_close(&m, NULL) == 0 ? "." : "cut");
	multipart_done(&m);
}
