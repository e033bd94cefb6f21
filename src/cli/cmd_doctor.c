/*
 * cove doctor: what this host can do, what is therefore kept and what not, and how to get the rest.
 *
 * One line per check, grouped and aligned for one screen; what needs doing has an arrow below it.
 * Marks and colours are for terminals that can show them.
 */
#include "base/fd.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "cli/term.h"
#include "doctor/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { REPORT_MAX = 128 << 10, NAME_WIDTH = 17, TEST_WIDTH = 33, TEXT_MIN = 40 };

enum mark { MARK_GOOD, MARK_NONE, MARK_LESS, MARK_BAD };

struct page {
	struct buf b;
	bool utf8, colour;
	size_t width; /* of a line; 0: not cut */
};

/* What the terminal's locale says: the first of these that is set decides. */
static bool is_utf8(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "UTF-8") || strcasestr(value, "utf8");
	}
	return false;
}

static bool wants_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

static void put_mark(struct page *p, enum mark mark)
{
	static const char *const nice[] = {"✓", "·", "!", "✗"};
	static const char *const plain[] = {"ok", "- ", "! ", "NO"};
	static const char *const colours[] = {"\033[32m", "\033[2m", "\033[33m", "\033[31m"};

	(void)buf_printf(&p->b, "  %s%s%s ", p->colour ? colours[mark] : "",
			 p->utf8 ? nice[mark] : plain[mark], p->colour ? "\033[0m" : "");
}

/* Text that may hold a path: nothing in it can break the line. Cut to the terminal. */
static void put_text(struct page *p, const char *text, size_t before)
{
	size_t len = strlen(text), room = p->width > before ? p->width - before : 0;

	if (p->width > 0 && room >= TEXT_MIN) {
		while (len > 0 && text_width(text, len) > room)
			len--;
	}
	(void)str_escape(&p->b, text, len);
	(void)buf_append_str(&p->b, "\n");
}

static void put_title(struct page *p, const char *title)
{
	(void)buf_printf(&p->b, "%s%s%s\n", p->colour ? "\033[1m" : "", title,
			 p->colour ? "\033[0m" : "");
}

/* Are both there because of the same thing? Then one arrow is enough. */
static bool is_alike(const struct doctor_check *a, const struct doctor_check *b)
{
	return a->group == b->group && b->status >= DOCTOR_LIMITED &&
	       strcmp(a->remedy, b->remedy) == 0;
}

/* before and after are its neighbours, or NULL. */
static void put_check(struct page *p, const struct doctor_check *k,
		      const struct doctor_check *before, const struct doctor_check *after)
{
	bool again = k->status >= DOCTOR_LIMITED && before && is_alike(k, before) &&
		     strcmp(k->found, before->found) == 0;
	static const enum mark marks[] = {MARK_GOOD, MARK_NONE, MARK_LESS, MARK_BAD};
	char name[32];

	snprintf(name, sizeof(name), "%s", k->name);
	for (char *at = name; *at; at++)
		*at = *at == '_' ? ' ' : *at;
	put_mark(p, marks[k->status]);
	(void)buf_printf(&p->b, "%-*s", NAME_WIDTH, name);
	put_text(p, again ? k->consequence : k->found, 5 + NAME_WIDTH);
	if (k->status < DOCTOR_LIMITED)
		return;
	if (!again) {
		(void)buf_append_str(&p->b, "      ");
		put_text(p, k->consequence, 6);
	}
	/* Never cut: a remedy is there to be copied. */
	if (!after || !is_alike(k, after)) {
		(void)buf_printf(&p->b, "      %s ", p->utf8 ? "→" : "->");
		(void)str_escape(&p->b, k->remedy, strlen(k->remedy));
		(void)buf_append_str(&p->b, "\n");
	}
}

static void put_checks(struct page *p, const struct doctor_report *report)
{
	static const char *const titles[] = {"This host", "Walls", "Limits", "Other walls"};

	for (int group = 0; group < DOCTOR_GROUP_COUNT; group++) {
		put_title(p, titles[group]);
		for (size_t i = 0; i < report->count; i++) {
			const struct doctor_check *k = &report->checks[i];

			if (k->group == (enum doctor_group)group)
				put_check(p, k, i > 0 ? k - 1 : NULL,
					  i + 1 < report->count ? k + 1 : NULL);
		}
	}
}

static void put_tests(struct page *p, const struct doctor_report *report)
{
	static const enum mark marks[] = {MARK_GOOD, MARK_NONE, MARK_BAD};

	put_title(p, "Tried in a box");
	for (size_t i = 0; i < report->test_count; i++) {
		const struct doctor_test *t = &report->tests[i];

		put_mark(p, marks[t->verdict]);
		(void)buf_printf(&p->b, "%-*s", TEST_WIDTH, t->name);
		put_text(p, t->saw, 5 + TEST_WIDTH);
	}
	if (report->not_tested[0]) {
		put_mark(p, MARK_NONE);
		put_text(p, report->not_tested, 5);
	}
}

/* The limits by name, those that hold and those that do not. */
static void put_limits(struct page *p, const struct doctor_report *report)
{
	static const char always[] = "open files, command timeout, ttl, idle";

	for (int kept = 1; kept >= 0; kept--) {
		bool any = false;

		(void)buf_append_str(&p->b, kept ? "Kept here:" : "");
		for (size_t i = 0; i < report->count; i++) {
			const struct doctor_check *k = &report->checks[i];

			if (k->group != DOCTOR_LIMITS || strcmp(k->name, "tmpfs") == 0 ||
			    strcmp(k->name, "pool") == 0 || strcmp(k->name, "cgroup") == 0 ||
			    (k->status == DOCTOR_OK) != kept)
				continue;
			(void)buf_printf(&p->b, "%s %s", any || kept ? "" : "Not kept:", k->name);
			(void)buf_append_str(&p->b, ",");
			any = true;
		}
		if (kept)
			(void)buf_printf(&p->b, " %s\n", always);
		else if (any)
			p->b.data[p->b.start + p->b.len - 1] = '\n';
	}
}

static const char *verdict(const struct doctor_report *report)
{
	if (!report->can_run)
		return "Boxes do not work here yet; the arrows say what to do.";
	if (doctor_has_failed(report))
		return "Boxes run here, but not everything that was tried in one held.";
	for (size_t i = 0; i < report->count; i++)
		if (strcmp(report->checks[i].name, "door") == 0 &&
		    report->checks[i].status != DOCTOR_OK)
			return "Boxes run here only without a network (--net closed): the door is "
			       "missing.";
	return report->worst == DOCTOR_LIMITED ? "Boxes work here, with the limits above."
					       : "Boxes work here.";
}

static int print_report(struct cli *c, const struct doctor_report *report)
{
	struct page p = {.utf8 = is_utf8(), .colour = wants_colour()};
	unsigned rows, cols;
	int r;

	if (term_size(STDOUT_FILENO, &rows, &cols))
		p.width = cols;
	buf_init(&p.b, REPORT_MAX);
	put_checks(&p, report);
	put_tests(&p, report);
	(void)buf_append_str(&p.b, "\n");
	put_limits(&p, report);
	(void)buf_printf(&p.b, "%s\n", verdict(report));
	r = cli_out_buf(c, &p.b);
	buf_done(&p.b);
	return r;
}

/* Of the pool, instead of a report. */
static int run_storage(struct cli *c)
{
	uint64_t bytes = c->o.pool_bytes;
	char said[DOCTOR_SAID] = "", line[DOCTOR_SAID + 16];
	struct err e = {0};
	int r, n;

	if (c->o.setup_storage && c->o.remove_storage)
		return cli_usage(c, "--setup-storage and --remove-storage: one of them");
	r = c->o.remove_storage
		    ? doctor_storage_remove(NULL, said, &e)
		    : doctor_storage_setup(NULL, bytes == UINT64_MAX ? 0 : bytes, said, &e);
	if (r < 0)
		return cli_error(c, (enum cove_error_kind)e.kind, "%s", e.msg);
	n = snprintf(line, sizeof(line), c->o.json ? "{\"said\":\"%s\"}\n" : "%s\n", said);
	return cli_out(c, line, (size_t)n);
}

static int run(struct cli *c)
{
	struct doctor_report *report = calloc(1, sizeof(*report));
	autofree char *json = NULL;
	int r;

	if (c->o.setup_storage || c->o.remove_storage) {
		free(report);
		return run_storage(c);
	}
	if (c->o.given[OPT_POOL_SIZE]) {
		free(report);
		return cli_usage(c, "--size is of --setup-storage");
	}
	if (!report)
		return cli_error(c, COVE_FULL, "out of memory");
	doctor_run(NULL, !c->o.no_test, report);
	if (c->o.json) {
		json = doctor_json(report);
		r = json ? cli_out_json(c, json) : cli_error(c, COVE_FULL, "out of memory");
	} else {
		r = print_report(c, report);
	}
	if (r == 0)
		r = !report->can_run ? EXIT_COVE : doctor_has_failed(report) ? 1 : 0;
	free(report);
	return r;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.here = true,
	.synopsis = "doctor [--no-test|--setup-storage [--size SIZE]|--remove-storage] [--json]",
	.summary = "what this host can do, what is missing",
	.help = "One line per thing a box stands on: fine, limited (boxes work with less) or\n"
		"missing (they do not), with what follows and the remedy. Then a small box is\n"
		"started and its walls and limits are tried from within; --no-test leaves that\n"
		"out. Nothing on the host is changed: what is made to try something is gone\n"
		"again afterwards.\n"
		"\n"
		"--setup-storage makes the pool, once: a btrfs (COVE_HOME's own, or one in the\n"
		"sparse file pool.img) that holds the writes of every new box. Boxes start sooner\n"
		"and are snapshotted at once. --remove-storage takes it away again.\n"
		"\n"
		"Examples\n"
		"  cove doctor\n"
		"  cove doctor --setup-storage --size 40G\n"
		"  cove doctor --json | jq '.checks[] | select(.status == \"limited\")'\n"
		"\n"
		"Exit status: 0 if boxes work, also with less; 1 if something that was tried in a\n"
		"box did not hold; 125 if no box can run here.\n",
	.options = (const enum opt_id[]){OPT_NO_TEST, OPT_SETUP_STORAGE, OPT_POOL_SIZE,
					 OPT_REMOVE_STORAGE, OPT_JSON, OPT_HELP, OPT_END},
	.no_home = true,
	.run = run,
};
