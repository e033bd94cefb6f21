/* What listens in a box, in the box's own words; see init/listening.c for how it is found. */
#include "base/limits.h"
#include "base/str.h"
#include "core/transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SOCKETS_MAX = 4096 };

static int take(struct core_call *c, const struct wire_frame *f, struct cove_listening *ret,
		struct err *e)
{
	struct in6_addr any;
	struct wire_entry m;

	if (f->type != WIRE_ENTRY || wire_entry_decode(f, &m) < 0)
		return core_unexpected(&c->q, f, e);
	if (m.type != 't' || !m.path || strlen(m.path) >= sizeof(ret->address) || m.size == 0 ||
	    m.size > UINT16_MAX || m.links > INT32_MAX ||
	    (inet_pton(AF_INET, m.path, &any) != 1 && inet_pton(AF_INET6, m.path, &any) != 1))
		return err_set(e, ERR_PROTOCOL, EPROTO, "the box named a socket that cannot be");
	*ret = (struct cove_listening){.port = (unsigned)m.size, .pid = (unsigned)m.links};
	str_copy(ret->address, sizeof(ret->address), m.path);
	str_copy(ret->program, sizeof(ret->program), m.target ? m.target : "");
	return 0;
}

static int by_port(const void *a, const void *b)
{
	const struct cove_listening *x = a, *y = b;

	return x->port != y->port ? (x->port > y->port) - (x->port < y->port)
				  : strcmp(x->address, y->address);
}

static int listening(struct cove_box *box, struct cove_listening **ret, struct err *e)
{
	struct wire_file m = {.op = FILE_LISTEN, .path = "/"};
	struct cove_listening *list = calloc(SOCKETS_MAX, sizeof(*list));
	struct transfer t = {0};
	struct wire_frame f;
	size_t count = 0;
	int r;

	if (!list)
		return err_errno(e, ENOMEM, "list what listens");
	r = transfer_begin(&t, box, &m, e);
	if (r < 0) {
		free(list);
		return r;
	}
	while ((r = transfer_next(&t, &f, e)) > 0 && f.type != WIRE_OK) {
		r = count < SOCKETS_MAX ? take(&t.call, &f, &list[count], e)
					: err_set(e, ERR_PROTOCOL, EPROTO,
						  "the box named more sockets than it may have");
		if (r < 0)
			break;
		count++;
	}
	r = transfer_end(&t, r);
	if (r == -ENOSYS)
		err_set(e, ERR_UNSUPPORTED, ENOSYS,
			"box '%s' runs with an older init that cannot say it: cove stop %s && cove "
			"start %s",
			box->name, box->name, box->name);
	if (r < 0) {
		free(list);
		return r;
	}
	qsort(list, count, sizeof(*list), by_port);
	*ret = list;
	return (int)count;
}

int cove_listening(struct cove_box *box, struct cove_listening **ret, struct cove_error *err)
{
	struct err e = {0};
	int r = listening(box, ret, &e);

	return core_return(box->cove, box->name, r, &e, err);
}
