/* Credentials through a web: who gets them, and that they do not come back. */
#include "web_rig.h"

#include "base/str.h"

#define ZLIB_CONST
#include <zlib.h>

#include "base/clock.h"

TAP_MAIN

#define RULE(what)             \
	"version: 1\n"         \
	"rules:\n"             \
	"  - name: cred\n"     \
	"    allow: up.test\n" \
	"    inject: {" what "}\n"
#define BEARER RULE("headers: {Authorization: \"Bearer {{ secret.TOK }}\"}")
#define GET    "GET /a HTTP/1.1\r\nHost: up.test\r\n\r\n"
#define OK     "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

static void with_secret(const char *value)
{
	wr.secrets[0] = (struct wr_secret){"TOK", value, 0};
}

TEST(bearer)
{
	const char *sent;

	with_secret("decoy-4711");
	wr_open(BEARER, NULL);
	box_says("POST /a HTTP/1.1\r\nHost: up.test\r\nauthorization: Bearer mine\r\n"
		 "AUTHORIZATION: again\r\nauthorizatioN: 3\r\nAccept-Encoding: gzip, br\r\n"
		 "Range: bytes=0-3\r\nIf-Range: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		 "2\r\nok\r\n0\r\nX: y\r\n\r\n");
	sent = up_hears(0);
	CHECK_STR(sent, "POST /a HTTP/1.1\r\nHost: up.test\r\nTransfer-Encoding: chunked\r\n"
			"Authorization: Bearer decoy-4711\r\nAccept-Encoding: identity\r\n"
			"Connection: close\r\n\r\n"
			"2\r\nok\r\n0\r\nX: y\r\n\r\n");
	up_says(0, "HTTP/1.1 200 decoy-4711\r\nX-Echo: Bearer decoy-4711\r\ndecoy-4711: v\r\n"
		   "Set-Cookie: t=ZGVjb3ktNDcxMQ==\r\nLocation: /?t=decoy%2D4711\r\n"
		   "Transfer-Encoding: chunked\r\n\r\n5\r\n\"deco\r\n8\r\ny-4711\",\r\n0\r\n"
		   "X-Sum: decoy-4711\r\n\r\n");
	sent = box_hears();
	CHECK(!strstr(sent, "decoy-4711") && !strstr(sent, "ZGVjb3ktNDcxM"));
	CHECK(strstr(sent, "X-Echo: Bearer **********\r\n**********: v\r\n"));
	CHECK(strstr(sent, "\r\n\r\nd\r\n\"**********\",\r\n0\r\nX-Sum: **********\r\n\r\n"));
	CHECK_STR(wr_row("request", "allow")->credential, "TOK");
}

TEST(basic_and_query)
{
	with_secret("pass&word");
	wr_open(RULE("basic: {user: me, password: \"{{ secret.TOK }}\"}, "
		     "query: {key: \"x{{ secret.TOK }}\"}"),
		"GET /a?key=1&b=2&%6bey=3;KEY=4 HTTP/1.1\r\nHost: up.test\r\n\r\n");
	CHECK_STR(up_hears(0), "GET /a?b=2&key=xpass%26word HTTP/1.1\r\nHost: up.test\r\n"
			       "Authorization: Basic bWU6cGFzcyZ3b3Jk\r\n"
			       "Accept-Encoding: identity\r\n\r\n");
	up_says(0, "HTTP/1.1 302 Found\r\nLocation: /a/?key=xpass%26word\r\n"
		   "Content-Length: 35\r\n\r\nbWU6cGFzcyZ3b3Jk pass\\u0026word 12\n");
	CHECK_STR(box_hears(), "HTTP/1.1 302 Found\r\nLocation: /a/?key=x***********\r\n"
			       "Content-Length: 35\r\n\r\n**************** ************** 12\n");
	CHECK_STR(wr_row("request", "allow")->path, "/a");
}

/* Every cut of an answer, and of what is written. */
TEST(any_cut)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n"
				     "xxtoken-123token-123 dG9rZW4tMTIz!";

	for (size_t chunk = 1; chunk < 40; chunk++) {
		with_secret("token-123");
		wr.chunk = chunk;
		wr_open(BEARER, GET);
		wr_settle();
		up_says(0, answer);
		CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n"
				       "xx****************** ************!");
		wr_close();
	}
}

TEST(large_answer_is_searched_to_the_end)
{
	size_t n = 3 << 20;
	char head[128], *body = malloc(n + 1);
	const char *heard;

	CHECK(body);
	memset(body, 't', n); /* each of them could be the beginning */
	memcpy(body + n - 9, "token-123", 9);
	body[n] = 0;
	with_secret("token-123");
	wr_open(BEARER, GET);
	wr_settle();
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", n);
	up_says(0, head);
	up_says(0, body);
	heard = box_hears();
	CHECK_EQ(strlen(heard), strlen(head) + n);
	CHECK_STR(heard + strlen(heard) - 10, "t*********");
	free(body);
}

TEST(no_secret_no_request)
{
	const char *heard;

	wr_open(BEARER, GET);
	heard = box_hears();
	CHECK(strstr(heard, "HTTP/1.1 502 ") && strstr(heard, "rule 'cred'"));
	CHECK_EQ(wr.dials, 0);
	CHECK(wr_row("request", "deny"));
	wr_close();
	with_secret("two\r\nlines: x");
	wr_open(BEARER, GET);
	CHECK(strstr(box_hears(), "cannot stand in a header"));
	CHECK_EQ(wr.dials, 0);
	wr_close();
	wr.secrets[0] = (struct wr_secret){"TOK", "nul\0x", 5};
	wr_open(RULE("query: {key: \"{{ secret.TOK }}\"}"), GET);
	CHECK(strstr(box_hears(), "cannot stand in a query"));
	CHECK_EQ(wr.dials, 0);
}

TEST(not_without_tls)
{
	with_secret("decoy-4711");
	wr.plain = true;
	wr_open(BEARER, "GET /a HTTP/1.1\r\nHost: up.test:443\r\n\r\n");
	CHECK(strstr(box_hears(), "HTTP/1.1 403 "));
	CHECK_EQ(wr.dials, 0);
	wr_close();
	with_secret("decoy-4711");
	wr.plain = true;
	wr_open(BEARER "    plain_http: true\n", "GET /a HTTP/1.1\r\nHost: up.test:443\r\n\r\n");
	CHECK(strstr(up_hears(0), "decoy-4711"));
}

/* What hides it is not passed on. */
TEST(coded_answer)
{
	with_secret("decoy-4711");
	wr_open(BEARER, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nxyz");
	CHECK(strstr(box_hears(), "HTTP/1.1 502 "));
	CHECK(strstr(wr_row("done", "failed")->reason, "(br)"));
	box_says("HEAD /a HTTP/1.1\r\nHost: up.test\r\n\r\n");
	wr_settle();
	up_says(1, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
	CHECK_STR(box_hears(), "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n");
}

static size_t pack(const char *text, uint8_t *to, size_t room)
{
	z_stream s = {.next_in = (const uint8_t *)text,
		      .avail_in = (unsigned)strlen(text),
		      .next_out = to,
		      .avail_out = (unsigned)room};

	CHECK_EQ(deflateInit2(&s, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
	CHECK_EQ(deflate(&s, Z_FINISH), Z_STREAM_END);
	CHECK_EQ(deflateEnd(&s), Z_OK);
	return s.total_out;
}

/* One that was not asked for, and can be undone: the head then speaks of the plain text. */
TEST(a_compressed_answer_is_inflated)
{
	uint8_t packed[256];
	size_t n = pack("xx decoy-4711 yy ZGVjb3ktNDcxMQ== decoy-471", packed, sizeof(packed));
	char head[256];
	const char *heard;

	for (int chunk = 0; chunk < 9; chunk++) {
		with_secret("decoy-4711");
		wr.chunk = (size_t)chunk;
		wr_open(BEARER, GET);
		wr_settle();
		snprintf(head, sizeof(head),
			 "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nETag: \"a\"\r\n"
			 "Content-MD5: x\r\nContent-Length: %zu\r\n\r\n",
			 n);
		up_says(0, head);
		up_says_bytes(0, packed, n);
		heard = box_hears();
		CHECK(str_starts(heard, "HTTP/1.1 200 OK\r\nETag: W/\"a\"\r\n"
					"Transfer-Encoding: chunked\r\n\r\n"));
		CHECK(!strstr(heard, "decoy-4711") && !strstr(heard, "ZGVjb3kt"));
		CHECK(strstr(heard, "0\r\n\r\n"));
		CHECK_EQ(wr_row("done", "ok")->status, 200);
		wr_close();
	}
}

/* What is broken or half never looks whole, and nothing that was not searched goes on. */
TEST(a_broken_compressed_answer_is_cut)
{
	uint8_t packed[256];
	size_t n = pack("xx decoy-4711 yy", packed, sizeof(packed));
	const char *heard;

	for (size_t cut = 1; cut < n; cut++) {
		with_secret("decoy-4711");
		wr_open(BEARER, GET);
		wr_settle();
		up_says(0, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
			   "Transfer-Encoding: chunked\r\n\r\n");
		for (size_t i = 0; i < cut; i++) {
			char piece[] = {'1', '\r', '\n', (char)packed[i], '\r', '\n'};

			up_says_bytes(0, piece, sizeof(piece));
		}
		up_says(0, "0\r\n\r\n");
		heard = box_hears();
		CHECK(str_starts(heard, "HTTP/1.1 200 OK\r\n") && !strstr(heard, "decoy") &&
		      !strstr(heard, "0\r\n\r\n"));
		CHECK(strstr(wr_row("done", "failed")->reason, "compressed"));
		wr_close();
	}
}

/* Two codings, one of them behind a harmless one. */
TEST(several_codings_are_refused)
{
	with_secret("decoy-4711");
	wr_open(BEARER, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Encoding: gzip\r\n"
		   "Content-Length: 3\r\n\r\nxyz");
	CHECK(strstr(box_hears(), "HTTP/1.1 502 "));
}

TEST(websocket_frames)
{
	const char *heard;

	for (wr.chunk = 0; wr.chunk < 12;) {
		size_t chunk = wr.chunk;

		with_secret("decoy-4711");
		wr_open(BEARER, "GET /ws HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\n"
				"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
				"Sec-WebSocket-Extensions: permessage-deflate\r\n"
				"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
		CHECK(!strstr(up_hears(0), "permessage"));
		up_says(0, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
			   "Connection: Upgrade\r\n"
			   "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
		box_hears();
		up_says(0, "\x81\x0c<decoy-4711>");
		heard = box_hears();
		CHECK_STR(heard, "\x81\x0c<**********>");
		/* The end of a message is not waited for. */
		up_says(0, "\x81\x05say d");
		CHECK_STR(box_hears(), "\x81\x05say d");
		box_says("\x81\x82\x01\x02\x03\x04pq");
		CHECK_STR(up_hears(0), "\x81\x82\x01\x02\x03\x04pq");
		/* Half a frame, then the end. */
		up_says(0, "\x81\x09xde");
		up_ends(0);
		CHECK_STR(box_hears(), "\x81\x09xde");
		wr_close();
		wr.chunk = chunk + 1;
	}
}

/* What the box sees of an answer while it comes: how much, and in which pieces. */
struct seen {
	size_t writes[WR_WRITES];
	unsigned count;
	size_t len; /* before the end came */
};

#define WS_REQUEST                                                     \
	"GET /ws HTTP/1.1\r\nHost: up.test\r\nConnection: Upgrade\r\n" \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"          \
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define WS_ANSWER                                                    \
	"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n" \
	"Connection: Upgrade\r\n"                                    \
	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"

/* An upstream that echoes a guess, in each of the ways in which an answer can go on. */
static void echo(const char *secret, const char *guess, unsigned way, struct seen *seen)
{
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n",
		"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
		WS_ANSWER "\x82\x7e\x07\xd0",
	};
	char filler[2000];
	size_t n = strlen(guess);

	with_secret(secret);
	wr_open(BEARER, way == 3 ? WS_REQUEST : GET);
	wr_settle();
	up_says(0, heads[way]);
	memset(filler, '.', sizeof(filler));
	filler[99] = '\n';
	for (size_t at = 0; at < 1000; at += 500) {
		up_says_bytes(0, filler, 500 - n);
		up_says(0, guess);
		wr_settle();
	}
	seen->len = buf_len(&wr.box.got);
	up_says_bytes(0, filler, 1000);
	if (way == 1)
		up_says(0, "\r\n0\r\n\r\n");
	wr_settle();
	memcpy(seen->writes, wr.box.writes, sizeof(seen->writes));
	seen->count = wr.box.write_count;
	wr_close();
}

/* A box that has its guesses echoed sees the same whatever the secret is, so it learns nothing of
 * it byte by byte. */
TEST(guesses_learn_nothing)
{
	static const char *const secrets[] = {"decoy-4711", "zzzzzzzzz0", "<<<<>>>>&&"};
	static const char *const guesses[] = {"d",	     "de",     "decoy-471", "dec",
					      "ecoy-4711",   "z",      "zzzz",	    "ZGVjb3ktNDc",
					      "Bearer deco", "%64eco", "\\u003c",   "<<<<>>>>&",
					      "decoy-4711"};
	struct seen first, other;

	for (unsigned way = 0; way < 4; way++)
		for (size_t g = 0; g < sizeof(guesses) / sizeof(guesses[0]); g++) {
			echo(secrets[0], guesses[g], way, &first);
			CHECK(first.len > 0);
			for (size_t i = 1; i < sizeof(secrets) / sizeof(secrets[0]); i++) {
				echo(secrets[i], guesses[g], way, &other);
				CHECK_EQ(other.len, first.len);
				CHECK_EQ(other.count, first.count);
				CHECK_MEM(other.writes, first.writes,
					  first.count * sizeof(first.writes[0]));
			}
		}
}

/* Events and lines are not held back, whatever comes next. */
TEST(lines_are_prompt)
{
	const char *heard;

	with_secret("decoy-4711");
	wr_open(BEARER, GET);
	wr_settle();
	up_says(0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
		   "15\r\ndata: decoy-4711 1\n\nd\r\n");
	heard = box_hears();
	CHECK(strstr(heard, "\r\n14\r\ndata: ********** 1\n\n\r\n"));
	up_says(0, "0\r\n\r\n");
	CHECK_STR(box_hears(), "1\r\nd\r\n0\r\n\r\n");
}

/* A header of a frame is none of its text. */
TEST(frame_headers_stay)
{
	char frame[2 + 'd' + 1] = "\x81"
				  "decoy-4711";

	memset(frame + 11, '.', 'd' - 9);
	with_secret("decoy-4711");
	wr_open(BEARER, WS_REQUEST);
	wr_settle();
	up_says(0, WS_ANSWER);
	box_hears();
	up_says(0, frame);
	CHECK_STR(box_hears(), frame);
	/* One after another, and the beginning of a third: the whole ones do not wait. */
	up_says(0, "\x81\x02"
		   "ab"
		   "\x81\x0b-decoy-4711"
		   "\x81\x05"
		   "d");
	CHECK_STR(box_hears(), "\x81\x02"
			       "ab"
			       "\x81\x0b-**********"
			       "\x81\x05");
	up_says(0, "ecoy");
	CHECK_STR(box_hears(), "decoy");
}

static void open_websocket(void)
{
	with_secret("decoy-4711");
	wr_open(BEARER, WS_REQUEST);
	wr_settle();
	up_says(0, WS_ANSWER);
	box_hears();
}

/* The payloads of what the box heard, frames of one message joined: "text|text". Control frames
 * stand where they came, as "(payload)". */
static void read_messages(const char *heard, size_t n, char *out)
{
	bool is_cut = false;

	for (size_t at = 0; at + 2 <= n;) {
		unsigned op = heard[at] & 15, is_last = heard[at] & 0x80;
		size_t head = 2, len = heard[at + 1] & 0x7f;

		if (len == 126) {
			len = (size_t)(uint8_t)heard[at + 2] << 8 | (uint8_t)heard[at + 3];
			head = 4;
		}
		CHECK(at + head + len <= n);
		if (op < 8)
			CHECK_EQ(op == 0, is_cut);
		out += sprintf(out, op >= 8 ? "(%.*s)" : "%.*s", (int)len, heard + at + head);
		if (op < 8)
			is_cut = !is_last;
		if (op < 8 && is_last)
			out += sprintf(out, "|");
		at += head + len;
	}
	CHECK(!is_cut);
}

static void up_says_frame(unsigned op, bool is_last, const char *text, size_t n)
{
	uint8_t head[] = {(uint8_t)(op | (is_last ? 0x80 : 0)), (uint8_t)n};

	up_says_bytes(0, (const char *)head, sizeof(head));
	up_says_bytes(0, text, n);
}

/* A message is one text, whatever frames it comes in; what comes between them does not wait. */
TEST(websocket_messages_in_pieces)
{
	static const char text[] = "<decoy-4711> ZGVjb3ktNDcxMQ== decoy-4711";
	size_t len = sizeof(text) - 1;
	char got[4096];

	for (size_t first = 0; first < len; first++)
		for (size_t then = 1; then < 12; then += 5) {
			open_websocket();
			buf_clear(&wr.box.got);
			up_says_frame(1, false, text, first);
			up_says_frame(9, true, "a ping", 6);
			wr_settle();
			CHECK(memmem(buf_data(&wr.box.got), buf_len(&wr.box.got), "\x89\6a ping",
				     8));
			for (size_t at = first; at < len; at += then)
				up_says_frame(0, at + then >= len, text + at,
					      then < len - at ? then : len - at);
			up_says_frame(8, true,
				      "\3\xe8"
				      "decoy-4711",
				      12);
			wr_settle();
			read_messages((const char *)buf_data(&wr.box.got), buf_len(&wr.box.got),
				      got);
			CHECK_STR(got, "(a ping)<**********> **************== **********|"
				       "(\3\xe8**********)");
			wr_close();
		}
}

/* A message of several frames that is larger than all buffers; and one that ends with nothing. */
TEST(websocket_large_messages_in_pieces)
{
	char part[100], got[64];
	size_t sent = 0;

	memset(part, 'd', sizeof(part));
	open_websocket();
	buf_clear(&wr.box.got);
	for (; sent < 500000; sent += sizeof(part))
		up_says_frame(sent ? 0 : 2, false, part, sizeof(part));
	up_says_frame(0, false, "decoy-", 6);
	up_says_frame(0, true, "4711", 4);
	wr_settle();
	CHECK(buf_len(&wr.box.got) > sent + 10);
	CHECK_MEM(buf_data(&wr.box.got) + buf_len(&wr.box.got) - 11, "d**********", 11);
	buf_clear(&wr.box.got);
	up_says_frame(1, false, "line\n", 5);
	wr_settle();
	CHECK_EQ(buf_len(&wr.box.got), 7);
	up_says_frame(0, true, "", 0);
	wr_settle();
	read_messages((const char *)buf_data(&wr.box.got), buf_len(&wr.box.got), got);
	CHECK_STR(got, "line\n|");
	/* Half a message, then the end. */
	buf_clear(&wr.box.got);
	up_says_frame(1, false, "half", 4);
	up_ends(0);
	wr_settle();
	CHECK_MEM(buf_data(&wr.box.got), "\1\4half", 6);
}

/* The next request has the value of its own time. */
TEST(rotated)
{
	with_secret("first-one");
	wr_open(BEARER, GET);
	CHECK(strstr(up_hears(0), "first-one"));
	with_secret("second-one");
	up_says(0, OK);
	box_says(GET);
	CHECK(strstr(up_hears(0), "Bearer second-one"));
	CHECK_EQ(wr.dials, 1);
}

TEST(client_certificate)
{
	wr.secrets[0] = (struct wr_secret){"CERT", "cert text", 0};
	wr.secrets[1] = (struct wr_secret){"KEY", "key text", 0};
	wr_open("version: 1\nrules:\n  - name: mtls\n    allow: up.test\n"
		"    client_cert: {cert: \"{{ secret.CERT }}\", key: \"{{ secret.KEY }}\"}\n",
		GET GET);
	CHECK(strstr(up_hears(0), "GET /a"));
	CHECK_STR(wr.identity_cert, "cert text");
	up_says(0, OK);
	/* It is not kept for the next, which may be another rule's. */
	wr_settle();
	CHECK_EQ(wr.dials, 2);
}

/* ---- a policy that changes ---- */

TEST(policy_changes)
{
	static const char deny[] = "version: 1\nrules:\n  - deny: up.test\n";

	with_secret("decoy-4711");
	wr_open(BEARER, GET);
	wr_settle();
	wr_policy(BEARER);
	CHECK(wr.web);
	up_says(0, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx");
	wr_settle();
	wr_policy(deny);
	CHECK(!wr.web && wr.box.cut && wr.ups[0].cut);
	CHECK_EQ(wr_rows("done", "cut"), 1);
	wr_close();
	/* Between requests: the next one is judged by the new one. */
	with_secret("decoy-4711");
	wr_open(BEARER, GET);
	wr_settle();
	up_says(0, OK);
	wr_settle();
	wr_policy(deny);
	CHECK(wr.web && wr.ups[0].freed);
	box_hears();
	box_says(GET);
	CHECK(strstr(box_hears(), "HTTP/1.1 403 "));
}

/* What was prepared under the old rule is not sent under a new one that says otherwise. */
TEST(policy_changes_before_it_is_sent)
{
	for (int other = 0; other < 2; other++) {
		with_secret("decoy-4711");
		wr.hold_secrets = true;
		wr_open(BEARER, GET);
		wr_settle();
		wr_policy(other ? RULE("headers: {X-Key: \"{{ secret.TOK }}\"}") : BEARER);
		CHECK_EQ(wr.web == NULL, other);
		CHECK_EQ(wr.dials, 0);
		wr_close();
	}
}

TEST(budgets)
{
	wr_open("version: 1\nrules:\n  - name: b\n    allow: up.test\n    methods: [POST]\n"
		"    bytes_up: 1KiB\n",
		NULL);
	box_says("POST /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2000\r\n\r\n");
	wr_settle();
	for (int i = 0; i < 20; i++)
		box_says("0123456789012345678901234567890123456789012345678901234567890123456789"
			 "012345678901234567890123456789");
	up_hears(0);
	CHECK(strstr(box_hears(), "HTTP/1.1 429 "));
	CHECK(wr.ups[0].cut && wr_rows("done", "failed") == 1);
	wr_close();
	wr_open("version: 1\nrules:\n  - name: r\n    allow: up.test\n    methods: [GET]\n"
		"    rate: 1/h\n",
		GET);
	wr_settle();
	up_says(0, OK);
	box_hears();
	box_says(GET);
	CHECK(strstr(box_hears(), "HTTP/1.1 429 "));
	CHECK_EQ(wr_rows("request", "deny"), 1);
}

/* A body of which a part was read is never taken for the next request. */
TEST(a_refused_body_is_no_request)
{
	static const char smuggled[] = "GET /smuggled HTTP/1.1\r\nHost: up.test\r\n\r\n";
	char request[4096], body[2049];
	const char *heard;

	memset(body, ' ', sizeof(body) - 1);
	body[sizeof(body) - 1] = 0;
	memcpy(body, smuggled, sizeof(smuggled) - 1);
	snprintf(request, sizeof(request),
		 "POST /a HTTP/1.1\r\nHost: up.test\r\nContent-Length: 2048\r\n\r\n%s", body);
	wr_open("version: 1\nrules:\n  - name: b\n    allow: up.test\n    methods: [POST]\n"
		"    bytes_up: 1KiB\n  - name: g\n    allow: up.test\n    methods: [GET]\n",
		request);
	wr_settle();
	up_hears(0);
	heard = box_hears();
	CHECK(strstr(heard, "HTTP/1.1 429 "));
	CHECK(strstr(heard, "Connection: close"));
	for (unsigned i = 0; i < wr.up_count; i++)
		CHECK(!strstr(up_hears(i), "/smuggled"));
	CHECK_EQ(wr_rows("request", "allow"), 1);
}

TEST(asked)
{
	static const char policy[] = "version: 1\nrules:\n  - name: q\n    ask: up.test\n"
				     "    tls: intercept\n";
	struct err e;

	wr_open(policy, GET GET);
	wr_settle();
	CHECK_EQ(asks_count(&wr.door), 1);
	CHECK_EQ(ask_answer(&wr.door, 1, true, 0, "me", &e), 0);
	CHECK(strstr(up_hears(0), "GET /a"));
	up_says(0, OK);
	CHECK(strstr(box_hears(), "hi"));
	CHECK_EQ(asks_count(&wr.door), 1);
	CHECK_EQ(ask_answer(&wr.door, 2, false, 0, "me", &e), 0);
	CHECK(strstr(box_hears(), "denied by me"));
	box_says(GET);
	wr_settle();
	/* The policy decides before a person does. */
	wr_policy("version: 1\nrules:\n  - allow: up.test\n    tls: intercept\n");
	CHECK(strstr(up_hears(wr.up_count - 1), "GET /a"));
}

#define INJECTS                                                    \
	"version: 1\nrules:\n  - name: cred\n    allow: up.test\n" \
	"    inject: {headers: {X-Key: \"{{ secret.TOK }}\"}}\n"

/* What the upstream hears of a head of these lines. */
static const char *heard_of(const char *policy, const char *first, const char *fields)
{
	char request[2048];

	wr.secrets[0] = (struct wr_secret){"TOK", "decoy-4711", 0};
	snprintf(request, sizeof(request), "%s HTTP/1.1\r\nHost: up.test\r\n%s\r\n", first, fields);
	wr_open(policy, request);
	return up_hears(0);
}

/* A rule that adds a credential takes away what the box brings along. */
TEST(credentials_of_the_box_are_removed)
{
	static const char *const fields[] = {
		"Authorization: Bearer evil",
		"authorization: evil",
		"Cookie: a=evil",
		"Proxy-Authorization: evil",
		"x-api-key: evil",
		"X_Api_Key: evil",
		"Api-Key: evil",
		"X-Goog-Api-Key: evil",
		"X-Amz-Security-Token: evil",
		"Private-Token: evil",
		"X-Vault-Token: evil",
		"x-key: evil",
	};
	static const char *const queries[] = {"access_token=evil",    "api_key=evil",
					      "apikey=evil",	      "access%5Ftoken=evil",
					      "X-Amz-Signature=evil", "sig=evil&access_token=evil"};
	char line[256];
	const char *heard;

	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		snprintf(line, sizeof(line), "%s\r\nX-Mine: 1\r\n", fields[i]);
		heard = heard_of(INJECTS, "GET /a", line);
		CHECK(strstr(heard, "X-Key: decoy-4711\r\n") && strstr(heard, "X-Mine: 1\r\n"));
		CHECK(!strstr(heard, "evil"));
		wr_close();
		/* Who adds none is not asked for one either. */
		if (i == 3)
			continue;
		heard = heard_of("version: 1\nrules: [{allow: up.test, tls: intercept}]\n",
				 "GET /a", line);
		CHECK(strstr(heard, "evil"));
		wr_close();
	}
	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		snprintf(line, sizeof(line), "GET /a?x=1&%s&key=mine", queries[i]);
		heard = heard_of(INJECTS, line, "");
		CHECK(strstr(heard, "GET /a?x=1&key=mine HTTP/1.1\r\n"));
		wr_close();
	}
	heard = heard_of(INJECTS, "GET /a?sig=evil", "");
	CHECK(strstr(heard, "GET /a HTTP/1.1\r\n"));
}

TEST(credentials_that_a_rule_lets_pass)
{
	const char *heard =
		heard_of(INJECTS "    pass: [cookie, api_key]\n", "GET /a?api_key=mine&sig=evil",
			 "Cookie: mine\r\nAuthorization: evil\r\n");

	CHECK(strstr(heard, "GET /a?api_key=mine HTTP/1.1\r\n") &&
	      strstr(heard, "Cookie: mine\r\n"));
	CHECK(!strstr(heard, "evil"));
	wr_close();
	/* "key" is one where the header that it stands for is injected. */
	heard = heard_of("version: 1\nrules:\n  - allow: up.test\n    inject: {headers: "
			 "{x-goog-api-key: \"{{ secret.TOK }}\"}}\n",
			 "GET /a?key=evil", "X-Goog-Api-Key: evil\r\n");
	CHECK(strstr(heard, "decoy-4711") && !strstr(heard, "evil"));
}

TEST(credentials_among_protocols_and_trailers)
{
	static const char ws[] =
		"Connection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.evil, v1\r\n";
	const char *heard = heard_of(INJECTS, "GET /a", ws);

	CHECK(strstr(heard, "Sec-WebSocket-Protocol: realtime, v1\r\n") && !strstr(heard, "evil"));
	wr_close();
	heard = heard_of(INJECTS, "POST /a", "Transfer-Encoding: chunked\r\n");
	box_says("2\r\nhi\r\n0\r\nX-Auth-Token: evil\r\nX-Mine: 1\r\n\r\n");
	heard = up_hears(0);
	CHECK(strstr(heard, "X-Mine: 1\r\n") && !strstr(heard, "evil"));
}

/* An answer for a while is over with it, for a request under way and for those that follow. */
TEST(asked_for_a_while)
{
	static const char policy[] = "version: 1\nrules:\n  - name: q\n    ask: up.test\n"
				     "    tls: intercept\n";
	struct err e;

	wr_open(policy, GET GET);
	wr_settle();
	CHECK_EQ(ask_answer(&wr.door, 1, true, 3600000, "me", &e), 0);
	CHECK(strstr(up_hears(0), "GET /a"));
	up_says(0, OK);
	CHECK(strstr(up_hears(0), "GET /a"));
	CHECK(web_judge_again(wr.web));
	up_says(0, OK);
	(void)box_hears();
	/* Another path was not shown to anybody. */
	box_says("GET /b HTTP/1.1\r\nHost: up.test\r\n\r\n");
	wr_settle();
	CHECK_EQ(asks_count(&wr.door), 1);
	CHECK_EQ(ask_answer(&wr.door, 2, true, 1, "me", &e), 0);
	for (uint64_t then = clock_wall_ms(); clock_wall_ms() < then + 2;)
		;
	wr_settle();
	CHECK(!web_judge_again(wr.web));
	web_free(wr.web);
	wr.web = NULL;
	CHECK(wr.ups[0].cut);
}
