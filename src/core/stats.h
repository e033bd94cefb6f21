/* Questions to a running box's keeper, on a connection that need not have said HELLO yet. */
#pragma once

#include "core/core.h"
#include "wire/msg.h"

/* Is the box's init from before a mend that matters? Once init said HELLO, that is. */
bool status_is_outdated(const struct wire_status *s);
/* The answer is valid until the call is ended, which is the caller's to do. */
int stats_ask_status(struct core_call *call, struct core_conn *c, int timeout_ms,
		     struct wire_status *ret, struct err *e);
int stats_ask(struct core_conn *c, struct cove_stats *ret, struct err *e);
/* Returns when all of the box is frozen, or runs again. */
int stats_tell_pause(struct core_conn *c, bool on, const char *by, struct err *e);
/* The same for this connection only: a box that is frozen so goes on when the connection ends.
 * Letting go fails (ERR_TIMEOUT) where it was not frozen all the time. */
int stats_hold(struct core_conn *c, bool on, struct err *e);
