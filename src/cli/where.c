/* Which of the two programs this is; see cli.h. */
#include "cli/cli.h"

#ifdef COVE_REMOTE
const bool cli_is_remote = true;
#else
const bool cli_is_remote = false;
#endif
