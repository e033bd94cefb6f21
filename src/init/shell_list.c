/*
 * Persistent shells as a list, and the end of one that is asked for; see shell.c.
 *
 * A shell that is to go ends its lines first: those that wait are ended as if they had been killed,
 * the one that runs is stopped by force. Its process is ended when it has no line any more
 * (shell_next), and that is the answer. A line that comes meanwhile waits and starts a new one.
 * Jobs that earlier lines left in the background live on, as after `exit`.
 */
#include "init/shell.h"

#include "base/fd.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static void answer_ok(struct init *in, uint32_t id)
{
	if (wire_encode(&in->link.out, WIRE_OK, 0, id, NULL, 0) < 0)
		init_broken(in, "no room for an answer");
	wire_link_flush(&in->link);
}

static const char *state_of(const struct shell *sh)
{
	if (sh->current)
		return "busy";
	if (sh->first || shell_is_starting(sh))
		return "starting";
	return sh->alive ? "idle" : "lost";
}

static void list_shells(struct shell_table *t, uint32_t id)
{
	struct init *in = t->in;
	int r = 0;

	for (const struct shell *sh = t->shells; sh && r == 0; sh = sh->next) {
		autofree char *cwd = sh->alive ? shell_cwd(sh) : NULL;
		struct wire_shell m = {
			.name = sh->name,
			.user = sh->user.name,
			.state = state_of(sh),
			.cwd = cwd,
			.pid = sh->alive ? (uint64_t)sh->proc.pid : 0,
			.exec_id = sh->current ? sh->current->job.id : 0,
			.queued = sh->queued,
			.login = sh->login,
		};

		r = wire_shell_encode(&in->link.out, id, 0, &m);
	}
	if (r < 0)
		init_fail(in, id, -r, "list the shells");
	else
		answer_ok(in, id);
}

/* shell_next calls it when no line runs in the shell. */
void shell_remove_if_asked(struct shell *sh)
{
	uint32_t id = sh->remove_id;

	if (id == 0 || sh->current)
		return;
	sh->remove_id = 0;
	sh->lost = false;
	shell_drop(sh);
	answer_ok(sh->table->in, id);
}

static int check_removal(const struct shell *sh, const struct wire_shell *m, struct err *e)
{
	bool force = m->remove > 1;

	if (!sh && !force)
		return err_set(e, ERR_NOT_FOUND, ENOENT, "this box has no shell '%.80s'",
			       m->name ? m->name : "");
	if (sh && !force && (sh->current || sh->first))
		return err_set(e, ERR_CONFLICT, EBUSY,
			       "shell '%s' has lines that run or wait: wait for them, or end them "
			       "with it (-f)",
			       sh->name);
	return 0;
}

static void remove_shell(struct shell_table *t, uint32_t id, const struct wire_shell *m)
{
	struct shell *sh = t->shells;
	struct err e;

	while (sh && (!m->name || strcmp(sh->name, m->name) != 0))
		sh = sh->next;
	if (check_removal(sh, m, &e) < 0) {
		init_fail_err(t->in, id, &e);
		return;
	}
	if (!sh || sh->remove_id) { /* it is gone, or somebody else's request ends it */
		answer_ok(t->in, id);
		return;
	}
	sh->remove_id = id;
	while (sh->first)
		line_end_waiting(sh->first, SIGKILL);
	if (sh->current && sh->current->job.state < JOB_ENDED)
		line_stop(&sh->current->job, SIGKILL, true);
	shell_next(sh); /* which may free it */
}

void shell_ask(struct init *in, uint32_t id, const struct wire_shell *m)
{
	if (m->remove)
		remove_shell(in->shells, id, m);
	else
		list_shells(in->shells, id);
}
