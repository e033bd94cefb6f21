/* Lists in three forms; see list.h. */
#include "cli/list.h"

#include "base/limits.h"
#include "cli/term.h"

#include <unistd.h>

void list_kv_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	if (v)
		json_u64(j, v);
	else
		json_null(j);
}

void list_kv_str(struct json *j, const char *key, const char *s)
{
	json_kv_str(j, key, s[0] ? s : NULL);
}

static int fill_table(const struct list_form *form, const char *items, size_t size, size_t count,
		      struct buf *out)
{
	unsigned rows, cols;
	struct table t;
	int r;

	table_init(&t, form->titles, form->columns, form->right);
	for (size_t i = 0; i < count; i++)
		form->row(&t, items + i * size);
	r = table_print(&t, term_size(STDOUT_FILENO, &rows, &cols) ? cols : 0, out);
	table_done(&t);
	return r;
}

static int fill_json(const struct list_form *form, const char *items, size_t size, size_t count,
		     struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_array_begin(&j);
	for (size_t i = 0; i < count; i++) {
		json_object_begin(&j);
		form->object(&j, items + i * size);
		json_object_end(&j);
	}
	json_array_end(&j);
	return j.error ? j.error : buf_append_str(out, "\n");
}

static int fill_names(const struct list_form *form, const char *items, size_t size, size_t count,
		      struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		form->name(out, items + i * size);
		r = buf_append_str(out, "\n");
	}
	return r;
}

int list_print(struct cli *c, const struct list_form *form, const void *items, size_t size,
	       size_t count)
{
	struct buf out;
	int r;

	if (count == 0 && !c->o.json && !c->o.quiet) {
		if (isatty(STDERR_FILENO))
			cli_note("%s", form->empty);
		return 0;
	}
	buf_init(&out, TABLE_BYTES_MAX);
	r = (c->o.json	  ? fill_json
	     : c->o.quiet ? fill_names
			  : fill_table)(form, items, size, count, &out);
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the list is too long to print")
		  : cli_out_buf(c, &out);
	buf_done(&out);
	return r;
}
