/* Warm pools. */
#include "api/handlers.h"

#include "core/view.h"

#include <errno.h>

struct pool_in {
	const char *image;
	uint64_t size, disk_bytes;
};
static const struct api_in_field pool_fields[] = {API_IN(pool_in, image, STR),
						  API_IN(pool_in, size, U64),
						  API_IN_AS(pool_in, "disk", disk_bytes, SIZE),
						  {NULL, 0, 0}};

/* The caller's, by its own name for the image. */
static bool is_shown(struct api_call *c, struct cove_pool_info *p)
{
	const char *shown = p->image;

	if (c->who.is_operator)
		return true;
	if (strcmp(p->owner, c->who.key->id) != 0)
		return false;
	if (api_name_shown(c, KEY_OF_IMAGE, p->image, &shown))
		memmove(p->image, shown, strlen(shown) + 1);
	p->owner[0] = 0;
	/* Other reasons are about this host. */
	if (p->why[0] && !str_starts(p->why, "quota "))
		str_copy(p->why, sizeof(p->why), "the server cannot make more now");
	return true;
}

static int pool_list(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_pool_info *rows = NULL;
	struct cove_error err;
	int n = 0, count = cove_pools(cove, &rows, &err);

	for (int i = 0; i < count; i++)
		if (is_shown(c, &rows[i]))
			rows[n++] = rows[i];
	return api_put_rows(c,
			    &(struct api_rows){"pools", view_pool_fields, rows, sizeof(*rows),
					       count < 0 ? count : n, NULL, NULL},
			    &err, e);
}

static int pool_set(struct api_call *c, struct cove *cove, struct err *e)
{
	struct pool_in in = {0};
	const struct api_in_table tables[] = {{pool_fields, &in}, {NULL, NULL}};
	struct cove_pool_options o = {.size = sizeof(o), .owner = api_owner(c)};
	struct cove_error err;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = in.image ? api_image(c, cove, in.image, &o.image, e)
			     : err_set(e, ERR_INVALID, EINVAL, "give 'image'");
	if (r < 0)
		return r;
	o.count = in.size;
	o.disk_bytes = in.disk_bytes;
	r = cove_pool_set(cove, &o, &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* Its image may be gone by now: what is then not found by the one name is by the other. */
static int pool_remove(struct api_call *c, struct cove *cove, struct err *e)
{
	const char *given, *image, *own;
	struct cove_error err;
	int r = api_query(c, "image", &given, e);

	if (r == 0)
		r = given ? api_image(c, cove, given, &image, e)
			  : err_set(e, ERR_INVALID, EINVAL, "give 'image'");
	if (r < 0)
		return r;
	r = cove_pool_remove(cove, image, api_owner(c), &err);
	if (r == -ENOENT && !c->who.is_operator && api_name(c, KEY_OF_IMAGE, given, &own, e) == 0)
		r = cove_pool_remove(cove, own, api_owner(c), &err);
	return r < 0 ? api_failed(r, &err, e) : api_no_content(c);
}

/* clang-format off */
const struct api_route api_pool_routes[] = {
	{"GET", "/v1/pools", "listPools", KEY_READ, .work = pool_list},
	{"PUT", "/v1/pools", "setPool", KEY_RUN, API_BODY_JSON, .work = pool_set},
	{"DELETE", "/v1/pools", "removePool", KEY_RUN, .work = pool_remove},
	{0}};
/* clang-format on */
