/* Answers calls that nobody made, and the right one last. */
#define CALL invents
#include "base.h"
static void invents(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  static const uint64_t ids[] = {0, 1000000, UINT64_MAX};
  (void)context;
  for (int i = 0; i < 3; i++) {
    host_of(self)->done(host_of(self), ids[i], FM_OK, fm_str("forged"));
    host_of(self)->item(host_of(self), ids[i], fm_str("forged"));
  }
  good_call(self, call, method, request);
}
