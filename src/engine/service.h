/* What makes an engine answer many at once: requests in, the thread that drives, figures out.
 *
 * Owns: the calls of kentang.h under "requests", but those on a single request (submitted.h). The
 * turn (types.h) is held by whoever drives; the inbox's lock for moments only. */
#ifndef KT_ENGINE_SERVICE_H
#define KT_ENGINE_SERVICE_H

#include "engine/submitted.h"

/* What the driver knows becomes everybody's. With the turn. */
void kt__service_publish(kt_engine *engine);

#endif
