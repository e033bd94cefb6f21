/*
 * cove audit: what boxes did at their doors, and keeping that log.
 *
 * Rows are printed as they are read, in columns of a fixed width, because there may be any number
 * of them and with -f they never end.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/door.h"
#include "cli/list.h"
#include "cli/request.h"
#include "cli/signals.h"
#include "cli/term.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	LINE_MAX_BYTES = 64 << 10,
	TEXT_MAX = 2048,
	DAY_MS = 86400000,
	TIME_WIDTH = 11,
	BOX_WIDTH = 16,
	VERDICT_WIDTH = 7,
	HASH_SHOWN = 12,
	WHAT_LEAST = 20,
};

struct rows_reading {
	struct cli *c;
	struct list_rows json;
	size_t columns; /* of the terminal, 0: there is none */
	bool titled;
	int status;
};

/* Of today's the time of day; of others the day, and of other years the year. */
static const char *wall_time(char ret[24], uint64_t ms)
{
	time_t s = (time_t)(ms / 1000), now = time(NULL);
	struct tm tm, today;
	size_t n;

	if (!localtime_r(&s, &tm) || !localtime_r(&now, &today))
		return "";
	if (tm.tm_year != today.tm_year)
		n = strftime(ret, 24, "%Y-%m-%d", &tm);
	else if (tm.tm_yday != today.tm_yday)
		n = strftime(ret, 24, "%m-%d %H:%M", &tm);
	else
		n = strftime(ret, 24, "%H:%M:%S", &tm);
	ret[n] = 0;
	return ret;
}

/* A cell made safe to show, at least so wide; cut: no wider. */
static void put(struct buf *b, const char *text, size_t width, bool cut)
{
	size_t before = buf_len(b), used;

	(void)str_escape(b, *text ? text : "-", strlen(*text ? text : "-"));
	used = text_width((const char *)buf_data(b) + before, buf_len(b) - before);
	if (cut && used > width) {
		used = width;
		b->len = before + text_wrap((const char *)buf_data(b) + before, buf_len(b) - before,
					    width - 1);
		(void)buf_append_str(b, "…");
	}
	(void)buf_printf(b, "%*s", (int)((used < width ? width - used : 0) + 2), "");
}

/* What does not fit the line goes on in the next, below its own beginning: nothing is lost. */
static void put_wrapped(struct buf *b, const char *text, size_t indent, size_t columns)
{
	size_t room = columns > indent + WHAT_LEAST ? columns - indent : 0, n;

	for (size_t left = strlen(text); left > 0; left -= n, text += n) {
		n = text_wrap(text, left, room);
		(void)buf_append(b, text, n);
		(void)buf_append_str(b, "\n");
		if (n < left) {
			n += text[n] == ' ';
			(void)buf_printf(b, "%*s", (int)indent, "");
		}
	}
}

static void put_text(struct buf *b, const char *before, const char *text)
{
	(void)buf_append_str(b, before);
	(void)str_escape(b, text, strlen(text));
}

/* Without what the row begins with already, and no more of a hash than tells it from others. */
static void put_reason(struct buf *b, const struct cove_audit_row *row)
{
	static const char hash[] = "sha256:";
	const char *reason = row->reason;
	char about[352];
	size_t n;

	snprintf(about, sizeof(about), "%s port %" PRIu64, row->host ? row->host : "", row->port);
	if (row->host && str_starts(reason, about)) {
		reason += strlen(about);
		reason += strspn(reason, ": ");
	}
	n = strlen(reason);
	if (str_starts(reason, hash) && n > strlen(hash) + HASH_SHOWN)
		n = strlen(hash) + HASH_SHOWN;
	(void)buf_append_str(b, ": ");
	(void)str_escape(b, reason, n);
}

/* What it was about, in one text: the request, or what happened to the policy or the door. */
static void put_what(struct buf *b, const struct cove_audit_row *row)
{
	const struct cove_ask request = {
		.host = row->host, .port = row->port, .method = row->method, .path = row->path};
	const char *kind = row->kind;
	char text[TEXT_MAX], up[SIZE_TEXT], down[SIZE_TEXT];

	door_request(&request, text, sizeof(text));
	if (!text[0] || (strcmp(kind, "connect") != 0 && strcmp(kind, "request") != 0 &&
			 (!row->verdict || strcmp(kind, row->verdict) != 0)))
		(void)buf_printf(b, "%s%s", kind, text[0] ? " " : "");
	(void)str_escape(b, text, strlen(text));
	if (row->count)
		(void)buf_printf(b, " x%" PRIu64, row->count);
	if (row->status)
		(void)buf_printf(b, " -> %" PRIu64, row->status);
	if (row->bytes_up || row->bytes_down)
		(void)buf_printf(b, ", %s up, %s down", size_format(up, row->bytes_up),
				 size_format(down, row->bytes_down));
	/* One without a name of its own is called "rule 1". */
	if (row->rule)
		put_text(b,
			 strcmp(kind, "policy") == 0	  ? " "
			 : str_starts(row->rule, "rule ") ? ", "
							  : ", rule ",
			 row->rule);
	if (row->credential)
		put_text(b, ", with ", row->credential);
	if (row->by)
		put_text(b, ", by ", row->by);
	if (row->reason)
		put_reason(b, row);
}

/* Once, before the first row. */
static void put_titles(struct rows_reading *r, struct buf *b)
{
	bool cut = r->columns > 0;

	if (r->titled)
		return;
	put(b, "TIME", TIME_WIDTH, cut);
	if (r->c->o.arg_count == 0)
		put(b, "BOX", BOX_WIDTH, cut);
	put(b, "VERDICT", VERDICT_WIDTH, cut);
	(void)buf_append_str(b, "WHAT\n");
	r->titled = true;
}

/* The box only where there may be several. What is long comes last, so that it begins within the
 * narrowest terminal. */
static void put_row(struct rows_reading *r, const struct cove_audit_row *row, struct buf *b)
{
	bool all_boxes = r->c->o.arg_count == 0, cut = r->columns > 0;
	size_t indent = TIME_WIDTH + 2 + (all_boxes ? BOX_WIDTH + 2 : 0) + VERDICT_WIDTH + 2;
	struct buf what;
	char time[24];

	put_titles(r, b);
	put(b, wall_time(time, row->time_ms), TIME_WIDTH, cut);
	if (all_boxes)
		put(b, row->box, BOX_WIDTH, cut);
	put(b, row->verdict ? row->verdict : "", VERDICT_WIDTH, cut);
	buf_init(&what, LINE_MAX_BYTES);
	put_what(&what, row);
	put_wrapped(b, buf_len(&what) ? buf_cstr(&what) : "-", indent, r->columns);
	buf_done(&what);
}

/* Without a row: only asked whether to go on. */
static bool on_row(void *arg, const struct cove_audit_row *row)
{
	struct rows_reading *r = arg;
	int sig = signals_next_end();
	autofree char *json = NULL;
	struct buf b;

	if (sig)
		r->status = EXIT_SIGNAL + sig;
	if (r->status)
		return false;
	if (!row)
		return true;
	buf_init(&b, LINE_MAX_BYTES);
	if (r->c->o.json) {
		json = cove_audit_row_json(row);
		r->status = json ? list_rows_add(&r->json, json)
				 : cli_error(r->c, COVE_FULL, "out of memory");
	} else {
		put_row(r, row, &b);
	}
	if (r->status == 0)
		r->status = cli_out_buf(r->c, &b);
	buf_done(&b);
	return r->status == 0;
}

static int say_empty(struct rows_reading *r)
{
	struct buf b;
	int status;

	buf_init(&b, LINE_MAX_BYTES);
	put_titles(r, &b);
	status = cli_out_buf(r->c, &b);
	buf_done(&b);
	cli_note("no rows; every use of a door writes one");
	return status;
}

static int show(struct cli *c)
{
	uint64_t now = clock_wall_ms();
	struct cove_audit_options options = {
		.size = sizeof(options),
		.box = c->o.arg_count ? c->o.args[0] : NULL,
		.denied_only = c->o.denied,
		.follow = c->o.follow,
		.since_ms = c->o.given[OPT_SINCE] && c->o.since_ms < now ? now - c->o.since_ms : 0,
	};
	struct rows_reading reading = {.c = c, .json = {.c = c, .as_lines = c->o.follow}};
	struct cove_error err;
	unsigned lines, columns;
	int r;

	if (term_size(STDOUT_FILENO, &lines, &columns))
		reading.columns = columns;
	if (c->o.arg_count > 1)
		return cli_usage(c, "unexpected argument '%.60s'", c->o.args[1]);
	if (c->o.follow && signals_catch() < 0)
		return cli_error(c, COVE_INTERNAL, "cannot catch signals");
	r = cove_audit(c->cove, &options, on_row, &reading, &err);
	if (r == 0 && reading.status == 0 && !c->o.json && !reading.titled)
		reading.status = say_empty(&reading);
	/* The array is whole also where the rows end early; the error is an object after it. */
	if (c->o.json && reading.status == 0 && (r == 0 || reading.json.begun))
		reading.status = list_rows_end(&reading.json);
	return r < 0 ? cli_fail(c, &err) : reading.status;
}

static int say_report(struct cli *c, const char *what, const struct cove_audit_report *report)
{
	struct cli_object o;
	struct json *j;
	struct buf b;
	int r;

	if (c->o.json) {
		j = cli_object_begin(&o);
		json_kv_str(j, "name", what);
		json_kv_str(j, "result", "verified");
		json_kv_u64(j, "rows", report->rows);
		json_kv_u64(j, "dropped", report->dropped);
		json_kv_u64(j, "cut", report->cut);
		return cli_object_end(c, &o);
	}
	buf_init(&b, LINE_MAX_BYTES);
	(void)buf_printf(&b, "%" PRIu64 " row%s verified", report->rows,
			 report->rows == 1 ? "" : "s");
	if (report->dropped)
		(void)buf_printf(&b, ", %" PRIu64 " older dropped by rotation", report->dropped);
	if (report->cut)
		(void)buf_printf(&b, ", %" PRIu64 " log%s cut short by a crash", report->cut,
				 report->cut == 1 ? "" : "s");
	(void)buf_append_str(&b, "\n");
	r = cli_out_buf(c, &b);
	buf_done(&b);
	return r;
}

static int verify(struct cli *c)
{
	const char *box = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	struct cove_audit_report report = {.size = sizeof(report)};
	struct cove_error err;

	if (c->o.arg_count > 2)
		return cli_usage(c, "usage: cove audit verify [BOX]");
	if (cove_audit_verify(c->cove, box, &report, &err) < 0)
		return cli_broken(c, &err);
	return say_report(c, box ? box : "all", &report);
}

static int remove_rows(struct cli *c)
{
	const char *box = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	uint64_t now = clock_wall_ms(), rows = 0;
	char by[BY_MAX], line[64];
	struct cove_error err;

	if (c->o.arg_count > 2 || !box == !c->o.given[OPT_BEFORE])
		return cli_usage(c, "usage: cove audit rm BOX, or cove audit rm --before TIME");
	if (cove_audit_delete(c->cove, box, c->o.before_ms < now ? now - c->o.before_ms : 0,
			      door_by(by), &rows, &err) < 0)
		return cli_fail(c, &err);
	if (c->o.json)
		return door_done(c, box ? box : "all", "deleted", "rows", rows);
	snprintf(line, sizeof(line), "%" PRIu64 " row%s deleted\n", rows, rows == 1 ? "" : "s");
	return cli_out(c, line, strlen(line));
}

static int keep(struct cli *c)
{
	const char *time = c->o.arg_count > 1 ? c->o.args[1] : NULL;
	struct cove_error err;
	char line[64], text[16];
	uint64_t ms = 0;

	if (c->o.arg_count > 2)
		return cli_usage(c, "usage: cove audit keep [TIME|forever]");
	if (time && strcmp(time, "forever") != 0 && (!str_parse_ms(time, &ms) || ms == 0))
		return cli_usage(c, "'%.60s' is no time: write 90d, 12h or forever", time);
	if (cove_audit_keep(c->cove, time ? &ms : NULL, &ms, &err) < 0)
		return cli_fail(c, &err);
	if (c->o.json)
		return door_done(c, "audit", "kept", "keep_ms", ms);
	if (ms && ms % DAY_MS == 0)
		snprintf(line, sizeof(line), "%" PRIu64 "d\n", ms / DAY_MS);
	else
		snprintf(line, sizeof(line), "%s\n", ms ? text_duration(text, ms) : "forever");
	return cli_out(c, line, strlen(line));
}

static int run(struct cli *c)
{
	const char *what = c->o.plain_count ? c->o.args[0] : "";
	bool is_rm = strcmp(what, "rm") == 0, is_verify = strcmp(what, "verify") == 0;
	bool is_keep = strcmp(what, "keep") == 0;

	if (c->o.given[OPT_BEFORE] && !is_rm)
		return cli_usage(c, "--before is for rm; --since shows what is newer");
	if ((is_rm || is_verify || is_keep) &&
	    (c->o.follow || c->o.denied || c->o.given[OPT_SINCE]))
		return cli_usage(c, "-f, --denied and --since choose rows to show, not for %s",
				 what);
	return is_rm ? remove_rows(c) : is_verify ? verify(c) : is_keep ? keep(c) : show(c);
}

const struct verb verb_audit = {
	.name = "audit",
	.synopsis = "audit [BOX] [-f] | verify | rm | keep",
	.summary = "what boxes did at their doors",
	.help = "Every decision is a row: what was asked for, which rule said what, bytes, the\n"
		"names of the credentials used. Rows stay when a box is gone. With --json one\n"
		"array, with -f as well one object per line.\n"
		"\n"
		"  cove audit verify [BOX]         was a row changed, removed or put in?\n"
		"  cove audit rm BOX               delete the rows of a box that is gone\n"
		"  cove audit rm --before TIME     of all boxes gone, last written longer ago\n"
		"  cove audit keep [TIME|forever]  how long rows of boxes that are gone are kept\n"
		"\n"
		"A box that is named verify, rm or keep: cove audit -- verify\n"
		"\n"
		"Examples\n"
		"  cove audit dev --denied\n"
		"  cove audit -f --json | jq -r '[.box, .host, .verdict] | @tsv'\n"
		"  cove audit keep 90d\n",
	.options = (const enum opt_id[]){OPT_TAIL, OPT_DENIED, OPT_SINCE, OPT_BEFORE, OPTS_COMMON,
					 OPT_END},
	.args = {0, -1},
	.run = run,
};
