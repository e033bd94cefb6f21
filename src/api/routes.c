/* All routes, table after table; and those of the server itself. */
#include "api/handlers.h"

#include "base/clock.h"
#include "core/walls.h"

static int healthz(struct api_call *c, struct err *e)
{
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "status", "ok");
	json_object_end(&c->json);
	return 0;
}

static int version(struct api_call *c, struct err *e)
{
	json_object_begin(api_json(c, 200));
	json_kv_str(&c->json, "version", cove_version());
	json_kv_u64(&c->json, "api", 1);
	json_kv_str(&c->json, "min_wall", c->min_wall);
	json_kv_str(&c->json, "wall", c->min_wall ? c->min_wall : wall_of_new(c->api->cove));
	json_kv_u64(&c->json, "uptime_ms", ev_now(c->api->ev) - c->api->started_ms);
	json_object_end(&c->json);
	return 0;
}

/* clang-format off */
const struct api_route api_system_routes[] = {
	{"GET", "/healthz", "getHealth", 0, .now = healthz},
	{"GET", "/v1/version", "getVersion", KEY_READ, .now = version},
	{0}};
/* clang-format on */

const struct api_route *const api_routes[] = {api_system_routes,
					      api_box_routes,
					      api_exec_routes,
					      api_execs_routes,
					      api_file_routes,
					      api_network_routes,
					      api_policy_routes,
					      api_audit_routes,
					      api_image_routes,
					      api_build_routes,
					      api_change_routes,
					      api_session_routes,
					      api_run_routes,
					      api_parcel_routes,
					      api_snapshot_routes,
					      api_machine_routes,
					      api_tool_routes,
					      api_metrics_routes,
					      api_event_routes,
					      api_pool_routes,
					      api_port_routes,
					      api_webhook_routes,
					      NULL};
