/* cove answer: decide a request that waits for a person. */
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/door.h"
#include "cli/request.h"

#include <errno.h>
#include <string.h>

enum { ANSWER_MAX = 128 << 10 };

/* What is printed: the object of what was answered, or a sentence. */
struct answered {
	struct cli *c;
	const char *result;
	struct buf *text;
	bool is_made;
	int error;
};

static bool on_scope(void *arg, const struct cove_ask *scope)
{
	struct answered *a = arg;
	const struct options *o = &a->c->o;
	autofree char *json = NULL;

	a->is_made = true;
	if (!o->json) {
		a->error = door_answer_text(a->text, a->result, o->for_ms, scope);
		return true;
	}
	json = scope ? cove_ask_json(scope) : NULL;
	a->error = scope && !json ? -ENOMEM
				  : buf_printf(a->text,
					       "{\"name\":\"%s\",\"result\":\"%s\",\"for_ms\":%llu,"
					       "\"scope\":%s}\n",
					       o->args[1], a->result, (unsigned long long)o->for_ms,
					       json ? json : "null");
	return true;
}

static int run(struct cli *c)
{
	const char *box = c->o.args[0], *word = c->o.args[2];
	char by[BY_MAX];
	struct cove_answer answer = {.size = sizeof(answer),
				     .allow = strcmp(word, "allow") == 0,
				     .for_ms = c->o.for_ms,
				     .by = door_by(by)};
	struct buf text;
	struct answered answered = {
		.c = c, .result = answer.allow ? "allowed" : "denied", .text = &text};
	struct cove_error err;
	int r;

	if (!str_parse_u64(c->o.args[1], UINT64_MAX, &answer.id))
		return cli_usage(c, "'%.60s' is no id of a request; `cove asks` lists them",
				 c->o.args[1]);
	if (!answer.allow && strcmp(word, "deny") != 0)
		return cli_usage(c, "'%.60s' is no answer: allow or deny", word);
	buf_init(&text, ANSWER_MAX);
	if (cove_answer(c->cove, box, &answer, on_scope, &answered, &err) < 0) {
		buf_done(&text);
		return cli_fail(c, &err);
	}
	/* A door that does not say what it was about. */
	if (!answered.is_made)
		(void)on_scope(&answered, NULL);
	r = answered.error < 0 ? cli_error(c, COVE_LIMIT, "the request is too long to print")
			       : cli_out_buf(c, &text);
	buf_done(&text);
	return r;
}

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
	.options = (const enum opt_id[]){OPT_FOR, OPTS_COMMON, OPT_END},
	.args = {3, 3},
	.run = run,
};
