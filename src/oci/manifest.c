/* Manifests and indexes; see manifest.h. */
#include "oci/manifest.h"

#include "base/str.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- platforms ---- */

static const struct {
	const char *machine, *arch, *variant;
} machines[] = {
	{"x86_64", "amd64", ""}, {"aarch64", "arm64", ""},   {"armv7l", "arm", "v7"},
	{"armv6l", "arm", "v6"}, {"i686", "386", ""},	     {"riscv64", "riscv64", ""},
	{"s390x", "s390x", ""},	 {"ppc64le", "ppc64le", ""}, {"loongarch64", "loong64", ""},
};

void oci_platform_host(struct oci_platform *ret)
{
	struct utsname u;

	*ret = (struct oci_platform){.os = "linux"};
	if (uname(&u) < 0)
		return;
	str_copy(ret->arch, sizeof(ret->arch), u.machine);
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		if (strcmp(machines[i].machine, u.machine) == 0) {
			str_copy(ret->arch, sizeof(ret->arch), machines[i].arch);
			str_copy(ret->variant, sizeof(ret->variant), machines[i].variant);
		}
	}
}

static bool is_word(const char *s)
{
	return s[0] && s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-")] == 0;
}

int oci_platform_parse(const char *text, struct oci_platform *ret, struct err *e)
{
	struct oci_platform p = {0};
	char copy[sizeof(p)], *parts[3] = {copy, NULL, NULL};
	size_t n = 1;
	bool ok = str_copy(copy, sizeof(copy), text);

	for (char *at = copy; ok && (at = strchr(at, '/'));) {
		*at++ = 0;
		ok = n < 3;
		if (ok)
			parts[n++] = at;
	}
	ok = ok && n > 1;
	for (size_t i = 0; ok && i < n; i++)
		ok = is_word(parts[i]);
	if (!ok || !str_copy(p.os, sizeof(p.os), parts[0]) ||
	    !str_copy(p.arch, sizeof(p.arch), parts[1]) ||
	    (parts[2] && !str_copy(p.variant, sizeof(p.variant), parts[2])))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.60s' is no platform: write it as linux/amd64 or linux/arm/v7",
			       text);
	*ret = p;
	return 0;
}

const char *oci_platform_format(const struct oci_platform *p, char ret[OCI_PLATFORM_TEXT])
{
	snprintf(ret, OCI_PLATFORM_TEXT, "%s/%s%s%s", p->os, p->arch, p->variant[0] ? "/" : "",
		 p->variant);
	return ret;
}

/* What a variant that is not said means. */
static const char *variant_of(const struct oci_platform *p)
{
	if (p->variant[0])
		return p->variant;
	if (strcmp(p->arch, "amd64") == 0)
		return "v1";
	if (strcmp(p->arch, "arm64") == 0)
		return "v8";
	return strcmp(p->arch, "arm") == 0 ? "v7" : "";
}

/* Later variants run what earlier ones do: v7 of ARM what is for v6. */
bool oci_platform_fits(const struct oci_platform *have, const struct oci_platform *want)
{
	return strcmp(have->os, want->os) == 0 && strcmp(have->arch, want->arch) == 0 &&
	       strcmp(variant_of(have), variant_of(want)) <= 0;
}

static int not_for(const struct oci_manifest *index, const struct oci_platform *want, struct err *e)
{
	char text[OCI_PLATFORM_TEXT], all[120] = "", wanted[OCI_PLATFORM_TEXT];

	for (size_t i = 0; i < index->count; i++) {
		size_t len = strlen(all);

		if (!index->items[i].platform.os[0] ||
		    strcmp(index->items[i].platform.os, "unknown") == 0)
			continue;
		oci_platform_format(&index->items[i].platform, text);
		if (len + strlen(text) + 8 > sizeof(all)) {
			snprintf(all + len, sizeof(all) - len, ", ...");
			break;
		}
		snprintf(all + len, sizeof(all) - len, "%s%s", len ? ", " : "", text);
	}
	return err_set(e, ERR_NOT_FOUND, ENOENT,
		       "the image is not made for %.40s, only for: %s; choose with --platform",
		       oci_platform_format(want, wanted), all[0] ? all : "(it does not say)");
}

int oci_index_find(const struct oci_manifest *index, const struct oci_platform *want,
		   const struct oci_desc **ret, struct err *e)
{
	const struct oci_desc *best = NULL;

	for (size_t i = 0; i < index->count; i++) {
		const struct oci_desc *d = &index->items[i];

		if (oci_platform_fits(&d->platform, want) &&
		    (!best || strcmp(variant_of(&d->platform), variant_of(&best->platform)) > 0))
			best = d;
	}
	/* An index of one that does not say what it is for: an OCI layout may be so. */
	if (!best && index->count == 1 && !index->items[0].platform.os[0])
		best = &index->items[0];
	if (!best)
		return not_for(index, want, e);
	*ret = best;
	return 0;
}

/* ---- the text ---- */

static int broken(struct err *e, const char *what)
{
	return err_set(e, ERR_PROTOCOL, EBADMSG, "the manifest is broken: %s", what);
}

static bool copy_str(json_t *o, const char *key, char *ret, size_t size)
{
	json_t *v = json_object_get(o, key);

	if (!v)
		return true;
	return json_is_string(v) && str_copy(ret, size, json_string_value(v)) &&
	       strlen(json_string_value(v)) == json_string_length(v);
}

static bool read_platform(json_t *o, struct oci_platform *ret)
{
	if (!o)
		return true;
	return json_is_object(o) && copy_str(o, "os", ret->os, sizeof(ret->os)) &&
	       copy_str(o, "architecture", ret->arch, sizeof(ret->arch)) &&
	       copy_str(o, "variant", ret->variant, sizeof(ret->variant));
}

static int read_desc(json_t *o, struct oci_desc *ret, struct err *e)
{
	char digest[160] = "";
	json_t *size = json_object_get(o, "size");

	if (!json_is_object(o) || !copy_str(o, "digest", digest, sizeof(digest)) ||
	    !copy_str(o, "mediaType", ret->type, sizeof(ret->type)) ||
	    !read_platform(json_object_get(o, "platform"), &ret->platform))
		return broken(e, "a part of it is not described as it should be");
	if (!str_starts(digest, "sha256:") || !blobs_is_digest(digest + strlen("sha256:")))
		return broken(e, "a digest is no SHA-256");
	str_copy(ret->digest, sizeof(ret->digest), digest + strlen("sha256:"));
	if (!json_is_integer(size) || json_integer_value(size) < 0 ||
	    (uint64_t)json_integer_value(size) > BLOB_BYTES_MAX)
		return broken(e, "a size is missing, or beyond all bounds");
	ret->size = (uint64_t)json_integer_value(size);
	return 0;
}

static int read_items(json_t *list, size_t max, struct oci_manifest *m, struct err *e)
{
	json_t *item;
	size_t i;
	int r = 0;

	if (!json_is_array(list))
		return broken(e, "its list of parts is none");
	if (json_array_size(list) > max)
		return err_set(e, ERR_LIMIT, E2BIG, "the manifest has %zu parts, the limit is %zu",
			       json_array_size(list), max);
	m->items = calloc(json_array_size(list) + 1, sizeof(*m->items));
	if (!m->items)
		return err_errno(e, ENOMEM, "read the manifest");
	m->count = json_array_size(list);
	json_array_foreach(list, i, item) if (r == 0) r = read_desc(item, &m->items[i], e);
	return r;
}

static bool is_type(const char *type, const char *known)
{
	size_t n = strlen(known);

	return strncmp(type, known, n) == 0 && strchr("; \t", type[n]) != NULL;
}

static bool is_index_type(const char *type)
{
	return is_type(type, OCI_TYPE_INDEX) || is_type(type, OCI_TYPE_DOCKER_LIST);
}

static bool is_manifest_type(const char *type)
{
	return is_type(type, OCI_TYPE_MANIFEST) || is_type(type, OCI_TYPE_DOCKER);
}

/* What the sender says, what the text says of itself and what is in it have to agree: otherwise two
 * readers could see two images in it. */
static int decide(json_t *o, const char *type, struct oci_manifest *m, struct err *e)
{
	json_t *version = json_object_get(o, "schemaVersion");
	json_t *inner = json_object_get(o, "mediaType");
	bool has_items = json_object_get(o, "manifests") != NULL;
	bool has_layers = json_object_get(o, "layers") || json_object_get(o, "config");
	const char *said = json_string_value(inner);

	if (!json_is_object(o) || !json_is_integer(version))
		return broken(e, "it is no object with a schemaVersion");
	if (json_integer_value(version) == 1)
		return err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			       "the image has a manifest of version 1, which Docker itself gave "
			       "up; have it pushed again with a newer program");
	if (json_integer_value(version) != 2 || (inner && !said))
		return broken(e, "it is of no version that is known");
	if (has_items == has_layers)
		return broken(e, has_items ? "it is both an index and a manifest" : "it is empty");
	m->is_index = has_items;
	for (int i = 0; i < 2; i++) {
		const char *t = i == 0 ? type : said;

		if (!t)
			continue;
		if (!is_index_type(t) && !is_manifest_type(t))
			return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "it is no image but '%.80s'",
				       t);
		if (is_index_type(t) != has_items)
			return broken(e, "it is called an index and is a manifest, or the reverse");
	}
	return 0;
}

/* Charts, signatures and other things are kept in registries the same way. */
static int check_config(const struct oci_desc *config, struct err *e)
{
	if (!config->type[0] || strcmp(config->type, OCI_TYPE_CONFIG) == 0 ||
	    strcmp(config->type, OCI_TYPE_DOCKER_CONFIG) == 0)
		return 0;
	return err_set(e, ERR_UNSUPPORTED, ENOTSUP, "it is no image but '%.80s'", config->type);
}

int oci_manifest_parse(const char *text, size_t n, const char *type, struct oci_manifest *ret,
		       struct err *e)
{
	struct oci_manifest m = {0};
	json_error_t why;
	json_t *o;
	int r;

	if (n > OCI_MANIFEST_MAX)
		return err_set(e, ERR_LIMIT, EFBIG, "the manifest has more than %u bytes",
			       OCI_MANIFEST_MAX);
	o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	if (!o)
		return broken(e, "it is no JSON");
	r = decide(o, type, &m, e);
	if (r == 0 && m.is_index)
		r = read_items(json_object_get(o, "manifests"), OCI_INDEX_ITEMS_MAX, &m, e);
	if (r == 0 && !m.is_index) {
		r = read_desc(json_object_get(o, "config"), &m.config, e);
		if (r == 0)
			r = check_config(&m.config, e);
		if (r == 0)
			r = read_items(json_object_get(o, "layers"), OCI_LAYERS_MAX, &m, e);
	}
	json_decref(o);
	if (r < 0) {
		oci_manifest_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->items);
	*m = (struct oci_manifest){0};
}

int oci_config_platform(const char *text, size_t n, struct oci_platform *ret, struct err *e)
{
	struct oci_platform p = {0};
	json_error_t why;
	json_t *o = json_loadb(text, n, 0, &why);
	bool ok = json_is_object(o) && read_platform(o, &p);

	json_decref(o);
	if (!ok)
		return err_set(e, ERR_PROTOCOL, EBADMSG,
			       "the image's configuration does not say what it is for");
	oci_platform_host(ret);
	if (p.os[0] && p.arch[0])
		*ret = p;
	return 0;
}
