/*
 * Values that outlive runs: names with versions, in scopes (an agent's identity, a project). A
 * scope is a journal of the ledger; it only grows, to LEDGER_JOURNAL_MAX.
 */
#pragma once

#include "rails/run.h"

/* Appends a version of that name, numbered from 1. by: who or which run; may be NULL. */
int run_save(struct rails *l, const char *scope, const char *name, const char *by,
	     const struct run_data *value, uint64_t *ret_version, struct err *e);
/* version 0: the newest. ERR_NOT_FOUND. ret_version may be NULL. */
int run_load_value(struct rails *l, const char *scope, const char *name, uint64_t version,
		   struct run_result *ret, uint64_t *ret_version, struct err *e);
/* All that was saved in that scope goes. Again is fine. */
int run_values_remove(struct rails *l, const char *scope, struct err *e);
