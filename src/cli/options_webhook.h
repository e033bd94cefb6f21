/* Rows of the table in options.h: webhooks. */
#pragma once

/* clang-format off */
#define OPTIONS_WEBHOOK(X) \
	X(WEBHOOK_EVENTS, "events", 0, TEXT, events, "LIST", \
		"only these types (box.stopped,limit.hit,...); default all") \
	X(WEBHOOK_BOX, "of-box", 0, TEXT, only_box, "NAME", "only what happens to this box") \
	X(WEBHOOK_LABEL, "of-label", 0, TEXT, only_label, "NAME[=VALUE]", \
		"only of boxes that have this label")
/* clang-format on */
