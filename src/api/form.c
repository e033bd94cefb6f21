/*
 * Bodies that work reads: whole, as JSON, or as a form of several parts, each of which goes into
 * a file of its own that has no name, so that nothing of a body is held in memory and nothing of it
 * is left on the disk, whatever happens. A secret's goes into memory that is no file.
 */
#include "api/form.h"
#include "api/handlers.h"

#include "base/fd.h"
#include "core/admission.h"
#include "core/core.h"
#include "http/multipart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BLOCK = 256 << 10 };

/* Some bytes of the body; 0 at its end. A client that has gone ends no body: that is said aside. */
static ssize_t read_body(struct api_call *c, void *p, size_t n, struct err *e)
{
	struct pollfd fds[] = {{.fd = c->body_fd, .events = POLLIN},
			       {.fd = c->cancel_fd, .events = POLLIN}};

	for (;;) {
		ssize_t got;

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_errno(e, errno, "read the request");
		if (fds[1].revents || !api_goes_on(c))
			return err_set(e, ERR_INTERRUPTED, ECANCELED, "the client has gone");
		if (!fds[0].revents)
			continue;
		got = read(c->body_fd, p, n);
		if (got >= 0)
			return got;
		if (errno != EINTR)
			return err_errno(e, errno, "read the request");
	}
}

int api_body_json(struct api_call *c, size_t max, json_t **ret, struct err *e)
{
	autofree char *block = malloc(BLOCK);
	struct buf text;
	ssize_t n = block ? 1 : err_errno(e, ENOMEM, "read the request");
	int r;

	*ret = NULL;
	buf_init(&text, max);
	while (n > 0) {
		n = read_body(c, block, BLOCK, e);
		if (n > 0 && buf_append(&text, block, (size_t)n) < 0)
			n = err_set(e, ERR_LIMIT, EMSGSIZE,
				    "the request's body is longer than %zu bytes", max);
	}
	r = (int)n;
	if (r == 0 && buf_len(&text) > 0)
		r = api_in_parse((const char *)buf_data(&text), buf_len(&text), ret, e);
	buf_done(&text);
	json_decref(c->body);
	c->body = *ret; /* and goes with the call */
	return r;
}

bool api_body_is(const struct api_call *c, const char *type)
{
	const char *is = http_head_find(&c->head, "Content-Type");
	size_t n = strlen(type);

	return is && strncasecmp(is, type, n) == 0 && (is[n] == 0 || strchr("; \t", is[n]));
}

uint64_t api_spool_max(const struct api_call *c, uint64_t max)
{
	uint64_t quota = c->who.is_operator ? 0 : c->who.key->quotas[KEY_QUOTA_DISK];

	return quota && quota < max ? quota : max;
}

/* What is in memory is a secret, and small. */
static int keep(struct cove *cove, int fd, bool on_disk, const void *p, size_t n, struct err *e)
{
	int r = on_disk ? core_disk_check(cove, e) : 0;

	if (r < 0)
		return r;
	r = fd_write_full(fd, p, n);

	if (r == -ENOSPC || r == -EDQUOT)
		return err_set(e, ERR_FULL, ENOSPC,
			       "the server's disk has no room for the request: its operator can "
			       "make some with `cove system prune`");
	return r < 0 ? err_errno(e, -r, "keep the request") : 0;
}

int api_body_spool(struct api_call *c, struct cove *cove, int fd, uint64_t max, struct err *e)
{
	autofree char *block = malloc(BLOCK);
	uint64_t bytes = 0;
	ssize_t n = 1;
	int r = block ? 0 : err_errno(e, ENOMEM, "read the request");

	max = api_spool_max(c, max);
	while (r == 0 && n > 0) {
		n = read_body(c, block, BLOCK, e);
		bytes += n > 0 ? (uint64_t)n : 0;
		r = n < 0 ? (int)n : keep(cove, fd, true, block, (size_t)n, e);
		if (r == 0 && bytes > max)
			r = err_set(e, ERR_LIMIT, EMSGSIZE,
				    "the request's body is longer than %llu bytes",
				    (unsigned long long)max);
	}
	return r;
}

/* ---- forms ---- */

struct form_reading {
	struct api_call *c;
	struct cove *cove;
	struct api_form *form;
	uint64_t bytes, bytes_max;
};

/* A file without a name on the disk that holds the state, or in memory. */
int api_spool_open(struct cove *cove, bool is_secret, struct err *e)
{
	int fd = -1;
	int r = is_secret ? 0 : state_make(&cove->state, e);

	if (r < 0)
		return r;
	if (is_secret)
		fd = memfd_create("part", MFD_CLOEXEC);
	else
		fd = openat(cove->state.home_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	return fd < 0 ? err_errno(e, errno, "make room for the request") : fd;
}

static int begin_part(struct form_reading *f, const struct multipart_part *part, struct err *e)
{
	struct api_form *form = f->form;
	struct api_part *p = &form->parts[form->count];
	bool is_secret = str_starts(part->name, API_PART_SECRET);

	if (form->count == API_PARTS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "a form has at most %d parts", API_PARTS_MAX);
	p->name = api_memory_printf(&f->c->memory, "%s", part->name);
	p->filename =
		part->filename ? api_memory_printf(&f->c->memory, "%s", part->filename) : NULL;
	if (!p->name || (part->filename && !p->filename))
		return err_errno(e, ENOMEM, "read the request");
	p->size = 0;
	p->is_secret = is_secret;
	p->fd = api_spool_open(f->cove, is_secret, e);
	if (p->fd < 0)
		return p->fd;
	form->count++;
	return 0;
}

static int add_data(struct form_reading *f, const struct multipart_event *ev, struct err *e)
{
	struct api_part *p = &f->form->parts[f->form->count - 1];

	p->size += ev->len;
	f->bytes += ev->len;
	if (f->bytes > f->bytes_max)
		return err_set(e, ERR_LIMIT, EMSGSIZE,
			       "the request's parts hold more than %llu bytes",
			       (unsigned long long)f->bytes_max);
	if (p->is_secret && p->size > API_SECRET_MAX)
		return err_set(e, ERR_LIMIT, EMSGSIZE, "a secret has at most %d bytes",
			       API_SECRET_MAX);
	return keep(f->cove, p->fd, !p->is_secret, ev->data, ev->len, e);
}

static int feed(struct form_reading *f, struct multipart *m, const char *p, size_t n, struct err *e)
{
	struct multipart_event ev;
	struct err why = {0};
	size_t used;

	for (;;) {
		int r, what = multipart_feed(m, p, n, &used, &ev, &why);

		if (what < 0)
			return err_set(e, ERR_INVALID, EBADMSG, "the form: %.160s", why.msg);
		r = what == MULTIPART_PART   ? begin_part(f, ev.part, e)
		    : what == MULTIPART_DATA ? add_data(f, &ev, e)
					     : 0;
		if (r < 0 || what == 0)
			return r;
		p += used;
		n -= used;
	}
}

int api_form_read(struct api_call *c, struct cove *cove, uint64_t bytes_max, struct api_form *ret,
		  struct err *e)
{
	struct form_reading f = {
		.c = c, .cove = cove, .form = ret, .bytes_max = api_spool_max(c, bytes_max)};
	autofree char *block = malloc(BLOCK);
	struct multipart m;
	struct err why = {0};
	ssize_t n = 1;
	int r = multipart_init(&m, &c->head, API_PARTS_MAX, &why);

	*ret = (struct api_form){0};
	if (r < 0)
		return err_set(e, ERR_INVALID, EBADMSG, "%.160s", why.msg);
	if (!block)
		r = err_errno(e, ENOMEM, "read the request");
	while (r == 0 && n > 0) {
		n = read_body(c, block, BLOCK, e);
		r = n < 0 ? (int)n : n > 0 ? feed(&f, &m, block, (size_t)n, e) : 0;
	}
	if (r == 0 && multipart_close(&m, &why) < 0)
		r = err_set(e, ERR_INVALID, EBADMSG, "the form ends too early");
	multipart_done(&m);
	if (r < 0)
		api_form_done(ret);
	return r;
}

const struct api_part *api_form_find(const struct api_form *f, const char *name)
{
	for (size_t i = 0; i < f->count; i++)
		if (strcmp(f->parts[i].name, name) == 0)
			return &f->parts[i];
	return NULL;
}

int api_part_json(struct api_call *c, const struct api_part *p, json_t **ret, struct err *e)
{
	autofree char *text = NULL;
	ssize_t n;
	int r;

	*ret = NULL;
	if (!p || p->size == 0)
		return 0;
	if (p->size > API_JSON_MAX)
		return err_set(e, ERR_LIMIT, EMSGSIZE, "'%.60s' is longer than %d bytes", p->name,
			       API_JSON_MAX);
	text = malloc((size_t)p->size);
	if (!text)
		return err_errno(e, ENOMEM, "read the request");
	n = pread(p->fd, text, (size_t)p->size, 0);
	if (n != (ssize_t)p->size)
		return err_errno(e, n < 0 ? errno : EIO, "read the request");
	r = api_in_parse(text, (size_t)p->size, ret, e);
	json_decref(c->body);
	c->body = *ret;
	return r;
}

void api_form_done(struct api_form *f)
{
	for (size_t i = 0; i < f->count; i++)
		fd_close(&f->parts[i].fd);
	f->count = 0;
}

int api_spool_copy(int fd, int to, struct err *e)
{
	autofree char *block = malloc(BLOCK);
	ssize_t n;
	int r = 0;

	if (!block || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(e, block ? errno : ENOMEM, "send the answer");
	while (r == 0 && (n = read(fd, block, BLOCK)) != 0)
		r = n < 0 ? -errno : fd_write_full(to, block, (size_t)n);
	return r < 0 ? err_errno(e, -r, "send the answer") : 0;
}

int api_spool_send(struct api_call *c, int fd, const char *type, struct err *e)
{
	off_t size = lseek(fd, 0, SEEK_END);
	int to, r;

	if (size < 0)
		return err_errno(e, errno, "send the answer");
	c->type = type;
	c->length = (uint64_t)size;
	r = api_stream_open(c, &to, e);
	return r < 0 ? r : api_spool_copy(fd, to, e);
}
