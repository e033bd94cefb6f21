/* Starting a box again that ended by itself; see restart.h. */
#include "store/restart.h"

#include "base/fd.h"
#include "base/lines.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { RESTART_BYTES_MAX = 1024, FIRST_WAIT_MS = 1000, WAIT_MAX_MS = 60000, GOOD_MS = 600000 };
/* Beyond it the wait does not grow. */
enum { DOUBLED_MAX = 6 };

static int parse(struct restart_state *s, char *text, size_t len)
{
	const char *key, *value;
	struct lines lines;
	int r;

	if (lines_check_sum(text, len) <= 0)
		return -EBADMSG;
	lines_init(&lines, text + LINES_SUM_BYTES, len - LINES_SUM_BYTES);
	while ((r = lines_next(&lines, &key, &value)) > 0) {
		uint64_t *at = strcmp(key, "count") == 0	 ? &s->count
			       : strcmp(key, "tried_ms") == 0	 ? &s->tried_ms
			       : strcmp(key, "held_run_ms") == 0 ? &s->held_run_ms
								 : NULL;

		if (strcmp(key, "fails") == 0)
			s->fails = true;
		else if (!at || !str_parse_u64(value, UINT64_MAX, at))
			return -EBADMSG;
	}
	return r;
}

int restart_read(int box_fd, struct restart_state *ret)
{
	autofree char *text = NULL;
	size_t len = 0;
	int r = fd_read_file(box_fd, RESTART_FILE, RESTART_BYTES_MAX, &text, &len);

	*ret = (struct restart_state){0};
	if (r == 0)
		r = parse(ret, text, len);
	if (r == -EBADMSG || r == -EFBIG)
		*ret = (struct restart_state){0};
	return r == -ENOENT || r == -EBADMSG || r == -EFBIG ? 0 : r;
}

int restart_write(int box_fd, const struct restart_state *s)
{
	struct buf b;
	int r;

	buf_init(&b, RESTART_BYTES_MAX);
	r = lines_begin_sum(&b);
	if (r == 0)
		r = lines_put_u64(&b, "count", s->count);
	if (r == 0)
		r = lines_put_u64(&b, "tried_ms", s->tried_ms);
	if (r == 0)
		r = lines_put_u64(&b, "held_run_ms", s->held_run_ms);
	if (r == 0 && s->fails)
		r = lines_put(&b, "fails", "1");
	if (r == 0) {
		lines_end_sum(&b);
		r = fd_write_file(box_fd, RESTART_FILE, buf_data(&b), buf_len(&b), 0600, true);
	}
	buf_done(&b);
	return r;
}

int restart_hold(int box_fd, const struct record *r)
{
	struct restart_state s;
	int rc = restart_read(box_fd, &s);

	s.held_run_ms = r->own_ms;
	return rc < 0 || !r->own_ms ? rc : restart_write(box_fd, &s);
}

bool restart_is_held(const struct record *r, const struct restart_state *s)
{
	return r->own_ms && s->held_run_ms == r->own_ms;
}

/* A host that is shut down tells every process to end, and then a keeper ends its box in good
 * order: that it was another boot says that no person stopped it. */
static bool is_of_reboot(const struct record *r, const char *boot)
{
	if (strcmp(r->own_cause, "host reboot") == 0)
		return true;
	return strcmp(r->cause, "stopped") == 0 && strcmp(r->by, "signal") == 0 && r->boot[0] &&
	       boot[0] && strcmp(r->boot, boot) != 0;
}

/* A cause that is not here is of somebody who wanted it, or not known. */
static bool is_of_itself(const char *cause)
{
	static const char *const causes[] = {"keeper lost",
					     "init died",
					     "oom",
					     "init broke the protocol",
					     "init unresponsive",
					     "no memory for a client"};

	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (str_starts(cause, causes[i]))
			return true;
	return false;
}

bool restart_wants(const struct record *r, const struct restart_state *s, const char *boot)
{
	if (r->spec.restart == RESTART_NO || r->state != BOX_STOPPED || !r->own_ms ||
	    restart_is_held(r, s))
		return false;
	if (is_of_reboot(r, boot) || (s->fails && strcmp(r->own_cause, "start failed") == 0))
		return true;
	return r->spec.restart == RESTART_ALWAYS && is_of_itself(r->own_cause);
}

/* A clock that was set back since must not hold up a start. */
static bool was_good(const struct record *r)
{
	return r->ended_ms > r->started_ms && r->ended_ms - r->started_ms >= GOOD_MS;
}

uint64_t restart_at_ms(const struct record *r, const struct restart_state *s, uint64_t now_ms)
{
	uint64_t doubled = s->count ? s->count - 1 : 0, wait_ms;

	if (!s->count || was_good(r) || s->tried_ms > now_ms)
		return 0;
	wait_ms = doubled >= DOUBLED_MAX ? WAIT_MAX_MS : (uint64_t)FIRST_WAIT_MS << doubled;
	return s->tried_ms + (wait_ms < WAIT_MAX_MS ? wait_ms : WAIT_MAX_MS);
}

void restart_count(struct restart_state *s, const struct record *r, uint64_t now_ms)
{
	s->count = was_good(r) ? 1 : s->count + 1;
	s->tried_ms = now_ms;
	s->fails = true;
}
