/* The commands that an earlier keeper of the box had; see exec.h. */
#include "base/str.h"
#include "keeper/exec.h"

#include <errno.h>

int keeper_execs_load(struct keeper *k, struct err *e)
{
	struct journal_list list;
	int r = journal_read(k->logs.box_fd, &list);

	k->tokens = list.spent;
	list.spent = (struct token_set){0};
	for (size_t i = 0; i < list.count && r == 0; i++) {
		struct keeper_exec *x = keeper_exec_add(k, &list.records[i]);

		if (!x) {
			r = -ENOMEM;
			break;
		}
		if (x->rec.token[0])
			r = tokens_add(&k->tokens, token_key(x->rec.token));
		keeper_outputs_load(&k->logs, x->rec.exec_id, x->out);
		for (unsigned s = 0; s < OUTPUT_COUNT; s++) {
			if (x->rec.bytes[s] < x->out[s].kept)
				x->rec.bytes[s] = x->out[s].kept;
			x->out[s].bytes = x->rec.bytes[s];
			x->out[s].cut = x->out[s].eof = true;
		}
	}
	k->next_exec = list.next;
	k->damaged_lines = list.damaged;
	if (r == 0 && (list.damaged || list.is_older))
		keeper_journal_renew(k);
	journal_list_done(&list);
	/* Only now: with any line the list may be written anew, from all that there are. */
	for (size_t i = 0; i < k->exec_count && r == 0; i++) {
		struct keeper_exec *x = k->execs[i];

		if (x->rec.state >= EXEC_DONE)
			continue;
		x->rec.state = EXEC_INTERRUPTED;
		str_copy(x->rec.cause, sizeof(x->rec.cause), "interrupted");
		keeper_exec_journal(x, JOURNAL_END);
	}
	return r < 0 ? err_errno(e, -r, "read the list of commands of box '%s'", k->name) : 0;
}
