/* cove doctor: what this host can do, and what to do about the rest. */
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "core/doctor.h"

#include <string.h>

enum { REPORT_MAX = 64 << 10 };

static void print_check(struct buf *b, const struct doctor_check *k)
{
	(void)buf_printf(b, "%-8s %-18s ", doctor_status_name(k->status), k->name);
	(void)str_escape(b, k->found, strlen(k->found));
	if (k->consequence[0]) {
		(void)buf_append_str(b, "\n           ");
		(void)str_escape(b, k->consequence, strlen(k->consequence));
	}
	if (k->remedy[0]) {
		(void)buf_append_str(b, "\n           -> ");
		(void)str_escape(b, k->remedy, strlen(k->remedy));
	}
	(void)buf_append_str(b, "\n");
}

static int print_report(struct cli *c, const struct doctor_report *report, enum doctor_status worst)
{
	static const char *const verdicts[] = {
		[DOCTOR_OK] = "Boxes work here.\n",
		[DOCTOR_LIMITED] = "Boxes work here, with the limits above.\n",
		[DOCTOR_MISSING] = "Boxes do not work here yet; the arrows say what to do.\n",
	};
	struct buf b;
	int r;

	buf_init(&b, REPORT_MAX);
	for (size_t i = 0; i < report->count; i++)
		print_check(&b, &report->checks[i]);
	(void)buf_printf(&b, "\n%s", verdicts[worst]);
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int run(struct cli *c)
{
	struct doctor_report report;
	enum doctor_status worst = doctor_run(NULL, &report);
	autofree char *json = NULL;
	int r;

	if (c->o.json) {
		json = doctor_json(&report);
		r = json ? cli_out_json(c, json) : cli_error(c, COVE_FULL, "out of memory");
	} else {
		r = print_report(c, &report, worst);
	}
	return r ? r : worst == DOCTOR_MISSING ? 1 : 0;
}

static const enum opt_id options[] = {OPT_JSON, OPT_HELP, OPT_END};

const struct verb verb_doctor = {
	.name = "doctor",
	.synopsis = "doctor [--json]",
	.summary = "what this host can do, what is missing",
	.help = "One line per thing a box stands on: ok, limited (boxes work with less) or\n"
		"missing (they do not), with what follows and the remedy. Nothing on the host\n"
		"is changed: what it makes to try something is gone again afterwards.\n"
		"\n"
		"Examples\n"
		"  cove doctor\n"
		"  cove doctor --json | jq '.checks[] | select(.status != \"ok\")'\n"
		"\n"
		"Exit status: 0 if boxes work, 1 if something they need is missing.\n",
	.options = options,
	.command_after = -1,
	.args_min = 0,
	.args_max = 0,
	.run = run,
};
