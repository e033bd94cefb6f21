/* The libraries that cove-store runs with, for the self-test and for reports. */
#include "helper/helper.h"

#include <archive.h>
#include <curl/curl.h>
#include <errno.h>
#include <sqlite3.h>

int verb_versions(struct helper *h, struct err *e)
{
	const curl_version_info_data *curl = curl_version_info(CURLVERSION_NOW);

	return helper_result_json(h,
				  json_pack("{s:s, s:s, s:s, s:s}", "sqlite", sqlite3_libversion(),
					    "curl", curl->version, "archive",
					    archive_version_string(), "jansson",
					    jansson_version_str()),
				  e);
}
