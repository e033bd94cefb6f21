/*
 * EXEC with a token that the box has seen: the command it named is found, and none is started; see
 * msg_exec.h. The keeper keeps the key of every token (tokens.h), and the token itself with the
 * command's record. A key without a record is of a command that was forgotten.
 */
#include "base/limits.h"
#include "keeper/exec.h"

#include <errno.h>
#include <string.h>

int keeper_token_check(struct keeper *k, const struct wire_exec *m, struct keeper_exec **ret,
		       struct err *e)
{
	struct keeper_exec *x = NULL;

	*ret = NULL;
	if (!m->token)
		return 0;
	if (!token_is_valid(m->token))
		return err_set(e, ERR_INVALID, EINVAL,
			       "a token is 1 to %u printable characters without a space",
			       EXEC_TOKEN_MAX);
	/* It may be one of those that cannot be read any more. */
	if (k->damaged_lines && !tokens_has(&k->tokens, token_key(m->token)))
		return err_set(
			e, ERR_DAMAGED, EBADMSG,
			"the list of commands of box '%s' was damaged, so whether this token "
			"was used is not known; look first, then `cove stop %s`, `cove "
			"start %s`",
			k->name, k->name, k->name);
	if (!tokens_has(&k->tokens, token_key(m->token)))
		return k->tokens.count < KEEPER_TOKENS_MAX
			       ? 0
			       : err_set(e, ERR_LIMIT, ENOSPC,
					 "box '%s' remembers %u tokens and takes no new one: run "
					 "it without, or in a new box",
					 k->name, KEEPER_TOKENS_MAX);
	for (size_t i = k->exec_count; i-- > 0 && !x;)
		if (strcmp(k->execs[i]->rec.token, m->token) == 0)
			x = k->execs[i];
	if (!x)
		return err_set(e, ERR_CONFLICT, ESTALE,
			       "the command with this token was run and is not remembered any "
			       "more; it is not run again");
	if (x->rec.arguments != token_arguments(m))
		return err_set(e, ERR_CONFLICT, EEXIST,
			       "command %u has this token and other arguments", x->rec.exec_id);
	*ret = x;
	return 0;
}

void keeper_exec_repeat(struct keeper_client *c, uint32_t id, struct keeper_exec *x,
			const struct wire_exec *m)
{
	const struct wire_started started = {.exec_id = x->rec.exec_id, .pid = x->rec.pid};
	const struct wire_queued queued = {.exec_id = x->rec.exec_id};
	struct keeper_follow *f = keeper_follow_new(c, id, x, m->inline_max);
	bool over = !x->run || x->run->state == RUN_EXITED;
	struct err e;

	if (!f) {
		keeper_client_fail_with(c, id, ERR_FULL, "no memory");
		return;
	}
	f->stays = true;
	f->mute = m->background != 0;
	f->paces_init = !f->mute;
	/* What the command got of its input is skipped; the rest comes from this client. */
	if (m->has_stdin && !over && x->run->input.open && !x->run->input.end_waiting) {
		if (keeper_input_attach(f, &e) < 0) {
			keeper_follow_free(f);
			keeper_client_fail(c, id, &e);
			return;
		}
		f->skip = x->run->input.received;
	}
	f->starter = !over && x->run->state < RUN_STARTED;
	if (!f->starter)
		keeper_client_sent(c, wire_started_encode(&c->link.out, id, 0, &started));
	else if (x->run->state == RUN_QUEUED)
		keeper_client_sent(c, wire_queued_encode(&c->link.out, id, 0, &queued));
	for (unsigned s = 0; over && s < OUTPUT_COUNT; s++)
		f->s[s].end = x->out[s].bytes;
	/* In the background the answer is complete, unless input is still to come. */
	if (f->mute && (over || (x->run->state != RUN_ASKED && x->run->input.feeder != f)))
		keeper_follow_free(f);
	else
		keeper_follow_serve(f);
}
