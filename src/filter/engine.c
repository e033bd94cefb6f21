/* The filter of a box behind an engine; see filter.h. */
#include "filter/filter.h"

int filter_load_engine(enum filter_kind kind)
{
	return filter_load_program(&filter_engine[kind], NULL);
}
