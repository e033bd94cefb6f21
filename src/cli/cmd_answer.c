/* cove answer: decide a request that waits for a person. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/door.h"
#include "cli/request.h"

#include <string.h>

enum { ANSWER_MAX = 128 << 10 };

static int print_json(struct cli *c, const char *result, const char *scope)
{
	struct buf b;
	int r;

	buf_init(&b, ANSWER_MAX);
	r = buf_printf(&b, "{\"name\":\"%s\",\"result\":\"%s\",\"for_ms\":%llu,\"scope\":%s}\n",
		       c->o.args[1], result, (unsigned long long)c->o.for_ms,
		       scope ? scope : "null");
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the request is too long to print")
		  : cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int print_text(struct cli *c, const char *result, const char *scope)
{
	struct buf b;
	int r;

	buf_init(&b, ANSWER_MAX);
	r = door_answer_text(&b, result, c->o.for_ms, scope);
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the request is too long to print")
		  : cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int run(struct cli *c)
{
	const char *box = c->o.args[0], *word = c->o.args[2];
	char by[BY_MAX];
	struct cove_answer answer = {.size = sizeof(answer),
				     .allow = strcmp(word, "allow") == 0,
				     .for_ms = c->o.for_ms,
				     .by = door_by(by)};
	autofree char *scope = NULL;
	struct cove_error err;
	int r;

	if (!str_parse_u64(c->o.args[1], UINT64_MAX, &answer.id))
		return cli_usage(c, "'%.60s' is no id of a request; `cove asks` lists them",
				 c->o.args[1]);
	if (!answer.allow && strcmp(word, "deny") != 0)
		return cli_usage(c, "'%.60s' is no answer: allow or deny", word);
	r = cli_open(c);
	if (r)
		return r;
	if (cove_answer(c->cove, box, &answer, &scope, &err) < 0)
		return cli_fail(c, &err);
	word = answer.allow ? "allowed" : "denied";
	return (c->o.json ? print_json : print_text)(c, word, scope);
}

static const enum opt_id options[] = {OPT_FOR, OPTS_COMMON, OPT_END};

const struct verb verb_answer = {
	.name = "answer",
	.synopsis = "answer BOX ID allow|deny [--for TIME]",
	.summary = "decide a request that waits",
	.help = "ID is from `cove asks`. The answer is for the requests that wait under it; with\n"
		"--for also for later ones of the same method and path, with any query, so long\n"
		"(for connections to the same host and port where the door does not look\n"
		"inside). What it let in is cut when that time is over. What was decided is\n"
		"printed; who answered is in the audit log (`cove audit`).\n"
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
