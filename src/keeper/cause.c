/* Why a command ended, and the limit it met: what init says of it, as far as we believe it. */
#include "keeper/exec.h"

#include <string.h>

const char *keeper_exec_cause(const struct keeper_exec *x, const struct exec_record *m)
{
	static const char *const known[] = {"exit", "signal", "timeout", "oom",
					    "pids", "disk",   "killed",	 "interrupted"};

	if (x->k->end_cause && !m->timed_out && (m->signal || x->run->told_to_end))
		return x->k->end_cause;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcmp(m->cause, known[i]) == 0)
			return known[i];
	return m->has_exit ? "exit" : "signal";
}

uint64_t keeper_exec_limit(const struct keeper_exec *x)
{
	const char *limit = exec_limit(&x->rec);

	if (x->rec.timed_out)
		return x->run->given_ms;
	return limit && x->k->limit_of ? x->k->limit_of(x->k, limit) : 0;
}
