/* How much of a head the door reads; see door.h. Tests link it with stand-ins for the rest. */
#include "base/limits.h"

#include "door/door.h"

const struct http_limits door_http_limits = {
	.head_max = DOOR_HEAD_MAX,
	.fields_max = DOOR_HEADERS_MAX,
};
