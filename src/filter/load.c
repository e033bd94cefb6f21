/* Loading a filter; see filter.h. Linked into init too. */
#include "base/rand.h"
#include "filter/filter.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SET_MODE_FILTER = 1, OPS_MAX = 4096 };

int filter_load_program(const struct filter_program *p, const void *secret)
{
	struct filter_op ops[OPS_MAX];
	struct {
		unsigned short count;
		const struct filter_op *ops;
	} program = {.count = (unsigned short)p->count, .ops = ops};
	uint32_t word[FILTER_SECRET_BYTES / 4];

	if (p->count > OPS_MAX)
		return -E2BIG;
	memcpy(ops, p->ops, p->count * sizeof(ops[0]));
	if (secret)
		memcpy(word, secret, sizeof(word));
	else
		rand_bytes(word, sizeof(word));
	for (size_t i = 0; i < sizeof(p->secret_at) / sizeof(p->secret_at[0]); i++)
		if (p->secret_at[i])
			ops[p->secret_at[i]].k = word[i % (sizeof(word) / sizeof(word[0]))];
	return syscall(SYS_seccomp, SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}
