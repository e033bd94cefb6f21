/* Which boxes use what; see record.h. */
#include "store/record.h"

#include "base/str.h"
#include "store/refs.h"

#include <string.h>

struct user_search {
	const char *image, *by_name, *workspace;
	char *ret_box;
};

static int is_user(void *arg, const struct spec *spec)
{
	const struct user_search *u = arg;
	bool is = (u->image && strcmp(spec->image, u->image) == 0) ||
		  (u->by_name && spec->layer_count == 0 && strcmp(spec->image, u->by_name) == 0) ||
		  (u->workspace && spec->workspace && strcmp(spec->workspace, u->workspace) == 0);

	if (is)
		str_copy(u->ret_box, BOX_NAME_MAX + 1, spec->name);
	return is;
}

int record_find_user(struct state *s, const char *image, const char *by_name, const char *workspace,
		     char ret_box[BOX_NAME_MAX + 1], struct err *e)
{
	return record_each_spec(s, false, is_user,
				&(struct user_search){image, by_name, workspace, ret_box}, e);
}

static int add_layers(void *arg, const struct spec *spec)
{
	int r = 0;

	for (size_t i = 0; i < spec->layer_count && r == 0; i++)
		r = refs_add(arg, spec->layers[i]);
	return r;
}

int record_refs(struct state *s, struct refs *refs, struct err *e)
{
	return record_each_spec(s, true, add_layers, refs, e);
}
