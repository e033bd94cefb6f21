/*
 * References. What parses is written out and parses to the same; no part of it has a byte that
 * means something in an URL, and a host that counts as this machine is spelled as one.
 */
#include "fuzz.h"

#include "oci/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789._-/";
	char text[OCI_REF_TEXT], again[OCI_REF_TEXT];
	char *in = input_text(&(struct input){p, n});
	struct oci_ref ref, ref2;
	struct err e = {0};

	if (oci_host_is_loopback(in))
		MUST(strncasecmp(in, "localhost", 9) == 0 || strncmp(in, "127.", 4) == 0 ||
		     strncmp(in, "[::1]", 5) == 0);
	if (oci_ref_parse(in, &ref, &e) < 0) {
		MUST(e.kind == ERR_INVALID && e.msg[0]);
		free(in);
		return 0;
	}
	MUST(ref.path[strspn(ref.path, plain)] == 0 && !strstr(ref.path, ".."));
	MUST(ref.path[0] != '/' && !strstr(ref.path, "//"));
	MUST(!strpbrk(ref.host, "/@?#%\\ \t\r\n") && !strpbrk(ref.tag, "/:@?#%\\ \t\r\n"));
	MUST(ref.tag[0] || ref.digest[0]);
	oci_ref_format(&ref, text);
	MUST(oci_ref_parse(text, &ref2, &e) == 0);
	MUST(memcmp(&ref, &ref2, sizeof(ref)) == 0 ||
	     strcmp(oci_ref_format(&ref2, again), text) == 0);
	free(in);
	return 0;
}
