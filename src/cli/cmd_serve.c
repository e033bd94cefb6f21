/* cove serve: boxes over HTTP, by cove-server. Its options are that program's own. */
#include "cli/cli.h"

const struct verb verb_serve = {
	.name = "serve",
	.here = true,
	.synopsis = "serve [--listen ADDRESS:PORT]... [--config FILE] [OPTIONS]",
	.summary = "serve boxes over HTTP",
	.help = "For SDKs and other machines. Listens on a Unix socket, where this user needs\n"
		"no key, and on the addresses given, where every request brings one (`cove key\n"
		"create NAME`). Boxes are not the server's: it may be killed and started again\n"
		"at any time. What can be asked is in docs/api/openapi.yaml.\n"
		"\n"
		"Examples\n"
		"  cove serve\n"
		"  cove serve --listen 127.0.0.1:7070\n"
		"  cove serve --listen 0.0.0.0:7070 --tls-cert c.pem --tls-key k.pem \\\n"
		"      --min-wall gvisor --host-name boxes.example.org\n",
	.options = (const enum opt_id[]){OPT_HELP, OPT_END},
	.args = {0, -1},
	.no_home = true,
	.program = "cove-server",
};
