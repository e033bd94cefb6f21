/*
 * What a server's client takes from outside: COVE_HOST, whose authority must be read as the same
 * host again; an answer that is a result, of which what was taken is written and taken the same.
 */
#include "fuzz.h"

#include "remote/remote.h"

#include <stdio.h>

static void check_host(const char *text)
{
	struct remote_host a, b;
	char again[700];
	struct err e = {0};

	if (remote_host_parse(&a, text, &e) < 0) {
		MUST(e.kind == ERR_INVALID && e.msg[0]);
		return;
	}
	if (a.path[0])
		snprintf(again, sizeof(again), "unix:%s", a.path);
	else
		snprintf(again, sizeof(again), "http%s://%s%s", a.is_tls ? "s" : "", a.authority,
			 a.prefix);
	MUST(!strpbrk(a.authority, " \r\n\t") && !strpbrk(a.prefix, " \r\n\t"));
	MUST(remote_host_parse(&b, again, &e) == 0);
	MUST(strcmp(a.path, b.path) == 0 && strcmp(a.authority, b.authority) == 0 &&
	     strcmp(a.prefix, b.prefix) == 0 && a.is_tls == b.is_tls && a.port == b.port);
}

static void check_result(const uint8_t *p, size_t n)
{
	json_t *o = json_loadb((const char *)p, n, JSON_ALLOW_NUL, NULL), *second;
	struct cove_result a, b;
	char *text, *again;

	if (remote_take_result(o, true, &a, NULL) == 0) {
		text = cove_result_json(&a);
		MUST(text);
		second = json_loads(text, 0, NULL);
		MUST(remote_take_result(second, true, &b, NULL) == 0);
		again = cove_result_json(&b);
		MUST(again && strcmp(text, again) == 0);
		free(text);
		free(again);
		json_decref(second);
		cove_result_free(&a);
		cove_result_free(&b);
	}
	json_decref(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct cove cove = {.host.path = "/s"};
	struct input in = {p, n};
	char *text = input_text(&in);
	struct err e = {0};

	check_host(text);
	check_result(p, n);
	MUST(remote_error(&cove, 500, p, n, &e) < 0 && e.kind != ERR_NONE && e.msg[0]);
	free(text);
	return 0;
}
