/* The filters of boxes and of our own processes; see filter.h. */
#include "filter/filter.h"

const struct filter_program *filter_program(enum filter_kind kind)
{
	if (FILTER_IS_SANITIZED && kind >= FILTER_KEEPER)
		return &filter_sanitized[kind - FILTER_KEEPER];
	return &filter_programs[kind];
}

unsigned filter_allowed(enum filter_kind kind)
{
	return filter_program(kind)->allowed;
}

int filter_load(enum filter_kind kind, const void *secret)
{
	return filter_load_program(filter_program(kind), secret);
}
