/*
 * cove-store; helper.h says what it is. libcove starts it for one verb, with the request at
 * descriptor 3 and the answers going to 4.
 */
#include "base/fd.h"
#include "base/limits.h"
#include "base/lines.h"
#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { REQUEST_FD = 3, ANSWER_FD = 4 };

static const struct helper_verb verbs[] = {
	{"cache-find", verb_cache_find},
	{"cache-put", verb_cache_put},
	{"cache-trim", verb_cache_trim},
	{"df", verb_df},
	{"expand", verb_expand},
	{"unpack", verb_unpack},
	{"gc", verb_gc},
	{"export", verb_export},
	{"import", verb_import},
	{"verify", verb_verify},
	{"image-pull", verb_pull},
	{"versions", verb_versions},
};

/* With the one between us and the caller (base/child.h), which ends with that. If it did before we
 * asked, the caller's end of the answers is closed. */
static void end_with_caller(void)
{
	struct pollfd p = {.fd = ANSWER_FD};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&p, 1, 0) > 0 && p.revents & POLLERR)
		_exit(1);
}

/* None of them is for children. */
static void keep_from_children(json_t *fds)
{
	const char *name;
	json_t *v;

	fcntl(REQUEST_FD, F_SETFD, FD_CLOEXEC);
	fcntl(ANSWER_FD, F_SETFD, FD_CLOEXEC);
	json_object_foreach(fds, name, v) fcntl((int)json_integer_value(v), F_SETFD, FD_CLOEXEC);
}

static int run_verb(struct helper *h, json_t *request, struct err *e)
{
	const char *verb = json_string_value(json_object_get(request, "verb"));
	const char *home = json_string_value(json_object_get(request, "home"));
	const char *run = json_string_value(json_object_get(request, "run"));
	int r;

	h->args = json_object_get(request, "args");
	h->fds = json_object_get(request, "fds");
	if (!verb || !home || !run || !json_is_object(h->args) || !json_is_object(h->fds))
		return err_set(e, ERR_PROTOCOL, EBADMSG, "the request is not whole");
	keep_from_children(h->fds);
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(verbs[i].name, verb) != 0)
			continue;
		r = state_open_at(&h->state, home, run, false, e);
		if (r == 0)
			r = ids_detect(&h->ids, NULL, 0, e);
		if (r == 0)
			r = verbs[i].run(h, e);
		state_close(&h->state);
		return r;
	}
	return err_set(e, ERR_UNSUPPORTED, ENOSYS,
		       "cove-store knows no '%.40s': it is of another version; install Cove again",
		       verb);
}

static int answer_error(struct helper *h, const struct err *e)
{
	struct buf text, line;
	int r;

	buf_init(&text, sizeof(*e) + 64);
	buf_init(&line, 4 * sizeof(*e));
	r = lines_put(&text, "kind", err_kind_name(e->kind));
	if (r == 0)
		r = lines_put_u64(&text, "code", e->code > 0 ? (unsigned)e->code : 0);
	if (r == 0)
		r = lines_put(&text, "message", e->msg);
	if (r == 0)
		r = lines_put(&line, "error", buf_cstr(&text));
	if (r == 0)
		r = fd_write_full(h->out, buf_data(&line), buf_len(&line));
	buf_done(&text);
	buf_done(&line);
	return r < 0 ? 1 : 0;
}

int main(void)
{
	struct helper h = {.out = ANSWER_FD};
	autofree char *text = NULL;
	json_t *request = NULL;
	json_error_t why;
	struct err e = {0};
	size_t len = 0;
	int r;

	fd_fill_low();
	if (fcntl(REQUEST_FD, F_GETFD) < 0 || fcntl(ANSWER_FD, F_GETFD) < 0) {
		fprintf(stderr, "cove-store is started by cove and by libcove\n");
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	/* A terminal's Ctrl-C is for all of its processes at once. Who started this one says
	 * whether it ends (cancel) or ends itself, and then this ends, too. */
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	end_with_caller();
	r = fd_read_sealed(REQUEST_FD, HELPER_REQUEST_MAX, &text, &len);
	if (r < 0)
		r = err_errno(&e, -r, "read the request");
	else if (!(request = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why)))
		r = err_set(&e, ERR_PROTOCOL, EBADMSG, "the request: %.150s", why.text);
	else
		r = run_verb(&h, request, &e);
	json_decref(request);
	return r < 0 ? answer_error(&h, &e) : 0;
}
