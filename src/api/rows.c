/* Lists: what libcove listed, as far as it is the caller's, in one order and in pages. */
#include "api/handlers.h"

#include "wire/field.h"

#include <errno.h>

struct api_row {
	char cursor[API_CURSOR_SIZE];
	const void *row;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct api_row *)a)->cursor, ((const struct api_row *)b)->cursor);
}

int api_query_page(struct api_call *c, uint64_t max, uint64_t *ret_limit, const char **ret_after,
		   struct err *e)
{
	int r = api_query_u64(c, "limit", max, ret_limit, e);

	if (r == 0)
		r = api_query(c, "after", ret_after, e);
	if (r == 0 && (*ret_limit == 0 || *ret_limit > max))
		r = err_set(e, ERR_INVALID, EINVAL, "'limit' is 1 to %llu",
			    (unsigned long long)max);
	return r;
}

static void put_row(struct json *j, const struct api_rows *rows, const void *row)
{
	json_object_begin(j);
	wire_fields_json(j, rows->fields, row);
	if (rows->more)
		rows->more(j, row);
	json_object_end(j);
}

/* Those that the caller may see, sorted. Owned by the call's memory. */
static struct api_row *sort(struct api_call *c, const struct api_rows *rows, size_t *ret_count)
{
	struct api_row *list =
		api_memory_get(&c->memory, ((size_t)rows->count + 1) * sizeof(*list));
	size_t n = 0;

	for (int i = 0; list && i < rows->count; i++) {
		const void *row = (const char *)rows->rows + (size_t)i * rows->size;

		if (!rows->cursor(c, row, list[n].cursor))
			continue;
		list[n++].row = row;
	}
	if (n > 0)
		qsort(list, n, sizeof(*list), compare);
	*ret_count = n;
	return list;
}

static int put_page(struct api_call *c, const struct api_rows *rows, struct err *e)
{
	const char *after, *last = NULL;
	struct api_row *list;
	uint64_t limit, n = 0;
	size_t count = 0, i = 0;
	int r = api_query_page(c, API_ROWS_MAX, &limit, &after, e);

	if (r < 0)
		return r;
	list = sort(c, rows, &count);
	if (!list)
		return err_errno(e, ENOMEM, "write the answer");
	json_object_begin(api_json(c, 200));
	json_key(&c->json, rows->key);
	json_array_begin(&c->json);
	while (i < count && after && strcmp(list[i].cursor, after) <= 0)
		i++;
	for (; i < count && n < limit; i++, n++) {
		put_row(&c->json, rows, list[i].row);
		last = list[i].cursor;
	}
	json_array_end(&c->json);
	json_kv_str(&c->json, "next", i < count ? last : NULL);
	json_object_end(&c->json);
	return 0;
}

int api_put_rows(struct api_call *c, const struct api_rows *rows, const struct cove_error *err,
		 struct err *e)
{
	int r = 0;

	if (rows->count < 0)
		return api_failed(rows->count, err, e);
	if (rows->cursor) {
		r = put_page(c, rows, e);
	} else {
		json_object_begin(api_json(c, 200));
		json_key(&c->json, rows->key);
		json_array_begin(&c->json);
		for (int i = 0; i < rows->count; i++)
			put_row(&c->json, rows, (const char *)rows->rows + (size_t)i * rows->size);
		json_array_end(&c->json);
		json_object_end(&c->json);
	}
	free(rows->rows);
	return r;
}
