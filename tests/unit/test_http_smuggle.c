/*
 * Requests and responses that two programs could read in two ways (attacks E1 and E4), and those
 * that are fine, as scripts. Each is fed whole, byte by byte and in random cuts.
 */
#include "tap.h"

#include "base/err.h"
#include "base/fd.h"
#include "http/http.h"
#include "http_script.h"

enum { RANDOM_CUTS = 40 };

static void said_bytes(const void *p, size_t n, const char *method, struct buf *first)
{
	struct buf again;

	buf_init(first, 1 << 20);
	http_script(p, n, method, SCRIPT_WHOLE, first);
	for (uint64_t cuts = SCRIPT_BYTES; cuts < SCRIPT_BYTES + 1 + RANDOM_CUTS; cuts++) {
		buf_init(&again, 1 << 20);
		http_script(p, n, method, cuts, &again);
		CHECK_EQ(buf_len(&again), buf_len(first));
		CHECK(buf_len(first) == 0 ||
		      memcmp(buf_data(&again), buf_data(first), buf_len(first)) == 0);
		buf_done(&again);
	}
}

static void check_said(const char *in, const char *method, const char *want)
{
	struct buf said;

	said_bytes(in, strlen(in), method, &said);
	CHECK_STR(buf_cstr(&said), want);
	buf_done(&said);
}

#define HEAD		   "POST /x HTTP/1.1\r\nHost: a.example\r\n"
#define CHUNKED		   HEAD "Transfer-Encoding: chunked\r\n\r\n"
#define ANSWER		   "HTTP/1.1 200 OK\r\n"
#define NEXT		   "GET /admin HTTP/1.1\r\nHost: a.example\r\n\r\n"
#define request(in, want)  check_said(in, NULL, want)
#define response(in, want) check_said(in, "GET", want)
#define refused(in, code)  check_said(in, NULL, "refused " #code)

/* In place; what is behind a backslash is one of \\ r n t xHH. Returns the length. */
static size_t unescape(char *text)
{
	size_t n = 0;

	for (const char *p = text; *p; p++) {
		unsigned int byte = (unsigned char)*p;

		if (*p == '\\') {
			p++;
			byte = (unsigned char)(*p == 'r'   ? '\r'
					       : *p == 'n' ? '\n'
					       : *p == 't' ? '\t'
							   : *p);
			if (*p == 'x') {
				CHECK_EQ(sscanf(p + 1, "%2x", &byte), 1);
				p += 2;
			}
		}
		text[n++] = (char)byte;
	}
	return n;
}

/* tests/data/http-smuggling, which the attacks send through a door as well. */
TEST(E1_cases_of_the_data_file)
{
	const char *dir = getenv("COVE_TEST_DATA");
	char path[512], *kind, *name, *status, *text, *line, want[64];
	autofree char *file = NULL;
	struct buf said;
	int count = 0;

	if (!dir)
		SKIP("COVE_TEST_DATA is not set");
	snprintf(path, sizeof(path), "%s/http-smuggling", dir);
	CHECK_EQ(fd_read_file(AT_FDCWD, path, 1 << 20, &file, NULL), 0);
	for (char *rest = file; (line = strsep(&rest, "\n"));) {
		if (!*line || *line == '#')
			continue;
		kind = strsep(&line, "\t");
		name = strsep(&line, "\t");
		status = strsep(&line, "\t");
		text = line;
		CHECK(name && status && text);
		said_bytes(text, unescape(text), *kind == 'a' ? "GET" : NULL, &said);
		snprintf(want, sizeof(want), "refused %s", status);
		CHECK((strstr(buf_cstr(&said), want) != NULL) == (*status != '-'));
		CHECK(*status == '-' || !strstr(buf_cstr(&said), "/smuggled"));
		CHECK(*status == '-' || *kind == 'b' || buf_len(&said) == strlen(want));
		buf_done(&said);
		count++;
	}
	CHECK(count > 90);
}

TEST(plain_requests)
{
	request("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody<>.");
	request("\r\nGET / HTTP/1.0\r\nhost:a\t \r\nX:\r\n\r\n",
		"GET / HTTP/1.1\r\nhost: a\r\nX: \r\n\r\nbody<>.");
	request(HEAD "Content-Length: 5\r\n\r\nhello" NEXT,
		HEAD "Content-Length: 5\r\n\r\nbody<hello>." NEXT "body<>.");
	request(CHUNKED "5\r\nhello\r\n00A\r\n0123456789\r\n0\r\n\r\n" NEXT,
		CHUNKED "body<hello0123456789>." NEXT "body<>.");
	request("GET /s HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
		"GET /s HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nbody<ab>.");
	request(HEAD "X: caf\xe9 \xc3\xa9\tz\r\nX_y: 1\r\nContent-Length: 0\r\n\r\n",
		HEAD "X: caf\xe9 \xc3\xa9\tz\r\nX_y: 1\r\nContent-Length: 0\r\n\r\nbody<>.");
}

TEST(half_sent)
{
	request("", "");
	request("GE", "cut");
	request("\r", "cut");
	request("GET / HTTP/1.1\r\nHost: a\r\n", "cut");
	request("GET / HTTP/1.1\r\nHost: a\r\n\r", "cut");
	request(HEAD "Content-Length: 5\r\n\r\nhell", HEAD "Content-Length: 5\r\n\r\nbody<hellcut");
	request(CHUNKED "5\r\nhello", CHUNKED "body<hellocut");
	request(CHUNKED "0\r\n", CHUNKED "body<cut");
	request(CHUNKED "0\r\nX: 1\r\n", CHUNKED "body<cut");
}

TEST(E1_cl_te)
{
	refused(HEAD "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 400);
	refused(HEAD "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400);
}

TEST(E1_te_cl)
{
	refused(HEAD
		"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n8\r\nSMUGGLED\r\n0\r\n\r\n",
		400);
	check_said(ANSWER "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", "GET",
		   "refused 502");
}

TEST(E1_te_te)
{
	static const char *const values[] = {
		"xchunked",
		"chunked, identity",
		"identity",
		"gzip, chunked",
		"chunked;q=1",
		"\"chunked\"",
		"chunked,",
		",chunked",
		"chunked, chunked",
		"cow",
		"",
		"x",
		"chunk",
		"chunkedd",
		"chunked\xa0",
		"identity, chunked",
		"chunked gzip",
		"trailers, chunked",
		"\xc2\xa0"
		"chunked",
		"chunked ;a",
	};
	char in[512];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(in, sizeof(in), HEAD "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", values[i]);
		refused(in, 501);
	}
	refused(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	refused(HEAD "Transfer-Encoding: chunked\r\ntransfer-encoding: x\r\n\r\n", 400);
	refused(HEAD "Transfer-Encoding: \x0b"
		     "chunked\r\n\r\n",
		400);
	refused(HEAD "Transfer-Encoding : chunked\r\n\r\n", 400);
	refused(HEAD "Transfer-Encoding:\n chunked\r\n\r\n", 400);
	refused(HEAD "X: y\rTransfer-Encoding: chunked\r\n\r\n", 400);
	refused(HEAD "Transfer_Encoding: chunked\r\n\r\n", 400);
	refused(HEAD "Transfer\xe2\x80\x90"
		     "Encoding: chunked\r\n\r\n",
		400);
	refused("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	request(HEAD "tRANSFER-eNCODING: \tChUnKeD \r\n\r\n0\r\n\r\n",
		HEAD "tRANSFER-eNCODING: ChUnKeD\r\n\r\nbody<>.");
}

TEST(E1_cl_cl)
{
	refused(HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400);
	refused(HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400);
	refused(HEAD "Content-Length: 5\r\nContent_Length: 6\r\n\r\nhello", 400);
	check_said(ANSWER "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "GET",
		   "refused 502");
}

TEST(E1_lengths_that_are_not_plain)
{
	static const char *const values[] = {
		"+5",
		"-5",
		"0x5",
		"5,5",
		"5, 5",
		"5 5",
		"05",
		"0_5",
		"5.0",
		"5e0",
		"",
		"five",
		"5;a",
		"\"5\"",
		"18446744073709551621",
		"4611686018427387905",
		"00",
		"9999999999999999999999999999999999",
		"\xd9\xa5",
	};
	char in[512];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		snprintf(in, sizeof(in), HEAD "Content-Length: %s\r\n\r\nhello", values[i]);
		refused(in, 400);
	}
	request(HEAD "Content-Length: 4611686018427387904\r\n\r\nx",
		HEAD "Content-Length: 4611686018427387904\r\n\r\nbody<xcut");
}

TEST(E1_obs_fold)
{
	refused("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\tb\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\n Host: a\r\nHost: b\r\n\r\n", 400);
	check_said(ANSWER "X: a\r\n b\r\n\r\n", "GET", "refused 502");
}

TEST(E1_chunk_extensions_are_dropped)
{
	request(CHUNKED "5;a=b\r\nhello\r\n0;x=\"y;z\"\r\n\r\n", CHUNKED "body<hello>.");
	request(CHUNKED "5;\r\nhello\r\n0\r\n\r\n", CHUNKED "body<hello>.");
	request(CHUNKED "5;a\nhello\r\n0\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "5;a\rX\r\nhello", CHUNKED "body<refused 400");
	request(CHUNKED "5;a\x01\r\nhello", CHUNKED "body<refused 400");
	request(CHUNKED "5 ;a\r\nhello", CHUNKED "body<refused 400");
}

TEST(E1_chunk_extensions_are_bounded)
{
	char in[4096], ext[2048];

	memset(ext, 'e', sizeof(ext));
	ext[1024] = '\0';
	snprintf(in, sizeof(in), CHUNKED "1;%s\r\na\r\n0\r\n\r\n", ext);
	request(in, CHUNKED "body<a>.");
	ext[1024] = 'e';
	ext[1025] = '\0';
	snprintf(in, sizeof(in), CHUNKED "1;%s\r\na\r\n0\r\n\r\n", ext);
	request(in, CHUNKED "body<refused 400");
}

TEST(E1_chunk_sizes)
{
	static const char *const sizes[] = {
		"10000000000000000",
		"10000000000000005",
		"FFFFFFFFFFFFFFFF",
		"4000000000000001",
		"0_2e",
		"0x5",
		"+5",
		"-5",
		" 5",
		"5 ",
		"5\t",
		"",
		"g",
		"00000000000000005",
		"\"5\"",
		"5,5",
		"5\x0b",
	};
	char in[512];

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		snprintf(in, sizeof(in), CHUNKED "%s\r\nhello\r\n0\r\n\r\n", sizes[i]);
		request(in, CHUNKED "body<refused 400");
	}
	request(CHUNKED "4000000000000000\r\nx", CHUNKED "body<xcut");
	request(CHUNKED "0000000000000005\r\nhello\r\n0\r\n\r\n", CHUNKED "body<hello>.");
}

TEST(E1_chunk_ends)
{
	request(CHUNKED "5\nhello\r\n0\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "5\r\nhello\n0\r\n\r\n", CHUNKED "body<hellorefused 400");
	request(CHUNKED "5\r\nhelloX\r\n0\r\n\r\n", CHUNKED "body<hellorefused 400");
	request(CHUNKED "5\r\nhell\r\n0\r\n\r\n", CHUNKED "body<hell\rrefused 400");
	request(CHUNKED "5\r\nhello\rX0\r\n\r\n", CHUNKED "body<hellorefused 400");
	request(CHUNKED "5\rXhello", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\n\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\n\r" NEXT, CHUNKED "body<refused 400");
}

TEST(E1_trailers)
{
	request(CHUNKED "1\r\na\r\n0\r\nX-Sum: 1\r\nY:2\r\n\r\n" NEXT,
		CHUNKED "body<a>trailer<X-Sum: 1>trailer<Y: 2>." NEXT "body<>.");
	request(CHUNKED "0\r\nContent-Length: 5\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\ntransfer_encoding: chunked\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nHost: evil\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nAUTHORIZATION: x\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nX: a\r\n b\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nX : a\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nX: a\nY: b\r\n\r\n", CHUNKED "body<refused 400");
	request(CHUNKED "0\r\nGET / HTTP/1.1\r\n\r\n", CHUNKED "body<refused 400");
}

TEST(E1_bare_lf_and_cr)
{
	refused("GET / HTTP/1.1\nHost: a\n\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\r\n\nGET", 400);
	refused("GET / HTTP/1.1\r\nHost: a\r\n\r\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400);
	refused("GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	check_said("HTTP/1.1 200 OK\nX: a\n\n", "GET", "refused 502");
}

TEST(E1_space_before_colon_and_bad_names)
{
	static const char *const lines[] = {
		"X : a",    "X\t: a",	   ": a",      "X",	 "X Y: a", "X\x01: a", "(X): a",
		"X\x80: a", "\xc3\xa9: a", "X\x7f: a", "X/Y: a", "X[]: a", "X@: a",    "{X}: a",
	};
	char in[256];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(in, sizeof(in), "GET / HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n", lines[i]);
		refused(in, 400);
	}
}

TEST(E1_nul_and_control_bytes)
{
	static const char head[] = "GET / HTTP/1.1\r\nHost: a\r\nX: abc\r\n\r\n";
	char in[sizeof(head)];
	struct buf said;

	for (size_t at = 0; at < sizeof(head) - 1; at++) {
		for (int c = 0; c <= 0x7f; c = c == 8	   ? 11
					       : c == 12   ? 14
					       : c == 0x1f ? 0x7f
							   : c + 1) {
			memcpy(in, head, sizeof(head));
			in[at] = (char)c;
			said_bytes(in, sizeof(head) - 1, NULL, &said);
			CHECK(strncmp(buf_cstr(&said), "refused", 7) == 0 ||
			      strcmp(buf_cstr(&said), "cut") == 0);
			buf_done(&said);
		}
	}
}

TEST(E1_hosts)
{
	refused("GET / HTTP/1.1\r\n\r\n", 400);
	refused("GET / HTTP/1.0\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a\r\nhOST: a\r\n\r\n", 400);
	refused("CONNECT a:443 HTTP/1.1\r\n\r\n", 400);
	request("CONNECT a:443 HTTP/1.0\r\n\r\n", "CONNECT a:443 HTTP/1.1\r\n\r\nbody<>.");
}

TEST(E1_request_lines)
{
	refused("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET / x HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET /  HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused(" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400);
	refused("GET / http/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET /\r\n\r\n", 400);
	refused("GET\r\n\r\n", 400);
	refused("GET \r\n\r\n", 400);
	refused("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", 400);
	refused("GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505);
	refused("GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505);
	refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
	refused("GET / HTTP/1.10\r\nHost: a\r\n\r\n", 400);
	refused("GET / HTTP/1.1x\r\nHost: a\r\n\r\n", 400);
	refused("\x16\x03\x01\x02", 400);
	refused("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", 501);
	request("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "cut");
}

TEST(E4_trace_and_track)
{
	refused("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 501);
	refused("TRACK / HTTP/1.1\r\nHost: a\r\n\r\n", 501);
	refused("trace / HTTP/1.1\r\nHost: a\r\n\r\n", 501);
	refused("TRACE\r\n\r\n", 400);
	request("TRACES / HTTP/1.1\r\nHost: a\r\n\r\n",
		"TRACES / HTTP/1.1\r\nHost: a\r\n\r\nbody<>.");
}

TEST(E4_max_forwards_goes_no_further)
{
	static const char in[] = "OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n"
				 "max_forwards: 1\r\n\r\n";
	struct http_head h;
	size_t used;

	CHECK_EQ(http_request_parse(&h, in, strlen(in), HTTP_TEST_LIMITS, &used, NULL), 1);
	http_head_strip_hop(&h);
	CHECK_EQ(h.field_count, 1);
	http_head_done(&h);
}

TEST(bodies_where_there_are_none)
{
	refused("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\nx", 400);
	refused("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	response("HTTP/1.1 204 No\r\nContent-Length: 1\r\n\r\nx", "refused 502");
	response("HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "refused 502");
	response("HTTP/1.1 100 Go\r\nContent-Length: 1\r\n\r\nx", "refused 502");
	response("HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
		 "HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\nbody<>.");
	check_said(ANSWER "Content-Length: 4\r\n\r\nblah", "CONNECT",
		   ANSWER "Content-Length: 4\r\n\r\nrefused 502");
}

TEST(expectations)
{
	request(HEAD "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\na",
		HEAD "Expect: 100-Continue\r\nContent-Length: 1\r\n\r\nbody<a>.");
	refused(HEAD "Expect: x 100-continue\r\nContent-Length: 1\r\n\r\na", 417);
	refused(HEAD "Expect: 100-continue\r\nExpect: y\r\nContent-Length: 1\r\n\r\na", 417);
	refused(HEAD "Expect: 100-continue\r\n\r\n", 417);
	refused(HEAD "Expect: \r\nContent-Length: 1\r\n\r\na", 417);
	refused("POST / HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na",
		417);
}

TEST(responses)
{
	response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200\r\nX: y\r\n\r\nall\r\nof it",
		 "HTTP/1.1 100 Continue\r\n\r\nbody<>."
		 "HTTP/1.1 200 \r\nX: y\r\n\r\nbody<all\r\nof it>.");
	response(ANSWER "Content-Length: 2\r\n\r\nhiHTTP/1.1 304 \r\nContent-Length: 7\r\n\r\n",
		 ANSWER "Content-Length: 2\r\n\r\nbody<hi>."
			"HTTP/1.1 304 \r\nContent-Length: 7\r\n\r\nbody<>.");
	check_said(ANSWER "Content-Length: 9\r\n\r\n" ANSWER "Transfer-Encoding: chunked\r\n\r\n",
		   "HEAD",
		   ANSWER "Content-Length: 9\r\n\r\nbody<>." ANSWER
			  "Transfer-Encoding: chunked\r\n\r\nbody<>.");
	check_said(ANSWER "\r\n\x16\x03tunnel", "CONNECT", ANSWER "\r\nbody<\x16\x03tunnel>.");
	response("HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\n\x81\x01",
		 "HTTP/1.1 101 Go\r\nUpgrade: x\r\n\r\nbody<\x81\x01>.");
	response(ANSWER "Content-Length: 5\r\n\r\nhell",
		 ANSWER "Content-Length: 5\r\n\r\nbody<hellcut");
}

TEST(bad_responses)
{
	static const char *const lines[] = {
		"HTTP/2 200 OK",   "HTTP/1.2 200 OK", "HTTP/1.1 99 X",	   "HTTP/1.1 600 X",
		"HTTP/1.1 2000 X", "HTTP/1.1  200 X", "HTTP/1.1 20 X",	   "HTTP/1.1 +20 X",
		"http/1.1 200 OK", "ICY 200 OK",      "HTTP/1.1 200\tX",   "HTTP/1.1200 OK",
		"HTTP/1.1",	   "<html>",	      "HTTP/1.1 200 \x01", " HTTP/1.1 200 OK",
		"HTTP/1.1 000 X",
	};
	char in[256];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(in, sizeof(in), "%s\r\nContent-Length: 0\r\n\r\n", lines[i]);
		response(in, "refused 502");
	}
	response("\r\nHTTP/1.1 200 OK\r\n\r\n", "refused 502");
	response("SSH-2.0-x", "refused 502");
}

TAP_MAIN
