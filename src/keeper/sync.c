/*
 * The start of a command with a token is on the disk before init hears of it: whoever repeats the
 * request must find it, whatever happens meanwhile. A sync may take long, so a child makes it while
 * the loop goes on; one at a time, for all lines that were written before it began. What is sent to
 * the command meanwhile waits in its buffer, and where that is much, so does its sender: all of it
 * goes to init at once.
 */
#include "base/child.h"
#include "base/fd.h"
#include "base/limits.h"
#include "keeper/exec.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends all that waited for this sync, and begins the next. */
static void end_sync(struct keeper *k, int r)
{
	k->syncing = false;
	if (r == 0)
		k->journal.fresh = false;
	for (size_t i = k->exec_count; i-- > 0;)
		if (k->execs[i]->run && k->execs[i]->run->sync == SYNC_RUNS)
			keeper_exec_synced(k->execs[i], r);
	for (struct keeper_client *c = k->clients; c; c = c->next)
		keeper_gate_synced(&c->gate);
	keeper_sync_begin(k);
}

void keeper_exec_wait(const struct keeper_exec *x, struct keeper_gate *g)
{
	const struct keeper *k = x->k;
	size_t held = 0;

	keeper_gate_pause_link(g);
	if (!x->run || x->run->sync == SYNC_NONE)
		return;
	for (size_t i = 0; i < k->exec_count; i++)
		held += k->execs[i]->run ? buf_len(&k->execs[i]->run->unsynced) : 0;
	if (held > KEEPER_INIT_QUEUE)
		keeper_gate_pause_for_sync(g);
}

static void on_synced(struct ev_child *c, int status)
{
	end_sync(container(c, struct keeper, syncer),
		 WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO);
}

/* In the child: nothing else of the keeper's stays open in it. */
static int sync_alone(struct keeper *k)
{
	const int keep[] = {k->journal.fd, k->logs.dir_fd, k->logs.box_fd};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)child_close_but(3, keep, sizeof(keep) / sizeof(keep[0]));
	return journal_sync(&k->journal, k->logs.dir_fd, k->logs.box_fd);
}

void keeper_sync_begin(struct keeper *k)
{
	bool wanted = false;
	pid_t pid;

	for (size_t i = 0; i < k->exec_count && !k->syncing; i++) {
		struct keeper_run *run = k->execs[i]->run;

		if (!run || run->sync != SYNC_WAITS)
			continue;
		run->sync = SYNC_RUNS;
		wanted = true;
	}
	if (!wanted)
		return;
	k->syncing = true;
	k->syncer.on_exit = on_synced;
	pid = fork();
	if (pid == 0)
		_exit(-sync_alone(k));
	if (pid > 0 && ev_child_add(k->ev, &k->syncer, pid, -1) == 0)
		return;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	end_sync(k, journal_sync(&k->journal, k->logs.dir_fd, k->logs.box_fd));
}

void keeper_sync_done(struct keeper *k)
{
	if (!k->syncing)
		return;
	waitpid(k->syncer.pid, NULL, 0);
	ev_child_remove(k->ev, &k->syncer);
	k->syncing = false;
}
