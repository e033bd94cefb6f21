/* A server's warm pools. */
#include "core/view.h"
#include "remote/remote.h"

int cove_pool_set(struct cove *cove, const struct cove_pool_options *given, struct cove_error *err)
{
	struct cove_pool_options o;
	struct remote_request q;
	struct err e = {0};
	int r = core_copy_sized(&o, sizeof(o), given, &e);

	if (r < 0)
		return remote_return(r, &e, err);
	remote_begin(&q, cove, "PUT", "/v1/pools");
	q.repeats = true;
	json_kv_str(remote_object(&q), "image", o.image ? o.image : "base");
	json_kv_u64(&q.json, "size", o.count);
	remote_put_amount(&q.json, "disk", o.disk_bytes);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}

int cove_pools(struct cove *cove, struct cove_pool_info **ret, struct cove_error *err)
{
	return remote_rows(cove, "/v1/pools", "pools", NULL, view_pool_fields, sizeof(**ret),
			   (void **)ret, err);
}

int cove_pool_remove(struct cove *cove, const char *image, const char *owner,
		     struct cove_error *err)
{
	struct remote_request q;
	struct err e = {0};

	remote_begin(&q, cove, "DELETE", "/v1/pools");
	remote_query(&q, "image", image);
	return remote_return(remote_call(&q, NULL, &e), &e, err);
}
