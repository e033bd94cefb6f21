/* cove system reap: one pass of what a server does all the time. */
#include "cli/list.h"
#include "cli/port.h"

#include <string.h>

struct reaped {
	struct cli *c;
	struct json *j;	    /* NULL: lines */
	struct buf started; /* names, each with its NUL */
	int status;
};

static void on_action(void *arg, const char *action, const char *box, const char *cause)
{
	struct reaped *d = arg;

	/* Nothing that failed was started; one that does not fit is in no list of ports. */
	if (strcmp(action, "started") == 0)
		(void)buf_append(&d->started, box, strlen(box) + 1);
	if (!d->j) {
		if (!d->c->o.quiet)
			cli_note("box '%s' %s: %s", box, action, cause);
		return;
	}
	json_object_begin(d->j);
	json_kv_str(d->j, "action", action);
	json_kv_str(d->j, "box", box);
	json_kv_str(d->j, "cause", cause);
	json_object_end(d->j);
}

static void put_counts(struct json *j, const struct cove_reaped *r)
{
	json_kv_u64(j, "ended", r->ended);
	json_kv_u64(j, "removed", r->removed);
	json_kv_u64(j, "started", r->started);
	json_kv_u64(j, "failed", r->failed);
	json_kv_u64(j, "next_ms", r->next_ms);
}

static int reap(struct cli *c)
{
	struct reaped d = {.c = c};
	const struct cove_reap_options options = {
		.size = sizeof(options), .sweep = true, .on_action = on_action, .arg = &d};
	struct cove_reaped done = {0};
	struct cove_error err;
	struct cli_object o;
	int r;

	buf_init(&d.started, 64 << 10);
	if (c->o.json) {
		d.j = cli_object_begin(&o);
		json_key(d.j, "actions");
		json_array_begin(d.j);
	}
	r = cove_reap(c->cove, &options, &done, &err);
	if (r < 0)
		d.status = cli_broken(c, &err);
	if (d.j) {
		json_array_end(d.j);
		put_counts(d.j, &done);
	}
	if (d.j && r < 0)
		buf_done(&o.text);
	else if (d.j)
		d.status = cli_object_end(c, &o);
	for (size_t at = 0; at < buf_len(&d.started) && d.status == 0;) {
		const char *name = (const char *)buf_data(&d.started) + at;

		d.status = port_restore(c, name, false);
		at += strlen(name) + 1;
	}
	buf_done(&d.started);
	return d.status || !done.failed ? d.status : EXIT_COVE;
}

const struct verb verb_system_reap = {
	.name = "system reap",
	.synopsis = "system reap",
	.summary = "what time and crashes left to be done, once",
	.help = "Boxes whose keeper is gone get their end written; those that do not run, whose\n"
		"--ttl is over, are removed where --expire says so; those whose --restart says so\n"
		"are started, with the ports that were forwarded in the background. What crashes\n"
		"left is deleted. A server does this all the time; without one it is for cron or\n"
		"a timer. A box that dies again and again is started after a second, then two,\n"
		"four, and so on up to a minute. next_ms (--json): so long until there may be\n"
		"something to do again; 0: there is more. The exit status is 125 where a box\n"
		"could not be started or removed.\n"
		"\n"
		"Examples\n"
		"  cove system reap\n"
		"  * * * * *  cove system reap -q          # in a crontab, and once @reboot\n",
	.options = (const enum opt_id[]){OPT_QUIET, OPTS_COMMON, OPT_END},
	.run = reap,
};
