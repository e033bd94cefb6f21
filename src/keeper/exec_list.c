/* The commands of a box as a list: what a client learns of them (EXECS), what is shown of one, and
 * how the file of them is written anew. */
#include "keeper/exec.h"

#include <errno.h>
#include <string.h>

void keeper_command_text(const struct wire_exec *m, char *dst, size_t size)
{
	const char *item = m->line;
	size_t n = 0, len;
	uint32_t pos = 0;

	if (!item)
		item = wire_list_next(&m->argv, &pos);
	while (item && *item == '\n')
		item++;
	for (; item; item = m->line ? NULL : wire_list_next(&m->argv, &pos)) {
		len = strcspn(item, "\n");
		if (n > 0 && n + 1 < size)
			dst[n++] = ' ';
		if (len > size - 1 - n)
			len = size - 1 - n;
		memcpy(dst + n, item, len);
		n += len;
		if (item[len])
			break;
	}
	/* Cut in the middle of a character: drop its beginning. */
	if (n == size - 1) {
		while (n > 0 && ((uint8_t)dst[n - 1] & 0xc0) == 0x80)
			n--;
		if (n > 0 && ((uint8_t)dst[n - 1] & 0x80))
			n--;
	}
	dst[n] = 0;
}

void keeper_exec_list(struct keeper_client *c, const struct wire_frame *f)
{
	for (size_t i = 0; i < c->k->exec_count && !c->closing; i++) {
		const struct keeper_exec *x = c->k->execs[i];
		struct exec_record m = x->rec;

		for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
			m.bytes[s] = x->out[s].bytes;
			m.truncated = m.truncated || (x->run && x->out[s].cut && !x->k->quiet);
		}
		if (m.state < EXEC_DONE)
			m.duration_ms = keeper_exec_duration(x);
		keeper_client_sent(c, wire_info_encode(&c->link.out, f->id, 0, &m));
	}
	keeper_client_send(c, WIRE_OK, 0, f->id, NULL, 0);
}

struct exec_walk {
	struct keeper *k;
	size_t at;
};

static const struct exec_record *next_record(void *arg)
{
	struct exec_walk *w = arg;

	return w->at < w->k->exec_count ? &w->k->execs[w->at++]->rec : NULL;
}

int keeper_journal_rewrite(struct keeper *k)
{
	return journal_rewrite(&k->journal, k->logs.dir_fd, k->next_exec, &k->tokens, next_record,
			       &(struct exec_walk){.k = k});
}

void keeper_journal_renew(struct keeper *k)
{
	bool one = k->damaged_lines == 1;
	int r = keeper_logs_dir(&k->logs);

	if (r >= 0 && k->damaged_lines) {
		keeper_note(k,
			    "%zu line%s of the list of commands %s damaged: those commands are "
			    "lost or interrupted (logs/execs.damaged has them)",
			    k->damaged_lines, one ? "" : "s", one ? "was" : "were");
		r = journal_set_aside(k->logs.dir_fd);
	}
	if (r >= 0)
		r = keeper_journal_rewrite(k);
	if (r < 0)
		keeper_note(k, "the list of commands could not be written anew: %s", strerror(-r));
}
