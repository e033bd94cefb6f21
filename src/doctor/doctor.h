/*
 * What this host can do for Cove: one check per thing a box stands on, then a short test in a box.
 * Nothing is left on the host: what must be tried is tried in a child that ends at once, or on
 * descriptors that go away by themselves.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_ABSENT,	/* not there, and nothing that a box does today needs it */
	DOCTOR_LIMITED, /* boxes work, with less than they could have */
	DOCTOR_MISSING, /* boxes do not work */
};

enum doctor_group { DOCTOR_HOST, DOCTOR_WALLS, DOCTOR_LIMITS, DOCTOR_OTHERS, DOCTOR_GROUP_COUNT };

struct doctor_check {
	const char *name; /* static: "user_namespaces" */
	enum doctor_group group;
	enum doctor_status status;
	char found[240];       /* what there is */
	char consequence[160]; /* what follows from it; empty when ok */
	char remedy[200];      /* what to do, exactly; empty when ok */
};

enum doctor_verdict { DOCTOR_HELD, DOCTOR_SKIPPED, DOCTOR_FAILED };

struct doctor_test {
	const char *name; /* static: "memory limit" */
	enum doctor_verdict verdict;
	char saw[120]; /* what was observed, or why it was not tried */
};

enum { DOCTOR_CHECKS_MAX = 32, DOCTOR_TESTS_MAX = 16 };

struct doctor_report {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	size_t count;
	struct doctor_test tests[DOCTOR_TESTS_MAX];
	size_t test_count;
	char not_tested[200]; /* why there are no tests, or why they ended early */
	enum doctor_status worst;
	bool can_run; /* a box can run here */
};

/* home may be NULL: the usual place. Always fills the report. test: also start a box and try its
 * walls and limits from within; takes a second or two, and is given up after a few more. */
void doctor_run(const char *home, bool test, struct doctor_report *ret);

/* The pool of the state directory (storage/pool.h), made or taken away. The sentence says what is
 * there now, or why it could not be. */
enum { DOCTOR_SAID = 320 };
int doctor_storage_setup(const char *home, uint64_t bytes, char ret_said[DOCTOR_SAID],
			 struct err *e);
int doctor_storage_remove(const char *home, char ret_said[DOCTOR_SAID], struct err *e);

/* Did something that was tried in a box not hold? */
bool doctor_has_failed(const struct doctor_report *report);

/* The report as one JSON object {"status", "can_run", "checks": [...], "enforced": [...],
 * "not_enforced": [...], "self_test": {...}}; free with free(). May be NULL. */
char *doctor_json(const struct doctor_report *report);
