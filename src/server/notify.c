/* What systemd hears of us: sd_notify(3), by hand. */
#include "base/fd.h"
#include "base/str.h"
#include "server/server.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void server_notify(const char *text)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	autoclose int fd = -1;

	if (!path || !str_copy(to.sun_path, sizeof(to.sun_path), path))
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = 0;
	if (fd < 0 ||
	    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&to,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		server_log("error", "systemd cannot be notified: %s", strerrordesc_np(errno));
}
