/* What takes long: events on its way, and one result; see handlers.h. */
#include "api/call.h"
#include "api/handlers.h"

#include <errno.h>

enum { PROGRESS_EVENT_MAX = 1 << 20 };

int api_progress_begin(struct api_call *c, struct api_progress *p, struct err *e)
{
	int r = api_cancel_fd(c, &p->cancel_fd, e);

	p->c = c;
	p->fd = -1;
	p->began = false;
	buf_init(&p->out, PROGRESS_EVENT_MAX);
	json_init(&p->json, &p->out);
	if (r < 0 || !http_head_has_token(&c->head, "Accept", "text/event-stream"))
		return r;
	c->type = "text/event-stream";
	return api_stream_open(c, &p->fd, e);
}

struct json *api_progress_json(struct api_progress *p)
{
	buf_clear(&p->out);
	json_init(&p->json, &p->out);
	return &p->json;
}

bool api_progress_tell(struct api_progress *p, const char *event)
{
	if (p->fd < 0 || p->json.error < 0)
		return api_goes_on(p->c);
	api_caller_hide(p->c, &p->out);
	if (!buf_cstr(&p->out) || api_send_event(p->fd, event, NULL, buf_cstr(&p->out)) < 0)
		return false;
	p->began = true;
	return api_goes_on(p->c);
}

/* Once the first event has gone out the call's status and type are the loop's to read. */
static int end_events(struct api_progress *p, int r, struct err *e)
{
	if (r < 0 && !p->began)
		return r;
	if (r < 0) {
		api_progress_json(p);
		p->json.error = api_error_json(p->c, e, &p->out);
	}
	api_progress_tell(p, r < 0 ? "error" : "result");
	return 0;
}

int api_progress_end(struct api_progress *p, unsigned status, int r, struct err *e)
{
	struct api_call *c = p->c;

	if (r >= 0 && p->json.error < 0)
		r = err_errno(e, -p->json.error, "write the answer");
	if (p->fd >= 0) {
		r = end_events(p, r, e);
	} else if (r >= 0) {
		c->status = status;
		r = buf_append(&c->out, buf_data(&p->out), buf_len(&p->out));
		if (r < 0)
			err_errno(e, -r, "write the answer");
	}
	buf_done(&p->out);
	return r;
}
