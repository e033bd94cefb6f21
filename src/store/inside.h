/* Work on trees that belong to boxes' ids, by a child that has those ids (storage/ids.h). */
#pragma once

#include "base/err.h"
#include "storage/ids.h"

#include <stddef.h>

/* What is run inside the box's ids, by a child: run returns 0 or a negative errno with a sentence
 * in err. The job is the first member of a larger structure of size bytes without pointers to
 * itself; what the child writes there, its caller reads there. */
struct inside_job {
	int (*run)(struct inside_job *job);
	struct err err;
	int code;
};
int inside_run(const struct ids *ids, struct inside_job *job, size_t size, struct err *e);
