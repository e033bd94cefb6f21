/* cove answer: decide a request that waits for a person. */
#include "base/str.h"
#include "cli/door.h"

#include <string.h>

static int run(struct cli *c)
{
	const char *box = c->o.args[0], *word = c->o.args[2];
	bool allow = strcmp(word, "allow") == 0;
	char by[BY_MAX];
	struct cove_error err;
	uint64_t id;
	int r;

	if (!str_parse_u64(c->o.args[1], UINT64_MAX, &id))
		return cli_usage(c, "'%.60s' is no id of a request; `cove asks` lists them",
				 c->o.args[1]);
	if (!allow && strcmp(word, "deny") != 0)
		return cli_usage(c, "'%.60s' is no answer: allow or deny", word);
	r = cli_open(c);
	if (r)
		return r;
	if (cove_answer(c->cove, box, id, allow, c->o.for_ms, door_by(by), &err) < 0)
		return cli_fail(c, &err);
	return cli_done(c, c->o.args[1], allow ? "allowed" : "denied", c->events);
}

static const enum opt_id options[] = {OPT_FOR, OPTS_COMMON, OPT_END};

const struct verb verb_answer = {
	.name = "answer",
	.synopsis = "answer BOX ID allow|deny [--for TIME]",
	.summary = "decide a request that waits",
	.help = "ID is from `cove asks`. The answer is for the requests that wait under it; with\n"
		"--for also for later ones to the same host and port, so long. Who answered is\n"
		"in the record (`cove audit`).\n"
		"\n"
		"Examples\n"
		"  cove answer dev 3 allow\n"
		"  cove answer dev 4 deny --for 1h\n",
	.options = options,
	.command_after = -1,
	.args_min = 3,
	.args_max = 3,
	.run = run,
};
