/* All further rows of the table in options.h, by what they are about. */
#pragma once

#include "cli/options_build.h"
#include "cli/options_command.h"
#include "cli/options_doctor.h"
#include "cli/options_files.h"
#include "cli/options_key.h"
#include "cli/options_layers.h"
#include "cli/options_life.h"
#include "cli/options_limits.h"
#include "cli/options_sbx.h"
#include "cli/options_snapshot.h"
#include "cli/options_system.h"
#include "cli/options_webhook.h"

/* clang-format off */
#define OPTIONS_ROWS(X) \
	OPTIONS_LIMITS(X) OPTIONS_LAYERS(X) OPTIONS_COMMAND(X) OPTIONS_DOCTOR(X) OPTIONS_SBX(X) \
	OPTIONS_SYSTEM(X) OPTIONS_BUILD(X) OPTIONS_SNAPSHOT(X) OPTIONS_KEY(X) OPTIONS_LIFE(X) \
	OPTIONS_FILES(X) OPTIONS_WEBHOOK(X)
/* clang-format on */
