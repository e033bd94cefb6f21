/* A server's client: what COVE_HOST may say, keys, answers that are not what they should be. */
#include "tap.h"

#include "base/fd.h"
#include "core/view.h"
#include "remote/remote.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

TEST(hosts)
{
	struct remote_host h;
	struct err e;

	CHECK_EQ(remote_host_parse(&h, "unix:/run/cove.sock", &e), 0);
	CHECK_STR(h.path, "/run/cove.sock");
	CHECK_STR(h.authority, "localhost");
	CHECK_EQ(remote_host_parse(&h, "unix:///run/s", &e), 0);
	CHECK_STR(h.path, "/run/s");
	CHECK_EQ(remote_host_parse(&h, "http://Boxes.Example.org:7070", &e), 0);
	CHECK_STR(h.authority, "boxes.example.org:7070");
	CHECK(!h.is_tls && !h.path[0] && h.port == 7070);
	CHECK_EQ(remote_host_parse(&h, "https://a.example/cove//", &e), 0);
	CHECK(h.is_tls && h.port == 443);
	CHECK_STR(h.prefix, "/cove");
	CHECK_EQ(remote_host_parse(&h, "http://[::1]:80", &e), 0);
	CHECK_STR(h.authority, "[::1]:80");
	CHECK_STR(h.name, "::1");
}

TEST(what_is_no_host)
{
	static const char *const texts[] = {"",
					    "unix:",
					    "unix:run/s",
					    "unix:/",
					    "/run/s",
					    "localhost",
					    "http://",
					    "http://:80",
					    "ftp://a",
					    "http:///x",
					    "http://a b",
					    "http://u:p@a",
					    "http://a:0",
					    "http://a:65536",
					    "http://a:x",
					    "http://a/?q",
					    "http://a/x#y",
					    "http://a/\x01",
					    "http://a/b c",
					    "HTTP://a",
					    "http://-a..",
					    "https://[::1",
					    "http://127.1",
					    "unix:a\nb",
					    "http://a\r\nX: y"};
	char longest[400] = "unix:/";
	struct remote_host h;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct err e = {0};

		CHECK_EQ(remote_host_parse(&h, texts[i], &e), -EINVAL);
		CHECK(e.kind == ERR_INVALID && !strstr(e.msg, "u:p"));
	}
	memset(longest + 6, 'x', sizeof(longest) - 7);
	CHECK_EQ(remote_host_parse(&h, longest, NULL), -EINVAL);
}

TEST(keys)
{
	char good[] = "  cove_abc.DEF\n", empty[] = " \n", two[] = "a b", bad[] = "a\x80";
	struct err e = {0};

	CHECK_EQ(remote_key_check(good, "it", &e), 0);
	CHECK_STR(good, "cove_abc.DEF");
	CHECK_EQ(remote_key_check(empty, "it", &e), -EINVAL);
	CHECK_EQ(remote_key_check(two, "it", &e), -EINVAL);
	CHECK(!strstr(e.msg, "a b"));
	CHECK_EQ(remote_key_check(bad, "it", &e), -EINVAL);
}

/* What was written by a table is read by it. */
TEST(rows)
{
	struct cove_stats a = {.uptime_ms = 7,
			       .paused = true,
			       .cpu_us = 9,
			       .io_read_bytes = 5,
			       .io_write_bytes = COVE_UNKNOWN,
			       .disk_bytes = 1,
			       .throttled_us = 0,
			       .oom_kills = 2,
			       .pids_hits = 3,
			       .disk_files = 4};
	struct cove_stats b = {0};
	char *text = view_row_json(view_stats_fields, &a);
	json_t *o = json_loads(text, 0, NULL);

	CHECK(text && o);
	remote_take(o, view_stats_fields, &b);
	CHECK_EQ(memcmp(&a, &b, sizeof(a)), 0);
	json_decref(o);
	free(text);
}

TEST(rows_of_another_type)
{
	json_t *o = json_loads("{\"boxes\": [{\"name\": 5, \"state\": {}, \"created_ms\": -3,"
			       "\"outdated\": \"yes\", \"image\": \"a\\u0000b\"}, 7, null]}",
			       JSON_ALLOW_NUL, NULL);
	struct cove_box_info *rows = NULL;
	struct err e = {0};

	CHECK_EQ(remote_take_rows(o, "boxes", view_box_fields, sizeof(*rows), (void **)&rows, &e),
		 3);
	CHECK(!rows[0].name[0] && !rows[0].state[0] && !rows[0].image[0]);
	CHECK(rows[0].created_ms == 0 && !rows[0].outdated);
	free(rows);
	CHECK_EQ(remote_take_rows(o, "execs", view_exec_fields, 8, (void **)&rows, &e), -EPROTO);
	json_decref(o);
}

TEST(results)
{
	json_t *o = json_loads(
		"{\"exec_id\": 3, \"exit_code\": null, \"cause\": \"interrupted\", \"cwd\": \"/x\","
		"\"stdout\": \"?\", \"stdout_base64\": \"/w==\", \"stderr\": \"e\", \"shell\": "
		"\"odd\","
		"\"denied\": [{\"host\": \"h\", \"port\": 1}]}",
		0, NULL);
	struct cove_result r;
	struct err e = {0};

	CHECK_EQ(remote_take_result(o, true, &r, &e), 0);
	CHECK(!r.has_exit && r.exec_id == 3 && !r.shell && r.denied_count == 1);
	CHECK(r.out_len == 1 && r.out[0] == '\xff');
	CHECK_STR(r.err_out, "e");
	CHECK_STR(r.cwd, "/x");
	cove_result_free(&r);
	json_object_del(o, "cause");
	CHECK_EQ(remote_take_result(o, true, &r, &e), -EPROTO);
	json_decref(o);
}

TEST(errors)
{
	static const char said[] = "{\"error\":{\"code\":\"conflict\",\"errno\":\"EBUSY\","
				   "\"message\":\"no\",\"request_id\":\"1\"}}";
	struct cove cove = {.host.path = "/s"};
	struct err e;

	CHECK_EQ(remote_error(&cove, 409, said, sizeof(said) - 1, &e), -EBUSY);
	CHECK(e.kind == ERR_CONFLICT && strcmp(e.msg, "no") == 0);
	CHECK_EQ(remote_error(&cove, 502, "<html>", 6, &e), -EPROTO);
	CHECK(strstr(e.msg, "502"));
	CHECK_EQ(remote_error(&cove, 403, "", 0, &e), -EACCES);
}

TEST(errnos)
{
	char name[ERR_CODE_NAME];

	CHECK_STR(err_code_name(ENOENT, name), "ENOENT");
	CHECK_STR(err_code_name(EHWPOISON, name), "EHWPOISON");
	CHECK(!err_code_name(0, name) && !err_code_name(41, name) && !err_code_name(134, name));
	for (int i = 1; i <= EHWPOISON; i++)
		if (err_code_name(i, name))
			CHECK_EQ(err_code_find(name), i);
	CHECK(err_code_find("") == 0 && err_code_find("E") == 0 && err_code_find("ENOENTX") == 0);
}

TEST(texts_joined)
{
	json_t *list = json_pack("[s, n, s, s]", "ab", "c", "def");
	char all[8], cut[6];

	remote_take_joined(list, ',', all, sizeof(all));
	CHECK_STR(all, "ab,c,de");
	remote_take_joined(list, '\n', cut, sizeof(cut));
	CHECK_STR(cut, "ab\nc\n");
	remote_take_joined(NULL, ',', all, sizeof(all));
	CHECK_STR(all, "");
	json_decref(list);
}

/* A name that is none goes to no server, whatever else is said in the request. */
TEST(names_that_are_none)
{
	struct cove cove = {.host = {.path = "/nonexistent/s", .authority = "localhost"}};
	struct cove_box box = {.cove = &cove, .name = ".."};
	const char *const argv[] = {"true", NULL};
	const struct cove_command command = {.size = sizeof(command), .argv = argv};
	const struct cove_edit_options edits = {.size = sizeof(edits)};
	struct cove_result result;
	struct cove_edited edited;
	struct cove_error err;

	CHECK_EQ(cove_run(&box, &command, &result, &err), -EINVAL);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK_EQ(cove_edit(&box, "x", &edits, &edited, &err), -EINVAL);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK_EQ(cove_secret_set(&cove, "..", "value", "s3cr3t", 6, &err), -EINVAL);
	CHECK_EQ(err.kind, COVE_INVALID);
	CHECK_EQ(cove_secret_set(&cove, "", "value", "s3cr3t", 6, &err), -EINVAL);
	CHECK_EQ(err.kind, COVE_INVALID);
}

/* A connection that answers what it is given, up to \f one request, and then ends with `end`. */
struct scripted {
	struct channel channel;
	const char *answer;
	int end;
	bool was_asked;
};

static ssize_t scripted_read(struct channel *c, void *p, size_t n)
{
	struct scripted *s = container(c, struct scripted, channel);
	size_t len = s->was_asked ? strcspn(s->answer, "\f") : 0;

	if (!s->was_asked || (len == 0 && *s->answer))
		return -EAGAIN;
	if (len == 0 && s->end != -EAGAIN)
		err_set(&c->error, ERR_PROTOCOL, EPROTO, "a broken record");
	if (len == 0)
		return s->end;
	len = len < n ? len : n;
	memcpy(p, s->answer, len);
	s->answer += len;
	return (ssize_t)len;
}

static ssize_t scripted_write(struct channel *c, const void *p, size_t n)
{
	struct scripted *s = container(c, struct scripted, channel);

	s->answer += s->was_asked && *s->answer == '\f';
	s->was_asked = true;
	return (ssize_t)n;
}

static void scripted_want(struct channel *c, unsigned what)
{
	c->wanted = what;
}

static void scripted_free(struct channel *c, bool abort)
{
}

static void script(struct cove *cove, struct scripted *s, const char *answer, int end)
{
	static const struct channel_ops ops = {.read = scripted_read,
					       .write = scripted_write,
					       .want = scripted_want,
					       .free = scripted_free};

	*s = (struct scripted){.channel.ops = &ops, .answer = answer, .end = end};
	*cove = (struct cove){.host = {.path = "/nonexistent/s", .authority = "localhost"}};
	CHECK_EQ(ev_new(&cove->ev), 0);
	cove->idle = calloc(1, sizeof(*cove->idle));
	CHECK(cove->idle);
	cove->idle->ev = cove->ev;
	cove->idle->channel = &s->channel;
	buf_init(&cove->idle->in, REMOTE_IN_MAX);
}

static void script_end(struct cove *cove)
{
	remote_conn_free(cove->idle);
	ev_free(cove->ev);
}

/* The rest of an answer that nobody looks at may be what it likes. */
TEST(an_answer_that_is_passed_over_and_breaks)
{
	struct scripted s;
	struct cove cove;
	struct cove_box box = {.cove = &cove, .name = "b"};
	struct cove_error err;

	script(&cove, &s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", -EPROTO);
	CHECK_EQ(cove_signal(&box, 1, 15, &err), 0);
	CHECK(!cove.idle);
	script_end(&cove);
}

TEST(given_up_in_the_middle_of_an_answer)
{
	struct scripted s;
	struct remote_request q;
	struct cove cove;
	struct err e = {0};
	json_t *o = NULL;
	autoclose int fd = eventfd(1, EFD_CLOEXEC);

	script(&cove, &s, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{", -EAGAIN);
	remote_begin(&q, &cove, "GET", "/x");
	q.cancel_fd = fd;
	CHECK_EQ(remote_call(&q, &o, &e), -ECANCELED);
	CHECK(e.kind == ERR_INTERRUPTED && !o);
	script_end(&cove);
}

TEST(a_search_that_failed_says_nothing_of_how_it_went)
{
	static const char refused[] = "HTTP/1.1 404 x\r\nContent-Length: 49\r\n\r\n"
				      "{\"error\":{\"code\":\"not_found\",\"message\":\"no box\"}}";
	static const char found[] = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n"
				    "{\"matches\":[],\"count\":1}";
	struct cove_found how = {.count = 7};
	struct scripted s;
	struct cove cove;
	struct cove_box box = {.cove = &cove, .name = "b"};
	struct cove_error err;

	script(&cove, &s, refused, -EAGAIN);
	CHECK(cove_glob(&box, "/", "*", NULL, &how, &err) < 0);
	CHECK_EQ(err.kind, COVE_NOT_FOUND);
	CHECK_EQ(how.count, 7);
	script_end(&cove);
	script(&cove, &s, found, -EAGAIN);
	CHECK_EQ(cove_glob(&box, "/", "*", NULL, NULL, &err), 0);
	script_end(&cove);
}

/* As a server says it that has nothing to say: one that is older. */
TEST(no_content_is_an_empty_object)
{
	struct scripted s;
	struct cove cove;
	struct cove_error err;
	uint64_t cut = 9;
	const struct cove_grant grant = {.size = sizeof(grant), .pattern = "h", .allow = true};

	script(&cove, &s, "HTTP/1.1 204 No Content\r\n\r\n", -EAGAIN);
	CHECK_EQ(cove_grant(&cove, "b", &grant, &cut, &err), 0);
	CHECK_EQ(cut, 0);
	script_end(&cove);
	script(&cove, &s, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"cut\":3}", -EAGAIN);
	CHECK_EQ(cove_grant(&cove, "b", &grant, &cut, &err), 0);
	CHECK_EQ(cut, 3);
	script_end(&cove);
}

/* All keys, however many pages a server cuts them into. */
TEST(keys_of_several_pages)
{
	static const char pages[] =
		"HTTP/1.1 200 OK\r\nContent-Length: 58\r\n\r\n"
		"{\"keys\":[{\"name\":\"a\",\"scopes\":[\"read\",\"run\"]}],\"next\":\"a\"}"
		"\f"
		"HTTP/1.1 200 OK\r\nContent-Length: 56\r\n\r\n"
		"{\"keys\":[{\"name\":\"b\",\"quotas\":{\"boxes\":3}}],\"next\":null}";
	struct cove_key_info *rows = NULL;
	struct scripted s;
	struct cove cove;
	struct cove_error err;

	script(&cove, &s, pages, -EAGAIN);
	CHECK_EQ(cove_keys(&cove, &rows, &err), 2);
	CHECK_STR(rows[0].name, "a");
	CHECK_STR(rows[0].scopes, "read,run");
	CHECK_STR(rows[1].name, "b");
	CHECK_EQ(rows[1].boxes, 3);
	free(rows);
	script_end(&cove);
}

TAP_MAIN
