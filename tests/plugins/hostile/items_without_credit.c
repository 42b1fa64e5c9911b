/* Sends items in answer to a call that is no stream. */
#define CALL unasked
#include "base.h"
static void unasked(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  int32_t stop = 1;
  (void)context;
  for (int i = 0; i < 10; i++) stop &= host_of(self)->item(host_of(self), call, fm_str("{}"));
  good_call(self, call, method, stop ? request : fm_str("was not told to stop"));
}
