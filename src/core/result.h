/* The one collector of a command's output, for cove_run and the command line; and what goes with a
 * result. */
#pragma once

#include "base/collect.h"
#include "cove.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A result of the caller's own (cove_result_free), from that of an EXIT event and the output that
 * was collected; NULL: none was. */
static inline int result_collected(const struct cove_result *ended, struct collect *c,
				   struct cove_result *ret)
{
	*ret = *ended;
	ret->cwd = ended->cwd ? strdup(ended->cwd) : NULL;
	ret->out = c ? collect_copy(c, 0, &ret->out_len) : NULL;
	ret->err_out = c ? collect_copy(c, 1, &ret->err_len) : NULL;
	ret->truncated |= c && collect_is_cut(c);
	ret->denied = NULL;
	if (ended->denied_count)
		ret->denied = calloc(ended->denied_count, sizeof(*ret->denied));
	if (ret->denied)
		memcpy(ret->denied, ended->denied, ended->denied_count * sizeof(*ret->denied));
	if (!ret->cwd == !ended->cwd && !ret->denied == !ended->denied_count &&
	    (!c || (ret->out && ret->err_out)))
		return 0;
	free(ret->denied);
	free(ret->cwd);
	free(ret->out);
	free(ret->err_out);
	*ret = (struct cove_result){0};
	return -ENOMEM;
}
