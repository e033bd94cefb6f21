/*
 * What this host can do for Cove, one check per thing a box stands on. Beyond making the state
 * directory nothing is changed on the host: what must be tried is tried in a child that ends at
 * once.
 */
#pragma once

#include <stddef.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_LIMITED, /* boxes work, with less than they could have */
	DOCTOR_MISSING, /* boxes do not work */
};

struct doctor_check {
	const char *name; /* static: "user_namespaces" */
	enum doctor_status status;
	char found[160];       /* what there is */
	char consequence[160]; /* what follows from it; empty when ok */
	char remedy[200];      /* what to do, exactly; empty when ok */
};

enum { DOCTOR_CHECKS_MAX = 16 };

struct doctor_report {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	size_t count;
};

/* home may be NULL: the usual place. Always fills the report; returns the worst status in it. */
enum doctor_status doctor_run(const char *home, struct doctor_report *ret);

/* "ok", "limited", "missing". */
const char *doctor_status_name(enum doctor_status status);

/* The report as one JSON object {"checks": [...], "status"}; free with free(). May be NULL. */
char *doctor_json(const struct doctor_report *report);
