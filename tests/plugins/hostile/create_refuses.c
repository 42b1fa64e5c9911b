/* Does not like its configuration. */
#define CREATE refuses
#include "base.h"
static void *refuses(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  host->done(host, call, FM_E_INVALID,
             fm_str("{\"code\":\"invalid_config\",\"message\":\"depth is not prime\",\"help\":\"take 2, 3, 5 or 7\"}"));
  return NULL;
}
