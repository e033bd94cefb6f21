/* The names of what a key makes; see key.h. */
#include "store/key.h"

#include "base/str.h"
#include "store/image.h"
#include "store/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *what;
	char separator;
	size_t max; /* of the whole name */
} kinds[] = {
	[KEY_OF_BOX] = {"box", '_', BOX_NAME_MAX},
	[KEY_OF_WORKSPACE] = {"workspace", '_', BOX_NAME_MAX},
	[KEY_OF_SNAPSHOT] = {"snapshot", '_', BOX_NAME_MAX},
	[KEY_OF_IMAGE] = {"image", '/', IMAGE_NAME_MAX},
	[KEY_OF_SECRET] = {"secret", '.', SECRET_NAME_MAX},
};

/* May one of that kind be called so, without a namespace? Its length is judged later. */
static int check_plain(enum key_kind kind, const char *name, char ret_clean[KEY_NAME_SIZE],
		       struct err *e)
{
	bool ok;

	if (kind == KEY_OF_IMAGE)
		return image_name_clean(name, ret_clean, e);
	str_copy(ret_clean, KEY_NAME_SIZE, name);
	if (kind == KEY_OF_SECRET)
		ok = str_is_env_name(name);
	else
		ok = str_is_plain_name(name, SIZE_MAX);
	if (ok)
		return 0;
	return err_set(e, ERR_INVALID, EINVAL,
		       kind == KEY_OF_SECRET
			       ? "%s '%.80s' is not a name: letters, digits and underscores, not a "
				 "digit first"
			       : "%s '%.80s' is not a name: lower-case letters, digits and inner "
				 "dashes",
		       kinds[kind].what, name);
}

int key_name_in(const char *id, enum key_kind kind, const char *name, char ret[KEY_NAME_SIZE],
		struct err *e)
{
	char clean[KEY_NAME_SIZE];
	size_t max = kinds[kind].max - KEY_ID_SIZE;
	int r;

	if (!str_is_key_id(id))
		return err_set(e, ERR_INVALID, EINVAL, "'%.40s' is not the id of a key", id);
	r = check_plain(kind, name, clean, e);
	if (r < 0)
		return r;
	if (strlen(clean) > max || strlen(name) >= KEY_NAME_SIZE)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s '%.80s': with an API key a name has at most %zu bytes",
			       kinds[kind].what, name, max);
	snprintf(ret, KEY_NAME_SIZE, "%.8s%c%.*s", id, kinds[kind].separator, (int)max, clean);
	return 0;
}

const char *key_name_plain(enum key_kind kind, const char *name)
{
	char id[KEY_ID_SIZE];

	str_copy(id, sizeof(id), name);
	return str_is_key_id(id) && name[KEY_ID_SIZE - 1] == kinds[kind].separator
		       ? name + KEY_ID_SIZE
		       : name;
}

const char *key_name_out(const char *id, enum key_kind kind, const char *name)
{
	const char *plain = key_name_plain(kind, name);

	return plain != name && strncmp(name, id, KEY_ID_SIZE - 1) == 0 && *plain ? plain : NULL;
}

bool key_may_use_image(const char *id, const char *image)
{
	return !id || key_name_out(id, KEY_OF_IMAGE, image) ||
	       (key_name_plain(KEY_OF_IMAGE, image) == image && strcmp(image, IMAGE_HOST) != 0);
}
