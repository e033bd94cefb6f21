/*
 * Hosts, authorities and networks. What is taken has a form that is taken as itself; an authority
 * gives the host that its text without a port gives; a network has its own address.
 */
#include "fuzz.h"

#include "net/host.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	char *text = input_text(&(struct input){p, n});
	struct host h, again;
	struct cidr c;
	uint16_t port;

	if (host_parse(&h, text) == 0) {
		MUST(strlen(h.text) > 0 && strlen(h.text) <= DNS_NAME_MAX);
		MUST(!strpbrk(h.text, "@/#?%\\ []*ABCDEFGHIJKLMNOPQRSTUVWXYZ"));
		MUST(host_parse(&again, h.text) == 0);
		MUST(strcmp(again.text, h.text) == 0 && again.is_address == h.is_address);
		MUST(memcmp(again.addr, h.addr, sizeof(h.addr)) == 0);
		MUST(host_parse_authority(&again, text, &port) == 0 && port == 0);
		MUST(strcmp(again.text, h.text) == 0);
		MUST(h.is_address == (cidr_parse(&c, h.text) == 0));
	}
	if (host_parse_authority(&h, text, &port) == 0)
		MUST(host_parse(&again, h.text) == 0 && strcmp(again.text, h.text) == 0);
	if (cidr_parse(&c, text) == 0) {
		MUST(c.bits <= (c.family == AF_INET ? 32u : 128u));
		MUST(cidr_has(&c, c.family, c.addr));
	}
	free(text);
	return 0;
}
