/* The server's configuration; see config.h. */
#include "server/config.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/size.h"
#include "base/str.h"
#include "net/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum setting_kind { TEXT, LIST, FLAG, NUMBER, SHARE, SIZE, TIME };
enum { CONFIG_FILE_MAX = 256 << 10, HELP_WIDTH = 72, THREADS = 32, CONNECTIONS = 12000 };
enum { WEBHOOK_RETRY_MS = 1000, WEBHOOK_FAILURES = 20 };
enum { RESERVE = 256 << 20, ADMISSION_WAIT_MS = 5000, WAITING_PART = 4 };

struct setting {
	const char *name;
	enum setting_kind kind;
	size_t offset;
	uint64_t max;
	const char *value, *help;
};

/* clang-format off */
#define AT(name) offsetof(struct server_config, name)
static const struct setting settings[] = {
	{"listen", LIST, AT(listen), 0, "ADDRESS:PORT",
	 "serve TCP there too, with keys (`cove key create`); repeatable"},
	{"socket", TEXT, AT(socket), 0, "PATH",
	 "the Unix socket, for this user, without a key; none: there is none"},
	{"home", TEXT, AT(home), 0, "DIR", "the state directory; default $COVE_HOME or the usual"},
	{"tls-cert", TEXT, AT(tls_cert), 0, "FILE", "certificate chain (PEM) for TCP"},
	{"tls-key", TEXT, AT(tls_key), 0, "FILE", "its key (PEM)"},
	{"plain-http", FLAG, AT(plain_http), 0, NULL,
	 "allow an address beyond loopback without TLS: keys can be read on the way"},
	{"min-wall", TEXT, AT(min_wall), 0, "NAME",
	 "every box has at least this wall; beyond loopback gvisor"},
	{"accept-shared-kernel", FLAG, AT(shared_kernel), 0, NULL,
	 "allow an address beyond loopback with boxes that share this machine's kernel"},
	{"host-name", LIST, AT(host_names), 0, "NAME",
	 "clients call this server so (its address and localhost are known); repeatable"},
	{"origin", LIST, AT(origins), 0, "URL",
	 "pages of this site may ask this server from a browser; repeatable"},
	{"metrics-label", LIST, AT(metrics_labels), 0, "NAME",
	 "/metrics shows seconds alive and of CPU for each value of this label; repeatable"},
	{"domain", TEXT, AT(domain), 0, "NAME",
	 "ports of boxes are <port>-<box>.NAME, which a wildcard in the DNS leads here; "
	 "https://NAME[:PORT] where something in front does TLS"},
	{"private", FLAG, AT(private), 0, NULL,
	 "serve the process that started this one alone, at --socket: end when stdin does"},
	{"threads", NUMBER, AT(threads), 1000, "N", "for calls that block; default 32"},
	{"connections", NUMBER, AT(connections), 1000000, "N", "at once; default 12000"},
	{"otlp", TEXT, AT(otlp), 0, "URL",
	 "send traces there (OpenTelemetry, OTLP over HTTP); also $OTEL_EXPORTER_OTLP_ENDPOINT"},
	{"otlp-headers", TEXT, AT(otlp_headers), 0, "FILE",
	 "lines \"Name: value\" to send with them"},
	{"webhook-retry", TIME, AT(webhook_retry_ms), 3600000, "TIME",
	 "the wait after a webhook's first failure, twice as long each time; default 1s"},
	{"webhook-failures", NUMBER, AT(webhook_failures), 1000, "N",
	 "in a row, after which a webhook is disabled; default 20"},
	{"memory-share", SHARE, AT(memory_share), 0, "PERCENT%|SIZE",
	 "of this host's memory, that running boxes may use by their limits; default none"},
	{"disk-share", SHARE, AT(disk_share), 0, "PERCENT%|SIZE",
	 "of its disk, that all boxes may use by their limits; default none"},
	{"memory-reserve", SIZE, AT(memory_reserve), 0, "SIZE",
	 "no box begins while less memory is available; 0: none; default 256m"},
	{"disk-reserve", SIZE, AT(disk_reserve), 0, "SIZE",
	 "no box begins while less of the disk is free; 0: none; default 256m"},
	{"admission-wait", TIME, AT(admission_wait_ms), ADMISSION_WAIT_MAX_MS, "TIME",
	 "how long a request waits for such room before it is answered 429; default 5s"},
};
/* clang-format on */

static const struct setting *setting_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		if (strlen(settings[i].name) == len && memcmp(settings[i].name, name, len) == 0)
			return &settings[i];
	return NULL;
}

/* Whole words, on lines that fit a terminal. */
static void print_wrapped(const char *s)
{
	while (*s) {
		size_t n = strlen(s);

		if (n > HELP_WIDTH)
			for (n = HELP_WIDTH; s[n] != ' '; n--)
				;
		printf("        %.*s\n", (int)n, s);
		s += n;
		s += *s == ' ';
	}
}

void server_config_help(void)
{
	printf("Usage: cove serve [OPTIONS]\n\nOptions\n"
	       "      --config FILE\n"
	       "        lines \"NAME: VALUE\" with the names below; -FILE: it may be missing\n");
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		printf("      --%s%s%s\n", settings[i].name, settings[i].value ? " " : "",
		       settings[i].value ? settings[i].value : "");
		print_wrapped(settings[i].help);
	}
}

static void list_free(struct config_list *l)
{
	while (l->count > 0)
		free(l->items[--l->count]);
}

void server_config_done(struct server_config *c)
{
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		char *at = (char *)c + settings[i].offset;

		if (settings[i].kind == TEXT)
			free(*(char **)at);
		else if (settings[i].kind == LIST)
			list_free((struct config_list *)at);
	}
}

/* What is more than a text. */
static int take_amount(const struct setting *s, const char *value, char *at, struct err *e)
{
	bool good = s->kind == SHARE ? core_share_parse(value, (struct core_share *)at)
		    : s->kind == SIZE
			    ? size_parse(value, (uint64_t *)at)
			    : str_parse_ms(value, (uint64_t *)at) && *(uint64_t *)at <= s->max;

	if (good)
		return 0;
	if (s->kind == TIME)
		return err_set(e, ERR_INVALID, EINVAL,
			       "%s is a time of at most %llus as \"5s\", not '%.40s'", s->name,
			       (unsigned long long)s->max / 1000, value);
	return err_set(e, ERR_INVALID, EINVAL, "%s is %s, not '%.40s'", s->name,
		       s->kind == SHARE ? "as \"80%\" or \"64g\"" : "a size as \"512m\", or 0",
		       value);
}

static int take(struct server_config *c, const struct setting *s, const char *value, struct err *e)
{
	char *at = (char *)c + s->offset, *copy = NULL;
	struct config_list *list = (struct config_list *)at;

	if (s->kind == FLAG) {
		bool off = value && strcmp(value, "false") == 0;

		if (value && !off && strcmp(value, "true") != 0)
			return err_set(e, ERR_INVALID, EINVAL, "%s is true or false", s->name);
		*(bool *)at = !off;
		return 0;
	}
	if (!value || !*value)
		return err_set(e, ERR_INVALID, EINVAL, "%s needs a value: %s", s->name, s->value);
	if (s->kind == NUMBER) {
		if (!str_parse_u64(value, s->max, (uint64_t *)at) || *(uint64_t *)at == 0)
			return err_set(e, ERR_INVALID, EINVAL, "%s is a number from 1 to %llu",
				       s->name, (unsigned long long)s->max);
		return 0;
	}
	if (s->kind >= SHARE)
		return take_amount(s, value, at, e);
	if (s->kind == LIST && list->count == CONFIG_LIST_MAX)
		return err_set(e, ERR_LIMIT, E2BIG, "more than %d of %s", CONFIG_LIST_MAX, s->name);
	copy = strdup(value);
	if (!copy)
		return err_errno(e, ENOMEM, "read the configuration");
	if (s->kind == LIST) {
		list->items[list->count++] = copy;
	} else {
		free(*(char **)at);
		*(char **)at = copy;
	}
	return 0;
}

/* ---- the file ---- */

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		*--end = 0;
	return s;
}

static int take_line(struct server_config *c, char *line, struct err *e)
{
	const struct setting *s;
	char *value, *comment = strchr(line, '#');

	if (comment && (comment == line || comment[-1] == ' ' || comment[-1] == '\t'))
		*comment = 0;
	line = trim(line);
	if (!*line)
		return 0;
	value = strchr(line, ':');
	if (!value)
		return err_set(e, ERR_INVALID, EINVAL, "a line is \"NAME: VALUE\"");
	*value++ = 0;
	line = trim(line);
	value = trim(value);
	if (strlen(value) > 1 && *value == '"' && value[strlen(value) - 1] == '"') {
		value[strlen(value) - 1] = 0;
		value++;
	}
	s = setting_find(line, strlen(line));
	if (!s)
		return err_set(e, ERR_INVALID, EINVAL, "there is no '%.60s'", line);
	return take(c, s, value, e);
}

/* "-PATH" may be missing. */
static int take_file(struct server_config *c, const char *path, struct err *e)
{
	bool is_optional = *path == '-';
	autofree char *text = NULL;
	char *line, *next;
	size_t len;
	int r = fd_read_file(AT_FDCWD, path += is_optional, CONFIG_FILE_MAX, &text, &len);
	unsigned n = 1;

	if (r == -ENOENT && is_optional)
		return 0;
	if (r < 0)
		return err_errno(e, -r, "read '%s'", path);
	if (strlen(text) != len)
		return err_set(e, ERR_INVALID, EINVAL, "'%s' is no text", path);
	for (line = text; line; line = next, n++) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		r = take_line(c, line, e);
		if (r < 0) {
			err_prefix(e, "%s, line %u", path, n);
			return r;
		}
	}
	return 0;
}

/* ---- flags ---- */

static int take_flag(struct server_config *c, char *const **argv, bool only_file, struct err *e)
{
	const char *arg = **argv, *name = arg + 2, *equals = strchr(arg, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	bool is_file = len == 6 && memcmp(name, "config", 6) == 0;
	const struct setting *s = setting_find(name, len);
	const char *value = equals ? equals + 1 : NULL;

	if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
		c->show_help = true;
		return 0;
	}
	if (!str_starts(arg, "--") || (!s && !is_file))
		return err_set(e, ERR_INVALID, EINVAL,
			       "there is no option '%.60s': cove serve --help", arg);
	if (!equals && (is_file || s->kind != FLAG)) {
		value = (*argv)[1];
		if (!value)
			return err_set(e, ERR_INVALID, EINVAL, "%.60s needs a value", arg);
		++*argv;
	}
	if (is_file)
		return only_file ? take_file(c, value, e) : 0;
	return only_file ? 0 : take(c, s, value, e);
}

/* "NAME", "https://NAME", "https://NAME:PORT". */
static int take_domain(struct server_config *c, struct err *e)
{
	const char *at = c->domain, *name = strstr(at, "://");
	uint16_t port = 0;
	struct host h;
	bool ok = true;

	if (name) {
		ok = (size_t)(name - at) < sizeof(c->domain_scheme);
		snprintf(c->domain_scheme, sizeof(c->domain_scheme), "%.*s", (int)(name - at), at);
		ok = ok && (strcmp(c->domain_scheme, "http") == 0 ||
			    strcmp(c->domain_scheme, "https") == 0);
	}
	if (!ok || host_parse_authority(&h, name ? name + 3 : at, &port) < 0 || h.is_address ||
	    !strchr(h.text, '.'))
		return err_set(e, ERR_INVALID, EINVAL,
			       "'%.80s' is no domain: give --domain boxes.example.org, or "
			       "https://boxes.example.org where something in front does TLS",
			       at);
	str_copy(c->domain_name, sizeof(c->domain_name), h.text);
	c->domain_port = port;
	return 0;
}

int server_config_read(struct server_config *ret, char *const *argv, struct err *e)
{
	struct server_config c = {.webhook_retry_ms = WEBHOOK_RETRY_MS,
				  .webhook_failures = WEBHOOK_FAILURES,
				  .threads = THREADS,
				  .connections = CONNECTIONS,
				  .memory_reserve = RESERVE,
				  .disk_reserve = RESERVE,
				  .admission_wait_ms = ADMISSION_WAIT_MS};
	int r = 0;

	/* The file first, so that flags overrule it wherever they stand. */
	for (char *const *at = argv; *at && r == 0; at++)
		r = take_flag(&c, &at, true, e);
	for (char *const *at = argv; *at && r == 0; at++)
		r = take_flag(&c, &at, false, e);
	if (r == 0 && !c.tls_cert != !c.tls_key)
		r = err_set(e, ERR_INVALID, EINVAL, "tls-cert and tls-key go together");
	/* The usual place is the socket of the one server that the state directory has. */
	if (r == 0 && c.private && !c.socket)
		r = err_set(e, ERR_INVALID, EINVAL,
			    "private needs a socket of its own: give --socket PATH, or none");
	if (r == 0 && c.domain)
		r = take_domain(&c, e);
	if (r < 0)
		server_config_done(&c);
	else
		*ret = c;
	return r;
}

/* ---- one after the other ---- */

static bool is_same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same_list(const struct config_list *a, const struct config_list *b)
{
	bool same = a->count == b->count;

	for (size_t i = 0; i < a->count && same; i++)
		same = strcmp(a->items[i], b->items[i]) == 0;
	return same;
}

static bool is_same(const struct setting *s, const struct server_config *a,
		    const struct server_config *b)
{
	const char *x = (const char *)a + s->offset, *y = (const char *)b + s->offset;

	if (s->kind == TEXT)
		return is_same_text(*(char *const *)x, *(char *const *)y);
	if (s->kind == LIST)
		return is_same_list((const struct config_list *)x, (const struct config_list *)y);
	if (s->kind == FLAG)
		return *(const bool *)x == *(const bool *)y;
	return *(const uint64_t *)x == *(const uint64_t *)y;
}

int server_config_may_follow(const struct server_config *now, const struct server_config *next,
			     struct err *e)
{
	/* What is made of these at the start is not made again. None is a share. */
	static const char *const kept[] = {
		"home", "private",	"threads",	 "metrics-label",
		"otlp", "otlp-headers", "webhook-retry", "webhook-failures"};
	const char *what = next->show_help ? "help" : NULL;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]) && !what; i++)
		if (!is_same(setting_find(kept[i], strlen(kept[i])), now, next))
			what = kept[i];
	return what ? err_set(e, ERR_CONFLICT, EBUSY, "'%s' holds from the server's start on", what)
		    : 0;
}

void server_config_options(const struct server_config *c, struct api_options *o)
{
	unsigned waiting = (unsigned)c->threads / WAITING_PART;

	o->home = c->home;
	o->threads_max = (unsigned)c->threads;
	o->min_wall = c->min_wall;
	o->reaps = !c->private;
	o->admission_wait_ms = c->admission_wait_ms;
	o->admission = (struct core_admission_options){.memory = c->memory_share,
						       .disk = c->disk_share,
						       .memory_reserve = c->memory_reserve,
						       .disk_reserve = c->disk_reserve,
						       .waiting_max = waiting,
						       .min_wall = c->min_wall};
	o->domain = c->domain ? c->domain_name : NULL;
	o->domain_scheme = c->domain_scheme[0] ? c->domain_scheme : NULL;
	o->domain_port = c->domain_port;
}

/* ---- who may ask ---- */

static bool list_has(const struct config_list *l, const char *s)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcasecmp(l->items[i], s) == 0)
			return true;
	return false;
}

bool server_config_has_host(const struct server_config *c, const char *host)
{
	struct host h;

	/* An address is in no DNS, so no page can make a browser take it for its own site's. The
	 * unspecified one names no machine, and browsers have taken it for this one. */
	return strcmp(host, "localhost") == 0 ||
	       (host_parse(&h, host) == 0 && h.is_address && strcmp(h.text, "0.0.0.0") != 0 &&
		strcmp(h.text, "::") != 0) ||
	       list_has(&c->host_names, host);
}

bool server_config_has_origin(const struct server_config *c, const char *origin,
			      const struct http_target *target, bool is_tls)
{
	const char *scheme = is_tls ? "https://" : "http://";
	struct host h;
	uint16_t port;

	if (list_has(&c->origins, origin))
		return true;
	return str_starts(origin, scheme) &&
	       host_parse_authority(&h, origin + strlen(scheme), &port) == 0 &&
	       strcmp(h.text, target->host) == 0 && port == target->port;
}
