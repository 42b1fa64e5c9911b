/* Answers its creation twice before it returns, and once more after. */
#define CREATE twice
#define CALL again
#include "base.h"
static uint64_t creation;
static void *twice(const fm_host *host, uint64_t call, fm_bytes envelope) {
  (void)envelope;
  creation = call;
  host->done(host, call, FM_OK, nothing());
  host->done(host, call, FM_E_INTERNAL, fm_str("no"));
  return make(host);
}
static void again(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  host_of(self)->done(host_of(self), creation, FM_E_INTERNAL, fm_str("no"));
  good_call(self, call, method, request);
}
