/* Sends a thousand items whatever its credit is, and does not look at what `item` returns. */
#define PULL floods
#include "base.h"
static void floods(void *self, uint64_t call, uint32_t credits) {
  (void)credits;
  if (!stream(self, call, 0)) return;
  for (int i = 0; i < 1000; i++) host_of(self)->item(host_of(self), call, fm_str("{}"));
  host_of(self)->done(host_of(self), call, FM_END, nothing());
}
