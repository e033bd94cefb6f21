/* A copy on its way; see copying.h. */
#include "cli/copying.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/signals.h"

#include <stdio.h>

enum { FIRST_MS = 1000, EVERY_MS = 200, SKIPPED_SHOWN = 10 };

/* False once a signal came: libcove then removes what is half written. A quick copy shows nothing,
 * and a long one not too often. */
static bool on_progress(void *arg, uint64_t bytes, uint64_t files)
{
	struct copying *p = arg;
	uint64_t now = clock_mono_ms(), spent = now - p->started_ms;
	char line[128], amount[SIZE_TEXT], rate[SIZE_TEXT], count[40] = "";
	int n;

	p->bytes = bytes;
	p->files = files;
	p->signal = p->signal ? p->signal : signals_next_end();
	if (p->signal)
		return false;
	if (!p->shows || spent < FIRST_MS || now - p->shown_ms < EVERY_MS)
		return true;
	p->shown_ms = now;
	if (files > 1)
		snprintf(count, sizeof(count), ", %llu files", (unsigned long long)files);
	n = snprintf(line, sizeof(line), "\r  %s%s, %s/s\033[K", size_format(amount, bytes), count,
		     size_format(rate, bytes * 1000 / spent));
	(void)fd_write_full(STDERR_FILENO, line, (size_t)n);
	return true;
}

static void on_skipped(void *arg, const char *path, const char *why)
{
	struct copying *p = arg;

	if (p->skipped == 0)
		str_copy(p->why, sizeof(p->why), why);
	if (p->skipped++ < SKIPPED_SHOWN)
		cli_note("'%.150s' was left out: %s", path, why);
}

void copying_start(struct copying *p, bool shows)
{
	*p = (struct copying){.started_ms = clock_mono_ms(),
			      .shows = shows && isatty(STDERR_FILENO)};
	if (signals_catch() < 0)
		cli_note("signals cannot be caught: an interrupted copy may leave a part behind");
}

struct cove_copy copying_how(struct copying *p, const char *user)
{
	return (struct cove_copy){.size = sizeof(struct cove_copy),
				  .user = user,
				  .progress = on_progress,
				  .on_skipped = on_skipped,
				  .arg = p};
}

void copying_end(struct copying *p)
{
	if (p->shown_ms)
		(void)fd_write_full(STDERR_FILENO, "\r\033[K", 4);
	p->shown_ms = 0;
}
