/* An image's config; see config.h. */
#include "oci/config.h"

#include "base/fd.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int broken(struct err *e, const char *what)
{
	return err_set(e, ERR_INVALID, EBADMSG, "the image's config is broken: %s", what);
}

/* ---- times ---- */

static bool take_digits(const char **p, size_t n, int *ret)
{
	int v = 0;

	for (size_t i = 0; i < n; i++, (*p)++) {
		if (**p < '0' || **p > '9')
			return false;
		v = v * 10 + (**p - '0');
	}
	*ret = v;
	return true;
}

static bool take_char(const char **p, const char *any)
{
	if (!**p || !strchr(any, **p))
		return false;
	(*p)++;
	return true;
}

/* "Z" or "+HH:MM", in seconds east. */
static bool take_zone(const char **p, int *ret)
{
	int sign, hours, minutes;

	*ret = 0;
	if (take_char(p, "Zz"))
		return true;
	sign = **p == '-' ? -1 : 1;
	if (!take_char(p, "+-") || !take_digits(p, 2, &hours) || !take_char(p, ":") ||
	    !take_digits(p, 2, &minutes))
		return false;
	*ret = sign * (hours * 3600 + minutes * 60);
	return true;
}

bool oci_time_parse(const char *text, uint64_t *ret_ms)
{
	const char *p = text;
	struct tm t = {0};
	unsigned ms = 0, scale = 100;
	int zone;
	time_t s;

	if (!take_digits(&p, 4, &t.tm_year) || !take_char(&p, "-") ||
	    !take_digits(&p, 2, &t.tm_mon) || !take_char(&p, "-") ||
	    !take_digits(&p, 2, &t.tm_mday) || !take_char(&p, "Tt ") ||
	    !take_digits(&p, 2, &t.tm_hour) || !take_char(&p, ":") ||
	    !take_digits(&p, 2, &t.tm_min) || !take_char(&p, ":") || !take_digits(&p, 2, &t.tm_sec))
		return false;
	if (take_char(&p, "."))
		for (; *p >= '0' && *p <= '9'; p++, scale /= 10)
			ms += (unsigned)(*p - '0') * scale;
	if (!take_zone(&p, &zone) || *p || t.tm_mon < 1 || t.tm_mon > 12 || t.tm_mday < 1 ||
	    t.tm_mday > 31 || t.tm_hour > 23 || t.tm_min > 59 || t.tm_sec > 60)
		return false;
	t.tm_year -= 1900;
	t.tm_mon -= 1;
	s = timegm(&t) - zone;
	/* Go's zero time is of the year 1, and means that nothing was said. */
	*ret_ms = s > 0 ? (uint64_t)s * 1000 + ms : 0;
	return true;
}

const char *oci_time_format(uint64_t ms, char ret[OCI_TIME_TEXT])
{
	time_t s = (time_t)(ms / 1000);
	struct tm t;

	if (!gmtime_r(&s, &t) || strftime(ret, OCI_TIME_TEXT, "%Y-%m-%dT%H:%M:%SZ", &t) == 0)
		str_copy(ret, OCI_TIME_TEXT, "1970-01-01T00:00:00Z");
	return ret;
}

/* ---- reading ---- */

/* A text that may be missing or empty, both NULL. False: it is something else. */
static bool find_text(json_t *o, const char *key, const char **ret)
{
	json_t *v = json_object_get(o, key);

	*ret = NULL;
	if (!v || json_is_null(v))
		return true;
	if (!json_is_string(v))
		return false;
	if (*json_string_value(v))
		*ret = json_string_value(v);
	return true;
}

static int too_many(struct err *e, const char *what)
{
	return err_set(e, ERR_LIMIT, E2BIG, "the image's config has more than %u %s",
		       IMAGE_ITEMS_MAX, what);
}

static int add_item(struct image_items *l, const char *text, const char *what, struct err *e)
{
	if (l->count == IMAGE_ITEMS_MAX)
		return too_many(e, what);
	l->at[l->count++] = text;
	return 0;
}

/* A list of texts, or null. */
static int read_list(json_t *o, const char *key, struct image_items *ret, struct err *e)
{
	json_t *list = json_object_get(o, key), *v;
	size_t i;
	int r = 0;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return broken(e, "something that is a list of texts is none");
	json_array_foreach(list, i, v)
	{
		if (!json_is_string(v))
			return broken(e, "something that is a list of texts is none");
		r = add_item(ret, json_string_value(v), key, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* What is no NAME=VALUE is left out, as the kernel would pass it and no program read it. */
static int read_env(json_t *o, struct image_items *ret, struct err *e)
{
	size_t n = 0;
	int r = read_list(o, "Env", ret, e);

	for (size_t i = 0; i < ret->count; i++) {
		const char *eq = strchr(ret->at[i], '=');

		if (eq && eq != ret->at[i])
			ret->at[n++] = ret->at[i];
	}
	ret->count = n;
	return r;
}

/* The keys of an object, which is how Go writes a set; with their values where those are texts. */
static int read_keys(struct oci_config *c, json_t *o, const char *key, bool values,
		     struct image_items *ret, struct err *e)
{
	json_t *set = json_object_get(o, key), *v;
	const char *name;
	int r = 0;

	if (!set || json_is_null(set))
		return 0;
	if (!json_is_object(set))
		return broken(e, "something that is a set of names is none");
	json_object_foreach(set, name, v)
	{
		char *text = NULL;

		if (!values) {
			r = add_item(ret, name, key, e);
		} else if (!json_is_string(v)) {
			return broken(e, "a label is no text");
		} else {
			if (c->text_count == IMAGE_ITEMS_MAX)
				return too_many(e, key);
			if (asprintf(&text, "%s=%s", name, json_string_value(v)) < 0)
				return err_errno(e, ENOMEM, "read an image's config");
			c->texts[c->text_count++] = text;
			r = add_item(ret, text, key, e);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int read_run(struct oci_config *c, json_t *o, struct err *e)
{
	struct image_config *ret = &c->config;
	int r;

	if (!o || json_is_null(o))
		return 0;
	if (!json_is_object(o) || !find_text(o, "User", &ret->user) ||
	    !find_text(o, "WorkingDir", &ret->cwd) ||
	    !find_text(o, "StopSignal", &ret->stop_signal))
		return broken(e, "a text is none");
	if (ret->cwd && ret->cwd[0] != '/')
		return broken(e, "its working directory is not absolute");
	r = read_env(o, &ret->env, e);
	if (r == 0)
		r = read_list(o, "Entrypoint", &ret->entrypoint, e);
	if (r == 0)
		r = read_list(o, "Cmd", &ret->cmd, e);
	if (r == 0)
		r = read_list(o, "Shell", &ret->shell, e);
	if (r == 0)
		r = read_keys(c, o, "Labels", true, &ret->labels, e);
	if (r == 0)
		r = read_keys(c, o, "ExposedPorts", false, &ret->ports, e);
	if (r == 0)
		r = read_keys(c, o, "Volumes", false, &ret->volumes, e);
	return r;
}

static int read_diffs(struct oci_config *c, json_t *rootfs, struct err *e)
{
	json_t *list = json_object_get(rootfs, "diff_ids"), *v;
	size_t i;

	if (!json_is_object(rootfs) || !json_is_array(list))
		return broken(e, "it does not say which layers it is made of");
	if (json_array_size(list) > OCI_LAYERS_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "the image has %zu layers, the limit is %u",
			       json_array_size(list), OCI_LAYERS_MAX);
	json_array_foreach(list, i, v)
	{
		const char *text = json_string_value(v);

		if (!text || !str_starts(text, "sha256:") ||
		    !blobs_is_digest(text + strlen("sha256:")))
			return broken(e, "the digest of a layer is no SHA-256");
		str_copy(c->diffs[c->diff_count++], sizeof(c->diffs[0]), text + strlen("sha256:"));
	}
	return 0;
}

static int read_history(struct oci_config *c, json_t *list, struct err *e)
{
	size_t count = json_array_size(list);
	size_t from = count > IMAGE_ITEMS_MAX ? count - IMAGE_ITEMS_MAX : 0;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return broken(e, "its history is no list");
	for (size_t i = from; i < count; i++) {
		struct image_step *step = &c->history[c->history_count++];
		json_t *v = json_array_get(list, i);
		const char *created, *by, *comment;

		if (!json_is_object(v) || !find_text(v, "created", &created) ||
		    !find_text(v, "created_by", &by) || !find_text(v, "comment", &comment))
			return broken(e, "a step of its history is none");
		step->empty = json_is_true(json_object_get(v, "empty_layer"));
		step->by = by ? by : comment ? comment : "";
		if (created && !oci_time_parse(created, &step->created_ms))
			step->created_ms = 0;
	}
	return 0;
}

static int read_all(struct oci_config *c, struct err *e)
{
	const char *os, *arch, *variant, *created;
	int r;

	if (!json_is_object(c->root) || !find_text(c->root, "os", &os) ||
	    !find_text(c->root, "architecture", &arch) ||
	    !find_text(c->root, "variant", &variant) || !find_text(c->root, "created", &created))
		return broken(e, "a text is none");
	if (os && strcmp(os, "linux") != 0)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "the image is for '%.40s'; boxes run Linux", os);
	str_copy(c->platform.os, sizeof(c->platform.os), "linux");
	if (!str_copy(c->platform.arch, sizeof(c->platform.arch), arch ? arch : "") ||
	    !str_copy(c->platform.variant, sizeof(c->platform.variant), variant ? variant : ""))
		return broken(e, "its architecture is none");
	if (created && !oci_time_parse(created, &c->created_ms))
		c->created_ms = 0;
	r = read_diffs(c, json_object_get(c->root, "rootfs"), e);
	if (r == 0)
		r = read_run(c, json_object_get(c->root, "config"), e);
	if (r == 0)
		r = read_history(c, json_object_get(c->root, "history"), e);
	return r;
}

int oci_config_parse(const char *text, size_t n, struct oci_config *ret, struct err *e)
{
	json_error_t why;

	memset(ret, 0, sizeof(*ret));
	if (n > OCI_CONFIG_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "the image's config has more than %u bytes",
			       OCI_CONFIG_MAX);
	ret->texts = calloc(IMAGE_ITEMS_MAX, sizeof(*ret->texts));
	if (!ret->texts)
		return err_errno(e, ENOMEM, "read an image's config");
	ret->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (!ret->root)
		return broken(e, "it is no JSON");
	return read_all(ret, e);
}

void oci_config_done(struct oci_config *c)
{
	for (size_t i = 0; i < c->text_count; i++)
		free(c->texts[i]);
	free(c->texts);
	json_decref(c->root);
	memset(c, 0, sizeof(*c));
}

/* ---- writing ---- */

static void put_text(json_t *o, const char *key, const char *text)
{
	if (text)
		json_object_set_new(o, key, json_string(text));
}

static void put_list(json_t *o, const char *key, const struct image_items *l)
{
	json_t *list = l->count ? json_array() : NULL;

	for (size_t i = 0; i < l->count; i++)
		json_array_append_new(list, json_string(l->at[i]));
	if (list)
		json_object_set_new(o, key, list);
}

/* Sets as Go has them; a label's value is a text, the others' are empty. */
static void put_keys(json_t *o, const char *key, const struct image_items *l, bool values)
{
	json_t *set = l->count ? json_object() : NULL;

	for (size_t i = 0; i < l->count; i++) {
		const char *eq = values ? strchr(l->at[i], '=') : NULL;
		autofree char *name =
			strndup(l->at[i], eq ? (size_t)(eq - l->at[i]) : strlen(l->at[i]));

		if (name)
			json_object_set_new(set, name,
					    values ? json_string(eq ? eq + 1 : "") : json_object());
	}
	if (set)
		json_object_set_new(o, key, set);
}

static json_t *run_of(const struct image_config *c)
{
	json_t *o = json_object();

	put_text(o, "User", c->user);
	put_keys(o, "ExposedPorts", &c->ports, false);
	put_list(o, "Env", &c->env);
	put_list(o, "Entrypoint", &c->entrypoint);
	put_list(o, "Cmd", &c->cmd);
	put_keys(o, "Volumes", &c->volumes, false);
	put_text(o, "WorkingDir", c->cwd);
	put_keys(o, "Labels", &c->labels, true);
	put_text(o, "StopSignal", c->stop_signal);
	put_list(o, "Shell", &c->shell);
	return o;
}

static json_t *history_of(const struct image *im)
{
	json_t *list = json_array();
	char text[OCI_TIME_TEXT];

	for (size_t i = 0; i < im->history_count; i++) {
		const struct image_step *step = &im->history[i];
		json_t *o = json_object();

		put_text(o, "created", oci_time_format(step->created_ms, text));
		put_text(o, "created_by", step->by);
		if (step->empty)
			json_object_set_new(o, "empty_layer", json_true());
		json_array_append_new(list, o);
	}
	return list;
}

/* Readers count the steps that made a layer: where that is not the number of layers, or nothing is
 * known, none is said. */
static bool has_whole_history(const struct image *im, size_t layers)
{
	size_t n = 0;

	for (size_t i = 0; i < im->history_count; i++)
		n += !im->history[i].empty;
	return im->history_count > 0 && n == layers;
}

int oci_config_format(const struct image *im, const char (*diffs)[65], size_t count,
		      struct buf *ret, struct err *e)
{
	json_t *root = json_object(), *list = json_array();
	char time[OCI_TIME_TEXT], digest[80];
	autofree char *text = NULL;
	struct oci_platform p;

	if (!im->platform || oci_platform_parse(im->platform, &p, NULL) < 0)
		oci_platform_host(&p);
	/* When a tar was imported here says nothing about it, and would change the digest. */
	if (im->history_count > 0)
		put_text(root, "created", oci_time_format(im->created_ms, time));
	put_text(root, "architecture", p.arch);
	put_text(root, "variant", p.variant[0] ? p.variant : NULL);
	put_text(root, "os", p.os);
	json_object_set_new(root, "config", run_of(&im->config));
	for (size_t i = 0; i < count; i++) {
		snprintf(digest, sizeof(digest), "sha256:%s", diffs[i]);
		json_array_append_new(list, json_string(digest));
	}
	json_object_set_new(root, "rootfs",
			    json_pack("{s:s, s:o}", "type", "layers", "diff_ids", list));
	if (has_whole_history(im, count))
		json_object_set_new(root, "history", history_of(im));
	text = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	if (!text || buf_append_str(ret, text) < 0)
		return err_errno(e, ENOMEM, "write an image's config");
	return 0;
}
