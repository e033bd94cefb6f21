/*
 * Manifests. What parses has digests that are digests, sizes within their bounds, and is either an
 * index or a manifest; its sender's word for it changes only whether it is taken, not as what.
 */
#include "fuzz.h"

#include "oci/manifest.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const types[] = {OCI_TYPE_INDEX, OCI_TYPE_MANIFEST, OCI_TYPE_DOCKER,
					    OCI_TYPE_DOCKER_LIST};
	struct oci_manifest m = {0};
	struct oci_platform host;
	const struct oci_desc *d;
	struct err e = {0};

	if (oci_manifest_parse((const char *)p, n, NULL, &m, &e) < 0) {
		MUST(e.kind != ERR_NONE && e.msg[0]);
		return 0;
	}
	MUST(m.is_index || blobs_is_digest(m.config.digest));
	for (size_t i = 0; i < m.count; i++)
		MUST(blobs_is_digest(m.items[i].digest) && m.items[i].size <= BLOB_BYTES_MAX);
	oci_platform_host(&host);
	if (m.is_index && oci_index_find(&m, &host, &d, &e) == 0)
		MUST(d >= m.items && d < m.items + m.count);
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct oci_manifest other = {0};

		if (oci_manifest_parse((const char *)p, n, types[i], &other, &e) == 0)
			MUST(other.is_index == m.is_index && other.count == m.count);
		oci_manifest_done(&other);
	}
	oci_manifest_done(&m);
	return 0;
}
