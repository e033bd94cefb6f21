/* The groups that open more beside a preset, for callers of the library; cove-door has them. */
#include "base/fd.h"
#include "base/str.h"
#include "core/door.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Lines "NAME\tSUMMARY\tHOST HOST...", cut in place. */
static int read_groups(char *text, struct cove_policy_group **ret, struct err *e)
{
	struct cove_policy_group *list;
	size_t count = 0, max = 0;
	char *line;

	for (const char *p = text; *p; p++)
		max += *p == '\n';
	list = calloc(max + 1, sizeof(*list));
	if (!list)
		return err_errno(e, ENOMEM, "list groups");
	for (; (line = strsep(&text, "\n")) && count < max; count++) {
		const char *name = strsep(&line, "\t"), *summary = strsep(&line, "\t");

		if (!line || strlen(line) >= sizeof(list->hosts)) {
			free(list);
			return err_set(e, ERR_INTERNAL, EBADMSG,
				       "cove-door is of another version: install Cove again");
		}
		str_copy(list[count].name, sizeof(list->name), name);
		str_copy(list[count].summary, sizeof(list->summary), summary);
		str_copy(list[count].hosts, sizeof(list->hosts), line);
	}
	*ret = list;
	return (int)count;
}

int cove_policy_groups(struct cove *cove, struct cove_policy_group **ret, struct cove_error *err)
{
	char *argv[] = {(char *)"cove-door", (char *)"groups", NULL};
	autofree char *text = NULL;
	struct err e = {0};
	int status = 0, r = net_run_door(cove, argv, -1, 1, &text, &status, &e);

	if (r == 0 && status != 0)
		r = err_set(&e, ERR_INTERNAL, EBADMSG,
			    "cove-door does not know groups: install Cove again");
	if (r == 0)
		r = read_groups(text, ret, &e);
	return core_return(cove, NULL, r, &e, err);
}
