/* Routes of ports: what listens, links, and the proxy by path; see ports.h. */
#include "api/ports.h"

#include "base/clock.h"
#include "store/record.h"

#include <errno.h>

static int parse_port(const char *text, unsigned *ret, struct err *e)
{
	uint64_t n;

	if (!str_parse_u64(text, UINT16_MAX, &n) || n == 0)
		return err_set(e, ERR_INVALID, EINVAL, "'%.20s' is no port: 1 to 65535", text);
	*ret = (unsigned)n;
	return 0;
}

/* ---- what listens ---- */

static int list_ports(struct api_call *c, struct cove *cove, struct err *e)
{
	struct cove_listening *list = NULL;
	struct cove_box *box = NULL;
	struct json *j = &c->json;
	struct cove_error err;
	int n = 0, r = api_box_find(c, cove, &box, e);

	if (r < 0)
		return r;
	n = cove_listening(box, &list, &err);
	cove_box_free(box);
	if (n < 0)
		return api_failed(n, &err, e);
	json_object_begin(api_json(c, 200));
	json_key(j, "ports");
	json_array_begin(j);
	for (int i = 0; i < n; i++) {
		json_object_begin(j);
		json_kv_u64(j, "port", list[i].port);
		json_kv_str(j, "address", list[i].address);
		json_kv_str(j, "program", list[i].program);
		json_kv_u64(j, "pid", list[i].pid);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
	free(list);
	return 0;
}

/* ---- links ---- */

struct link_in {
	unsigned port;
	uint64_t for_ms;
};
static const struct api_in_field link_fields[] = {
	API_IN(link_in, port, UINT), API_IN_AS(link_in, "for", for_ms, MS), {NULL, 0, 0}};

/* "https://host:8443": what stands before the path. */
static const char *base_url(struct api_call *c, const char *host)
{
	const struct api_options *o = &c->api->options;
	const char *scheme = api_port_is_tls(c) ? "https" : "http";
	unsigned usual = strcmp(scheme, "https") == 0 ? 443 : 80;

	if (o->domain_port == 0 || o->domain_port == usual)
		return api_memory_printf(&c->memory, "%s://%s", scheme, host);
	return api_memory_printf(&c->memory, "%s://%s:%u", scheme, host, o->domain_port);
}

static int make_link(struct api_call *c, struct err *e)
{
	struct link_in in = {.for_ms = PORT_LINK_MS};
	const struct api_in_table tables[] = {{link_fields, &in}, {NULL, NULL}};
	char host[PORT_NAME_SIZE] = "", token[PORT_LINK_SIZE];
	const char *domain = c->api->options.domain, *box, *base = NULL;
	struct json *j = &c->json;
	uint64_t until;
	int r = api_in_take(&c->memory, c->body, tables, e);

	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0 && in.port == 0)
		r = err_set(e, ERR_INVALID, EINVAL, "'port' is 1 to 65535");
	if (r == 0 && (in.for_ms < 1000 || in.for_ms > PORT_LINK_MS_MAX))
		r = err_set(e, ERR_INVALID, ERANGE, "'for' is one second to 30 days");
	until = clock_wall_ms() + in.for_ms;
	if (r == 0)
		r = api_port_link(c, box, in.port, until, token, e);
	if (r == 0 && !domain)
		r = err_set(e, ERR_UNSUPPORTED, ENOTSUP,
			    "this server gives ports no names: cove serve --domain NAME does; by "
			    "path, with a key, they are below /v1/boxes/{box}/ports/");
	if (r == 0 && !api_port_name(domain, box, in.port, host))
		r = err_set(e, ERR_UNSUPPORTED, ENAMETOOLONG,
			    "this box's name is too long to be part of a host's name");
	if (r == 0)
		base = base_url(c, host);
	if (r < 0 || !base)
		return r < 0 ? r : err_errno(e, ENOMEM, "write the answer");
	c->is_exact = true; /* a host's name and a token have an id in them */
	json_object_begin(api_json(c, 201));
	json_kv_str(j, "host", strstr(base, "://") + 3);
	json_kv_str(j, "url", api_memory_printf(&c->memory, "%s/", base));
	json_kv_str(j, "link",
		    api_memory_printf(&c->memory, "%s/?" PORT_LINK_QUERY "=%s", base, token));
	json_kv_str(j, "token", token);
	json_kv_u64(j, "expires_ms", until / 1000 * 1000);
	json_object_end(j);
	return 0;
}

/* ---- by path ---- */

/* A page that a browser shows, or a script that it keeps, would be the API's own: none asks so with
 * a key, and none shall. */
static int check_browser(const struct api_call *c, struct err *e)
{
	const char *mode = http_head_find(&c->head, "Sec-Fetch-Mode");

	if ((mode && strcmp(mode, "navigate") == 0) || http_head_find(&c->head, "Service-Worker"))
		return err_set(e, ERR_DENIED, EACCES,
			       "pages of a box are for its own name (cove serve --domain), not for "
			       "the API's");
	return 0;
}

static int call_port(struct api_call *c, struct err *e)
{
	struct api_port_ask *ask = api_memory_get(&c->memory, sizeof(*ask));
	const char *box, *rest = api_param(c, "path");
	size_t before = strlen(c->path) - strlen(rest) - 1;
	int r = check_browser(c, e);

	if (r == 0 && !ask)
		r = err_errno(e, ENOMEM, "read the request");
	if (r == 0)
		r = api_box(c, &box, e);
	if (r == 0 && !str_copy(ask->box, sizeof(ask->box), box))
		r = err_set(e, ERR_NOT_FOUND, ENOENT, "there is no such box");
	if (r == 0)
		r = parse_port(api_param(c, "port"), &ask->number, e);
	if (r < 0)
		return r;
	ask->prefix = api_memory_printf(&c->memory, "%.*s", (int)before, c->path);
	ask->target = api_memory_printf(&c->memory, "/%s%s%s", rest, c->query ? "?" : "",
					c->query ? c->query : "");
	if (!ask->prefix || !ask->target)
		return err_errno(e, ENOMEM, "read the request");
	c->port = ask;
	return api_proxy(c, e);
}

/* clang-format off */
const struct api_route api_port_routes[] = {
	{"GET", "/v1/boxes/{box}/ports", "listPorts", KEY_RUN, .work = list_ports},
	{"POST", "/v1/boxes/{box}/port-links", "linkPort", KEY_RUN, API_BODY_JSON,
	 .now = make_link, .secret = true},
	{"*", "/v1/boxes/{box}/ports/{port}/{path*}", "callPort", KEY_RUN, API_BODY_STREAM,
	 .now = call_port},
	{0}};
/* clang-format on */
