#define CREATE panics
#include "base.h"
static void *panics(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  host->done(host, call, FM_E_PANIC, nothing());
  return NULL;
}
