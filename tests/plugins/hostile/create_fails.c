/* Fails, and returns a pointer that is dead: nothing may be called with it. */
#define CREATE fails
#include "base.h"
static void *fails(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  host->done(host, call, FM_E_UNAVAILABLE, fm_str("the disk is full"));
  return (void *)16;
}
