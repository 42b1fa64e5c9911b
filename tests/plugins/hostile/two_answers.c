#define CALL twice
#include "base.h"
static void twice(void *self, uint64_t call, fm_bytes method, fm_bytes context, fm_bytes request) {
  (void)context;
  good_call(self, call, method, request);
  good_call(self, call, method, fm_str("another"));
}
