/* What the verbs of the network share; see door.h. */
#include "cli/door.h"

#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The environment is anybody's: only what a name is made of is kept of it. */
static void add_word(char ret[BY_MAX], const char *what, const char *name)
{
	const char *value = getenv(name);
	size_t len = strlen(ret);

	if (!value || !*value)
		return;
	snprintf(ret + len, BY_MAX - len, ", %s %.24s", what, value);
	for (char *p = ret + len + strlen(what) + 3; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			*p = '?';
}

const char *door_by(char ret[BY_MAX])
{
	snprintf(ret, BY_MAX, "uid %u", (unsigned)getuid());
	add_word(ret, "sudo by uid", "SUDO_UID");
	add_word(ret, "user", "USER");
	return ret;
}

void door_say_cut(struct cli *c, uint64_t cut)
{
	if (cut && !c->o.json)
		cli_note("%llu open connection%s cut", (unsigned long long)cut,
			 cut == 1 ? " was" : "s were");
}

int door_done(struct cli *c, const char *name, const char *result, const char *key, uint64_t n)
{
	struct cli_object o;
	struct json *j;

	if (!c->o.json)
		return cli_done(c, name, result, c->events);
	j = cli_object_begin(&o);
	json_kv_str(j, "name", name);
	json_kv_str(j, "result", result);
	json_kv_u64(j, key, n);
	return cli_object_end(c, &o);
}

int door_grant(struct cli *c, bool allow)
{
	char by[BY_MAX];
	struct cove_grant grant = {.size = sizeof(grant),
				   .allow = allow,
				   .once = c->o.once,
				   .for_ms = c->o.for_ms,
				   .by = door_by(by)};
	const char *box = c->o.args[0];
	struct cove_error err;
	int status = 0;

	if (c->o.once && c->o.given[OPT_FOR])
		return cli_usage(c, "--once and --for exclude each other");
	if (c->o.given[OPT_FOR] && c->o.for_ms == 0)
		return cli_usage(c,
				 "--for 0 is no time; leave it out for as long as the box lives");
	for (size_t i = 1; i < c->o.arg_count && status == 0; i++) {
		uint64_t cut = 0;

		grant.pattern = c->o.args[i];
		if (cove_grant(c->cove, box, &grant, &cut, &err) < 0)
			return cli_fail(c, &err);
		door_say_cut(c, cut);
		status = door_done(c, grant.pattern, allow ? "allowed" : "denied", "cut", cut);
	}
	return status;
}
