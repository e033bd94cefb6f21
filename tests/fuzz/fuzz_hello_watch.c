/* What follows a first TLS hello: the first two bytes say how much of the rest is the server's. How
 * either side is cut changes nothing, and no hello of the client passes unseen. */
#include "fuzz.h"

#include "door/hello_watch.h"

#include <errno.h>

/* Where each hello ended, and how it went on. */
struct seen {
	size_t at[4];
	char names[4][256];
	unsigned count;
	int last;
};

static void feed_client(struct hello_watch *w, struct seen *s, const uint8_t *p, size_t n,
			size_t step)
{
	size_t at = 0;

	while (at < n && s->last >= 0) {
		size_t part = n - at < step ? n - at : step, used = 0;
		uint8_t *copy = malloc(part);
		struct hello hello;

		MUST(copy);
		memcpy(copy, p + at, part);
		s->last = hello_watch_client(w, copy, part, &used, &hello);
		free(copy);
		if (s->last < 0)
			break;
		MUST(used <= part && (s->last == 1 || used == part));
		at += used;
		if (s->last == 0)
			continue;
		MUST(s->count < 4);
		s->at[s->count] = at;
		memcpy(s->names[s->count++], hello.sni, sizeof(hello.sni));
	}
}

static void check_client(const uint8_t *p, size_t n)
{
	struct seen whole = {0}, cut;
	struct hello_watch w;
	struct hello hello;

	hello_watch_start(&w);
	feed_client(&w, &whole, p, n, n ? n : 1);
	hello_watch_done(&w);
	for (size_t step = 1; step < 8; step += 3) {
		cut = (struct seen){0};
		hello_watch_start(&w);
		feed_client(&w, &cut, p, n, step);
		hello_watch_done(&w);
		MUST(cut.last == whole.last && cut.count == whole.count);
		MUST(memcmp(cut.at, whole.at, sizeof(cut.at)) == 0);
		MUST(memcmp(cut.names, whole.names, sizeof(cut.names)) == 0);
	}
	/* Read in another way: record after record. */
	for (size_t at = 0, found = 0; whole.last >= 0 && at + 5 <= n;) {
		size_t len = 5 + ((size_t)p[at + 3] << 8 | p[at + 4]);

		if (p[at] == 22) {
			/* Not whole yet: all the rest belongs to it. */
			if (hello_parse(&hello, p + at, n - at) != 1)
				break;
			MUST(found < whole.count && whole.at[found] == at + hello.len);
			found++;
			len = hello.len;
		}
		at += len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct hello_watch whole, cut;
	size_t server;

	if (n < 2)
		return 0;
	server = (size_t)p[0] << 8 | p[1];
	p += 2;
	n -= 2;
	if (server > n)
		server = n;
	hello_watch_start(&whole);
	hello_watch_start(&cut);
	hello_watch_server(&whole, p, server);
	for (size_t i = 0; i < server; i++)
		hello_watch_server(&cut, p + i, 1);
	MUST(whole.is_on == cut.is_on && whole.is_lost == cut.is_lost);
	MUST(!whole.is_on || whole.is_lost ||
	     (whole.server.have == cut.server.have && whole.message_have == cut.message_have));
	hello_watch_done(&whole);
	hello_watch_done(&cut);
	check_client(p + server, n - server);
	return 0;
}
