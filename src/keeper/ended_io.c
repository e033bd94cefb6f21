/* What ended commands read and wrote; see ended_io.h. */
#include "keeper/ended_io.h"

#include "base/str.h"
#include "wire/msg.h"

#include <string.h>

/* init says these numbers: they are bounded before they are added up. */
static void add_to(uint64_t sum[2], const uint64_t more[2])
{
	for (int i = 0; i < 2; i++)
		sum[i] = more[i] > INT64_MAX - sum[i] ? INT64_MAX : sum[i] + more[i];
}

static void close_entry(struct ended_io *l, unsigned at)
{
	add_to(l->gone, l->open[at].bytes);
	l->count--;
	memmove(&l->open[at], &l->open[at + 1], (l->count - at) * sizeof(l->open[0]));
}

static struct ended_io_group *find(struct ended_io *l, const struct exec_record *r)
{
	for (unsigned i = 0; r->shell[0] && i < l->count; i++)
		if (strcmp(l->open[i].shell, r->shell) == 0)
			return &l->open[i];
	if (l->count == ENDED_IO_GROUPS)
		close_entry(l, 0);
	l->open[l->count] = (struct ended_io_group){.id = r->shell[0] ? 0 : r->exec_id};
	str_copy(l->open[l->count].shell, sizeof(l->open[0].shell), r->shell);
	return &l->open[l->count++];
}

void ended_io_add(struct ended_io *l, const struct exec_record *r)
{
	const uint64_t more[2] = {r->io_read_bytes, r->io_write_bytes};
	bool ended = r->shell_state == SHELL_EXITED || r->shell_state == SHELL_RESTARTED;
	struct ended_io_group *e;

	if (more[0] == WIRE_UNKNOWN || more[1] == WIRE_UNKNOWN)
		return;
	e = find(l, r);
	add_to(e->bytes, more);
	if (r->shell[0] && ended)
		close_entry(l, (unsigned)(e - l->open));
}

void ended_io_update(struct ended_io *l, bool (*has_group)(void *arg, uint32_t id), void *arg)
{
	for (unsigned i = l->count; i-- > 0;)
		if (l->open[i].id != 0 && !has_group(arg, l->open[i].id))
			close_entry(l, i);
}

void ended_io_sum(struct ended_io *l, uint64_t *read_bytes, uint64_t *write_bytes)
{
	uint64_t *const now[2] = {read_bytes, write_bytes};
	uint64_t sum[2] = {*read_bytes, *write_bytes};

	add_to(sum, l->gone);
	for (int i = 0; i < 2; i++) {
		if (sum[i] > l->reported[i])
			l->reported[i] = sum[i];
		*now[i] = l->reported[i];
	}
}
