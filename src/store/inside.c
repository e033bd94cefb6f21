/* Running a job inside the box's ids; see inside.h. */
#include "store/inside.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int run_job(void *arg)
{
	struct inside_job *job = arg;

	umask(0);
	job->code = job->run(job);
	return job->code < 0 ? 1 : 0;
}

int inside_run(const struct ids *ids, struct inside_job *job, size_t size, struct err *e)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int r;

	if (shared == MAP_FAILED)
		return err_errno(e, errno, "start a helper process for files of boxes");
	job->code = -ECHILD; /* what stays if the child dies before it can say */
	memcpy(shared, job, size);
	r = ids_run_inside(ids, run_job, shared, e);
	memcpy(job, shared, size);
	munmap(shared, size);
	if (r < 0)
		return r;
	if (r == 0 && job->code >= 0)
		return job->code;
	if (job->err.kind == ERR_NONE)
		return err_set(e, ERR_INTERNAL, -job->code,
			       "the helper process for files of boxes died");
	if (e)
		*e = job->err;
	return job->code;
}
