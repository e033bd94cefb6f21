/* cove ports: what listens in a box, and where it can be reached from here. */
#include "base/fd.h"
#include "cli/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct inside_port {
	struct cove_listening socket;
	char here[64]; /* where a forwarding in the background leads to it from; "" for nowhere */
};

static void row(struct table *t, const void *item)
{
	const struct inside_port *i = item;

	table_cellf(t, "%u", i->socket.port);
	table_cell(t, i->socket.address);
	table_cell(t, i->socket.program);
	if (i->socket.pid)
		table_cellf(t, "%u", i->socket.pid);
	else
		table_cell(t, "");
	table_cell(t, i->here);
}

/* clang-format off */
#define S(name, how) FIELD_SHOWN(inside_port, #name, socket.name, how)
static const struct wire_named_field fields[] = {
	S(port, ALWAYS), S(address, ALWAYS), S(program, KNOWN), S(pid, KNOWN),
	FIELD_SHOWN(inside_port, "forwarded_from", here, KNOWN), {0}};
#undef S
/* clang-format on */

static void find_here(struct inside_port *i, const struct cove_forward_info *forwards, int count)
{
	for (int n = 0; n < count; n++)
		if (forwards[n].is_live && forwards[n].port == i->socket.port)
			snprintf(i->here, sizeof(i->here),
				 strchr(forwards[n].address, ':') ? "[%s]:%u" : "%s:%u",
				 forwards[n].address, forwards[n].local_port);
}

static int get(struct cli *c, void *ret, struct cove_error *err)
{
	autofree struct cove_listening *sockets = NULL;
	autofree struct cove_forward_info *forwards = NULL;
	int count = cove_listening(c->box, &sockets, err), forwarded;
	struct inside_port *items;

	if (count < 0)
		return count;
	forwarded = cove_forwards(c->cove, c->o.args[0], &forwards, err);
	if (forwarded < 0)
		return forwarded;
	items = calloc((size_t)count + 1, sizeof(*items));
	if (!items) {
		*err = (struct cove_error){.kind = COVE_FULL, .message = "out of memory"};
		return -1;
	}
	for (int i = 0; i < count; i++) {
		items[i].socket = sockets[i];
		find_here(&items[i], forwards, forwarded);
	}
	*(struct inside_port **)ret = items;
	return count;
}

static void name(struct buf *b, const void *item)
{
	(void)buf_printf(b, "%u", ((const struct inside_port *)item)->socket.port);
}

static const struct list_form form = {
	.titles = {"PORT", "ADDRESS", "PROGRAM", "PID", "FORWARDED FROM"},
	.right = 1 << 0 | 1 << 3,
	.empty = "nothing listens in the box",
	.size = sizeof(struct inside_port),
	.get = get,
	.row = row,
	.fields = fields,
	.name = name,
};

const struct verb verb_ports = {
	.name = "ports",
	.synopsis = "ports [-q] [--json] BOX",
	.summary = "what listens in a box",
	.help = "TCP sockets that wait for connections in the box, with the program and its\n"
		"process id inside, where they are known, and the address here that a forwarding\n"
		"in the background (`cove port -d`) leads there from. -q prints port numbers.\n"
		"\n"
		"Examples\n"
		"  cove ports dev\n"
		"  cove ports --json dev | jq -r '.[] | [.port, .program] | @tsv'\n"
		"  cove port -d dev $(cove ports -q dev | sort -u)\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.args = {1, 1},
	.has_box = true,
	.list = &form,
};
