/* Debug lines on stderr for developers: COVE_DEBUG=1. Users never need them. */
#pragma once

#include <stdbool.h>

void log_init(void); /* reads COVE_DEBUG */
bool log_is_debug(void);
void log_debug(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
