/* Lists in three forms; see list.h. */
#include "cli/list.h"

#include "base/fd.h"
#include "base/limits.h"
#include "cli/term.h"

#include <string.h>
#include <unistd.h>

static int fill_table(const struct list_form *form, const char *items, size_t count,
		      struct buf *out)
{
	unsigned rows, cols;
	struct table t;
	int r;

	table_init(&t, form->titles, form->right);
	t.whole = form->whole;
	t.optional = form->optional;
	for (size_t i = 0; i < count; i++)
		form->row(&t, items + i * form->size);
	r = table_print(&t, term_size(STDOUT_FILENO, &rows, &cols) ? cols : 0, out);
	table_done(&t);
	return r;
}

static int fill_json(const struct list_form *form, const char *items, size_t count, struct buf *out)
{
	struct json j;

	json_init(&j, out);
	json_array_begin(&j);
	for (size_t i = 0; i < count; i++) {
		json_object_begin(&j);
		wire_fields_json(&j, form->fields, items + i * form->size);
		if (form->more)
			form->more(&j, items + i * form->size);
		json_object_end(&j);
	}
	json_array_end(&j);
	return j.error ? j.error : buf_append_str(out, "\n");
}

static int fill_names(const struct list_form *form, const char *items, size_t count,
		      struct buf *out)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		if (form->name)
			form->name(out, items + i * form->size);
		else
			(void)buf_append_str(out, items + i * form->size);
		r = buf_append_str(out, "\n");
	}
	return r;
}

int list_run(struct cli *c, const struct list_form *form)
{
	autofree void *items = NULL;
	struct cove_error err;
	struct buf out;
	int r, count = form->get(c, &items, &err);

	if (count < 0)
		return cli_fail(c, &err);
	if (count == 0 && !c->o.json && !c->o.quiet)
		cli_note("%s", form->empty);
	buf_init(&out, TABLE_BYTES_MAX);
	r = (c->o.json	  ? fill_json
	     : c->o.quiet ? fill_names
			  : fill_table)(form, items, (size_t)count, &out);
	r = r < 0 ? cli_error(c, COVE_LIMIT, "the list is too long to print")
		  : cli_out_buf(c, &out);
	buf_done(&out);
	return r;
}

int list_rows_add(struct list_rows *l, const char *json)
{
	int r = l->as_lines ? 0 : cli_out(l->c, l->begun ? ",\n" : "[", l->begun ? 2 : 1);

	l->begun = true;
	if (r == 0)
		r = cli_out(l->c, json, strlen(json));
	return r == 0 && l->as_lines ? cli_out(l->c, "\n", 1) : r;
}

int list_rows_end(struct list_rows *l)
{
	const char *text = l->begun ? "]\n" : "[]\n";

	return l->as_lines ? 0 : cli_out(l->c, text, strlen(text));
}

int list_print_table(struct cli *c, const struct list_form *form, const void *items, size_t count,
		     bool redraw, bool title)
{
	const char *text;
	struct buf b;
	int r;

	buf_init(&b, TABLE_BYTES_MAX);
	r = redraw ? buf_append_str(&b, "\033[H\033[J") : 0;
	if (r == 0)
		r = fill_table(form, items, count, &b);
	text = r == 0 ? buf_cstr(&b) : NULL;
	if (text && !title)
		text = strchr(text, '\n') + 1;
	r = text ? cli_out(c, text, strlen(text))
		 : cli_error(c, COVE_LIMIT, "the list is too long to print");
	buf_done(&b);
	return r;
}
