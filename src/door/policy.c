/* A policy once it was read; see policy.h. */
#include "door/policy.h"

#include "door/policy_form.h"

#include <stdlib.h>

struct policy *policy_closed(void)
{
	return calloc(1, sizeof(struct policy));
}

void policy_free(struct policy *p)
{
	if (!p)
		return;
	arena_done(&p->arena);
	free(p);
}

const struct policy_limits *policy_limits(const struct policy *p)
{
	return &p->limits;
}

bool policy_secret(const struct policy *p, size_t i, const char **ret_name,
		   const struct rule **ret_rule)
{
	if (i >= p->secret_count)
		return false;
	*ret_name = p->secrets[i].name;
	*ret_rule = p->secrets[i].rule;
	return true;
}

bool policy_grants_intercept(const struct policy *p)
{
	return p->intercepts;
}
