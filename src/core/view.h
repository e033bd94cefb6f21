/* Words for what records hold, shared by list and inspect. */
#pragma once

#include "store/record.h"

const char *box_state_name(enum box_state state);
const char *persistence_name(enum persistence p);
