/* Credentials by name, as a caller sees them. Values go one way only. */
#include "base/str.h"
#include "core/core.h"
#include "store/secret.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cove_secret_set(struct cove *cove, const char *name, const char *source, const void *data,
		    size_t len, struct cove_error *err)
{
	int from = SECRET_VALUE, r;
	struct err e = {0};

	while (from <= SECRET_COMMAND && source &&
	       strcmp(source, secret_source_name((enum secret_source)from)) != 0)
		from++;
	if (from > SECRET_COMMAND || !source)
		r = err_set(&e, ERR_INVALID, EINVAL,
			    "a secret comes from 'value', 'file' or 'command', not '%.40s'",
			    source ? source : "");
	else
		r = secret_set(&cove->state, name, (enum secret_source)from, data, len, &e);
	return core_return(cove, NULL, r, &e, err);
}

int cove_secret_set_command(struct cove *cove, const char *name, const char *line,
			    uint64_t cache_ms, struct cove_error *err)
{
	struct err e = {0};
	int r = secret_set_command(&cove->state, name, line, cache_ms, &e);

	return core_return(cove, NULL, r, &e, err);
}

int cove_secret_remove(struct cove *cove, const char *name, struct cove_error *err)
{
	struct err e = {0};
	int r = secret_remove(&cove->state, name, &e);

	return core_return(cove, NULL, r, &e, err);
}

int cove_secrets(struct cove *cove, struct cove_secret_info **ret, struct cove_error *err)
{
	struct cove_secret_info *list = NULL;
	struct secret_info *found = NULL;
	size_t count = 0;
	struct err e = {0};
	int r = secret_list(&cove->state, &found, &count, &e);

	if (r == 0) {
		list = calloc(count + 1, sizeof(*list));
		r = list ? (int)count : err_errno(&e, ENOMEM, "list the secrets");
	}
	for (size_t i = 0; list && i < count; i++) {
		str_copy(list[i].name, sizeof(list[i].name), found[i].name);
		str_copy(list[i].source, sizeof(list[i].source),
			 secret_source_name(found[i].source));
		str_copy(list[i].where, sizeof(list[i].where), found[i].where);
		list[i].changed_ms = found[i].changed_ms;
		list[i].cache_ms = found[i].cache_ms;
	}
	free(found);
	if (r >= 0)
		*ret = list;
	return core_return(cove, NULL, r, &e, err);
}
