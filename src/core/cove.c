/*
 * The library as a whole: one struct cove per program, and the boundary where our errors become the
 * caller's and what happened becomes events.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { EVENT_LINE_MAX = 64 << 10 };

/* The JSON form without the newline that files want after it. */
static const char *line_of(struct buf *b)
{
	const char *s = buf_cstr(b);
	size_t n = buf_len(b);

	if (!s)
		return NULL;
	if (n > 0 && s[n - 1] == '\n')
		b->data[b->start + n - 1] = 0;
	return s;
}

void core_event(struct cove *cove, const struct event *ev)
{
	struct event stamped = *ev;
	struct buf line, json;
	const char *l, *j;

	if (!cove || !cove->on_event)
		return;
	stamped.at_ms = clock_wall_ms();
	buf_init(&line, EVENT_LINE_MAX);
	buf_init(&json, EVENT_LINE_MAX);
	if (event_format(&stamped, &line) == 0 && event_format_json(&stamped, &json) == 0) {
		l = line_of(&line);
		j = line_of(&json);
		if (l && j)
			cove->on_event(cove->arg, l, j);
	}
	buf_done(&line);
	buf_done(&json);
}

int core_return(struct cove *cove, const char *box, int r, const struct err *e,
		struct cove_error *err)
{
	if (core_error_fill(r, e, err) >= 0)
		return r;
	core_event(cove, &(struct event){.kind = EVENT_FAIL,
					 .box = box,
					 .cause = e->msg[0] ? e->msg : strerror(-r)});
	return r;
}

int core_ids(struct cove *cove, struct err *e)
{
	int r;

	if (cove->has_ids)
		return 0;
	r = ids_detect(&cove->ids, NULL, 0, e);
	if (r < 0)
		return r;
	cove->has_ids = true;
	return 0;
}

static int cove_make(struct cove **ret, const struct cove_options *options, struct err *e)
{
	struct cove_options o;
	struct cove *cove;
	int r = core_copy_sized(&o, sizeof(o), options, e);

	if (r < 0)
		return r;
	cove = calloc(1, sizeof(*cove));
	if (!cove)
		return err_errno(e, ENOMEM, "start Cove");
	r = state_open(&cove->state, o.home, false, e);
	if (r < 0) {
		free(cove);
		return r;
	}
	cove->on_event = o.on_event;
	cove->arg = o.arg;
	*ret = cove;
	return 0;
}

int cove_new(struct cove **ret, const struct cove_options *options, struct cove_error *err)
{
	struct err e = {0};

	log_init();
	return core_return(NULL, NULL, cove_make(ret, options, &e), &e, err);
}

void cove_free(struct cove *cove)
{
	if (!cove)
		return;
	state_close(&cove->state);
	free(cove);
}
