/* What is no policy: the line, the key and what to do about it. Nothing is guessed. */
#include "door/policy.h"
#include "door/presets.h"
#include "tap.h"

#define TOP "version: 1\nrules:\n"

static const struct {
	const char *text, *error; /* the error begins so */
} bad[] = {
	{"", "p:1: empty"},
	{"# nothing\n", "p:1: empty"},
	{"---\n", "p:2: a policy is a mapping"},
	{"null", "p:1: a policy is a mapping"},
	{"[]", "p:1: a policy is a mapping"},
	{"hello", "p:1: a policy is a mapping"},
	{"{}", "p:1: 'rules' is missing"},
	{"version: 1\n", "p:1: 'rules' is missing"},
	{"rules: []\n", "p:1: 'version: 1' is missing"},
	{"version: 1\nrules:\n- allow: host.cove.internal\n", "p:3: host.cove.internal is this"},
	{"version: 1\nrules:\n- ask: [a, host.cove.internal]\n  ports: any\n",
	 "p:3: host.cove.internal is this"},
	{"version: 2\nrules: []\n", "p:1: 'version' must be 1"},
	{"version: '1'\nrules: []\n", "p:1: 'version' must be 1"},
	{"version: 1\nrules:\n", "p:2: 'rules' must be a list"},
	{"version: 1\nrules: {}\n", "p:2: 'rules' must be a list"},
	{"version: 1\nrules: all\n", "p:2: 'rules' must be a list"},
	{"version: 1\nversion: 1\nrules: []\n",
	 "p:2: 'version' stands here twice, first in line 1"},
	{"version: 1\nrules: []\n---\nversion: 1\n", "p:3: a second document"},
	{"version: 1\nrules: &x []\n", "p:2: anchors"},
	{"version: 1\nrules: *x\n", "p:2: a text that begins with '*' must be quoted: '*x'"},
	{"version: !!int 1\nrules: []\n", "p:1: tags"},
	{"version: 1\nrules: [\n", "p:3: not YAML"},
	{"version: 1\n\trules: []\n", "p:2: not YAML"},
	{"version: 1\n\n\x01rules: []\n", "p:3: not YAML"},
	{"version: 1\nrules: [{allow: \"a\\0b\"}]\n", "p:2: text with a line break"},
	{"version: 1\n? [a]\n: b\n", "p:2: a key must be text"},
	{"[[[[[[[[[[]]]]]]]]]]", "p:1: nested deeper"},
	{"version: 1\nrulez: []\n", "p:2: no key 'rulez' here; did you mean 'rules'?"},
	{"version: 1\nrules: []\nxyzzyplugh: 1\n", "p:3: no key 'xyzzyplugh' here; see docs"},
	{"version: 1\nconnections: 0\nrules: []\n", "p:2: 'connections' must be"},
	{"version: 1\nconnections: 9999999\nrules: []\n", "p:2: 'connections' must be"},
	{"version: 1\nbytes: lots\nrules: []\n", "p:2: 'bytes' must be a size"},
	{"version: 1\nask_timeout: never\nrules: []\n", "p:2: 'ask_timeout' must be a time"},
	{"version: 1\nresolver: dns.example\nrules: []\n", "p:2: 'resolver' must be an address"},
	{TOP "- a.com\n", "p:3: a rule is a mapping"},
	{TOP "- {}\n", "p:3: a rule needs one of"},
	{TOP "- name: x\n", "p:3: a rule needs one of"},
	{TOP "- alow: x\n", "p:3: no key 'alow' here; did you mean 'allow'?"},
	{TOP "- allow: a.com\n  deny: b.com\n", "p:4: 'deny': a rule has one of"},
	{TOP "- allow:\n", "p:3: 'allow' is empty"},
	{TOP "- allow: []\n", "p:3: 'allow' is empty"},
	{TOP "- allow: {a: b}\n", "p:3: 'allow' must be text or a list"},
	{TOP "- allow:\n  - a.com\n  - [b]\n", "p:5: allow '': must be text"},
	{TOP "- allow: ''\n", "p:3: allow '': neither"},
	{TOP "- allow: https://a.com\n", "p:3: allow 'https://a.com': a host is written without"},
	{TOP "- allow: a.com:443\n", "p:3: allow 'a.com:443': no IPv6 address; a port belongs"},
	{TOP "- allow: a.com/x\n", "p:3: allow 'a.com/x': no network"},
	{TOP "- allow: 10.0.0.1/8\n", "p:3: allow '10.0.0.1/8': no network"},
	{TOP "- allow: 'a*.com'\n", "p:3: allow 'a*.com': a star"},
	{TOP "- allow: '*.'\n", "p:3: allow '*.': neither"},
	{TOP "- allow: '*.1.2.3.4'\n", "p:3: allow '*.1.2.3.4': neither"},
	{TOP "- allow: '127.1'\n", "p:3: allow '127.1': neither"},
	{TOP "- allow: b\xc3\xbc"
	     "cher.de\n",
	 "p:3: allow 'b\xc3\xbc"
	 "cher.de': neither"},
	{TOP "- allow: 10.0.0.0/8\n", "p:3: the rule names private addresses; add 'private: true'"},
	{TOP "- allow: a.com\n  ports: []\n", "p:4: 'ports' is empty"},
	{TOP "- allow: a.com\n  ports: [0]\n", "p:4: 'ports' has numbers"},
	{TOP "- allow: a.com\n  ports: [443, https]\n", "p:4: 'ports' has numbers"},
	{TOP "- allow: a.com\n  ports: 65536\n", "p:4: 'ports' has numbers"},
	{TOP "- allow: a.com\n  methods: []\n", "p:4: 'methods' is empty"},
	{TOP "- allow: a.com\n  methods: get\n", "p:4: methods 'get': a method is"},
	{TOP "- allow: a.com\n  methods: G_T\n", "p:4: methods 'G_T': a method is"},
	{TOP "- allow: a.com\n  methods: [GET, null]\n", "p:4: 'methods' has an item"},
	{TOP "- allow: a.com\n  paths: v1\n", "p:4: paths 'v1': a path pattern begins"},
	{TOP "- allow: a.com\n  paths: ['/a?b']\n", "p:4: paths '/a?b': a query string"},
	{TOP "- allow: a.com\n  paths: ['/a//b']\n", "p:4: paths '/a//b': paths are matched"},
	{TOP "- allow: a.com\n  paths: ['/a/../b']\n", "p:4: paths '/a/../b': paths are matched"},
	{TOP "- allow: a.com\n  paths: ['/%7e']\n", "p:4: paths '/%7e': an escape"},
	{TOP "- allow: a.com\n  paths: ['/%7E']\n", "p:4: paths '/%7E': has an escape"},
	{TOP "- allow: a.com\n  paths: ['/%2F']\n", "p:4: paths '/%2F': has an escape"},
	{TOP "- deny: a.com\n  paths: ['/a;b']\n", "p:4: paths '/a;b': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/a.']\n", "p:4: paths '/a.': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/*./b']\n", "p:4: paths '/*./b': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/a%20']\n", "p:4: paths '/a%20': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/%3B']\n", "p:4: paths '/%3B': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/%21']\n", "p:4: paths '/%21': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/[a]']\n", "p:4: paths '/[a]': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/%C3']\n", "p:4: paths '/%C3': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/%252E']\n", "p:4: paths '/%252E': no path in its"},
	{TOP "- deny: a.com\n  paths: ['/%2A']\n", "p:4: paths '/%2A': no path in its"},
	{TOP "- allow: a.com\n  query: ['?a']\n", "p:4: query '?a': is written without"},
	{TOP "- allow: a.com\n  private: yes\n", "p:4: 'private' must be true or false"},
	{TOP "- allow: a.com\n  private: 'true'\n", "p:4: 'private' must be true or false"},
	{TOP "- allow: a.com\n  plain_http: true\n", "p:4: 'plain_http' is about 'inject'"},
	{TOP "- allow: a.com\n  ranges: true\n", "p:4: 'ranges' is about 'inject'"},
	{TOP "- allow: a.com\n  ranges: 1\n", "p:4: 'ranges' must be true or false"},
	{TOP "- deny: a.com\n  ech: true\n", "p:4: 'ech' means nothing in a deny"},
	{TOP "- allow: a.com\n  ech: true\n  tls: intercept\n", "p:4: 'ech' is for what passes"},
	{TOP "- allow: a.com\n  rate: 10\n", "p:4: 'rate' must be"},
	{TOP "- allow: a.com\n  rate: 0/s\n", "p:4: 'rate' must be"},
	{TOP "- allow: a.com\n  rate: 1/d\n", "p:4: 'rate' must be"},
	{TOP "- allow: a.com\n  rate: [1/s]\n", "p:4: 'rate' must be"},
	{TOP "- allow: a.com\n  bytes_up: 0\n", "p:4: 'bytes_up' must be"},
	{TOP "- allow: a.com\n  bytes_down: -1\n", "p:4: 'bytes_down' must be"},
	{TOP "- allow: a.com\n  ask_timeout: 1m\n", "p:4: 'ask_timeout' is for"},
	{TOP "- allow: a.com\n  tls: off\n", "p:4: 'tls' must be"},
	{TOP "- allow: a.com\n  methods: GET\n  tls: pass\n", "p:5: 'tls: pass' cannot be"},
	{"version: 1\ntls: pass\nrules: []\n", "p:2: 'tls' up here must be intercept"},
	{"version: 1\nrules: []\ntls: [intercept]\n", "p:3: 'tls' up here must be intercept"},
	{TOP "- allow: a.com\n  reuse: 1\n", "p:4: 'reuse' must be true or false"},
	{TOP "- deny: a.com\n  reuse: true\n", "p:4: 'reuse' means nothing in a deny"},
	{TOP "- allow: a.com\n  pass: Cookie\n", "p:4: 'pass' is about 'inject'"},
	{TOP "- deny: a.com\n  pass: Cookie\n", "p:4: 'pass' means nothing in a deny"},
	{TOP "- allow: a.com\n  pass: [Cookie, X-Foo]\n  inject: {headers: {a: b}}\n",
	 "p:4: pass 'X-Foo': is none of the credentials"},
	{TOP "- allow: a.com\n  inject: {headers: {Cookie: b}}\n  pass: [cookie]\n",
	 "p:5: 'pass': cookie is injected"},
	{TOP "- allow: a.com\n  inject: {query: {sig: b}}\n  pass: sig\n",
	 "p:5: 'pass': sig is injected"},
	{TOP "- deny: a.com\n  rate: 1/s\n", "p:4: 'rate' means nothing in a deny"},
	{TOP "- name: x\n  allow: a.com\n- name: x\n  allow: b.com\n",
	 "p:5: two rules are named 'x'"},
	{TOP "- allow: a.com\n- name: rule 1\n  allow: b.com\n",
	 "p:4: two rules are named 'rule 1'"},
	{TOP "- allow: a.com\n  inject: x\n", "p:4: 'inject' must be a mapping"},
	{TOP "- allow: a.com\n  inject: {}\n", "p:4: 'inject' must be a mapping"},
	{TOP "- allow: a.com\n  inject: {header: {A: b}}\n",
	 "p:4: no key 'header' here; did you mean"},
	{TOP "- allow: a.com\n  inject: {headers: {A: }}\n", "p:4: 'A' is empty"},
	{TOP "- allow: a.com\n  inject: {headers: {'A B': c}}\n",
	 "p:4: 'A B' is no name of a header"},
	{TOP "- allow: a.com\n  inject: {headers: {host: c}}\n",
	 "p:4: the header host is the door's"},
	{TOP "- allow: a.com\n  inject: {headers: {Content-Length: 1}}\n",
	 "p:4: the header Content-"},
	{TOP "- allow: a.com\n  inject: {headers: {A: 'x', a: 'y'}}\n",
	 "p:4: the header a is injected"},
	{TOP "- allow: a.com\n  inject: {headers: {A: '{{ secret }}'}}\n", "p:4: 'A': a secret is"},
	{TOP "- allow: a.com\n  inject: {headers: {A: '{{ env.X }}'}}\n", "p:4: 'A': a secret is"},
	{TOP "- allow: a.com\n  inject: {headers: {A: '{{ secret.X'}}\n", "p:4: 'A': a secret is"},
	{TOP "- allow: a.com\n  inject: {headers: {A: 'x }}'}}\n", "p:4: 'A': a secret is"},
	{TOP "- allow: a.com\n  inject: {headers: {A: '{{ secret.1X }}'}}\n",
	 "p:4: 'A': a secret is"},
	{TOP "- allow: a.com\n  inject: {query: {'a b': x}}\n", "p:4: 'a b' is no name of a query"},
	{TOP "- allow: a.com\n  inject: {basic: {user: x}}\n", "p:4: 'basic' needs"},
	{TOP "- allow: a.com\n  inject: {basic: {user: 'a:b', password: x}}\n",
	 "p:4: 'user' is plain"},
	{TOP "- allow: '*'\n  inject: {headers: {A: b}}\n", "p:3: a credential needs hosts"},
	{TOP "- allow: '*.com'\n  inject: {headers: {A: b}}\n", "p:3: a credential needs hosts"},
	{TOP "- allow: 9.0.0.0/8\n  inject: {headers: {A: b}}\n", "p:3: a credential needs hosts"},
	{TOP "- allow: a.com\n  client_cert: {cert: '{{ secret.A }}'}\n",
	 "p:4: 'client_cert' needs"},
	{TOP "- allow: a.com\n  client_cert: {cert: x, key: y}\n", "p:4: 'cert' must be one"},
	{TOP "- deny: a.com\n  inject: {headers: {A: b}}\n",
	 "p:4: 'inject' means nothing in a deny"},
};

TEST(errors_have_a_line)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct policy *p = NULL;
		struct err e = {0};

		if (policy_parse(&p, "p", bad[i].text, strlen(bad[i].text), &e) == 0) {
			printf("# %s\n", bad[i].text);
			FAIL("it was taken");
		}
		CHECK(!p);
		if (strncmp(e.msg, bad[i].error, strlen(bad[i].error)) != 0)
			CHECK_STR(e.msg, bad[i].error);
	}
}

TEST(sizes_are_bounded)
{
	static char text[(1 << 20) + 16];
	struct policy *p = NULL;
	struct err e;
	size_t n;

	memset(text, ' ', sizeof(text));
	CHECK_EQ(policy_parse(&p, "p", text, sizeof(text), &e), -EINVAL);
	CHECK_STR(e.msg, "p:1: larger than 1048576 bytes");
	memset(text, '[', 1 << 20);
	CHECK_EQ(policy_parse(&p, "p", text, 1 << 20, &e), -EINVAL);
	n = (size_t)snprintf(text, sizeof(text), TOP);
	for (int i = 0; i < 4097; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "- allow: h%d.org\n", i);
	CHECK_EQ(policy_parse(&p, "p", text, n, &e), -EINVAL);
	CHECK_STR(e.msg, "p:3: more than 4096 rules");
	n = (size_t)snprintf(text, sizeof(text), TOP "- allow: [a");
	for (int i = 0; i < 1024; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, ",a");
	n += (size_t)snprintf(text + n, sizeof(text) - n, "]\n");
	CHECK_EQ(policy_parse(&p, "p", text, n, &e), -EINVAL);
	CHECK_STR(e.msg, "p:3: 'allow' has more than 1024 items");
	for (n = 0; n < 300000; n += 2)
		memcpy(text + n, n ? "a," : "[ ", 2);
	CHECK_EQ(policy_parse(&p, "p", text, n, &e), -EINVAL);
	CHECK_STR(e.msg, "p:1: more than 65536 values");
}

/* Cut anywhere, a policy is refused or is one; never half of it taken for nothing. */
TEST(every_prefix)
{
	const char *text = preset_find("balanced")->text;

	for (size_t n = 0; n < strlen(text); n += 7) {
		char *cut = strndup(text, n);
		struct policy *p = NULL;
		struct err e = {0};

		if (policy_parse(&p, "p", cut, n, &e) < 0)
			CHECK(strncmp(e.msg, "p:", 2) == 0);
		policy_free(p);
		free(cut);
	}
}

TAP_MAIN
